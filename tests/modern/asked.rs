//! Messages of the modern era, and answers to them.

use http::{Response, StatusCode};
use mcp_streamable_http::{Builder, Error, JsonRpcMessage, JsonRpcResponse, Reply, StreamableHttp};
use serde_json::{Value, json};
use tower::ServiceExt;

use crate::common::*;
use crate::support::*;

pub(crate) const MODERN: &str = "2026-07-28";
pub(crate) const KEY: &str = "io.modelcontextprotocol/protocolVersion";

pub(crate) fn meta() -> Value {
    json!({
        KEY: MODERN,
        "io.modelcontextprotocol/clientInfo": { "name": "test", "version": "1" },
        "io.modelcontextprotocol/clientCapabilities": { "roots": {} },
        "traceparent": "00-1",
    })
}

pub(crate) fn stamped(id: i64, method: &'static str, params: Value) -> JsonRpcMessage {
    let mut params = params;
    params["_meta"] = meta();
    JsonRpcMessage::request(id, method, params)
}

/// That is not sent again, whatever happens.
pub(crate) fn tool(id: i64) -> JsonRpcMessage {
    stamped(id, "tools/call", json!({ "name": "add", "arguments": {} }))
}

/// The result of a `server/discover`.
pub(crate) fn discovered() -> Value {
    json!({ "supportedVersions": [MODERN], "capabilities": { "tools": {} }, "serverInfo": { "name": "s" } })
}

pub(crate) fn refused(seen: &Seen, status: u16, error: &Value) -> Answer {
    with_status(status, Answer::json(&json!({ "jsonrpc": "2.0", "id": seen.message["id"], "error": error })))
}

const STATUS: &str = "x-status";

/// The answer beside another status than 200.
pub(crate) fn with_status(status: u16, answer: Answer) -> Answer {
    answer.header(STATUS, &status.to_string())
}

fn take_status<B>(mut response: Response<B>) -> Response<B> {
    if let Some(status) = response.headers_mut().remove(STATUS) {
        *response.status_mut() = StatusCode::from_bytes(status.as_bytes()).unwrap();
    }
    response
}

/// A transport to this server, at this path and query, with these options.
pub(crate) fn connect(
    server: &Server,
    path: &str,
    options: impl FnOnce(Builder<TakeStatus>) -> Builder<TakeStatus>,
) -> StreamableHttp {
    let take: fn(Response<Content>) -> Response<Content> = take_status;
    let client = TakeStatus::new(server.wire(), take);
    let uri = format!("http://in.memory{path}").parse().unwrap();
    options(StreamableHttp::with_client(uri, client)).build().unwrap()
}

pub(crate) type TakeStatus = tower::util::MapResponse<Wire, fn(Response<Content>) -> Response<Content>>;

pub(crate) fn plain(server: &Server) -> StreamableHttp {
    connect(server, "/mcp", |builder| builder)
}

pub(crate) async fn post(transport: &StreamableHttp, message: JsonRpcMessage) -> Result<Reply, Error> {
    in_time(transport.clone().oneshot(message)).await
}

pub(crate) async fn ask(
    transport: &StreamableHttp,
    message: JsonRpcMessage,
) -> Result<JsonRpcResponse, Error> {
    in_time(post(transport, message).await?.response()).await
}

/// The message must have been accepted.
pub(crate) async fn accepted(transport: &StreamableHttp, message: JsonRpcMessage) {
    drop(post(transport, message).await.unwrap());
}

/// Answers what is modern, in every way that it should not be, if a modern client cared: with a session, with ids of events,
/// and with a time to reconnect after.
pub(crate) fn chatty(seen: &Seen) -> Option<Answer> {
    seen.header("mcp-method")?;
    if seen.message["id"].is_null() {
        return Some(Answer::status(202).header("mcp-session-id", "never-asked-for"));
    }
    let result = seen.result(if seen.what() == "server/discover" { discovered() } else { json!({ "a": 1 }) });
    let text = format!("id: e1\nretry: 10\ndata:\n\nid: e2\nretry: 10\ndata: {result}\n\n");
    Some(Answer::text("text/event-stream", text).header("mcp-session-id", "never-asked-for"))
}

/// Nothing of a session or of a stream to resume is in any of these requests.
pub(crate) fn assert_stateless(requests: &[Seen]) {
    for seen in requests {
        assert_eq!(seen.http_method, "POST");
        assert_eq!(
            (seen.header("mcp-session-id"), seen.header("last-event-id")),
            (None, None),
            "{}",
            seen.what()
        );
        assert_eq!(seen.header("mcp-protocol-version"), Some(MODERN), "{}", seen.what());
        assert_eq!(seen.header("mcp-method"), Some(seen.what()));
    }
}
