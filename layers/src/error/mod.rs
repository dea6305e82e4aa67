//! Errors: one opaque [`Error`] at the top, small structs inside the stack.
//!
//! Layers of the envelope floor and below pass [`BoxError`]s: the structs in this module, or whatever the HTTP client
//! reports. [`EnvelopeLayer`](crate::EnvelopeLayer) turns them into [`Error`], whose `is_*` methods look through the
//! chain of [`source`](std::error::Error::source)s, so that layers of the user's own may wrap them.
//!
//! A JSON-RPC error that the server answers with is a message, not an [`Error`].

mod answer;
mod json_rpc;
mod local;
mod preview;
mod resume;

use std::fmt;
use std::time::Duration;

use http::{HeaderValue, StatusCode};

pub(crate) use self::answer::retry_after;
pub use self::answer::{
    ContentProblem, SessionExpired, TooLarge, Undecodable, UnexpectedContent, UnexpectedStatus,
};
pub use self::local::{
    BrokenStream, Cancelled, EndedStream, ForeignResponse, InvalidMessage, InvalidOption, NoResponseDue,
    NoToken, NotOffered, NotSent, Superseded, TimedOut,
};
pub use self::preview::Preview;
pub(crate) use self::preview::{Redacted, redacted_location};
pub use self::resume::{GaveUp, NotRepeated, RetryTooLong};

/// What layers below the message floor fail with.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Why a call failed.
///
/// It reads like a sentence, and names neither session ids, tokens, header values nor the query of a URL.
pub struct Error {
    source: BoxError,
    /// That of the answer in which it happened.
    status: Option<StatusCode>,
}

impl Error {
    /// Wraps any error. One that is an `Error` already is taken as it is.
    pub fn new(source: impl Into<BoxError>) -> Self {
        Self::from(source.into())
    }

    /// The first of the errors in the chain that is an `E`.
    pub fn find<E: std::error::Error + 'static>(&self) -> Option<&E> {
        find(&*self.source)
    }

    /// The session is over (HTTP 404 to its id): send `initialize` again.
    pub fn is_session_expired(&self) -> bool {
        self.find::<SessionExpired>().is_some()
    }

    /// Time ran out: a bound of this crate's, tower's `Timeout`, or the operating system's.
    pub fn is_timeout(&self) -> bool {
        self.find::<TimedOut>().is_some()
            || self.find::<tower::timeout::error::Elapsed>().is_some()
            || self.find::<std::io::Error>().is_some_and(|error| error.kind() == std::io::ErrorKind::TimedOut)
    }

    /// The caller cancelled the request, with a `notifications/cancelled` of its own.
    pub fn is_cancelled(&self) -> bool {
        self.find::<Cancelled>().is_some()
    }

    /// Nothing was sent: no connection could be made, a pooled one closed before the first byte, or the server says that it
    /// did not look at the request.
    pub fn is_connect(&self) -> bool {
        self.find::<NotSent>().is_some()
    }

    /// Whether the server may have acted on the message. `false`: it was never sent, or the status says that the
    /// server refused it, so sending it again does nothing twice.
    pub fn may_have_run(&self) -> bool {
        if self.is_connect()
            || self.find::<InvalidMessage>().is_some()
            || self.find::<InvalidOption>().is_some()
            || self.find::<NoToken>().is_some()
        {
            return false;
        }
        if self.find::<GaveUp>().is_some()
            || self.find::<RetryTooLong>().is_some()
            || self.find::<SessionExpired>().is_some_and(SessionExpired::was_in_flight)
        {
            return true;
        }
        match self.status() {
            Some(status) => !(status.is_client_error() || status.is_redirection()),
            // Without a status, these two mean that there was nothing to send it in.
            None => self.find::<SessionExpired>().is_none() && self.find::<NotOffered>().is_none(),
        }
    }

    /// The status of the HTTP answer that this error is about, or that it ended, if there was one.
    pub fn status(&self) -> Option<StatusCode> {
        self.cause_status().or(self.status)
    }

    fn cause_status(&self) -> Option<StatusCode> {
        self.refusal()
            .map(UnexpectedStatus::status)
            .or_else(|| self.find::<UnexpectedContent>().map(UnexpectedContent::status))
            .or_else(|| self.find::<Undecodable>().and_then(Undecodable::status))
            .or_else(|| self.find::<SessionExpired>().and_then(SessionExpired::status))
            .or_else(|| self.find::<NotOffered>().and_then(NotOffered::status))
    }

    fn refusal(&self) -> Option<&UnexpectedStatus> {
        self.find::<UnexpectedStatus>()
            .or_else(|| self.find::<GaveUp>()?.refusal())
            .or_else(|| self.find::<RetryTooLong>()?.refusal())
    }

    /// Notes the status of the answer in which it happened.
    pub(crate) fn in_answer(self, status: StatusCode) -> Self {
        Self { status: self.status.or(Some(status)), ..self }
    }

    /// How long the server asked to wait: `Retry-After` (RFC 9110 §10.2.3), an HTTP-date counted from its arrival.
    pub fn retry_after(&self) -> Option<Duration> {
        self.refusal().and_then(UnexpectedStatus::retry_after)
    }

    /// Every `WWW-Authenticate` of the answer (RFC 9110 §11.6.1), in order; empty without one.
    pub fn challenges(&self) -> &[HeaderValue] {
        self.refusal().map_or(&[], UnexpectedStatus::challenges)
    }
}

/// The first error in the chain that begins with `error` and is an `E`.
pub(crate) fn find<'a, E: std::error::Error + 'static>(
    error: &'a (dyn std::error::Error + 'static),
) -> Option<&'a E> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(found) = error.downcast_ref() {
            return Some(found);
        }
        next = match error.downcast_ref::<Error>() {
            Some(wrapped) => Some(&*wrapped.source),
            // The source of an `io::Error` is that of the error inside, which it passes over.
            None => match error.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref) {
                Some(inside) => Some(inside),
                None => error.source(),
            },
        };
    }
    None
}

impl From<BoxError> for Error {
    fn from(source: BoxError) -> Self {
        match source.downcast::<Self>() {
            Ok(error) => *error,
            Err(source) => Self { source, status: None },
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Error").field(&self.source).finish()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.source.fmt(f)?;
        match (self.cause_status(), self.status) {
            (None, Some(status)) => write!(f, " (the status of the answer was {status})"),
            _ => Ok(()),
        }
    }
}

/// The wrapped error speaks for this one, so its source is this one's.
impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.source()
    }
}
