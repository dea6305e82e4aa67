//! What most tests need: messages, and calls that cannot hang.

use std::future::Future;
use std::time::Duration;

use futures_util::StreamExt;
use http::Uri;
use mcp_streamable_http::client::ClientBuilder;
use mcp_streamable_http::error::InvalidOption;
use mcp_streamable_http::{
    Backoff, Builder, Client, Error, JsonRpcMessage, JsonRpcResponse, Limits, Reply, RetryPolicy,
    StreamableHttp,
};
use serde_json::{Value, json};
use tower::ServiceExt;

/// Only so that a test of a broken client fails instead of hanging.
pub(crate) async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(10), future).await.expect("it takes too long")
}

pub(crate) fn transport(uri: Uri, client: ClientBuilder) -> StreamableHttp {
    over(uri, client).build().unwrap()
}

/// One that sends nothing again, as the tests are about what becomes of a single request.
fn over(uri: Uri, client: ClientBuilder) -> Builder<Client> {
    let never = RetryPolicy::new().backoff(Backoff::default().attempts(0));
    StreamableHttp::with_client(uri, client.build().unwrap()).retry(never)
}

/// One that reads little.
pub(crate) fn terse_transport(uri: Uri, client: ClientBuilder, bytes: usize) -> StreamableHttp {
    let limits = Limits::default().max_json_bytes(bytes).max_event_bytes(bytes).max_error_bytes(bytes);
    over(uri, client).limits(limits).build().unwrap()
}

pub(crate) fn plain() -> ClientBuilder {
    Client::builder()
}

pub(crate) fn ping(id: i64) -> JsonRpcMessage {
    JsonRpcMessage::request(id, "ping", ())
}

/// A request that the servers of the tests treat in a way of their own.
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

/// Sends a request whose response must be an empty object.
pub(crate) async fn works(transport: &StreamableHttp, message: JsonRpcMessage) {
    let response = ask(transport, message).await.unwrap();
    assert_eq!(response.result::<Value>().unwrap(), json!({}));
}

/// Sends a request and waits for the first message of the reply.
pub(crate) async fn open(transport: &StreamableHttp, message: JsonRpcMessage) -> Reply {
    let mut reply = send(transport, message).await.unwrap();
    let first = soon(reply.next()).await.unwrap().unwrap();
    assert_eq!(first.method(), Some("notifications/progress"));
    reply
}

/// Sends a request that must fail.
pub(crate) async fn fails(transport: &StreamableHttp, message: JsonRpcMessage) -> Error {
    ask(transport, message).await.unwrap_err()
}

/// A notification of the server's.
pub(crate) fn progress() -> Value {
    json!({ "jsonrpc": "2.0", "method": "notifications/progress", "params": { "progress": 1 } })
}

/// The request never left: there was no connection to send it in.
#[track_caller]
pub(crate) fn assert_not_sent(error: &Error) {
    assert!(error.is_connect() && !error.may_have_run(), "{error:?}");
    assert_eq!(error.status(), None, "{error:?}");
    assert!(error.to_string().starts_with("the server could not be reached: "), "{error}");
}

/// The request left, and what became of it cannot be known.
#[track_caller]
pub(crate) fn assert_may_have_run(error: &Error) {
    assert!(!error.is_connect() && error.may_have_run(), "{error:?}");
    // None if it broke before the head of the answer.
    assert!(error.status().is_none_or(|status| status == 200), "{error:?}");
    assert!(error.to_string().starts_with("the connection broke before the answer was complete"), "{error}");
}

/// The error says all of `words`.
#[track_caller]
pub(crate) fn assert_says(error: &Error, words: &[&str]) {
    let text = error.to_string();
    for word in words {
        assert!(text.contains(word), "{word:?} is not in {text:?}");
    }
}

/// Nothing was built, let alone sent.
#[track_caller]
pub(crate) fn assert_invalid_option(error: &Error, words: &[&str]) {
    assert!(error.find::<InvalidOption>().is_some(), "{error:?}");
    assert!(!error.may_have_run() && !error.is_timeout(), "{error:?}");
    assert_says(error, words);
}
