//! The knobs of a channel.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::{Error, JsonRpcMessage};

pub(super) type Hook = Arc<dyn Fn(&JsonRpcMessage, &Error) + Send + Sync>;

/// Options for a [`Channel`](super::Channel).
///
/// ```
/// use mcp_streamable_http::StreamableHttp;
/// use mcp_streamable_http::channel::ChannelOptions;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let transport = StreamableHttp::new("http://localhost:8000/mcp".parse()?)?;
/// // The session is to be taken up again later, so closing must not end it.
/// let channel = transport.channel_with(ChannelOptions::default().terminate(false).max_in_flight(64));
/// # channel.close().await;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
#[must_use = "options do nothing unless a channel is made with them"]
pub struct ChannelOptions {
    pub(super) listen: bool,
    pub(super) terminate: bool,
    pub(super) max_in_flight: usize,
    pub(super) max_unsent: usize,
    pub(super) max_unread: usize,
    pub(super) patience: Duration,
    pub(super) flush_timeout: Duration,
    pub(super) close_timeout: Duration,
    pub(super) on_send_failure: Option<Hook>,
}

impl Default for ChannelOptions {
    fn default() -> Self {
        Self {
            listen: true,
            terminate: true,
            max_in_flight: 1024,
            max_unsent: 1024,
            max_unread: 256,
            patience: Duration::from_secs(5),
            flush_timeout: Duration::from_secs(2),
            close_timeout: Duration::from_secs(5),
            on_send_failure: None,
        }
    }
}

impl ChannelOptions {
    /// Whether to open the listening GET of the legacy era, once the server has accepted `notifications/initialized`
    /// with a 2xx and has issued a session id; `true` by default.
    /// [`Builder::listen_without_session`](crate::Builder::listen_without_session) lifts the second condition.
    pub fn listen(self, listen: bool) -> Self {
        Self { listen, ..self }
    }

    /// Whether closing ends the session on the server, with a DELETE; `true` by default. With `false` the session can be
    /// used again.
    pub fn terminate(self, terminate: bool) -> Self {
        Self { terminate, ..self }
    }

    /// How many requests may wait for their answers; 1,024 by default. One more is not sent, and is answered at once with
    /// the error of [`TooManyInFlight`](super::TooManyInFlight). A request counts until its answer was read.
    pub fn max_in_flight(self, requests: usize) -> Self {
        Self { max_in_flight: requests, ..self }
    }

    /// How many notifications and responses may wait to be sent; 1,024 by default, and at least 1. For one more the sink is
    /// not ready, and [`Sender::send`](super::Sender::send) fails.
    pub fn max_unsent(self, messages: usize) -> Self {
        Self { max_unsent: messages.max(1), ..self }
    }

    /// How many messages of the server's may wait to be read, answers aside; 256 by default, and at least 1. When they are
    /// reached the streams are not read on, but messages are still sent.
    pub fn max_unread(self, messages: usize) -> Self {
        Self { max_unread: messages.max(1), ..self }
    }

    /// How long a notification or a response may wait for the head of its answer before the next one is sent; 5 s by
    /// default. It is not given up then: that is the [`FirstByte`](crate::options::FirstByte) of the message, or
    /// [`Limits::acceptance_timeout`](crate::Limits::acceptance_timeout), or at last 30 s more.
    pub fn patience(self, patience: Duration) -> Self {
        Self { patience, ..self }
    }

    /// How long closing waits for notifications and responses that are not sent yet; 2 s by default.
    pub fn flush_timeout(self, timeout: Duration) -> Self {
        Self { flush_timeout: timeout, ..self }
    }

    /// How long closing takes at most, the [`flush_timeout`](Self::flush_timeout) included; 5 s by default. The DELETE has
    /// what is left of it.
    pub fn close_timeout(self, timeout: Duration) -> Self {
        Self { close_timeout: timeout, ..self }
    }

    /// Is called with every notification and response that was not delivered, and why; by default such a failure is
    /// logged only. It runs on a task of the channel, so it must not block, nor panic.
    pub fn on_send_failure<F>(self, hook: F) -> Self
    where
        F: Fn(&JsonRpcMessage, &Error) + Send + Sync + 'static,
    {
        Self { on_send_failure: Some(Arc::new(hook)), ..self }
    }
}

impl fmt::Debug for ChannelOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChannelOptions")
            .field("listen", &self.listen)
            .field("terminate", &self.terminate)
            .field("max_in_flight", &self.max_in_flight)
            .field("max_unsent", &self.max_unsent)
            .field("max_unread", &self.max_unread)
            .field("patience", &self.patience)
            .field("flush_timeout", &self.flush_timeout)
            .field("close_timeout", &self.close_timeout)
            .finish_non_exhaustive()
    }
}
