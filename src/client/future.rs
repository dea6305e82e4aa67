//! The response future of the default client.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use http::Response;
use hyper::body::Incoming;
use hyper_util::client::legacy;
use pin_project_lite::pin_project;

use crate::error::{BoxError, NotSent};

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
            // Only a request that has a connection can have been written.
            if error.is_connect() { NotSent(error.into()).into() } else { error.into() }
        })
    }
}
