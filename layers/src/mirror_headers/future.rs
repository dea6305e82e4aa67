//! The response future of the layer that mirrors headers.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use http::Response;
use pin_project_lite::pin_project;

use super::ToolHeaders;
use super::learn::page;
use crate::Events;
use crate::error::BoxError;
use crate::refusable::Refusable;

pin_project! {
    /// The response future of [`MirrorHeaders`](super::MirrorHeaders).
    #[derive(Debug)]
    #[must_use = "futures do nothing unless polled"]
    pub struct ResponseFuture<F> {
        #[pin]
        inner: Refusable<F>,
        // Of a request that lists tools: what is learned, and which page it asks for.
        listing: Option<(ToolHeaders, Option<String>)>,
    }
}

impl<F> ResponseFuture<F> {
    pub(super) fn called(future: F) -> Self {
        Self { inner: Refusable::Called { future }, listing: None }
    }

    pub(super) fn listing(future: F, tools: ToolHeaders, cursor: Option<String>) -> Self {
        Self { inner: Refusable::Called { future }, listing: Some((tools, cursor)) }
    }

    pub(super) fn refused(error: impl Into<BoxError>) -> Self {
        Self { inner: Refusable::refused(error), listing: None }
    }
}

impl<F, E> Future for ResponseFuture<F>
where
    F: Future<Output = Result<Response<Events>, E>>,
    E: Into<BoxError>,
{
    type Output = Result<Response<Events>, BoxError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let response = ready!(this.inner.poll(cx))?;
        Poll::Ready(Ok(match this.listing.take() {
            Some((tools, cursor)) => response.map(|events| {
                events.map(move |item| item.map(|event| page(&tools, cursor.as_deref(), event)))
            }),
            None => response,
        }))
    }
}
