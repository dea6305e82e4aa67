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

pin_project! {
    /// The response future of a layer that sends a request on, or refuses it.
    #[derive(Debug)]
    #[must_use = "futures do nothing unless polled"]
    pub struct ResponseFuture<F> {
        #[pin]
        inner: Refusable<F>,
    }
}

impl<F> ResponseFuture<F> {
    pub(crate) fn called(future: F) -> Self {
        Self { inner: Refusable::Called { future } }
    }

    pub(crate) fn refused(error: impl Into<BoxError>) -> Self {
        Self { inner: Refusable::refused(error) }
    }
}

impl<F, T, E> Future for ResponseFuture<F>
where
    F: Future<Output = Result<T, E>>,
    E: Into<BoxError>,
{
    type Output = Result<T, BoxError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.project().inner.poll(cx)
    }
}
