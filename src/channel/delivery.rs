//! What becomes of one message.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::sync::oneshot;

use super::error::Undelivered;
use super::inbox::Inbox;
use crate::{Error, RequestId};

/// Until when a [`Delivery`] follows a request. For a notification or response either means until it is accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// The first message of its reply.
    Begun,
    /// Its response.
    Answered,
}

/// What becomes of one message: made by [`Sender::deliver`](super::Sender::deliver).
///
/// Resolves as soon as what it waits for has come, read or not. It says nothing of the answer, which is on the read half.
///
/// # Errors
/// The message has failed before that, and the read half hears nothing of it; or it was given up: it was cancelled, the id of
/// the request was given to another, or the channel was closed.
///
/// If it is dropped before it has resolved, a failure of a request is told on the read half after all.
#[must_use = "unless this is dropped, a failure is told here alone"]
pub struct Delivery {
    outcome: oneshot::Receiver<Result<(), Error>>,
    /// Of a request: where a failure is told that was not taken.
    request: Option<(RequestId, Inbox)>,
}

impl Future for Delivery {
    type Output = Result<(), Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let outcome = ready!(Pin::new(&mut self.outcome).poll(cx));
        self.request = None;
        Poll::Ready(outcome.unwrap_or_else(|_| Err(Error::new(Undelivered))))
    }
}

impl Drop for Delivery {
    fn drop(&mut self) {
        self.outcome.close();
        if let (Some((id, inbox)), Ok(Err(error))) = (self.request.take(), self.outcome.try_recv()) {
            // Nobody waits for what its sender has given up.
            if !error.is_cancelled() {
                inbox.fail_late(&id, error);
            }
        }
    }
}

impl fmt::Debug for Delivery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Delivery").field(&self.outcome).finish()
    }
}

/// The other end of a [`Delivery`], if there is one.
#[derive(Default)]
pub(super) struct Watch(Option<(Until, oneshot::Sender<Result<(), Error>>)>);

impl Watch {
    /// `request`: the one that is followed, if it is one.
    pub(super) fn new(until: Until, request: Option<(RequestId, Inbox)>) -> (Self, Delivery) {
        let (watch, outcome) = oneshot::channel();
        (Self(Some((until, watch))), Delivery { outcome, request })
    }

    /// The first message of the reply has come.
    pub(super) fn begun(&mut self) {
        if let Some((_, watch)) = self.0.take_if(|(until, _)| *until == Until::Begun) {
            let _ = watch.send(Ok(()));
        }
    }

    /// The response has come, or the message was accepted.
    pub(super) fn done(&mut self) {
        if let Some((_, watch)) = self.0.take() {
            let _ = watch.send(Ok(()));
        }
    }

    /// Tells of a failure. It comes back if nobody wants to know it here.
    pub(super) fn failed(&mut self, error: Error) -> Option<Error> {
        match self.0.take() {
            Some((_, watch)) => watch.send(Err(error)).err().and_then(Result::err),
            None => Some(error),
        }
    }
}
