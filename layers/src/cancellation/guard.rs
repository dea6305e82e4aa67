//! What watches over one request until its response.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::time::Sleep;

use super::Desk;
use super::flight::Flight;
use crate::error::{BrokenStream, Cancelled, Error, ForeignResponse, NoToken, NotSent, Superseded, TimedOut};
use crate::options::{ExtraHeaders, Pinned, QuietDrop, WireId};
use crate::{JsonRpcMessage, RawJson};

type Item = Result<JsonRpcMessage, Error>;

/// How many servers are told at a time, by all transports of the process.
static NOTICES: Semaphore = Semaphore::const_new(1024);

/// Sends a message through the layers below, and drops what comes of it.
pub(super) type Post = Box<dyn Fn(JsonRpcMessage) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send + Sync>;

/// Keeps a request in the table of those in flight, and tells a legacy server if it is dropped before its response.
///
/// It moves from the response future into the reply.
pub(crate) struct Guard {
    desk: Arc<Desk>,
    flight: Arc<Flight>,
    /// `None`: the server is not told, or no longer.
    notice: Option<Notice>,
    /// Before the first poll nothing was sent, so there is nothing to take back.
    armed: bool,
    waiting: Option<Pin<Box<Sleep>>>,
}

/// How a server is told that nobody waits for a response any more.
pub(super) struct Notice {
    pub(super) runtime: Handle,
    /// The one that the request was sent in.
    pub(super) sent_in: Pinned,
    pub(super) headers: Option<Box<ExtraHeaders>>,
    pub(super) quiet: Option<QuietDrop>,
}

impl Guard {
    pub(super) fn new(desk: Arc<Desk>, flight: Arc<Flight>, notice: Option<Notice>) -> Self {
        Self { desk, flight, notice, armed: false, waiting: None }
    }

    pub(super) fn arm(&mut self) {
        self.armed = true;
    }

    /// The error of a request that was cancelled or superseded.
    pub(crate) fn severed(&self) -> Option<Error> {
        self.flight.severed()
    }

    /// Waits for the request to be cancelled or superseded. What the caller has cancelled is not worth another connection
    /// (`is_interrupted`: it would take one), nor is it waited for without an end: a server need not answer it.
    pub(crate) fn poll_severed(&mut self, is_interrupted: bool, cx: &mut Context<'_>) -> Poll<Error> {
        if let Poll::Ready(error) = self.flight.poll_severed(cx) {
            return Poll::Ready(error);
        }
        if !self.flight.is_announced() {
            return Poll::Pending;
        }
        if self.waiting.is_none() && Handle::try_current().is_ok() {
            self.waiting = Some(Box::pin(tokio::time::sleep(self.desk.grace)));
        }
        let is_late = self.waiting.as_mut().is_some_and(|waiting| waiting.as_mut().poll(cx).is_ready());
        if is_interrupted || is_late { Poll::Ready(Error::new(Cancelled)) } else { Poll::Pending }
    }

    /// Looks at an item of the reply.
    pub(crate) fn pass(&mut self, item: Item) -> Item {
        match item {
            Ok(JsonRpcMessage::Response(response)) => {
                self.notice = None;
                match response.extensions().get() {
                    Some(WireId(Some(other)))
                        if *other != self.flight.id && self.desk.flights.get(other).is_some() =>
                    {
                        Err(Error::new(ForeignResponse))
                    }
                    _ => Ok(response.into()),
                }
            }
            Ok(message) => Ok(message),
            Err(error) => Err(self.fail(error)),
        }
    }

    /// Looks at the error that the request ends with.
    pub(super) fn fail(&mut self, error: Error) -> Error {
        // If a clock on this side ran out, the server may be at work still. Anything else it knows of.
        let is_ours = error.find::<TimedOut>().is_some()
            && error.find::<NotSent>().is_none()
            && error.find::<NoToken>().is_none()
            && error.find::<BrokenStream>().is_none();
        if !is_ours {
            self.notice = None;
        }
        // What the caller took back need not be answered, so that it was not is no failure.
        let is_cancelled = self.flight.is_announced() && error.find::<Superseded>().is_none();
        if is_cancelled { Error::new(Cancelled) } else { error }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        // Whoever has taken over the id would be cancelled in place of this one.
        let is_current = self.desk.flights.remove(&self.flight);
        let told = self.flight.is_announced() || self.flight.severed().is_some();
        if let (Some(notice), true) = (self.notice.take(), self.armed && is_current && !told) {
            notice.send(&self.desk, &self.flight);
        }
    }
}

impl Notice {
    fn send(self, desk: &Desk, flight: &Flight) {
        if self.quiet.is_some_and(|quiet| quiet.is_on()) {
            return;
        }
        let params = format!(r#"{{"requestId":{},"reason":"the caller no longer waits for it"}}"#, flight.id);
        // It is JSON: an id prints as such.
        let Ok(params) = RawJson::parse(params) else { return };
        let Some(session) = desk.session.last_sent_in(&flight.id, self.sent_in) else { return };
        let mut message = JsonRpcMessage::notification("notifications/cancelled", params).with(session);
        if let Some(headers) = self.headers {
            message = message.with(*headers);
        }
        let Ok(permit) = NOTICES.try_acquire() else {
            tracing::warn!(request.id = %flight.id, "too many requests are given up at a time to tell the server");
            return;
        };
        tracing::debug!(request.id = %flight.id, "telling the server that a request is given up");
        let telling = (desk.post)(message);
        self.runtime.spawn(async move {
            let _permit = permit;
            telling.await;
        });
    }
}

impl std::fmt::Debug for Guard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Guard")
            .field("flight", &self.flight)
            .field("armed", &self.armed)
            .finish_non_exhaustive()
    }
}
