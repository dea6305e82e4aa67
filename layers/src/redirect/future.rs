//! The response future of the redirect layer.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use http_body_util::Full;
use pin_project_lite::pin_project;
use tokio::runtime::Handle;
use tower::util::Oneshot;
use tower_service::Service;

use super::location::next_hop;
use super::repeat::Repeat;
use crate::drain::Drain;
use crate::error::Redacted;

/// A page that says "moved" is short, and on its way already.
const DRAIN: Drain = Drain { max_bytes: 64 << 10, timeout: Duration::from_millis(50) };

pin_project! {
    /// The response future of [`Redirect`](super::Redirect).
    #[must_use = "futures do nothing unless polled"]
    pub struct ResponseFuture<S>
    where
        S: Service<Request<Full<Bytes>>>,
    {
        #[pin]
        hop: Hop<S, S::Future>,
        service: S,
        // `None`: no redirect is followed.
        repeat: Option<Repeat>,
        redirects_left: usize,
    }
}

pin_project! {
    #[project = HopProj]
    enum Hop<S, F>
    where
        S: Service<Request<Full<Bytes>>>,
    {
        First { #[pin] call: F },
        // Boxed, as it is large and rare.
        Next { call: Pin<Box<Oneshot<S, Request<Full<Bytes>>>>> },
        Between,
    }
}

impl<S: Service<Request<Full<Bytes>>>> ResponseFuture<S> {
    pub(super) fn new(call: S::Future, service: S, repeat: Option<Repeat>, redirects_left: usize) -> Self {
        Self { hop: Hop::First { call }, service, repeat, redirects_left }
    }
}

impl<S, B> Future for ResponseFuture<S>
where
    S: Service<Request<Full<Bytes>>, Response = Response<B>> + Clone,
    B: Body + Send + 'static,
{
    type Output = Result<S::Response, S::Error>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        loop {
            let response = match this.hop.as_mut().project() {
                HopProj::First { call } => ready!(call.poll(cx))?,
                HopProj::Next { call } => ready!(call.as_mut().poll(cx))?,
                HopProj::Between => return Poll::Pending,
            };
            let Some(repeat) = this.repeat else { return Poll::Ready(Ok(response)) };
            let target = next_hop(&repeat.method, &repeat.uri, response.status(), response.headers());
            let (Some(target), Some(left)) = (target, this.redirects_left.checked_sub(1)) else {
                return Poll::Ready(Ok(response));
            };
            tracing::debug!(target = %Redacted::from(&target), status = %response.status(), "following a redirect");
            repeat.uri = target;
            *this.redirects_left = left;
            DRAIN.drain(Box::pin(response.into_body()), Handle::try_current().ok().as_ref(), cx);
            // The finished call goes first: with a concurrency limit below, it holds the permit that the next one needs.
            this.hop.set(Hop::Between);
            let call = Box::pin(Oneshot::new(this.service.clone(), repeat.request()));
            this.hop.set(Hop::Next { call });
        }
    }
}

impl<S: Service<Request<Full<Bytes>>>> std::fmt::Debug for ResponseFuture<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ResponseFuture").field("redirects_left", &self.redirects_left).finish_non_exhaustive()
    }
}
