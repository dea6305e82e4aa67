//! Cancellation: whom a request that is given up is taken back from, and how.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "in a test a panic is how it fails, in its helpers too"
)]

#[path = "../common/mod.rs"]
mod common;
mod drops;
mod frames;
mod table;

use common::*;
use futures_util::future::BoxFuture;
use http::{HeaderMap, Request, Response};
use mcp_streamable_http_layers::error::BoxError;
use mcp_streamable_http_layers::{
    Envelope, EnvelopeLayer, Error, Event, Events, FirstByteTimeout, FirstByteTimeoutLayer, JsonRpcMessage,
    Payload, Reply, RequestId, Session, SetSessionId, SetSessionIdLayer, StampVersion, StampVersionLayer,
    TranslateCancel, TranslateCancelLayer,
};
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};
use tokio_test::task;
use tower::util::BoxCloneSyncService;
use tower::{Service, ServiceBuilder, service_fn};

type Item = Result<Event, BoxError>;
type Http = BoxCloneSyncService<Request<Payload>, Response<Events>, BoxError>;
type Cancelling = TranslateCancel<Envelope<SetSessionId<StampVersion<FirstByteTimeout<Http>>>>>;
type Call = task::Spawn<<Cancelling as Service<JsonRpcMessage>>::Future>;
type Stream = mpsc::UnboundedSender<Item>;

const MODERN: &str = "2026-07-28";
const LEGACY: &str = "2025-11-25";

/// One request at the server, which waits for its answer.
struct Arrived {
    headers: HeaderMap,
    message: Value,
    head: oneshot::Sender<Result<Response<Events>, BoxError>>,
}

impl Arrived {
    fn is(&self, method: &str) -> bool {
        self.message["method"] == method
    }

    /// Whether the client has closed the exchange before the head.
    fn is_closed(&self) -> bool {
        self.head.is_closed()
    }

    fn fail(self, error: impl Into<BoxError>) {
        self.head.send(Err(error.into())).unwrap();
    }

    fn answer(self, events: Events) {
        self.head.send(Ok(Response::new(events))).unwrap();
    }

    /// Answers with a stream, to which the test sends the events. It is closed when the client drops it.
    fn stream(self) -> Stream {
        let (sender, mut receiver) = mpsc::unbounded_channel();
        self.answer(Events::new(futures_util::stream::poll_fn(move |cx| receiver.poll_recv(cx))));
        sender
    }
}

/// A client's layers, and the server in the hands of the test.
struct Client {
    session: Session,
    service: Cancelling,
    arrived: mpsc::UnboundedReceiver<Arrived>,
}

impl Client {
    fn new() -> Self {
        let (sender, arrived) = mpsc::unbounded_channel();
        let http = service_fn(move |request: Request<Payload>| {
            let (head, answer) = oneshot::channel();
            let headers = request.headers().clone();
            let message = request.body().message().unwrap().encode();
            let message = serde_json::from_slice(&message).unwrap();
            // The test may be over.
            let _ = sender.send(Arrived { headers, message, head });
            let answered: BoxFuture<'static, _> = Box::pin(async { answer.await? });
            answered
        });
        let session = Session::new();
        let service = ServiceBuilder::new()
            .layer(TranslateCancelLayer::new(session.clone()))
            .layer(EnvelopeLayer::new(endpoint(), session.clone()))
            .layer(SetSessionIdLayer::new(session.clone()))
            .layer(StampVersionLayer::new(session.clone()))
            .layer(FirstByteTimeoutLayer::new())
            .service(Http::new(http));
        Self { session, service, arrived }
    }

    /// In a session, begun with the request `"init"`.
    fn in_session(id: &str) -> Self {
        let mut client = Self::new();
        client.begin(id);
        client
    }

    fn begin(&mut self, id: &str) {
        let params = json!({ "protocolVersion": LEGACY });
        let sent = self.call(JsonRpcMessage::request("init", "initialize", params.clone()));
        let answer = Response::new(JsonRpcMessage::response("init", params).into());
        let answer = with_header(answer, "mcp-session-id", id.as_bytes());
        self.received().head.send(Ok(answer)).unwrap();
        response(now(sent)).unwrap();
        assert_eq!(self.session.id().unwrap(), id);
    }

