//! A client of the least size that can drive a server.

use std::sync::atomic::{AtomicI64, Ordering};

use futures_util::StreamExt;
use http::Uri;
use mcp_streamable_http::{Error, JsonRpcError, JsonRpcMessage, JsonRpcResponse, Reply, StreamableHttp};
use serde_json::{Value, json};
use tower::ServiceExt;

/// A [`StreamableHttp`], and what a message needs besides: an id, and in the modern era its metadata.
///
/// Its methods panic where the transport fails.
#[derive(Debug)]
pub struct Client {
    transport: StreamableHttp,
    modern: bool,
    last_id: AtomicI64,
}

/// What a tool answers with.
#[derive(Debug, PartialEq, Eq)]
pub struct ToolResult {
    /// The text of its first content.
    pub text: String,
    /// Whether it says that it failed.
    pub is_error: bool,
}

impl Client {
    /// A client of the legacy era, before its handshake.
    pub fn legacy(uri: Uri) -> Self {
        Self::over(StreamableHttp::new(uri).unwrap())
    }

    /// A client of the legacy era, before its handshake, over a transport with options of its own.
    pub fn over(transport: StreamableHttp) -> Self {
        Self { transport, modern: false, last_id: AtomicI64::new(0) }
    }

    /// The same, for a session in which the ids until `last` are used.
    #[must_use]
    pub fn with_ids_after(self, last: i64) -> Self {
        Self { last_id: AtomicI64::new(last), ..self }
    }

    /// A client of the revision 2026-07-28.
    pub fn modern(uri: Uri) -> Self {
        Self::modern_over(StreamableHttp::new(uri).unwrap())
    }

    /// A client of the revision 2026-07-28, over a transport with options of its own.
    pub fn modern_over(transport: StreamableHttp) -> Self {
        Self { modern: true, ..Self::over(transport) }
    }

    /// The transport itself.
    pub fn transport(&self) -> &StreamableHttp {
        &self.transport
    }

    /// A request with an id that was not used yet.
    pub fn request(&self, method: &'static str, mut params: Value) -> JsonRpcMessage {
        if self.modern {
            params["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!("2026-07-28");
            params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({});
        }
        JsonRpcMessage::request(self.last_id.fetch_add(1, Ordering::Relaxed) + 1, method, params)
    }

    /// Sends one message.
    pub async fn send(&self, message: JsonRpcMessage) -> Reply {
        self.transport.clone().oneshot(message).await.unwrap()
    }

    /// Sends a message that has no answer, and waits until it is accepted.
    pub async fn tell(&self, message: JsonRpcMessage) {
        let items: Vec<_> = self.send(message).await.collect().await;
        assert!(items.is_empty(), "{items:?}");
    }

    /// Sends a request, and waits for the response.
    ///
    /// # Errors
    /// The transport failed.
    pub async fn try_call(&self, method: &'static str, params: Value) -> Result<JsonRpcResponse, Error> {
        self.transport.clone().oneshot(self.request(method, params)).await?.response().await
    }

    /// Sends a request, and returns its result.
    pub async fn call(&self, method: &'static str, params: Value) -> Value {
        self.try_call(method, params).await.unwrap().result().unwrap()
    }

    /// Sends a request, and returns the JSON-RPC error that the server answers with.
    pub async fn refused(&self, method: &'static str, params: Value) -> JsonRpcError {
        self.try_call(method, params).await.unwrap().into_outcome().unwrap_err()
    }

    /// Calls a tool.
    pub async fn tool(&self, name: &str, arguments: Value) -> ToolResult {
        ToolResult::read(&self.call("tools/call", json!({ "name": name, "arguments": arguments })).await)
    }

    /// Says `initialize` and, if that is answered with a result, `notifications/initialized`.
    pub async fn handshake(&self, version: &str, capabilities: Value) -> Value {
        let params = json!({
            "protocolVersion": version,
            "capabilities": capabilities,
            "clientInfo": { "name": "interop", "version": "1.0" },
        });
        let result = self.call("initialize", params).await;
        self.tell(JsonRpcMessage::notification("notifications/initialized", json!({}))).await;
        result
    }
}

impl ToolResult {
    /// Reads the result of `tools/call`.
    pub fn read(result: &Value) -> Self {
        Self {
            text: result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("no text: {result}")).into(),
            is_error: result["isError"] == true,
        }
    }
}
