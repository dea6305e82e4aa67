//! What an MCP server says in answer to an MCP client.

use serde_json::{Value, json};

use super::{Answer, Request};

/// The session that [`legacy_handshake`] hands out.
pub(crate) const SESSION: &str = "s-1";

/// The version that [`legacy_handshake`] negotiates.
pub(crate) const VERSION: &str = "2025-11-25";

/// The answers that the frame of a session needs: to `initialize`, `notifications/initialized`, DELETE, and
/// GET (405, as the stream is optional). Anything else is up to the test.
pub(crate) fn legacy_handshake(request: &Request) -> Option<Answer> {
    match (request.method.as_str(), request.rpc_method()) {
        ("POST", Some("initialize")) => {
            let server = json!({ "name": "scripted", "version": "1" });
            let value = json!({ "protocolVersion": VERSION, "capabilities": {}, "serverInfo": server });
            Some(Answer::json(200, result(request, value)).header("mcp-session-id", SESSION))
        }
        ("POST", Some("notifications/initialized")) => Some(Answer::status(202)),
        ("DELETE", _) => Some(Answer::status(200)),
        ("GET", _) => Some(Answer::status(405).header("allow", "POST, DELETE")),
        _ => None,
    }
}

/// The JSON-RPC response with `value` as the result, under the id of the request.
pub(crate) fn result(request: &Request, value: Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": request.rpc_id(), "result": value })
}

/// The JSON-RPC error response, under the id of the request.
pub(crate) fn error(request: &Request, code: i64, message: &str) -> Value {
    json!({ "jsonrpc": "2.0", "id": request.rpc_id(), "error": { "code": code, "message": message } })
}
