//! What the reader of a channel gets.

use crate::{Error, JsonRpcMessage, Reply, RequestId};

/// A message that a channel hands to its reader.
#[derive(Debug)]
#[non_exhaustive]
pub struct Incoming {
    /// The message.
    pub message: JsonRpcMessage,
    /// The stream that it came on.
    pub origin: Origin,
    /// If the request failed: why. The message is then the JSON-RPC error that stands for it,
    /// [`Error::to_json_rpc`], and not the server's.
    pub failure: Option<Error>,
    /// The id of the last event on its stream, if there was one: where
    /// [`ResumeFrom`](crate::options::ResumeFrom) would go on. See [`Reply::last_event_id`](crate::Reply::last_event_id).
    pub last_event_id: Option<String>,
}

/// The stream that a message came on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The answer to the request with this id, which is in flight until its response.
    Request(RequestId),
    /// The listening GET of the legacy era, on which the server speaks of its own accord.
    Listening,
}

impl Incoming {
    pub(super) fn new(message: impl Into<JsonRpcMessage>, origin: Origin) -> Self {
        Self { message: message.into(), origin, failure: None, last_event_id: None }
    }

    pub(super) fn after(self, reply: &Reply) -> Self {
        Self { last_event_id: reply.last_event_id().map(str::to_owned), ..self }
    }

    /// The answer to a request that has failed.
    pub(super) fn failed(id: &RequestId, error: Error) -> Self {
        let answer = JsonRpcMessage::error(id.clone(), error.to_json_rpc());
        Self {
            message: answer,
            origin: Origin::Request(id.clone()),
            failure: Some(error),
            last_event_id: None,
        }
    }
}
