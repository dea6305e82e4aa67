//! JSON-RPC 2.0 messages, as MCP uses them.
//!
//! A message is an envelope (kind, id, method) around payloads that stay JSON text ([`RawJson`]). Encoding writes
//! that text once; decoding reads the envelope once and slices the payload out of the bytes that arrived.
//!
//! ```
//! use mcp_streamable_http_layers::JsonRpcMessage;
//! use serde_json::json;
//!
//! let call = JsonRpcMessage::request(1, "tools/call", json!({ "name": "add", "arguments": { "a": 1 } }));
//! assert_eq!(
//!     call.to_string(),
//!     r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"arguments":{"a":1},"name":"add"}}"#,
//! );
//!
//! let answer = JsonRpcMessage::decode(r#"{"jsonrpc":"2.0","id":1,"result":{"sum":1.50}}"#)?;
//! assert_eq!(answer.id(), call.id());
//! # Ok::<(), mcp_streamable_http_layers::error::Undecodable>(())
//! ```

mod arguments;
mod codec;
mod error_object;
mod facts;
mod id;
mod notification;
mod response;

use std::borrow::Cow;
use std::fmt;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use bytestring::ByteString;
use http::Extensions;
use serde_json::Value;

pub use self::error_object::JsonRpcError;
pub use self::id::RequestId;
pub use self::response::{JsonRpcResponse, ResultError};

pub(crate) use self::codec::{Batch, Decoded};
use self::facts::Facts;
use crate::error::Undecodable;
use crate::version::InvalidProtocolVersion;
use crate::{ProtocolVersion, RawJson};

/// One JSON-RPC message.
///
/// Cloning is cheap: payloads are shared. Equality compares what travels, not the options in
/// [`extensions`](Self::extensions).
#[derive(Clone, Debug, PartialEq)]
pub enum JsonRpcMessage {
    /// A call that wants an answer.
    Request(JsonRpcRequest),
    /// A message that wants none.
    Notification(JsonRpcNotification),
    /// The answer to a request: a result or an error.
    Response(JsonRpcResponse),
}

/// A call that wants an answer.
#[derive(Clone)]
pub struct JsonRpcRequest {
    /// Shared by clones: whoever may have to send a request again keeps one.
    call: Arc<Call>,
    extensions: Extensions,
}

/// What travels of a request, and what is known of it.
#[derive(Clone)]
struct Call {
    id: RequestId,
    method: ByteString,
    params: Option<RawJson>,
    facts: OnceLock<Facts>,
}

/// A message that wants no answer.
#[derive(Clone)]
pub struct JsonRpcNotification {
    method: ByteString,
    params: Option<RawJson>,
    extensions: Extensions,
}

/// The `params` of a message that is being made: from `json!({..})`, from a [`RawJson`], or `()` for none.
///
/// JSON-RPC 2.0 §4.2 allows an object or an array, MCP an object; this is not checked here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Params(Option<RawJson>);

impl From<()> for Params {
    fn from((): ()) -> Self {
        Self(None)
    }
}

impl From<Value> for Params {
    /// `Value::Null` is no `params` at all.
    fn from(value: Value) -> Self {
        Self((!value.is_null()).then(|| value.into()))
    }
}

impl From<RawJson> for Params {
    fn from(raw: RawJson) -> Self {
        Self(Some(raw))
    }
}

impl From<Option<RawJson>> for Params {
    fn from(raw: Option<RawJson>) -> Self {
        Self(raw)
    }
}

impl JsonRpcRequest {
    /// A request. Give each a fresh id: MCP forbids using one twice in a session.
    pub fn new(
        id: impl Into<RequestId>,
        method: impl Into<Cow<'static, str>>,
        params: impl Into<Params>,
    ) -> Self {
        Self::of(id.into(), text(method.into()), params.into().0)
    }

    fn of(id: RequestId, method: ByteString, params: Option<RawJson>) -> Self {
        let call = Arc::new(Call { id, method, params, facts: OnceLock::new() });
        Self { call, extensions: Extensions::new() }
    }

