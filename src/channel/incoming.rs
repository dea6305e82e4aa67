//! What the reader of a channel gets.

use crate::{Error, JsonRpcMessage, RequestId};

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
        Self { message: message.into(), origin, failure: None }
    }

    /// The answer to a request that has failed.
    pub(super) fn failed(id: &RequestId, error: Error) -> Self {
        let answer = JsonRpcMessage::error(id.clone(), error.to_json_rpc());
        Self { message: answer, origin: Origin::Request(id.clone()), failure: Some(error) }
    }
}
