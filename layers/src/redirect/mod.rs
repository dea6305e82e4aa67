//! Follow redirects that keep to the server, and no others.
//!
//! # Example
//!
//! ```
//! use bytes::Bytes;
//! use http::{Request, Response};
//! use http_body_util::Full;
//! use mcp_streamable_http_layers::RedirectLayer;
//! use mcp_streamable_http_layers::error::BoxError;
//! use tower::{ServiceBuilder, ServiceExt, service_fn};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), BoxError> {
//! // Many servers send a client away that leaves out a slash.
//! let http = service_fn(|request: Request<Full<Bytes>>| async move {
//!     let response = match request.uri().path() {
//!         "/mcp/" => Response::builder().status(202),
//!         _ => Response::builder().status(307).header("location", "/mcp/"),
//!     };
//!     Ok::<_, BoxError>(response.body(Full::<Bytes>::default())?)
//! });
//! let http = ServiceBuilder::new().layer(RedirectLayer::new()).service(http);
//!
//! let response = http.oneshot(Request::post("https://example.com/mcp").body(Full::default())?).await?;
//! assert_eq!(response.status(), 202);
//! # Ok(())
//! # }
//! ```
//!
//! With a bound of one's own; zero follows none:
//!
//! ```
//! use mcp_streamable_http_layers::RedirectLayer;
//!
//! let layer = RedirectLayer::new().max_redirects(3);
//! # let _ = layer;
//! ```

mod future;
mod location;
mod repeat;

use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use http_body_util::Full;
use tower_layer::Layer;
use tower_service::Service;

pub use self::future::ResponseFuture;

use self::repeat::Repeat;

/// Applies [`Redirect`]: see the [module's documentation](self).
#[derive(Clone, Copy, Debug)]
pub struct RedirectLayer {
    max_redirects: usize,
}

impl Default for RedirectLayer {
    fn default() -> Self {
        Self { max_redirects: 10 }
    }
}

impl RedirectLayer {
    /// Follows up to ten redirects of one request.
    pub fn new() -> Self {
        Self::default()
    }

    /// How many redirects of one request are followed; 10 by default.
    pub fn max_redirects(self, redirects: usize) -> Self {
        Self { max_redirects: redirects }
    }
}

impl<S> Layer<S> for RedirectLayer {
    type Service = Redirect<S>;

    fn layer(&self, inner: S) -> Self::Service {
        Redirect { inner, max_redirects: self.max_redirects }
    }
}

/// Sends a request again where the server redirects it to.
///
/// - A POST or DELETE follows 307 and 308, a GET any redirect; method, headers and body stay what they were.
/// - It keeps to the origin (scheme, host and port), since the headers can hold a token. The only way out is from
///   `http` to `https` on the same host, both on their default ports.
/// - Every request begins at its own URL: nothing is remembered.
///
/// Any other redirect, and one too many, is returned as it is; [`Sse`](crate::Sse) makes it an error that names the
/// target. Put this layer below those that add credentials: it repeats what they added, and they never see a target.
#[derive(Clone, Debug)]
pub struct Redirect<S> {
    inner: S,
    max_redirects: usize,
}

impl<S, B> Service<Request<Full<Bytes>>> for Redirect<S>
where
    S: Service<Request<Full<Bytes>>, Response = Response<B>> + Clone,
    B: Body + Send + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = ResponseFuture<S>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<Full<Bytes>>) -> Self::Future {
        // The clone is not ready; the one that is takes the call.
        let clone = self.inner.clone();
        let mut inner = std::mem::replace(&mut self.inner, clone);
        let repeat = (self.max_redirects > 0).then(|| Repeat::of(&request));
        let call = inner.call(request);
        ResponseFuture::new(call, inner, repeat, self.max_redirects)
    }
}
