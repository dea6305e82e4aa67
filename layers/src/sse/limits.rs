//! The bounds within which answers are read.

use std::time::Duration;

/// How much of an answer is read, and for how long.
///
/// No limit is a total time: a stream may stay open as long as the server likes. For a single message there is
/// [`Deadline`](crate::options::Deadline).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    pub(crate) max_event_bytes: usize,
    pub(crate) max_json_bytes: usize,
    pub(crate) max_error_bytes: usize,
    pub(crate) max_batch_messages: usize,
    pub(crate) error_body_timeout: Duration,
    pub(crate) drain_timeout: Duration,
    pub(crate) idle_timeout: Option<Duration>,
    pub(crate) acceptance_timeout: Option<Duration>,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_event_bytes: super::Decoder::DEFAULT_MAX_EVENT_BYTES,
            max_json_bytes: 64 << 20,
            max_error_bytes: 64 << 10,
            max_batch_messages: 1024,
            error_body_timeout: Duration::from_secs(5),
            drain_timeout: Duration::from_millis(50),
            idle_timeout: None,
            acceptance_timeout: Some(Duration::from_secs(30)),
        }
    }
}

impl Limits {
    /// The raw bytes of one SSE event; 16 MiB by default. A longer one is an error of the stream.
    pub fn max_event_bytes(self, bytes: usize) -> Self {
        Self { max_event_bytes: bytes, ..self }
    }

    /// The bytes of a JSON body; 64 MiB by default. A longer one is an error.
    pub fn max_json_bytes(self, bytes: usize) -> Self {
        Self { max_json_bytes: bytes, ..self }
    }

    /// The bytes of a body that is only read for its error, or to be drained; 64 KiB by default. What is longer is
    /// cut off.
    pub fn max_error_bytes(self, bytes: usize) -> Self {
        Self { max_error_bytes: bytes, ..self }
    }

    /// The messages of one batch (revision 2025-03-26); 1,024 by default. A longer one cannot be read.
    pub fn max_batch_messages(self, messages: usize) -> Self {
        Self { max_batch_messages: messages, ..self }
    }

    /// How long the body beside an error status may take; 5 s by default. Then it counts as far as it came, so that a
    /// status is reported even if its body never ends.
    pub fn error_body_timeout(self, timeout: Duration) -> Self {
        Self { error_body_timeout: timeout, ..self }
    }

    /// How long to read on after a response, so that the connection can be used again; 50 ms by default. Zero drops
    /// the rest of the body at once, and so does each beyond the 1,024 that are read on at a time. It also bounds how much is waited for of a successful answer that is of no use,
    /// before that is reported.
    pub fn drain_timeout(self, timeout: Duration) -> Self {
        Self { drain_timeout: timeout, ..self }
    }

    /// How long an event stream, or a JSON body that has begun, may be silent; no bound by default. Any byte counts,
    /// those of comments too. What is silent for longer fails, so only set this for servers that send comments to keep
    /// their streams alive.
    pub fn idle_timeout(self, timeout: impl Into<Option<Duration>>) -> Self {
        Self { idle_timeout: timeout.into(), ..self }
    }

    /// How long the answer to a notification or a response may take; 30 s by default, `None` sets no bound. It is set as
    /// [`FirstByte`](crate::options::FirstByte), so it takes a [`FirstByteTimeout`](crate::FirstByteTimeout) below.
    pub fn acceptance_timeout(self, timeout: impl Into<Option<Duration>>) -> Self {
        Self { acceptance_timeout: timeout.into(), ..self }
    }
}
