//! Failures on this side of the wire, or of the wire itself.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use http::StatusCode;

use super::BoxError;

/// The server has not seen the request, or says that it has not looked at it, so it may safely be sent again.
///
/// An HTTP client says so by failing with this error. One that cannot tell leaves it out, and its failures count as
/// "may have run".
#[derive(Debug)]
pub struct NotSent(
    /// What kept the request from being sent.
    pub BoxError,
);

impl fmt::Display for NotSent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the server could not be reached: {}", root(&*self.0))
    }
}

impl std::error::Error for NotSent {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&*self.0)
    }
}

/// There is no token to authorize the request with, so it was not sent.
#[derive(Debug)]
pub struct NoToken(
    /// What the source of tokens has failed with.
    pub BoxError,
);

impl fmt::Display for NoToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "there is no token for the request: {}", self.0)
    }
}

impl std::error::Error for NoToken {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&*self.0)
    }
}

/// The connection broke while the answer was being read.
#[derive(Debug)]
pub struct BrokenStream(
    /// What the HTTP client reports.
    pub BoxError,
);

impl fmt::Display for BrokenStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the connection broke before the answer was complete: {}", root(&*self.0))
    }
}

impl std::error::Error for BrokenStream {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&*self.0)
    }
}

/// The end of the chain says what happened; what wraps it, at which layer.
fn root<'a>(mut error: &'a (dyn std::error::Error + 'static)) -> &'a (dyn std::error::Error + 'static) {
    while let Some(source) = error.source() {
        error = source;
    }
    error
}

/// The server ended its stream without the response.
#[derive(Clone, Copy, Debug)]
pub struct EndedStream;

impl fmt::Display for EndedStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the server ended its answer without a response to the request")
    }
}

impl std::error::Error for EndedStream {}

/// The caller has cancelled the request, with a `notifications/cancelled` of its own.
#[derive(Clone, Copy, Debug)]
pub struct Cancelled;

impl fmt::Display for Cancelled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the request was cancelled")
    }
}

impl std::error::Error for Cancelled {}

/// Another request was sent under the id of this one before it was answered.
#[derive(Clone, Copy, Debug)]
pub struct Superseded;

impl fmt::Display for Superseded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the request was given up for another under the same id")
    }
}

impl std::error::Error for Superseded {}

/// The server sent, as the answer to this request, the response to another that is in flight.
#[derive(Clone, Copy, Debug)]
pub struct ForeignResponse;

impl fmt::Display for ForeignResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the server answered with the response to another request")
    }
}

impl std::error::Error for ForeignResponse {}

/// A response was waited for where none is due: in the reply to a notification, to a response, or to a listening GET.
#[derive(Clone, Copy, Debug)]
pub struct NoResponseDue;

impl fmt::Display for NoResponseDue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("only a request has a response")
    }
}

impl std::error::Error for NoResponseDue {}

/// The caller's message or option cannot be sent as it is. Nothing was sent.
#[derive(Debug)]
pub struct InvalidMessage(Cow<'static, str>);

impl InvalidMessage {
    /// `reason` is a sentence without its full stop, and holds no secret.
    pub fn new(reason: impl Into<Cow<'static, str>>) -> Self {
        Self(reason.into())
    }
}

impl fmt::Display for InvalidMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the message was not sent: {}", self.0)
    }
}

impl std::error::Error for InvalidMessage {}

/// An option that cannot be honoured. Nothing was built.
#[derive(Debug)]
pub struct InvalidOption(Cow<'static, str>);

impl InvalidOption {
    /// `reason` is a sentence without its full stop, and holds no secret.
    pub fn new(reason: impl Into<Cow<'static, str>>) -> Self {
        Self(reason.into())
    }
}

impl fmt::Display for InvalidOption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for InvalidOption {}

/// A time bound of this crate's passed.
#[derive(Debug)]
pub struct TimedOut {
    what: &'static str,
    knob: &'static str,
    after: Duration,
}

impl TimedOut {
    /// `what` took longer than `after`, which `knob` sets.
    pub fn new(what: &'static str, knob: &'static str, after: Duration) -> Self {
        Self { what, knob, after }
    }

    /// A body was silent for `after`.
    pub(crate) fn idle(after: Duration) -> Self {
        Self::new("the next byte of the answer", "idle_timeout", after)
    }

    /// The name of the option that sets the bound.
    pub fn knob(&self) -> &'static str {
        self.knob
    }

    /// The bound that passed.
    pub fn after(&self) -> Duration {
        self.after
    }
}

impl fmt::Display for TimedOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, knob, after } = self;
        write!(f, "{what} took longer than {after:?} (the limit is `{knob}`)")
    }
}

impl std::error::Error for TimedOut {}

/// There is no stream to listen to: no session, a modern server, or one that does not offer it.
#[derive(Debug)]
pub struct NotOffered {
    status: Option<StatusCode>,
}

impl NotOffered {
    /// `status` is the answer to the GET; `None`: none was sent.
    pub fn new(status: Option<StatusCode>) -> Self {
        Self { status }
    }

    /// The answer to the GET; `None`: none was sent, for want of a legacy session.
    pub fn status(&self) -> Option<StatusCode> {
        self.status
    }
}

impl fmt::Display for NotOffered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.status {
            Some(status) => write!(f, "the server offers no stream to listen to (it answered {status})"),
            None => f.write_str("there is no session whose messages could be listened to"),
        }
    }
}

impl std::error::Error for NotOffered {}
