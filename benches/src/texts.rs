//! What is sent, and what is answered.

use bytes::Bytes;
use mcp_streamable_http::{JsonRpcMessage, SavedSession, ToolHeaders};
use serde_json::{Value, json};

/// The endpoint of everything.
pub const URI: &str = "http://in.memory/mcp";

/// The answer to a call of a tool.
pub const RESULT: &str =
    r#"{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"3"}],"isError":false}}"#;

/// A call of a tool, as it is written in the legacy era.
pub fn legacy_call() -> JsonRpcMessage {
    JsonRpcMessage::request(1, "tools/call", json!({ "name": "add", "arguments": { "a": 1, "b": 2 } }))
}

/// A call of a tool, as it is written in the modern era.
pub fn modern_call() -> JsonRpcMessage {
    JsonRpcMessage::request(
        1,
        "tools/call",
        json!({ "name": "add", "arguments": { "a": 1, "b": 2 }, "_meta": modern_meta() }),
    )
}

/// What every request of the modern era has in its `_meta`.
pub fn modern_meta() -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": { "name": "bench", "version": "1.0.0" },
        "io.modelcontextprotocol/clientCapabilities": {},
    })
}

/// The tool of [`modern_call`], of which both arguments are mirrored in headers.
pub fn mirrored_tool() -> ToolHeaders {
    let number = |header: &str| json!({ "type": "integer", "x-mcp-header": header });
    let schema = json!({ "type": "object", "properties": { "a": number("A"), "b": number("B") } });
    let tools = ToolHeaders::new();
    tools.learn(&json!({ "name": "add", "inputSchema": schema })).unwrap();
    tools
}

/// A session of revision 2025-11-25 that is under way.
pub fn session() -> SavedSession {
    let params = json!({
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": { "name": "bench", "version": "1.0.0" },
    });
    let initialize = JsonRpcMessage::request(0, "initialize", params).to_string();
    let stored = json!({
        "id": "3f2c9a7e-5b1d-4c8e-9f60-1a2b3c4d5e6f",
        "expired": false,
        "protocolVersion": "2025-11-25",
        "initialize": initialize,
    });
    serde_json::from_value(stored).unwrap()
}

/// A notification, as the text of a message, of so many bytes.
///
/// # Panics
/// If the message would be longer with no filling at all.
pub fn notification(bytes: usize) -> String {
    let around = |text: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/message","params":{{"level":"info","data":"{text}"}}}}"#
        )
    };
    around(&"x".repeat(bytes.checked_sub(around("").len()).unwrap()))
}

/// The answer to a call, as the text of a message, of so many bytes.
///
/// # Panics
/// If the message would be longer with no filling at all.
pub fn result(bytes: usize) -> String {
    let around = |text: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","id":1,"result":{{"content":[{{"type":"text","text":"{text}"}}],"isError":false}}}}"#
        )
    };
    around(&"x".repeat(bytes.checked_sub(around("").len()).unwrap()))
}

/// A message as an event, with an id or without.
pub fn event(message: &str, id: Option<&str>) -> String {
    match id {
        Some(id) => format!("id: {id}\ndata: {message}\n\n"),
        None => format!("data: {message}\n\n"),
    }
}

/// So many events of 150 bytes each, and the answer.
pub fn stream(events: usize, with_ids: bool) -> Vec<Bytes> {
    const EVENT: usize = 150;
    let around = |id: Option<&str>| event("", id).len();
    let id = |number: usize| with_ids.then(|| format!("{number:08}"));
    let chunk = |number: usize| {
        let id = id(number);
        Bytes::from(event(&notification(EVENT - around(id.as_deref())), id.as_deref()))
    };
    let answer = Bytes::from(event(RESULT, id(events).as_deref()));
    (0..events).map(chunk).chain([answer]).collect()
}