    /// The id that the response will carry.
    pub fn id(&self) -> &RequestId {
        &self.call.id
    }

    /// The method's name, such as `tools/call`.
    pub fn method(&self) -> &str {
        &self.call.method
    }

    /// The parameters, if there are any.
    pub fn params(&self) -> Option<&RawJson> {
        self.call.params.as_ref()
    }

    /// The options that travel with this message inside the process: see [`options`](crate::options).
    pub fn extensions(&self) -> &Extensions {
        &self.extensions
    }

    /// The options, to be changed.
    pub fn extensions_mut(&mut self) -> &mut Extensions {
        &mut self.extensions
    }

    /// The version that the request itself names, in `_meta["io.modelcontextprotocol/protocolVersion"]`
    /// (MCP 2026-07-28 §Protocol Version Header). `None`: it names none, as in the legacy era.
    ///
    /// # Errors
    /// What it names cannot be the value of a header.
    pub fn protocol_version(&self) -> Result<Option<&ProtocolVersion>, InvalidProtocolVersion> {
        self.facts().version.as_ref().map_err(|error| *error).map(Option::as_ref)
    }

    /// What `Mcp-Name` mirrors: the name, URI or task id in the `params` of a method that has one.
    pub(crate) fn mirrored_name(&self) -> Option<&ByteString> {
        self.facts().name.as_ref()
    }

    /// The same request under another id.
    pub(crate) fn under(self, id: RequestId) -> Self {
        let mut call = Arc::unwrap_or_clone(self.call);
        call.id = id;
        Self { call: Arc::new(call), ..self }
    }

    /// Whether the answer is to be a task (MCP 2025-11-25 §Tasks), which is then cancelled by other means.
    pub(crate) fn is_task(&self) -> bool {
        self.facts().task
    }

    /// The texts of the arguments of a tool call at `paths`.
    pub(crate) fn arguments(&self, paths: &[&[Box<str>]]) -> Vec<Option<ByteString>> {
        match &self.facts().arguments {
            Some(arguments) => arguments::at(arguments, paths),
            None => vec![None; paths.len()],
        }
    }

    /// Whether it answers what the server asked for in its last result (`requestState`, `inputResponses`).
    pub(crate) fn is_continuation(&self) -> bool {
        self.facts().continues
    }

    fn facts(&self) -> &Facts {
        self.call.facts.get_or_init(|| Facts::read(self.method(), self.params()))
    }

    pub(crate) fn is_initialize(&self) -> bool {
        self.method() == "initialize"
    }
}

impl JsonRpcMessage {
    /// A request, with `params` from `json!({..})`, a [`RawJson`], or `()`.
    pub fn request(
        id: impl Into<RequestId>,
        method: impl Into<Cow<'static, str>>,
        params: impl Into<Params>,
    ) -> Self {
        Self::Request(JsonRpcRequest::new(id, method, params))
    }

    /// A notification, with `params` from `json!({..})`, a [`RawJson`], or `()`.
    pub fn notification(method: impl Into<Cow<'static, str>>, params: impl Into<Params>) -> Self {
        Self::Notification(JsonRpcNotification::new(method, params))
    }

    /// The successful answer to a request of the server's.
    pub fn response(id: impl Into<RequestId>, result: impl Into<RawJson>) -> Self {
        Self::Response(JsonRpcResponse::success(id, result))
    }

    /// The failed answer to a request of the server's.
    pub fn error(id: impl Into<RequestId>, error: JsonRpcError) -> Self {
        Self::Response(JsonRpcResponse::failure(Some(id.into()), error))
    }

