//! The response future of the default client.

use std::error::Error as _;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use http::Response;
use hyper::body::Incoming;
use hyper_util::client::legacy;
use pin_project_lite::pin_project;

use crate::error::{BoxError, BrokenStream, NotSent};

pin_project! {
    /// The response future of [`Client`](super::Client).
    #[derive(Debug)]
    #[must_use = "futures do nothing unless polled"]
    pub struct ResponseFuture {
        #[pin]
        inner: legacy::ResponseFuture,
    }
}

impl ResponseFuture {
    pub(super) fn new(inner: legacy::ResponseFuture) -> Self {
        Self { inner }
    }
}

impl Future for ResponseFuture {
    type Output = Result<Response<Incoming>, BoxError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.project().inner.poll(cx).map_err(|error| {
            if is_unsent(&error) { NotSent(error.into()).into() } else { BrokenStream(error.into()).into() }
        })
    }
}

/// There was no connection to write to; or there was, and hyper gave the request back untouched, which it calls
/// cancelled.
fn is_unsent(error: &legacy::Error) -> bool {
    let source = error.source().and_then(|source| source.downcast_ref::<hyper::Error>());
    error.is_connect() || source.is_some_and(hyper::Error::is_canceled)
}
