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

mod encode;
mod future;
mod learn;
mod schema;
mod tools;

use std::task::{Context, Poll};

use bytestring::ByteString;
use http::header::{Entry, HeaderValue, InvalidHeaderValue};
use http::{HeaderMap, HeaderName, Request, Response};
use tower_layer::Layer;
use tower_service::Service;

pub use self::future::ResponseFuture;
pub(crate) use self::schema::Parameter;
pub use self::tools::{InvalidTool, ToolHeaders};

use self::encode::{encode, integer, is_plain};
use crate::error::{BoxError, InvalidMessage};
use crate::headers::{MCP_METHOD, MCP_NAME, MCP_PROTOCOL_VERSION, value_of};
use crate::{Era, Events, JsonRpcMessage, JsonRpcRequest, Payload, ProtocolVersion, RawJson};

/// Applies [`MirrorHeaders`]: see the [module's documentation](self).
#[derive(Clone, Debug, Default)]
pub struct MirrorHeadersLayer {
    tools: ToolHeaders,
}

impl MirrorHeadersLayer {
    /// Mirrors method and name, and the arguments of tools as it learns of them.
    pub fn new() -> Self {
        Self::default()
    }

    /// Knows what `tools` knows, and adds to it.
    #[must_use]
    pub fn tools(self, tools: ToolHeaders) -> Self {
        Self { tools }
    }
}

impl<S> Layer<S> for MirrorHeadersLayer {
    type Service = MirrorHeaders<S>;

    fn layer(&self, inner: S) -> Self::Service {
        MirrorHeaders { inner, tools: self.tools.clone() }
    }
}

/// Sets `mcp-method`, `mcp-name` and `mcp-param-*` on the POSTs of the modern era.
///
/// `mcp-param-*` repeats the arguments of a tool that its definition annotates with `x-mcp-header`, as far as
/// [`ToolHeaders`] knows of it: strings as they are, integers in digits, `true` and `false`. An argument that is `null` or
/// not there has no header.
///
/// From the answers to `tools/list` it learns, and takes out tools whose annotations break the rules of the specification,
/// with a warning in the log; all else in the answer stays as it is.
///
/// It tells the era by the `mcp-protocol-version` of the request, so [`StampVersion`](crate::StampVersion) belongs
/// outside of it. A header that the caller has set stays. A call fails with [`InvalidMessage`], and nothing is sent, if its
/// method's name cannot stand in a header, for which there is no encoded form, or if an annotated argument is none of
/// string, boolean and integer within ±(2⁵³−1).
#[derive(Clone, Debug)]
pub struct MirrorHeaders<S> {
    inner: S,
    tools: ToolHeaders,
}

impl<S> Service<Request<Payload>> for MirrorHeaders<S>
where
    S: Service<Request<Payload>, Response = Response<Events>>,
    S::Error: Into<BoxError>,
{
    type Response = Response<Events>;
    type Error = BoxError;
    type Future = ResponseFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, mut request: Request<Payload>) -> Self::Future {
        match mirror(&mut request, &self.tools) {
            Ok(false) => ResponseFuture::called(self.inner.call(request)),
            Ok(true) => {
                let cursor = request.body().message().and_then(cursor);
                ResponseFuture::listing(self.inner.call(request), self.tools.clone(), cursor)
            }
            Err(error) => ResponseFuture::refused(error),
        }
    }
}

/// Which page of a listing a request asks for.
fn cursor(message: &JsonRpcMessage) -> Option<String> {
    #[derive(Default)]
    struct Cursor(Option<String>);
    let mut cursor = Cursor::default();
    crate::raw_json::members(message.params()?.as_str(), |name, value| {
        if name == "cursor" {
            cursor.0 = serde_json::from_str(value).ok();
        }
    })
    .ok()?;
    cursor.0
}

/// Returns whether the request lists tools.
fn mirror(request: &mut Request<Payload>, tools: &ToolHeaders) -> Result<bool, InvalidMessage> {
    let version = value_of(request.headers(), &MCP_PROTOCOL_VERSION).map(ProtocolVersion::from_header);
    if !matches!(version, Some(Ok(version)) if version.era() == Era::Modern) {
        return Ok(false);
    }
    let Some(message) = request.body().message() else { return Ok(false) };
    let method = message.method_text().cloned();
    let name = message.as_request().and_then(JsonRpcRequest::mirrored_name).cloned();
    let is_listing = message.as_request().is_some() && method.as_deref() == Some("tools/list");
    if method.as_deref() == Some("tools/call") {
        let headers =
            message.as_request().map(|call| parameter_headers(call, request.headers(), tools)).transpose()?;
        for (name, value) in headers.unwrap_or_default() {
            set(request.headers_mut(), name, || Ok(value))?;
        }
    }
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
    Ok(is_listing)
}

/// The headers of a call's arguments, as far as they are known, and not among the caller's `own`.
pub(crate) fn parameter_headers(
    call: &JsonRpcRequest,
    own: &HeaderMap,
    tools: &ToolHeaders,
) -> Result<Vec<(HeaderName, HeaderValue)>, InvalidMessage> {
    let parameters = call.mirrored_name().and_then(|name| tools.of(name));
    parameters.map_or(Ok(Vec::new()), |parameters| mirrored(call, own, &parameters))
}

/// The headers of a call's arguments.
pub(crate) fn mirrored(
    call: &JsonRpcRequest,
    own: &HeaderMap,
    parameters: &[Parameter],
) -> Result<Vec<(HeaderName, HeaderValue)>, InvalidMessage> {
    // What the caller sets itself is not looked at.
    let parameters: Vec<_> =
        parameters.iter().filter(|parameter| !own.contains_key(&parameter.header)).collect();
    let paths: Vec<_> = parameters.iter().map(|parameter| &*parameter.path).collect();
    let values = call.arguments(&paths).into_iter();
    parameters
        .iter()
        .zip(values)
        .filter_map(|(parameter, value)| header(parameter, value?).transpose())
        .collect()
}

/// The header of one argument. `None`: it is `null`.
fn header(
    parameter: &Parameter,
    value: ByteString,
) -> Result<Option<(HeaderName, HeaderValue)>, InvalidMessage> {
    let text = match value.as_bytes().first() {
        Some(b'n') => return Ok(None),
        Some(b't' | b'f') => Some(value),
        Some(b'"') => RawJson::from_text(value).as_string(),
        Some(b'-' | b'0'..=b'9') => integer(value),
        _ => None,
    };
    match text.and_then(|text| encode(text).ok()) {
        Some(mut value) => {
            value.set_sensitive(true);
            Ok(Some((parameter.header.clone(), value)))
        }
        None => Err(InvalidMessage::new(format!(
            "its argument `{}` cannot be sent in the header `{}`",
            parameter.path.join("."),
            parameter.header
        ))),
    }
}

fn set(
    headers: &mut HeaderMap,
    name: HeaderName,
    value: impl FnOnce() -> Result<HeaderValue, InvalidHeaderValue>,
) -> Result<(), InvalidMessage> {
    let too_many = || InvalidMessage::new("it has more headers than can be sent");
    if let Entry::Vacant(entry) = headers.try_entry(&name).map_err(|_| too_many())? {
        let value =
            value().map_err(|_| InvalidMessage::new(format!("`{name}` cannot be sent in a header")))?;
        entry.try_insert(value).map_err(|_| too_many())?;
    }
    Ok(())
}
