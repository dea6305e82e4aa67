//! Tower layers for the *Streamable HTTP* transport of the Model Context Protocol (MCP), for clients.
//!
//! MCP clients reach remote servers by POSTing JSON-RPC messages to one URL, and are answered with JSON or with a
//! stream of Server-Sent Events. This crate is that transport in pieces, each a [`tower_layer::Layer`]. It has no HTTP
//! client: put the layers over any `Service<http::Request<Full<Bytes>>>`. The crate
//! [`mcp-streamable-http`](https://docs.rs/mcp-streamable-http) has them put together, with a client below.
//!
//! # The floors
//!
//! A layer's `where` clause tells on which floor it lives.
//!
//! | floor | a service of | layers |
//! |---|---|---|
//! | message | [`JsonRpcMessage`] → [`Reply`] | your own: limits, timeouts; [`UnaryLayer`], [`TraceLayer`], [`TraceContextLayer`], metrics; [`TranslateCancelLayer`], [`ReissueLayer`] |
//! | | | [`EnvelopeLayer`], the bridge |
//! | envelope | `http::Request<`[`Payload`]`>` → `http::Response<`[`Events`]`>` | tower's `Retry` with [`RetryPolicy`], [`ReinitializeLayer`], [`ResumeLayer`], [`SetSessionIdLayer`], [`StampVersionLayer`], [`MirrorHeadersLayer`] |
//! | | | [`SseLayer`], the bridge |
//! | wire | `http::Request<Full<Bytes>>` → `http::Response<impl Body>` | your own: all of tower-http; [`BearerLayer`], cookies |
//! | | | [`RedirectLayer`], [`FirstByteTimeoutLayer`], innermost |
//!
//! # Example
//!
//! The whole stack by hand, over a client that has no network:
//!
//! ```
//! use bytes::Bytes;
//! use http::{Request, Response};
//! use http_body_util::Full;
//! use mcp_streamable_http_layers::error::BoxError;
//! use mcp_streamable_http_layers::sse::Limits;
//! use mcp_streamable_http_layers::{
//!     Endpoint, EnvelopeLayer, JsonRpcMessage, MirrorHeadersLayer, Session, SetSessionIdLayer, SseLayer,
//!     StampVersionLayer,
//! };
//! use tower::{ServiceBuilder, ServiceExt, service_fn};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), mcp_streamable_http_layers::error::BoxError> {
//! let http = service_fn(|_: Request<Full<Bytes>>| async move {
//!     let stream = "data: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"tools\":[]}}\n\n";
//!     Ok::<_, BoxError>(Response::builder().header("content-type", "text/event-stream").body(Full::<Bytes>::from(stream))?)
//! });
//! let session = Session::new();
//! let service = ServiceBuilder::new()
//!     .layer(EnvelopeLayer::new(Endpoint::new("http://localhost/mcp".parse()?)?, session.clone()))
//!     .layer(SetSessionIdLayer::new(session.clone()))
//!     .layer(StampVersionLayer::new(session))
//!     .layer(MirrorHeadersLayer::new())
//!     .layer(SseLayer::new(Limits::default()))
//!     .service(http);
//!
//! let reply = service.oneshot(JsonRpcMessage::request(1, "tools/list", ())).await?;
//! let list: serde_json::Value = reply.response().await?.result()?;
//! assert_eq!(list["tools"].as_array().map(Vec::len), Some(0));
//! # Ok(())
//! # }
//! ```

mod backoff;
pub mod bearer;
pub mod cancellation;
#[cfg(feature = "cookies")]
pub mod cookies;
mod correlate;
mod drain;
mod endpoint;
pub mod envelope;
pub mod error;
mod event;
pub mod first_byte_timeout;
pub mod headers;
mod listening;
pub mod message;
#[cfg(feature = "metrics")]
pub mod metrics;
pub mod mirror_headers;
mod operation;
pub mod options;
mod payload;
pub mod probe;
pub mod protocol_version;
mod raw_json;
pub mod redirect;
mod refusable;
pub mod reinitialize;
pub mod reissue;
mod reply;
pub mod resume;
pub mod retry;
mod session;
pub mod session_id;
pub mod sse;
pub mod trace;
pub mod trace_context;
pub mod unary;
mod version;

pub use self::backoff::Backoff;
pub use self::bearer::{Bearer, BearerLayer};
pub use self::cancellation::{TranslateCancel, TranslateCancelLayer};
#[cfg(feature = "cookies")]
pub use self::cookies::{CookieLayer, Cookies};
pub use self::endpoint::Endpoint;
pub use self::envelope::{Envelope, EnvelopeLayer};
pub use self::error::Error;
pub use self::event::{Event, Events};
pub use self::first_byte_timeout::{FirstByteTimeout, FirstByteTimeoutLayer};
pub use self::listening::Listening;
pub use self::message::{
    JsonRpcError, JsonRpcMessage, JsonRpcNotification, JsonRpcRequest, JsonRpcResponse, Params, RequestId,
    ResultError,
};
#[cfg(feature = "metrics")]
pub use self::metrics::{Metrics, MetricsLayer};
pub use self::mirror_headers::{InvalidTool, MirrorHeaders, MirrorHeadersLayer, ToolHeaders};
pub use self::payload::{Expects, Payload};
pub use self::protocol_version::{StampVersion, StampVersionLayer};
pub use self::raw_json::RawJson;
pub use self::redirect::{Redirect, RedirectLayer};
pub use self::reinitialize::{Reinitialize, ReinitializeLayer, ReinitializePolicy};
pub use self::reissue::{Reissue, ReissueLayer};
pub use self::reply::Reply;
pub use self::resume::{Resume, ResumeLayer};
pub use self::retry::RetryPolicy;
pub use self::session::{SavedSession, Session, SessionStatus, SessionWatch};
pub use self::session_id::{SetSessionId, SetSessionIdLayer};
pub use self::sse::{Sse, SseLayer};
pub use self::trace::{Trace, TraceLayer};
pub use self::trace_context::{TraceContextLayer, WithTraceContext};
pub use self::unary::{Unary, UnaryLayer};
pub use self::version::{Era, InvalidProtocolVersion, ProtocolVersion};
