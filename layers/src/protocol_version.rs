//! Stamp every request with the protocol version that it is sent under.
//!
//! # Example
//!
//! ```
//! use http::{Request, Response};
//! use mcp_streamable_http_layers::error::BoxError;
//! use mcp_streamable_http_layers::{Endpoint, Events, JsonRpcMessage, Payload, Session, StampVersionLayer};
//! use serde_json::json;
//! use tower::{ServiceBuilder, ServiceExt, service_fn};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), mcp_streamable_http_layers::error::BoxError> {
//! let server = service_fn(|request: Request<Payload>| async move {
//!     assert_eq!(request.headers()["mcp-protocol-version"], "2026-07-28");
//!     Ok::<_, BoxError>(Response::new(Events::EMPTY))
//! });
//! let service = ServiceBuilder::new().layer(StampVersionLayer::new(Session::new())).service(server);
//!
//! let meta = json!({ "_meta": { "io.modelcontextprotocol/protocolVersion": "2026-07-28" } });
//! let endpoint = Endpoint::new("http://localhost/mcp".parse()?)?;
//! let _ = service.oneshot(endpoint.post(JsonRpcMessage::request(1, "tools/list", meta))).await?;
//! # Ok(())
//! # }
//! ```

use std::task::{Context, Poll};

use http::Request;
use tower_layer::Layer;
use tower_service::Service;

pub use crate::refusable::ResponseFuture;

use crate::error::BoxError;
use crate::headers::MCP_PROTOCOL_VERSION;
use crate::{Era, Payload, Session};

/// How many headers follow the version in the modern era.
const ADDED_BELOW: usize = 8;

/// Applies [`StampVersion`]: see the [module's documentation](self).
#[derive(Clone, Debug)]
pub struct StampVersionLayer {
    session: Session,
}

impl StampVersionLayer {
    /// Reads the connection's version from `session`.
    pub fn new(session: Session) -> Self {
        Self { session }
    }
}

impl<S> Layer<S> for StampVersionLayer {
    type Service = StampVersion<S>;

    fn layer(&self, inner: S) -> Self::Service {
        StampVersion { inner, session: self.session.clone() }
    }
}

/// Sets `mcp-protocol-version` (MCP 2025-06-18 §Protocol Version Header, MCP 2026-07-28 §Protocol Version Header).
///
/// The version is that of the caller's own header, else of the message's `_meta`, else the connection's: the one that
/// `initialize` negotiated, or that the last message which named one was sent with. With none of these, and on an
/// `initialize`, there is no header. This layer only reads the connection's version, it never changes it.
///
/// Version and session id of a request belong together: one that carries the id of a session that is no longer the
/// connection's is refused with [`SessionExpired`](crate::error::SessionExpired).
#[derive(Clone, Debug)]
pub struct StampVersion<S> {
    inner: S,
    session: Session,
}

impl<S> Service<Request<Payload>> for StampVersion<S>
where
    S: Service<Request<Payload>>,
    S::Error: Into<BoxError>,
{
    type Response = S::Response;
    type Error = BoxError;
    type Future = ResponseFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, mut request: Request<Payload>) -> Self::Future {
        let version = match self.session.stamp(&request) {
            Ok(version) => version,
            Err(error) => return ResponseFuture::refused(error),
        };
        if let Some(version) = version {
            if version.era() == Era::Modern {
                // A map that grows on the way is hashed anew: this one gets the method and perhaps a name, and what the
                // client adds.
                let _ = request.headers_mut().try_reserve(ADDED_BELOW);
            }
            request.headers_mut().insert(MCP_PROTOCOL_VERSION, version.to_header());
        }
        ResponseFuture::called(self.inner.call(request))
    }
}
