//! What most tests need: messages, calls that cannot hang, and servers that answer the boring part.

use std::future::Future;
use std::time::Duration;

use futures_util::StreamExt;
use mcp_streamable_http::{
    Backoff, Error, JsonRpcMessage, JsonRpcResponse, Reply, RetryPolicy, StreamableHttp,
};
use serde_json::{Value, json};
use tower::ServiceExt;

use crate::support::mcp::{legacy_handshake, result};
use crate::support::{Answer, Request, Server};

/// Only so that a test of a broken transport fails instead of hanging.
pub(crate) async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(20), future).await.expect("it takes too long")
}

pub(crate) fn transport(server: &Server) -> StreamableHttp {
    StreamableHttp::new(server.url()).unwrap()
}

/// Sends no request again.
pub(crate) fn never_again() -> RetryPolicy {
    RetryPolicy::new().backoff(Backoff::default().attempts(0))
}

/// Waits that are over soon, however many there are, before a stream is taken up again.
pub(crate) fn brief() -> Backoff {
    let wait = Duration::from_millis(10);
    Backoff::default().base(wait).max_wait(wait)
}

pub(crate) fn initialize(id: i64) -> JsonRpcMessage {
    let client = json!({ "name": "test", "version": "1" });
    let params = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client });
    JsonRpcMessage::request(id, "initialize", params)
}

pub(crate) fn initialized() -> JsonRpcMessage {
    JsonRpcMessage::notification("notifications/initialized", ())
}

pub(crate) fn ping(id: i64) -> JsonRpcMessage {
    JsonRpcMessage::request(id, "ping", ())
}

/// The request that the tests are about, as opposed to the frame around it.
pub(crate) fn call(id: i64) -> JsonRpcMessage {
    JsonRpcMessage::request(id, "tools/call", json!({ "name": "add" }))
}

pub(crate) async fn send(transport: &StreamableHttp, message: JsonRpcMessage) -> Result<Reply, Error> {
    soon(transport.clone().oneshot(message)).await
}

/// Sends a request and waits for the response.
pub(crate) async fn ask(
    transport: &StreamableHttp,
    message: JsonRpcMessage,
) -> Result<JsonRpcResponse, Error> {
    let reply = send(transport, message).await?;
    soon(reply.response()).await
}

pub(crate) async fn ask_for_result(transport: &StreamableHttp, message: JsonRpcMessage) -> Value {
    ask(transport, message).await.unwrap().result().unwrap()
}

/// Shows that the transport is still good for something.
pub(crate) async fn ping_works(transport: &StreamableHttp) {
    assert_eq!(ask_for_result(transport, ping(1000)).await, json!({}));
}

pub(crate) async fn handshake(transport: &StreamableHttp) {
    ask_for_result(transport, initialize(0)).await;
    let mut accepted = send(transport, initialized()).await.unwrap();
    assert!(next(&mut accepted).await.is_none());
}

pub(crate) async fn next(reply: &mut Reply) -> Option<Result<JsonRpcMessage, Error>> {
    soon(reply.next()).await
}

/// The next item, which must be a message.
pub(crate) async fn next_message(reply: &mut Reply) -> JsonRpcMessage {
    next(reply).await.expect("the reply has ended").unwrap()
}

/// The next item, which must be an error.
pub(crate) async fn next_error(reply: &mut Reply) -> Error {
    next(reply).await.expect("the reply has ended").unwrap_err()
}

/// All that is left; the reply must end.
pub(crate) async fn rest(reply: Reply) -> Vec<Result<JsonRpcMessage, Error>> {
    soon(reply.collect()).await
}

/// The methods of the messages of a reply, `"="` for a response and `"!"` for an error.
pub(crate) fn outline(items: &[Result<JsonRpcMessage, Error>]) -> Vec<String> {
    let outline = |item: &Result<JsonRpcMessage, Error>| match item {
        Ok(message) => message.method().unwrap_or("=").to_owned(),
        Err(_) => "!".to_owned(),
    };
    items.iter().map(outline).collect()
}

pub(crate) fn pong(request: &Request) -> Answer {
    Answer::json(200, result(request, json!({})))
}

/// Answers `ping`, and all else with `answer`.
pub(crate) async fn server(answer: impl Fn(&Request) -> Answer + Send + Sync + 'static) -> Server {
    let handler = move |request: &Request| if is(request, "ping") { pong(request) } else { answer(request) };
    Server::start(handler).await
}

/// Answers `ping` and the frame of a session, and all else with `answer`.
pub(crate) async fn session_server(answer: impl Fn(&Request) -> Answer + Send + Sync + 'static) -> Server {
    server(move |request| legacy_handshake(request).unwrap_or_else(|| answer(request))).await
}

/// A server inside whose session a transport already is.
pub(crate) async fn session(
    answer: impl Fn(&Request) -> Answer + Send + Sync + 'static,
) -> (Server, StreamableHttp) {
    let server = session_server(answer).await;
    let transport = transport(&server);
    handshake(&transport).await;
    (server, transport)
}

pub(crate) fn is(request: &Request, method: &str) -> bool {
    request.rpc_method() == Some(method)
}

/// A notification of the server's, as the data of an event.
pub(crate) fn progress(step: i64) -> Value {
    json!({ "jsonrpc": "2.0", "method": "notifications/progress", "params": { "progress": step } })
}

/// The `progress` of such a notification.
pub(crate) fn step_of(message: &JsonRpcMessage) -> i64 {
    assert_eq!(message.method(), Some("notifications/progress"));
    let params: Value = message.params().unwrap().to().unwrap();
    params["progress"].as_i64().unwrap()
}