    /// Calls, and does not poll.
    fn call(&mut self, message: JsonRpcMessage) -> Call {
        call(&mut self.service, message)
    }

    /// Calls, and polls once: the request is at the server.
    #[track_caller]
    fn send(&mut self, message: JsonRpcMessage) -> (Call, Arrived) {
        let mut sent = self.call(message);
        assert!(sent.poll().is_pending());
        let arrived = self.received();
        (sent, arrived)
    }

    /// Sends, and has the head of a stream.
    #[track_caller]
    fn open(&mut self, message: JsonRpcMessage) -> (Reply, Stream) {
        let (sent, arrived) = self.send(message);
        let stream = arrived.stream();
        (now(sent).unwrap(), stream)
    }

    /// Sends what the server has no part in.
    #[track_caller]
    fn swallowed(&mut self, message: JsonRpcMessage) {
        let reply = now(self.call(message)).unwrap();
        assert!(all(reply).is_empty());
        assert!(self.arrived.try_recv().is_err(), "it was sent");
    }

    #[track_caller]
    fn received(&mut self) -> Arrived {
        self.arrived.try_recv().ok().unwrap_or_else(|| panic!("nothing was sent"))
    }

    #[track_caller]
    fn assert_in_flight(&self, count: usize) {
        assert_eq!(self.service.in_flight(), count, "in flight");
    }

    /// All that is sent in the background.
    async fn background(&mut self) -> Vec<Arrived> {
        settle().await;
        std::iter::from_fn(|| self.arrived.try_recv().ok()).collect()
    }

    async fn assert_silent(&mut self, why: &str) {
        let sent = self.background().await;
        assert!(sent.is_empty(), "{why}: {}", sent[0].message);
    }

    /// Asserts that the server is told once that the request `id` is given up. Returns the headers.
    async fn assert_told(&mut self, id: impl Into<Value>, why: &str) -> HeaderMap {
        let mut sent = self.background().await;
        let told = sent.pop().unwrap_or_else(|| panic!("{why}: nothing was sent"));
        assert!(sent.is_empty(), "{why}: {}", sent[0].message);
        assert!(told.is("notifications/cancelled"), "{why}: {}", told.message);
        assert_eq!(told.message["params"]["requestId"], id.into(), "{why}");
        assert!(told.message.get("id").is_none() && told.message["params"]["reason"].is_string());
        let Arrived { headers, head, .. } = told;
        head.send(Ok(Response::new(Events::EMPTY))).unwrap();
        self.assert_silent("once only").await;
        headers
    }
}

/// Gives what was spawned its turns: the tests have one thread.
async fn settle() {
    for _ in 0..16 {
        tokio::task::yield_now().await;
    }
}

fn tool(id: impl Into<RequestId>) -> JsonRpcMessage {
    JsonRpcMessage::request(id, "tools/call", json!({ "name": "add" }))
}

fn modern(id: impl Into<RequestId>) -> JsonRpcMessage {
    let meta = json!({ "io.modelcontextprotocol/protocolVersion": MODERN });
    JsonRpcMessage::request(id, "tools/call", json!({ "name": "add", "_meta": meta }))
}

/// The caller's own cancellation.
fn cancel(id: impl Into<Value>) -> JsonRpcMessage {
    JsonRpcMessage::notification("notifications/cancelled", json!({ "requestId": id.into() }))
}

fn done(id: impl Into<RequestId>) -> JsonRpcMessage {
    JsonRpcMessage::response(id, json!({}))
}

/// The one item that the reply ends with, which must be an error.
#[track_caller]
fn ends_with_error(reply: Reply) -> Error {
    match <[_; 1]>::try_from(all(reply)) {
        Ok([Err(error)]) => error,
        other => panic!("not one error: {other:?}"),
    }
}
