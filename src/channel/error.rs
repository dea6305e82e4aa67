//! What a channel itself can fail with.

use std::fmt;

use crate::JsonRpcMessage;

/// A message that a channel did not take. Nothing was sent.
pub struct SendError {
    reason: Reason,
    message: Option<Box<JsonRpcMessage>>,
}

#[derive(Clone, Copy, Debug)]
enum Reason {
    Closed,
    Full,
}

impl SendError {
    pub(super) fn closed(message: impl Into<Option<JsonRpcMessage>>) -> Self {
        Self { reason: Reason::Closed, message: message.into().map(Box::new) }
    }

    pub(super) fn full(message: JsonRpcMessage) -> Self {
        Self { reason: Reason::Full, message: Some(Box::new(message)) }
    }

    /// The channel is closed, or is being closed.
    pub fn is_closed(&self) -> bool {
        matches!(self.reason, Reason::Closed)
    }

    /// Too many messages wait: notifications and responses to be sent
    /// ([`max_unsent`](super::ChannelOptions::max_unsent)), or refusals of requests to be read
    /// ([`max_in_flight`](super::ChannelOptions::max_in_flight)).
    pub fn is_full(&self) -> bool {
        matches!(self.reason, Reason::Full)
    }

    /// The message. `None`: the channel was found closed before there was one.
    pub fn into_message(self) -> Option<JsonRpcMessage> {
        self.message.map(|message| *message)
    }
}

/// Without the message.
impl fmt::Debug for SendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SendError").field("reason", &self.reason).finish_non_exhaustive()
    }
}

impl fmt::Display for SendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.reason {
            Reason::Closed => "the channel is closed",
            Reason::Full => "too many messages wait in the channel",
        })
    }
}

impl std::error::Error for SendError {}

/// A request was not sent, as too many others wait for their answers.
#[derive(Clone, Copy, Debug)]
pub struct TooManyInFlight {
    /// What [`max_in_flight`](super::ChannelOptions::max_in_flight) allows.
    pub limit: usize,
}

impl fmt::Display for TooManyInFlight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let limit = self.limit;
        write!(f, "the request was not sent: {limit} others are in flight (the limit is `max_in_flight`)")
    }
}

impl std::error::Error for TooManyInFlight {}

/// The service below panicked in the middle of a call.
#[derive(Clone, Copy, Debug)]
pub(super) struct Panicked;

impl fmt::Display for Panicked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a layer panicked during the call")
    }
}

impl std::error::Error for Panicked {}

/// A notification or response that was on its way when the channel was closed, or a layer panicked.
#[derive(Clone, Copy, Debug)]
pub(super) struct Undelivered;

impl fmt::Display for Undelivered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("it was given up before the server had accepted it")
    }
}

impl std::error::Error for Undelivered {}
