//! What was remembered of a server's era, forgotten when it turns out wrong.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use http::StatusCode;
use pin_project_lite::pin_project;
use tower_layer::Layer;
use tower_service::Service;

use super::{Probe, ProbeCache, is_answer, is_modern_error};
use crate::error::{BoxError, Error};
use crate::{Endpoint, JsonRpcMessage, Reply};

/// Applies [`ForgetEra`].
///
/// ```
/// use mcp_streamable_http_layers::Endpoint;
/// use mcp_streamable_http_layers::probe::{ForgetEraLayer, ProbeCache};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let layer = ForgetEraLayer::new(ProbeCache::new(), Endpoint::new("http://localhost/mcp".parse()?)?);
/// # let _ = layer;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct ForgetEraLayer {
    cache: ProbeCache,
    endpoint: Endpoint,
}

impl ForgetEraLayer {
    /// Watches over what `cache` says of the server at `endpoint`.
    pub fn new(cache: ProbeCache, endpoint: Endpoint) -> Self {
        Self { cache, endpoint }
    }
}

impl<S> Layer<S> for ForgetEraLayer {
    type Service = ForgetEra<S>;

    fn layer(&self, inner: S) -> Self::Service {
        ForgetEra { inner, layer: self.clone() }
    }
}

/// Forgets the era of a server when it acts as one of the other: when a legacy server refuses an `initialize`, and when a
/// modern one refuses a request in the way of a server that does not know the modern era (400, 404 or 405, without a JSON-RPC
/// error that a modern server gives). The next probe asks it again. It changes nothing else.
#[derive(Clone, Debug)]
pub struct ForgetEra<S> {
    inner: S,
    layer: ForgetEraLayer,
}

impl<S> Service<JsonRpcMessage> for ForgetEra<S>
where
    S: Service<JsonRpcMessage, Response = Reply>,
    S::Error: Into<BoxError>,
{
    type Response = Reply;
    type Error = Error;
    type Future = ResponseFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        self.inner.poll_ready(cx).map_err(Error::new)
    }

    fn call(&mut self, message: JsonRpcMessage) -> Self::Future {
        let is_initialize = message.is_initialize();
        // The probe itself settles what it finds.
        let is_request = message.as_request().is_some_and(|request| request.method() != "server/discover");
        let watching = is_request.then(|| self.layer.cache.get(&self.layer.endpoint)).flatten();
        let watching = watching.filter(|known| match known {
            Probe::Legacy => is_initialize,
            Probe::Modern { .. } => !is_initialize,
            Probe::Unknown => false,
        });
        ResponseFuture {
            call: self.inner.call(message),
            watching: watching.map(|_| self.layer.clone()),
            is_initialize,
        }
    }
}

pin_project! {
    /// The response future of [`ForgetEra`].
    #[derive(Debug)]
    #[must_use = "futures do nothing unless polled"]
    pub struct ResponseFuture<F> {
        #[pin]
        call: F,
        watching: Option<ForgetEraLayer>,
        is_initialize: bool,
    }
}

/// How servers of the other era refuse what they do not know.
fn is_refusal(status: StatusCode) -> bool {
    [400, 404, 405].contains(&status.as_u16())
}

impl<F, E> Future for ResponseFuture<F>
where
    F: Future<Output = Result<Reply, E>>,
    E: Into<BoxError>,
{
    type Output = Result<Reply, Error>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let outcome = ready!(this.call.poll(cx)).map_err(Error::new);
        let Some(ForgetEraLayer { cache, endpoint }) = this.watching.take() else {
            return Poll::Ready(outcome);
        };
        let is_initialize = *this.is_initialize;
        Poll::Ready(match outcome {
            Err(error) => {
                let is_refusal =
                    error.status().is_some_and(|status| [400, 404, 405].contains(&status.as_u16()));
                if is_answer(&error) && is_refusal {
                    cache.forget(&endpoint);
                }
                Err(error)
            }
            Ok(reply) if is_initialize => Ok(reply.map(move |item| {
                let is_refusal =
                    |message: &JsonRpcMessage| message.as_response().is_some_and(|r| r.outcome().is_err());
                if item.as_ref().is_ok_and(is_refusal) {
                    cache.forget(&endpoint);
                }
                item
            })),
            Ok(reply) => {
                let is_refusal = reply.head().is_some_and(|head| is_refusal(head.status));
                if is_refusal && reply.ready_error_code().is_some_and(|code| !is_modern_error(code)) {
                    cache.forget(&endpoint);
                }
                Ok(reply)
            }
        })
    }
}
