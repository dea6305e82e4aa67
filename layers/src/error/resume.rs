//! Why what broke was not taken up again.

use std::fmt;
use std::time::Duration;

use super::{BoxError, UnexpectedStatus};

/// The stream of a request broke, and could not be resumed. The request may have run.
///
/// What the last attempt failed with is told by [`last`](Self::last), and is not a
/// [`source`](std::error::Error::source): that attempt was not sent, say, but the request was.
#[derive(Debug)]
pub struct GaveUp {
    attempts: u32,
    last: Option<BoxError>,
}

impl GaveUp {
    pub(crate) fn new(attempts: u32, last: Option<BoxError>) -> Self {
        Self { attempts, last }
    }

    /// How often it was tried since there was progress; 0 if it was not allowed to be.
    pub fn attempts(&self) -> u32 {
        self.attempts
    }

    /// What the last attempt failed with. `None`: the server accepted it, and sent nothing new.
    pub fn last(&self) -> Option<&(dyn std::error::Error + Send + Sync + 'static)> {
        self.last.as_deref()
    }

    pub(crate) fn into_last(self) -> BoxError {
        self.last.unwrap_or_else(|| Self { attempts: self.attempts, last: None }.into())
    }

    /// The answer to the last attempt, if it was refused.
    pub(super) fn refusal(&self) -> Option<&UnexpectedStatus> {
        self.last()?.downcast_ref()
    }
}

impl fmt::Display for GaveUp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.attempts {
            0 => f.write_str("the stream ended before the response, and streams are not to be resumed")?,
            1 => f.write_str("the stream ended before the response, and could not be resumed")?,
            n => write!(f, "the stream ended before the response, and could not be resumed in {n} attempts")?,
        }
        match &self.last {
            Some(error) => write!(f, ": {error}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for GaveUp {}

/// The connection broke before the head of the answer, and the request could not be sent again. It may have run.
///
/// What the last attempt failed with is no [`source`](std::error::Error::source), as with [`GaveUp`].
#[derive(Debug)]
pub struct NotRepeated {
    last: BoxError,
}

impl NotRepeated {
    pub(crate) fn new(last: BoxError) -> Self {
        Self { last }
    }

    /// What the last attempt failed with.
    pub fn last(&self) -> &(dyn std::error::Error + Send + Sync + 'static) {
        &*self.last
    }
}

impl fmt::Display for NotRepeated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the connection broke before the answer, and then: {}", self.last)
    }
}

impl std::error::Error for NotRepeated {}

/// The server asks for a longer wait than [`Backoff::max_retry`](crate::Backoff::max_retry) allows.
///
/// Like [`GaveUp`] it is the end of a request that may have run.
#[derive(Debug)]
pub struct RetryTooLong {
    field: &'static str,
    asked: Duration,
    limit: Duration,
    answer: Option<BoxError>,
}

impl RetryTooLong {
    pub(crate) fn new(
        field: &'static str,
        asked: Duration,
        limit: Duration,
        answer: Option<BoxError>,
    ) -> Self {
        Self { field, asked, limit, answer }
    }

    /// The answer that asks for it.
    pub(super) fn refusal(&self) -> Option<&UnexpectedStatus> {
        self.answer.as_ref()?.downcast_ref()
    }

    /// The wait that the server asks for.
    pub fn asked(&self) -> Duration {
        self.asked
    }
}

impl fmt::Display for RetryTooLong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { field, asked, limit, .. } = self;
        write!(
            f,
            "the server asks to reconnect only after {asked:?} (`{field}`; the limit is `max_retry`, {limit:?})"
        )
    }
}

impl std::error::Error for RetryTooLong {}
