//! What is sent to and fro.

use mcp_streamable_http_layers::{JsonRpcMessage, RequestId};
use serde_json::{Value, json};

pub(crate) const LEGACY: &str = "2025-11-25";
pub(crate) const MODERN: &str = "2026-07-28";
pub(crate) const VERSION: &str = "io.modelcontextprotocol/protocolVersion";
pub(crate) const INFO: &str = "io.modelcontextprotocol/clientInfo";
pub(crate) const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
pub(crate) const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";

/// An event with this message.
pub(crate) fn event(message: &Value) -> String {
    format!("data: {message}\n\n")
}

pub(crate) fn progress(step: u64) -> Value {
    let params = json!({ "progressToken": "p", "progress": step });
    json!({ "jsonrpc": "2.0", "method": "notifications/progress", "params": params })
}

/// A modern request, with all that such a request has in its `_meta`.
pub(crate) fn modern(id: impl Into<RequestId>, method: &'static str, params: Value) -> JsonRpcMessage {
    let mut params = params;
    params["_meta"] = json!({
        VERSION: MODERN,
        INFO: { "name": "test", "version": "1" },
        CAPABILITIES: { "roots": {} },
        "progressToken": "p",
    });
    JsonRpcMessage::request(id, method, params)
}

/// A repeatable request.
pub(crate) fn list(id: impl Into<RequestId>) -> JsonRpcMessage {
    modern(id, "prompts/list", json!({}))
}

pub(crate) fn tool(id: impl Into<RequestId>) -> JsonRpcMessage {
    modern(id, "tools/call", json!({ "name": "query", "arguments": { "region": "eu", "user": "u" } }))
}

pub(crate) fn cancel(id: impl Into<Value>) -> JsonRpcMessage {
    JsonRpcMessage::notification("notifications/cancelled", json!({ "requestId": id.into() }))
}
