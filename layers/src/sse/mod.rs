//! From HTTP bodies to messages and back: JSON, Server-Sent Events, and whatever else a server may answer.
//!
//! [`SseLayer`] is the bridge between the envelope floor and the wire floor. Below it is plain HTTP, so any client and
//! any HTTP middleware fits.
//!
//! # Example
//!
//! ```
//! use bytes::Bytes;
//! use http::{Request, Response};
//! use http_body_util::Full;
//! use mcp_streamable_http_layers::error::BoxError;
//! use mcp_streamable_http_layers::{Endpoint, JsonRpcMessage, SseLayer};
//! use mcp_streamable_http_layers::sse::Limits;
//! use tower::{ServiceBuilder, ServiceExt, service_fn};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), mcp_streamable_http_layers::error::BoxError> {
//! // Any HTTP client will do; this one has no network.
//! let http = service_fn(|request: Request<Full<Bytes>>| async move {
//!     assert_eq!(request.headers()["accept"], "application/json, text/event-stream");
//!     let body = Full::<Bytes>::from(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#);
//!     Ok::<_, BoxError>(Response::builder().header("content-type", "application/json").body(body)?)
//! });
//! let service = ServiceBuilder::new().layer(SseLayer::new(Limits::default())).service(http);
//!
//! let endpoint = Endpoint::new("http://localhost/mcp".parse()?)?;
//! let response = service.oneshot(endpoint.post(JsonRpcMessage::request(1, "ping", ()))).await?;
//! assert_eq!(response.body().ready().map(<[_]>::len), Some(1));
//! # Ok(())
//! # }
//! ```
//!
//! With limits of one's own:
//!
//! ```
//! use mcp_streamable_http_layers::SseLayer;
//! use mcp_streamable_http_layers::sse::Limits;
//!
//! let layer = SseLayer::new(Limits::default().max_event_bytes(64 << 10).max_json_bytes(1 << 20));
//! # let _ = layer;
//! ```

mod answer;
mod clock;
mod collect;
mod decoder;
mod future;
mod limits;
mod stream;

use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, HeaderValue};
use http::{Method, Request, Response};
use http_body::Body;
use http_body_util::Full;
use tower_layer::Layer;
use tower_service::Service;

pub use self::decoder::{Decoder, EventTooLarge, Frame};
pub use self::future::ResponseFuture;
pub use self::limits::Limits;

use self::answer::Exchange;
use crate::error::BoxError;
use crate::options::FirstByte;
use crate::{Events, Expects, Payload};

/// Applies [`Sse`]: see the [module's documentation](self).
#[derive(Clone, Debug, Default)]
pub struct SseLayer {
    limits: Arc<Limits>,
}

impl SseLayer {
    /// Reads answers within `limits`.
    pub fn new(limits: Limits) -> Self {
        Self { limits: Arc::new(limits) }
    }
}

impl<S> Layer<S> for SseLayer {
    type Service = Sse<S>;

    fn layer(&self, inner: S) -> Self::Service {
        Sse { inner, limits: self.limits.clone() }
    }
}

/// Makes an envelope service of an HTTP client.
///
/// It writes the message of a request into the body, with `content-type` and `accept` (MCP 2025-11-25 §Sending
/// Messages to the Server, rule 2), and reads the answer:
///
/// | answer to a request | events |
/// |---|---|
/// | success, `application/json` | the messages in it, all [ready](Events::ready) |
/// | success, `text/event-stream` | a stream, which ends with the response |
/// | 202, 204, 205, any other content, JSON without a response | one error |
/// | 401 or 403 with `WWW-Authenticate` | one error, with every challenge |
/// | any other status, a JSON-RPC error in the body | that error, as the response |
/// | any other status | one error |
///
/// To a notification or a response any success is acceptance: nothing, whatever the body says. To a GET, the listening
/// stream, a success of the type `text/event-stream` is a stream that goes on after responses and after what cannot be
/// read; any other success, and 4xx but for 408, 409, 429 and a challenge, is
/// [`NotOffered`](crate::error::NotOffered). Any other status is one error.
///
/// A status never makes the call fail: the head of the answer is always returned, so that other layers can decide. A
/// response gets the id of its request; the one it had on the wire, if it differed, is kept as
/// [`WireId`](crate::options::WireId). In the modern era requests of the server's are dropped with a warning.
///
/// Every body is read within [`Limits`]. When a response has arrived, what follows is read on, in the background and
/// for at most [`Limits::drain_timeout`], so that the connection can be used again; this needs a tokio runtime at the
/// time of the call, and without one the body is dropped instead.
#[derive(Clone, Debug)]
pub struct Sse<S> {
    inner: S,
    limits: Arc<Limits>,
}

impl<S, B> Service<Request<Payload>> for Sse<S>
where
    S: Service<Request<Full<Bytes>>, Response = Response<B>>,
    S::Error: Into<BoxError>,
    B: Body + Send + 'static,
    B::Error: Into<BoxError>,
{
    type Response = Response<Events>;
    type Error = BoxError;
    type Future = ResponseFuture<S::Future, B>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, mut request: Request<Payload>) -> Self::Future {
        let exchange = Exchange::of(&request, self.limits.clone());
        // Whoever sends a DELETE has a bound of its own for it.
        let bound = self.limits.acceptance_timeout.filter(|_| *request.method() != Method::DELETE);
        if let (Expects::Acceptance, Some(bound)) = (&exchange.expects, bound) {
            if request.extensions().get::<FirstByte>().is_none() {
                request.extensions_mut().insert(FirstByte::by_default(bound, "acceptance_timeout"));
            }
        }
        // Ours replace the caller's: an answer of another type could not be read.
        if request.body().message().is_some() {
            let headers = request.headers_mut();
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
            headers.insert(ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
        } else if request.method() == Method::GET {
            request.headers_mut().insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
        }
        let request = request.map(|payload| match payload.message() {
            Some(message) => Full::new(message.encode()),
            None => Full::default(),
        });
        ResponseFuture::new(self.inner.call(request), exchange)
    }
}
