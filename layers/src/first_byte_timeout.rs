//! Bound the wait for the head of an answer.
//!
//! # Example
//!
//! ```
//! use std::time::Duration;
//!
//! use bytes::Bytes;
//! use http::{Request, Response};
//! use http_body_util::Full;
//! use mcp_streamable_http_layers::FirstByteTimeoutLayer;
//! use mcp_streamable_http_layers::error::{BoxError, Error};
//! use tower::{ServiceBuilder, ServiceExt, service_fn};
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> Result<(), BoxError> {
//! let silent = service_fn(|_: Request<Full<Bytes>>| std::future::pending::<Result<Response<Full<Bytes>>, BoxError>>());
//! let http = ServiceBuilder::new().layer(FirstByteTimeoutLayer::new()).service(silent);
//!
//! let error = http.oneshot(Request::post("http://localhost/mcp").body(Full::default())?).await.unwrap_err();
//! assert!(Error::new(error).is_timeout());
//! # Ok(())
//! # }
//! ```
//!
//! With a bound of one's own, and with one for a single message:
//!
//! ```
//! use std::time::Duration;
//!
//! use mcp_streamable_http_layers::options::FirstByte;
//! use mcp_streamable_http_layers::{FirstByteTimeoutLayer, JsonRpcMessage};
//!
//! let layer = FirstByteTimeoutLayer::new().timeout(Duration::from_secs(60));
//! let slow = JsonRpcMessage::request(1, "tools/call", ()).with(FirstByte::within(Duration::from_secs(900)));
//! # let _ = (layer, slow);
//! ```

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use http::{Method, Request};
use pin_project_lite::pin_project;
use tokio::runtime::Handle;
use tokio::time::Sleep;
use tower_layer::Layer;
use tower_service::Service;

use crate::error::{BoxError, TimedOut};
use crate::options::FirstByte;

/// Applies [`FirstByteTimeout`]: see the [module's documentation](self).
#[derive(Clone, Copy, Debug)]
pub struct FirstByteTimeoutLayer {
    timeout: Option<Duration>,
}

impl Default for FirstByteTimeoutLayer {
    fn default() -> Self {
        Self { timeout: Some(Duration::from_secs(300)) }
    }
}

impl FirstByteTimeoutLayer {
    /// Waits up to 300 s.
    pub fn new() -> Self {
        Self::default()
    }

    /// How long to wait for an answer's head; 300 s by default, since a server that answers in JSON sends nothing until
    /// the work is done. `None` waits for ever.
    pub fn timeout(self, timeout: impl Into<Option<Duration>>) -> Self {
        Self { timeout: timeout.into() }
    }
}

impl<S> Layer<S> for FirstByteTimeoutLayer {
    type Service = FirstByteTimeout<S>;

    fn layer(&self, inner: S) -> Self::Service {
        FirstByteTimeout { inner, timeout: self.timeout }
    }
}

/// Fails a call with [`TimedOut`] if the head of its answer does not come in time.
///
/// The bound is the request's own [`FirstByte`], else the layer's. A GET has none of the layer's: some servers send the
/// head of a listening stream only with its first event. The body is not bounded, so a stream may last.
///
/// The clock is tokio's: outside a runtime there is no bound.
#[derive(Clone, Debug)]
pub struct FirstByteTimeout<S> {
    inner: S,
    timeout: Option<Duration>,
}

impl<S, B> Service<Request<B>> for FirstByteTimeout<S>
where
    S: Service<Request<B>>,
    S::Error: Into<BoxError>,
{
    type Response = S::Response;
    type Error = BoxError;
    type Future = ResponseFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let default = || self.timeout.map(|bound| FirstByte::by_default(bound, "first_byte_timeout"));
        let bound = match request.extensions().get::<FirstByte>() {
            Some(own) => Some(*own),
            None => default().filter(|_| *request.method() != Method::GET),
        };
        ResponseFuture { inner: self.inner.call(request), clock: None, bound }
    }
}

pin_project! {
    /// The response future of [`FirstByteTimeout`].
    #[derive(Debug)]
    #[must_use = "futures do nothing unless polled"]
    pub struct ResponseFuture<F> {
        #[pin]
        inner: F,
        #[pin]
        clock: Option<Sleep>,
        bound: Option<FirstByte>,
    }
}

impl<F, T, E> Future for ResponseFuture<F>
where
    F: Future<Output = Result<T, E>>,
    E: Into<BoxError>,
{
    type Output = Result<T, BoxError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        if let Poll::Ready(outcome) = this.inner.poll(cx) {
            return Poll::Ready(outcome.map_err(Into::into));
        }
        let Some(bound) = *this.bound else { return Poll::Pending };
        // Not before the first poll: until then nothing is sent, so nothing can be waited for. Outside a runtime the clock
        // would panic.
        if this.clock.is_none() && Handle::try_current().is_ok() {
            this.clock.set(Some(tokio::time::sleep(bound.bound())));
        }
        match this.clock.as_pin_mut().map(|clock| clock.poll(cx)) {
            Some(Poll::Ready(())) => {
                Poll::Ready(Err(TimedOut::new("the head of the answer", bound.knob(), bound.bound()).into()))
            }
            _ => Poll::Pending,
        }
    }
}
