//! The typed body of a request on the envelope floor.

use http::{Method, Request};

use crate::{JsonRpcMessage, RequestId};

/// The body of a request on the envelope floor: the message of a POST, nothing for a GET or DELETE.
///
/// Layers there see the message without parsing a body. Cloning is cheap.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Payload(Option<JsonRpcMessage>);

impl Payload {
    /// The body of a GET or DELETE.
    pub const EMPTY: Self = Self(None);

    /// The message, if there is one.
    pub fn message(&self) -> Option<&JsonRpcMessage> {
        self.0.as_ref()
    }

    /// Takes the message out.
    pub fn into_message(self) -> Option<JsonRpcMessage> {
        self.0
    }
}

impl From<JsonRpcMessage> for Payload {
    fn from(message: JsonRpcMessage) -> Self {
        Self(Some(message))
    }
}

/// On a GET that resumes the stream of the request with this id.
#[derive(Clone, Debug)]
pub(crate) struct Resumes(pub(crate) RequestId);

/// What the answer to a request on the envelope floor can be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expects {
    /// The response to the request with this id, perhaps after other messages.
    Response(RequestId),
    /// A status that accepts a notification or a response, or that ends a session: no message.
    Acceptance,
    /// Messages for as long as the stream is open: the listening GET.
    Messages,
    /// What is still to come of the answer to the request with this id: a GET that resumes its stream.
    Rest(RequestId),
}

impl Expects {
    /// Reads off a request what its answer can be.
    pub fn of(request: &Request<Payload>) -> Self {
        match request.body().message() {
            Some(JsonRpcMessage::Request(message)) => Self::Response(message.id().clone()),
            None if request.method() == Method::GET => match request.extensions().get() {
                Some(Resumes(id)) => Self::Rest(id.clone()),
                None => Self::Messages,
            },
            _ => Self::Acceptance,
        }
    }

    /// The request whose response ends the answer.
    pub(crate) fn awaited(&self) -> Option<&RequestId> {
        match self {
            Self::Response(id) | Self::Rest(id) => Some(id),
            Self::Acceptance | Self::Messages => None,
        }
    }
}
