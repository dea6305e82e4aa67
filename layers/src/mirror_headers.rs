//! Mirror parts of a modern message in headers, so that gateways can route it without reading the body.
//!
//! `Mcp-Method` goes with every POST of the modern era, `Mcp-Name` with the methods that have a name (MCP 2026-07-28
//! §Standard Request Headers). A name that cannot stand in a header is sent in the base64 form of §Value Encoding. In
//! the legacy era nothing is added.
//!
//! # Example
//!
//! ```
//! use http::{Request, Response};
//! use mcp_streamable_http_layers::error::BoxError;
//! use mcp_streamable_http_layers::{
//!     Endpoint, Events, JsonRpcMessage, MirrorHeadersLayer, Payload, Session, StampVersionLayer,
//! };
//! use serde_json::json;
//! use tower::{ServiceBuilder, ServiceExt, service_fn};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), mcp_streamable_http_layers::error::BoxError> {
//! let server = service_fn(|request: Request<Payload>| async move {
//!     assert_eq!(request.headers()["mcp-method"], "tools/call");
//!     assert_eq!(request.headers()["mcp-name"], "=?base64?Z3LDvMOfZQ==?=");
//!     Ok::<_, BoxError>(Response::new(Events::EMPTY))
//! });
//! // The version that tells the eras apart is stamped first.
//! let service = ServiceBuilder::new()
//!     .layer(StampVersionLayer::new(Session::new()))
//!     .layer(MirrorHeadersLayer::new())
//!     .service(server);
//!
//! let meta = json!({ "io.modelcontextprotocol/protocolVersion": "2026-07-28" });
//! let call = JsonRpcMessage::request(1, "tools/call", json!({ "name": "grüße", "_meta": meta }));
//! let endpoint = Endpoint::new("http://localhost/mcp".parse()?)?;
//! let _ = service.oneshot(endpoint.post(call)).await?;
//! # Ok(())
//! # }
//! ```

use std::task::{Context, Poll};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytestring::ByteString;
use http::header::{Entry, HeaderValue, InvalidHeaderValue};
use http::{HeaderMap, HeaderName, Request};
use tower_layer::Layer;
use tower_service::Service;

pub use crate::refusable::ResponseFuture;

use crate::error::{BoxError, InvalidMessage};
use crate::headers::{MCP_METHOD, MCP_NAME, MCP_PROTOCOL_VERSION};
use crate::{Era, JsonRpcRequest, Payload, ProtocolVersion};

/// Applies [`MirrorHeaders`]: see the [module's documentation](self).
#[derive(Clone, Debug, Default)]
pub struct MirrorHeadersLayer(());

impl MirrorHeadersLayer {
    /// Mirrors method and name.
    pub fn new() -> Self {
        Self(())
    }
}

impl<S> Layer<S> for MirrorHeadersLayer {
    type Service = MirrorHeaders<S>;

    fn layer(&self, inner: S) -> Self::Service {
        MirrorHeaders { inner }
    }
}

/// Sets `mcp-method` and `mcp-name` on the POSTs of the modern era.
///
/// It tells the era by the `mcp-protocol-version` of the request, so [`StampVersion`](crate::StampVersion) belongs
/// outside of it. A header that the caller has set stays. A call fails with [`InvalidMessage`] if its method's name
/// cannot stand in a header: there is no encoded form for that one.
#[derive(Clone, Debug)]
pub struct MirrorHeaders<S> {
    inner: S,
}

impl<S> Service<Request<Payload>> for MirrorHeaders<S>
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
        match mirror(&mut request) {
            Ok(()) => ResponseFuture::called(self.inner.call(request)),
            Err(error) => ResponseFuture::refused(error),
        }
    }
}

fn mirror(request: &mut Request<Payload>) -> Result<(), InvalidMessage> {
    let version = request.headers().get(MCP_PROTOCOL_VERSION).map(ProtocolVersion::from_header);
    if !matches!(version, Some(Ok(version)) if version.era() == Era::Modern) {
        return Ok(());
    }
    let Some(message) = request.body().message() else { return Ok(()) };
    let method = message.method_text().cloned();
    let name = message.as_request().and_then(JsonRpcRequest::mirrored_name).cloned();
    if let Some(method) = method {
        if !is_plain(&method) {
            return Err(InvalidMessage::new(format!("the method {method:?} cannot stand in a header")));
        }
        set(request.headers_mut(), MCP_METHOD, || HeaderValue::from_maybe_shared(method.into_bytes()))?;
    }
    if let Some(name) = name {
        set(request.headers_mut(), MCP_NAME, || {
            // A resource's URI can have a token in its query.
            encode(name).map(|mut value| {
                value.set_sensitive(true);
                value
            })
        })?;
    }
    Ok(())
}

fn set(
    headers: &mut HeaderMap,
    name: HeaderName,
    value: impl FnOnce() -> Result<HeaderValue, InvalidHeaderValue>,
) -> Result<(), InvalidMessage> {
    if let Entry::Vacant(entry) = headers.entry(&name) {
        let value =
            value().map_err(|_| InvalidMessage::new(format!("`{name}` cannot be sent in a header")))?;
        entry.insert(value);
    }
    Ok(())
}

/// MCP 2026-07-28 §Value Encoding: the value itself if it can stand in a header, else its base64 form. What looks
/// like that form is encoded too.
fn encode(value: ByteString) -> Result<HeaderValue, InvalidHeaderValue> {
    if is_plain(&value) && !(value.starts_with("=?base64?") && value.ends_with("?=")) {
        HeaderValue::from_maybe_shared(value.into_bytes())
    } else {
        HeaderValue::from_maybe_shared(bytes::Bytes::from(format!("=?base64?{}?=", STANDARD.encode(&*value))))
    }
}

/// Visible ASCII and spaces, and none of these at the ends, where a header loses them. A tab would be allowed, but
/// proxies are known to change it.
fn is_plain(value: &str) -> bool {
    value.bytes().all(|byte| matches!(byte, b' '..=b'~')) && !value.starts_with(' ') && !value.ends_with(' ')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_encoded_as_the_specification_shows() {
        for (value, header) in [
            ("us-west1", "us-west1"),
            ("Hello, 世界", "=?base64?SGVsbG8sIOS4lueVjA==?="),
            (" padded ", "=?base64?IHBhZGRlZCA=?="),
            ("line1\nline2", "=?base64?bGluZTEKbGluZTI=?="),
            ("=?base64?literal?=", "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?="),
            ("a\tb", "=?base64?YQli?="),
            ("two words", "two words"),
            ("=?base64?open", "=?base64?open"),
            ("=?BASE64?x?=", "=?BASE64?x?="),
            ("", ""),
        ] {
            assert_eq!(encode(value.into()).unwrap(), header, "{value:?}");
        }
    }
}
