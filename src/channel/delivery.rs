//! What becomes of one message.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::sync::oneshot;

use super::error::Undelivered;
use crate::Error;

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
#[derive(Debug)]
#[must_use = "unless this is dropped, a failure is told here alone"]
pub struct Delivery(oneshot::Receiver<Result<(), Error>>);

impl Future for Delivery {
    type Output = Result<(), Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let outcome = ready!(Pin::new(&mut self.0).poll(cx));
        Poll::Ready(outcome.unwrap_or_else(|_| Err(Error::new(Undelivered))))
    }
}

/// The other end of a [`Delivery`], if there is one.
#[derive(Default)]
pub(super) struct Watch(Option<(Until, oneshot::Sender<Result<(), Error>>)>);

impl Watch {
    pub(super) fn new(until: Until) -> (Self, Delivery) {
        let (watch, delivery) = oneshot::channel();
        (Self(Some((until, watch))), Delivery(delivery))
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
