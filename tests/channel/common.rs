//! Messages, and waits that cannot hang.

use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::{FutureExt, Stream, StreamExt};
use mcp_streamable_http::channel::{Channel, ChannelOptions, Incoming, Sender};
use mcp_streamable_http::{Error, JsonRpcMessage};
use serde_json::{Value, json};

pub(crate) const SESSION: &str = "s-1";
pub(crate) const VERSION: &str = "2025-11-25";

/// What needs no clock to happen. Time stands still as long as any task has something to do, so this is no race.
pub(crate) async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(1), future).await.expect("it does not happen")
}

/// What happens after some time.
pub(crate) async fn in_time<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(600), future).await.expect("it does not happen")
}

/// Waits until no task has anything to do: only then time passes.
pub(crate) async fn settle() {
    tokio::time::sleep(Duration::from_millis(1)).await;
}

pub(crate) async fn pass(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

pub(crate) fn request(id: i64) -> JsonRpcMessage {
    JsonRpcMessage::request(id, "ping", ())
}

/// A request of the modern era.
pub(crate) fn modern(id: i64) -> JsonRpcMessage {
    let meta = json!({ "io.modelcontextprotocol/protocolVersion": "2026-07-28" });
    JsonRpcMessage::request(id, "ping", json!({ "_meta": meta }))
}

/// A request with its number in `params`, so that two under one id can be told apart. It is not sent again, whatever happens.
pub(crate) fn numbered(id: i64, number: i64) -> JsonRpcMessage {
    JsonRpcMessage::request(id, "call", json!({ "number": number }))
}

pub(crate) fn notification(name: &'static str) -> JsonRpcMessage {
    JsonRpcMessage::notification(name, ())
}

pub(crate) fn response(id: i64) -> JsonRpcMessage {
    JsonRpcMessage::response(id, json!({}))
}

pub(crate) fn initialize(id: i64) -> JsonRpcMessage {
    let client = json!({ "name": "test", "version": "1" });
    let params = json!({ "protocolVersion": VERSION, "capabilities": {}, "clientInfo": client });
    JsonRpcMessage::request(id, "initialize", params)
}

pub(crate) fn initialized() -> JsonRpcMessage {
    notification("notifications/initialized")
}

pub(crate) fn cancelled(id: i64) -> JsonRpcMessage {
    JsonRpcMessage::notification("notifications/cancelled", json!({ "requestId": id }))
}

/// A notification of the server's.
pub(crate) fn progress(step: usize) -> Value {
    json!({ "jsonrpc": "2.0", "method": "notifications/progress", "params": { "progress": step } })
}

/// The step of such a notification.
pub(crate) fn step(item: &Incoming) -> usize {
    let params: Value = item.message.params().unwrap().to().unwrap();
    usize::try_from(params["progress"].as_u64().unwrap()).unwrap()
}

/// The next item, which must be a message.
pub(crate) async fn next<S>(stream: &mut S) -> Incoming
where
    S: Stream<Item = Result<Incoming, Error>> + Unpin,
{
    soon(stream.next()).await.expect("the channel has ended").unwrap()
}

/// The stream must end here.
pub(crate) async fn end<S>(stream: &mut S)
where
    S: Stream<Item = Result<Incoming, Error>> + Unpin,
{
    let item = soon(stream.next()).await;
    assert!(item.is_none(), "{item:?}");
}

/// There is nothing to read, and will not be unless something else happens.
pub(crate) async fn silent<S>(stream: &mut S)
where
    S: Stream<Item = Result<Incoming, Error>> + Unpin,
{
    settle().await;
    let item = stream.next().now_or_never();
    assert!(item.is_none(), "{item:?}");
}

/// The id of a response.
pub(crate) fn id(item: &Incoming) -> i64 {
    let response = item.message.as_response().expect("it is no response");
    response.id().unwrap().to_string().parse().unwrap()
}

/// The result of a response that is the server's.
pub(crate) fn result(item: &Incoming) -> Value {
    assert!(item.failure.is_none(), "{item:?}");
    item.message.as_response().expect("it is no response").result().unwrap()
}

/// The code of the answer to a request that has failed.
pub(crate) fn failure(item: &Incoming) -> i64 {
    let failure = item.failure.as_ref().expect("it is no failure");
    let code = item.message.as_response().unwrap().outcome().unwrap_err().code();
    assert_eq!(code, failure.to_json_rpc().code());
    code
}

pub(crate) fn send(sender: &Sender, messages: impl IntoIterator<Item = JsonRpcMessage>) {
    messages.into_iter().for_each(|message| sender.send(message).unwrap());
}

/// A handshake with a server that answers it by itself.
pub(crate) async fn handshake(channel: &mut Channel) {
    send(&channel.sender(), [initialize(0)]);
    assert_eq!(id(&next(channel).await), 0);
    send(&channel.sender(), [initialized()]);
    settle().await;
}

/// What a hook was told: the method of the message, or `"="`, and the status of the error.
pub(crate) type Told = Arc<Mutex<Vec<(String, Option<u16>)>>>;

pub(crate) fn with_hook(options: ChannelOptions) -> (ChannelOptions, Told) {
    let told = Told::default();
    let noted = told.clone();
    let options = options.on_send_failure(move |message, error| {
        let status = error.status().map(|status| status.as_u16());
        noted.lock().unwrap().push((message.method().unwrap_or("=").to_owned(), status));
    });
    (options, told)
}

/// Of which messages a hook was told, in order.
pub(crate) fn told_of(told: &Told) -> Vec<String> {
    told.lock().unwrap().iter().map(|(what, _)| what.clone()).collect()
}

pub(crate) fn alive_tasks() -> usize {
    tokio::runtime::Handle::current().metrics().num_alive_tasks()
}
