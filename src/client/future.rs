//! The response future of the default client.

use std::error::Error as _;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use http::Response;
use hyper::body::Incoming;
use hyper_util::client::legacy;
use pin_project_lite::pin_project;

use crate::error::{BoxError, BrokenStream, NotSent, TimedOut};

const PING_KNOB: &str = "http2_ping_timeout";

pin_project! {
    /// The response future of [`Client`](super::Client).
    #[derive(Debug)]
    #[must_use = "futures do nothing unless polled"]
    pub struct ResponseFuture {
        #[pin]
        inner: legacy::ResponseFuture,
        ping_timeout: Duration,
    }
}

impl ResponseFuture {
    pub(super) fn new(inner: legacy::ResponseFuture, ping_timeout: Duration) -> Self {
        Self { inner, ping_timeout }
    }
}

impl Future for ResponseFuture {
    type Output = Result<Response<Incoming>, BoxError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        this.inner.poll(cx).map_err(|error| {
            let cause = hyper_error(&error);
            // Hyper gave the request back untouched, which it calls cancelled; or the server did.
            if error.is_connect() || cause.is_some_and(|cause| cause.is_canceled() || is_refused(cause)) {
                return NotSent(error.into()).into();
            }
            // The only clock of hyper's that runs is that of HTTP/2 PINGs.
            let source = match cause.is_some_and(hyper::Error::is_timeout) {
                true => TimedOut::new("the answer to an HTTP/2 PING", PING_KNOB, *this.ping_timeout).into(),
                false => error.into(),
            };
            BrokenStream(source).into()
        })
    }
}

/// The server says that it has not acted on the request: the connection was shutting down when it arrived (RFC 9113
/// §6.8), or its stream was refused (§8.7).
fn is_refused(error: &hyper::Error) -> bool {
    let cause = error.source().and_then(|source| source.downcast_ref::<h2::Error>());
    cause.is_some_and(|cause| match cause.reason() {
        Some(h2::Reason::NO_ERROR) => cause.is_go_away() && cause.is_remote(),
        Some(h2::Reason::REFUSED_STREAM) => cause.is_reset() && cause.is_remote(),
        _ => false,
    })
}

fn hyper_error(error: &legacy::Error) -> Option<&hyper::Error> {
    error.source()?.downcast_ref()
}