    /// Adds an option: see [`options`](crate::options).
    #[must_use]
    pub fn with<T: Clone + Send + Sync + 'static>(mut self, option: T) -> Self {
        self.extensions_mut().insert(option);
        self
    }

    /// The id of a request or response; a response to a request that the server could not read has none.
    pub fn id(&self) -> Option<&RequestId> {
        match self {
            Self::Request(request) => Some(request.id()),
            Self::Notification(_) => None,
            Self::Response(response) => response.id(),
        }
    }

    /// The method of a request or notification.
    pub fn method(&self) -> Option<&str> {
        self.method_text().map(|method| &**method)
    }

    /// The same, to be shared rather than copied.
    pub(crate) fn method_text(&self) -> Option<&ByteString> {
        match self {
            Self::Request(request) => Some(&request.call.method),
            Self::Notification(notification) => Some(&notification.method),
            Self::Response(_) => None,
        }
    }

    /// The parameters of a request or notification.
    pub fn params(&self) -> Option<&RawJson> {
        match self {
            Self::Request(request) => request.params(),
            Self::Notification(notification) => notification.params(),
            Self::Response(_) => None,
        }
    }

    /// The request, if it is one.
    pub fn as_request(&self) -> Option<&JsonRpcRequest> {
        match self {
            Self::Request(request) => Some(request),
            _ => None,
        }
    }

    /// The notification, if it is one.
    pub fn as_notification(&self) -> Option<&JsonRpcNotification> {
        match self {
            Self::Notification(notification) => Some(notification),
            _ => None,
        }
    }

    /// The response, if it is one.
    pub fn as_response(&self) -> Option<&JsonRpcResponse> {
        match self {
            Self::Response(response) => Some(response),
            _ => None,
        }
    }

    /// The options that travel with this message inside the process: see [`options`](crate::options).
    pub fn extensions(&self) -> &Extensions {
        match self {
            Self::Request(request) => &request.extensions,
            Self::Notification(notification) => &notification.extensions,
            Self::Response(response) => response.extensions(),
        }
    }

    /// The options, to be changed.
    pub fn extensions_mut(&mut self) -> &mut Extensions {
        match self {
            Self::Request(request) => &mut request.extensions,
            Self::Notification(notification) => &mut notification.extensions,
            Self::Response(response) => response.extensions_mut(),
        }
    }

    pub(crate) fn is_initialize(&self) -> bool {
        self.as_request().is_some_and(JsonRpcRequest::is_initialize)
    }

    /// Reads one message. Its payload is a slice of `text`.
    ///
    /// # Errors
    /// The text is not JSON, not UTF-8, or not one JSON-RPC 2.0 message; an array (a batch of revision 2025-03-26)
    /// is none either.
    pub fn decode(text: impl Into<Bytes>) -> Result<Self, Undecodable> {
        codec::decode_one(text.into())
    }

    /// Writes the message as JSON. Payloads stay as they are written, line breaks included.
    pub fn encode(&self) -> Bytes {
        codec::encode(self)
    }
}

fn text(text: Cow<'static, str>) -> ByteString {
    match text {
        Cow::Borrowed(text) => ByteString::from_static(text),
        Cow::Owned(text) => text.into(),
    }
}

macro_rules! message_kind {
    ($($kind:ident($inner:ident { $($field:ident)* });)*) => {$(
        impl From<$inner> for JsonRpcMessage {
            fn from(message: $inner) -> Self {
                Self::$kind(message)
            }
        }

        impl PartialEq for $inner {
            fn eq(&self, other: &Self) -> bool {
                true $(&& self.$field() == other.$field())*
            }
        }

        /// Without the options, which can hold secrets.
        impl fmt::Debug for $inner {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($inner))$(.field(stringify!($field), &self.$field()))*.finish()
            }
        }
    )*};
}

message_kind! {
    Request(JsonRpcRequest { id method params });
    Notification(JsonRpcNotification { method params });
}

impl From<JsonRpcResponse> for JsonRpcMessage {
    fn from(response: JsonRpcResponse) -> Self {
        Self::Response(response)
    }
}

/// The message as it travels.
impl fmt::Display for JsonRpcMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.encode()))
    }
}
