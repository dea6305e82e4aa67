//! The future of a layer that can refuse a request before it is sent.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;

use crate::error::BoxError;

pin_project! {
    /// A call that was made, or one that was refused.
    #[project = RefusableProj]
    #[derive(Debug)]
    pub(crate) enum Refusable<F> {
        Called { #[pin] future: F },
        Refused { error: Option<BoxError> },
    }
}

impl<F> Refusable<F> {
    pub(crate) fn refused(error: impl Into<BoxError>) -> Self {
        Self::Refused { error: Some(error.into()) }
    }
}

impl<F, T, E> Future for Refusable<F>
where
    F: Future<Output = Result<T, E>>,
    E: Into<BoxError>,
{
    type Output = Result<T, BoxError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match self.project() {
            RefusableProj::Called { future } => Poll::Ready(ready!(future.poll(cx)).map_err(Into::into)),
            // Polled again after its end, which no caller may do: there is nothing left to say.
            RefusableProj::Refused { error } => {
                error.take().map_or(Poll::Pending, |error| Poll::Ready(Err(error)))
            }
        }
    }
}
