//! Authorize requests with a token that expires.
//!
//! For a token that never changes, tower-http's `AddAuthorization`, or a header of the builder's, is enough. This layer asks a
//! source for the token, and once more when the server refuses it.
//!
//! # Example
//!
//! ```
//! use bytes::Bytes;
//! use http::{Request, Response};
//! use http_body_util::Full;
//! use mcp_streamable_http_layers::BearerLayer;
//! use mcp_streamable_http_layers::error::BoxError;
//! use tower::{ServiceBuilder, ServiceExt, service_fn};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), mcp_streamable_http_layers::error::BoxError> {
//! // A server that takes the second token only.
//! let server = service_fn(|request: Request<Full<Bytes>>| async move {
//!     let status = if request.headers()["authorization"] == "Bearer token-2" { 200 } else { 401 };
//!     Ok::<_, BoxError>(Response::builder().status(status).body(Full::<Bytes>::default())?)
//! });
//! let source = |refusal: Option<mcp_streamable_http_layers::bearer::Refusal>| async move {
//!     Ok::<_, BoxError>(if refusal.is_some() { "token-2" } else { "token-1" }.to_owned())
//! };
//! let uri = "http://localhost/mcp";
//! let service = ServiceBuilder::new().layer(BearerLayer::new(&uri.parse()?, source)).service(server);
//!
//! let request = Request::post(uri).body(Full::default())?;
//! assert_eq!(service.oneshot(request).await?.status(), 200);
//! # Ok(())
//! # }
//! ```
//!
//! With less patience for the source:
//!
//! ```
//! use std::time::Duration;
//!
//! use mcp_streamable_http_layers::BearerLayer;
//! use mcp_streamable_http_layers::error::BoxError;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let source = |_| async { Ok::<_, BoxError>(std::env::var("TOKEN")?) };
//! let layer = BearerLayer::new(&"https://example.com/mcp".parse()?, source).timeout(Duration::from_secs(5));
//! # let _ = layer;
//! # Ok(())
//! # }
//! ```

mod future;
mod tokens;

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::header::AUTHORIZATION;
use http::uri::{Authority, Scheme};
use http::{HeaderValue, Request, Response, Uri};
use tower_layer::Layer;
use tower_service::Service;

pub use self::future::ResponseFuture;

use self::tokens::Tokens;
use crate::error::BoxError;

/// What a server refused, for the source of another token.
#[derive(Clone)]
#[non_exhaustive]
pub struct Refusal {
    /// Every `WWW-Authenticate` of the 401 (RFC 9110 §11.6.1), each marked sensitive.
    pub challenges: Vec<HeaderValue>,
}

impl fmt::Debug for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Refusal").field("challenges", &self.challenges.len()).finish()
    }
}

/// Applies [`Bearer`]: see the [module's documentation](self).
#[derive(Clone)]
pub struct BearerLayer {
    tokens: Arc<Tokens>,
    origin: Option<(Scheme, Authority)>,
}

impl BearerLayer {
    /// Sends the tokens of `source` to the origin of `uri`, and to no other.
    ///
    /// The source is called for the first token, with `None`, and for another when the server has refused one. It is called by
    /// one request at a time, and the others wait for what it says. If it fails, so do they, and nothing is sent.
    pub fn new<F, T, E>(uri: &Uri, source: F) -> Self
    where
        F: Fn(Option<Refusal>) -> T + Send + Sync + 'static,
        T: Future<Output = Result<String, E>> + Send + 'static,
        E: Into<BoxError>,
    {
        Self { tokens: Arc::new(Tokens::new(source)), origin: origin(uri) }
    }

    /// How long the source may take, the wait for others included; 30 s by default.
    #[must_use]
    pub fn timeout(self, timeout: Duration) -> Self {
        Self { tokens: Arc::new(self.tokens.with_timeout(timeout)), ..self }
    }
}

impl<S: Clone> Layer<S> for BearerLayer {
    type Service = Bearer<S>;

    fn layer(&self, inner: S) -> Self::Service {
        Bearer { again: Arc::new(inner.clone()), inner, layer: self.clone() }
    }
}

/// Sets `authorization: Bearer …` (RFC 6750 §2.1) on the requests to one origin.
///
/// When the answer is 401, the source is asked for another token, with every challenge, and the request is sent once more: a
/// server that refuses a request has not acted on it. If several are refused at a time the source is asked once. A second 401
/// is the answer. 403 is the answer at once: no other token of the same kind would do.
///
/// It lives on the wire floor, so it sees every POST, GET and DELETE. It belongs outside of [`Redirect`](crate::Redirect), as
/// the builder of the transport puts it: then it never meets another origin, and if it does, it sends no token there.
/// A request that has an `authorization` already is left as it is.
#[derive(Clone)]
pub struct Bearer<S> {
    inner: S,
    /// Shared, as most calls have no use for it.
    again: Arc<S>,
    layer: BearerLayer,
}

impl<S, B, R> Service<Request<B>> for Bearer<S>
where
    S: Service<Request<B>, Response = Response<R>> + Clone + Send + Sync + 'static,
    S::Error: Into<BoxError>,
    S::Future: Send + 'static,
    B: Clone + Send + 'static,
    R: Send + 'static,
{
    type Response = Response<R>;
    type Error = BoxError;
    type Future = ResponseFuture<S::Future, B, R, S>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        let is_ours =
            origin(request.uri()) == self.layer.origin && !request.headers().contains_key(AUTHORIZATION);
        if !is_ours {
            return ResponseFuture::passed(self.inner.call(request));
        }
        let (again, tokens) = (self.again.clone(), self.layer.tokens.clone());
        match tokens.current() {
            Some(token) => {
                let copy = request.clone();
                request.headers_mut().insert(AUTHORIZATION, token.header());
                ResponseFuture::called(self.inner.call(request), again, tokens, copy, token)
            }
            None => {
                let clone = self.inner.clone();
                let ready = std::mem::replace(&mut self.inner, clone);
                ResponseFuture::first(ready, again, tokens, request)
            }
        }
    }
}

/// RFC 6454 §4.
fn origin(uri: &Uri) -> Option<(Scheme, Authority)> {
    let (scheme, host) = (uri.scheme()?, uri.host()?);
    let default = if *scheme == Scheme::HTTPS { 443 } else { 80 };
    let port = uri.port_u16().unwrap_or(default);
    let authority = format!("{}:{port}", host.to_ascii_lowercase()).parse().ok()?;
    Some((scheme.clone(), authority))
}

impl fmt::Debug for BearerLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BearerLayer").field("origin", &self.origin).finish_non_exhaustive()
    }
}

impl<S: fmt::Debug> fmt::Debug for Bearer<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bearer")
            .field("inner", &self.inner)
            .field("layer", &self.layer)
            .finish_non_exhaustive()
    }
}
