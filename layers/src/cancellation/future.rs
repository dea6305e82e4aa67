//! The response future of the cancellation layer.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;

use super::Guard;
use crate::error::{BoxError, Error};
use crate::{Events, Expects, Reply};

pin_project! {
    /// The response future of [`TranslateCancel`](super::TranslateCancel).
    #[derive(Debug)]
    #[must_use = "futures do nothing unless polled"]
    pub struct ResponseFuture<F> {
        // Before `guard`: whoever hears of the cancellation wants to see the exchange closed.
        #[pin]
        call: Call<F>,
        guard: Option<Guard>,
    }
}

pin_project! {
    #[project = CallProj]
    #[derive(Debug)]
    enum Call<F> {
        Open { #[pin] call: F },
        Closed,
    }
}

impl<F> ResponseFuture<F> {
    pub(super) fn new(call: F, guard: Option<Guard>) -> Self {
        Self { call: Call::Open { call }, guard }
    }

    /// Of a message that was dealt with and is not sent.
    pub(super) fn done() -> Self {
        Self { call: Call::Closed, guard: None }
    }
}

impl<F, E> Future for ResponseFuture<F>
where
    F: Future<Output = Result<Reply, E>>,
    E: Into<BoxError>,
{
    type Output = Result<Reply, Error>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        let CallProj::Open { call } = this.call.as_mut().project() else {
            return Poll::Ready(Ok(Reply::new(Expects::Acceptance, Events::EMPTY)));
        };
        let severed = this.guard.as_mut().and_then(|guard| {
            guard.arm();
            guard.severed()
        });
        let error = match severed {
            Some(error) => error,
            None => match (call.poll(cx), &mut *this.guard) {
                (Poll::Ready(Ok(mut reply)), guard) => {
                    reply.set_in_flight(guard.take());
                    return Poll::Ready(Ok(reply));
                }
                (Poll::Ready(Err(error)), guard) => {
                    let error = Error::new(error);
                    return Poll::Ready(Err(match guard.take() {
                        Some(mut guard) => guard.fail(error),
                        None => error,
                    }));
                }
                (Poll::Pending, Some(guard)) => ready!(guard.poll_severed(false, cx)),
                (Poll::Pending, None) => return Poll::Pending,
            },
        };
        // It was given up.
        this.call.set(Call::Closed);
        *this.guard = None;
        Poll::Ready(Err(error))
    }
}
