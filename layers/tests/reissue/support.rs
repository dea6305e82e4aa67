//! A client's layers over a server that the test plays, on a clock that stands still.

use std::collections::HashSet;
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use http::{HeaderMap, Method, Request, Response};
use http_body_util::{BodyExt, Full};
use mcp_streamable_http_layers::error::BoxError;
use mcp_streamable_http_layers::sse::Limits;
use mcp_streamable_http_layers::{
    Backoff, EnvelopeLayer, Error, FirstByteTimeoutLayer, JsonRpcMessage, JsonRpcResponse,
    MirrorHeadersLayer, Reissue, ReissueLayer, Reply, RequestId, Session, SetSessionIdLayer, SseLayer,
    StampVersionLayer, ToolHeaders, TranslateCancel, TranslateCancelLayer,
};
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};
use tower::limit::ConcurrencyLimitLayer;
use tower::util::{BoxCloneSyncService, Oneshot};
use tower::{Layer, ServiceBuilder, ServiceExt, service_fn};

use super::common::*;
use super::messages::*;

/// A long time; the clock jumps to its end when there is nothing else to do.
pub(crate) const HOUR: Duration = Duration::from_secs(3600);

type Http = BoxCloneSyncService<Request<Full<Bytes>>, Response<Script>, BoxError>;
type Below = BoxCloneSyncService<JsonRpcMessage, Reply, Error>;
type Messages = TranslateCancel<Reissue<Below>>;

pub(crate) fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

/// One request at the server, which waits for its answer.
pub(crate) struct Arrived {
    pub(crate) headers: HeaderMap,
    pub(crate) message: Value,
    pub(crate) at: Instant,
    head: oneshot::Sender<Result<Response<Script>, BoxError>>,
}

impl Arrived {
    pub(crate) fn id(&self) -> &Value {
        &self.message["id"]
    }

    pub(crate) fn method(&self) -> &str {
        self.message["method"].as_str().unwrap()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    /// Whether the client has closed the exchange before the head.
    pub(crate) fn is_dropped(&self) -> bool {
        self.head.is_closed()
    }

    pub(crate) fn fail(self, error: impl Into<BoxError>) {
        let _ = self.head.send(Err(error.into()));
    }

    /// The response to it with this result.
    pub(crate) fn response(&self, result: &Value) -> Value {
        json!({ "jsonrpc": "2.0", "id": self.id(), "result": result })
    }

    /// The head of an answer, whose body is what the pen writes.
    pub(crate) fn open(self, status: u16, content_type: &str) -> Pen {
        let (pen, script) = script();
        let head = answer(status, content_type, "").into_parts().0;
        let _ = self.head.send(Ok(Response::from_parts(head, script)));
        pen
    }

    /// Answers with everything there.
    pub(crate) fn answer(self, status: u16, content_type: &str, text: impl Into<Bytes>) {
        self.open(status, content_type).write(text);
    }

    pub(crate) fn json(self, status: u16, value: &Value) {
        self.answer(status, "application/json", value.to_string());
    }

    pub(crate) fn result(self, result: &Value) {
        let response = self.response(result);
        self.json(200, &response);
    }

    /// Answers with an error, as text, since it is to arrive as it is.
    pub(crate) fn error(self, status: u16, error: &str) {
        let text = format!(r#"{{"jsonrpc":"2.0","id":{},"error":{error}}}"#, self.id());
        self.answer(status, "application/json", text);
    }

    /// With a status and, perhaps, a header.
    pub(crate) fn status(self, status: u16, header: Option<(&'static str, &str)>) {
        let mut head = answer(status, "", "").into_parts().0;
        if let Some((name, value)) = header {
            head.headers.insert(name, value.parse().unwrap());
        }
        let _ = self.head.send(Ok(Response::from_parts(head, script().1)));
    }

    /// Answers with an event stream, which is open.
    pub(crate) fn stream(self) -> Pen {
        self.open(200, "text/event-stream")
    }
}

/// What a request may come to at the server, and its name.
pub(crate) type Way = (&'static str, fn(Arrived));

/// What is sent to the server.
pub(crate) struct Inbox {
    arrived: mpsc::UnboundedReceiver<Arrived>,
    ids: HashSet<String>,
}

impl Inbox {
    /// The next request. No two have the same id.
    #[track_caller]
    pub(crate) fn next(&mut self) -> impl Future<Output = Arrived> {
        let caller = std::panic::Location::caller();
        async move {
            let arrived = match timeout(2 * HOUR, self.arrived.recv()).await {
                Ok(Some(arrived)) => arrived,
                _ => panic!("nothing was sent: {caller}"),
            };
            assert!(self.ids.insert(arrived.id().to_string()), "{} again: {caller}", arrived.id());
            arrived
        }
    }

    /// The next request, which must come this long after now.
    #[track_caller]
    pub(crate) fn next_after(&mut self, wait: Duration) -> impl Future<Output = Arrived> {
        let (caller, start) = (std::panic::Location::caller(), Instant::now());
        let next = self.next();
        async move {
            let next = next.await;
            assert_eq!(next.at - start, wait, "{caller}");
            next
        }
    }

    /// The next request, which must be `call` once more, under another id.
    pub(crate) async fn again(&mut self, call: &Value) -> Arrived {
        let again = self.next().await;
        let mut same = again.message.clone();
        same["id"] = call["id"].clone();
        assert_eq!(&same, call);
        assert!(again.id().is_string());
        again
    }

    /// What was sent, without a runtime.
    #[track_caller]
    pub(crate) fn received(&mut self) -> Arrived {
        self.arrived.try_recv().ok().unwrap_or_else(|| panic!("nothing was sent"))
    }

    /// The caller may use its ids again.
    pub(crate) fn forget_ids(&mut self) {
        self.ids.clear();
    }

    /// Asserts that nothing is sent for an hour.
    pub(crate) async fn assert_silent(&mut self, why: &str) {
        sleep(HOUR).await;
        if let Ok(sent) = self.arrived.try_recv() {
            panic!("{why}: {} was sent", sent.message);
        }
    }
}

/// A call whose reply is read in a task of its own, as soon as it has anything.
pub(crate) struct Call {
    items: mpsc::UnboundedReceiver<Result<JsonRpcMessage, Error>>,
    task: JoinHandle<()>,
}

impl Call {
    fn of(sent: Oneshot<Messages, JsonRpcMessage>) -> Self {
        let (sender, items) = mpsc::unbounded_channel();
        let task = tokio::spawn(async move {
            let mut items = match sent.await {
                Ok(reply) => reply.left_stream(),
                Err(error) => futures_util::stream::iter([Err(error)]).right_stream(),
            };
            while let Some(item) = items.next().await {
                if sender.send(item).is_err() {
                    return;
                }
            }
        });
        Self { items, task }
    }

    /// The next item; `None`: the reply has ended.
    #[track_caller]
    pub(crate) fn next(&mut self) -> impl Future<Output = Option<Result<JsonRpcMessage, Error>>> {
        let caller = std::panic::Location::caller();
        async move { timeout(HOUR, self.items.recv()).await.unwrap_or_else(|_| panic!("nothing came: {caller}")) }
    }

    /// The next message, which is not the last.
    #[track_caller]
    pub(crate) fn message(&mut self) -> impl Future<Output = JsonRpcMessage> {
        let caller = std::panic::Location::caller();
        let next = self.next();
        async move {
            match next.await {
                Some(Ok(message)) if message.as_response().is_none() => message,
                other => panic!("no message: {other:?}: {caller}"),
            }
        }
    }

    /// The same as JSON.
    #[track_caller]
    pub(crate) fn read(&mut self) -> impl Future<Output = Value> {
        let message = self.message();
        async move { serde_json::from_slice(&message.await.encode()).unwrap() }
    }

    /// The next item, which must be the response to the request `id`, and the last one.
    #[track_caller]
    pub(crate) fn response(&mut self, id: impl Into<RequestId>) -> impl Future<Output = JsonRpcResponse> {
        let (caller, id) = (std::panic::Location::caller(), id.into());
        async move {
            let response = match self.next().await {
                Some(Ok(JsonRpcMessage::Response(response))) => response,
                other => panic!("no response: {other:?}: {caller}"),
            };
            assert_eq!(response.id(), Some(&id), "{caller}");
            assert!(self.next().await.is_none(), "more after the response: {caller}");
            response
        }
    }

    /// The same, and it must have this result.
    #[track_caller]
    pub(crate) fn result(&mut self, id: impl Into<RequestId>, result: &Value) -> impl Future<Output = ()> {
        let (caller, result) = (std::panic::Location::caller(), result.clone());
        let response = self.response(id);
        async move { assert_eq!(response.await.result::<Value>().unwrap(), result, "{caller}") }
    }

    /// The next item, which must be an error, and the last one.
    #[track_caller]
    pub(crate) fn failure(&mut self) -> impl Future<Output = Error> {
        let caller = std::panic::Location::caller();
        async move {
            let error = match self.next().await {
                Some(Err(error)) => error,
                other => panic!("no error: {other:?}: {caller}"),
            };
            assert!(self.next().await.is_none(), "more after the error: {caller}");
            error
        }
    }

    /// Asserts that there is nothing to read at the moment.
    pub(crate) async fn assert_waiting(&mut self, why: &str) {
        settle().await;
        assert!(self.items.try_recv().is_err() && !self.task.is_finished(), "{why}");
    }

    /// Drops the call, or its reply.
    pub(crate) async fn drop_it(&self) {
        self.task.abort();
        settle().await;
        assert!(self.task.is_finished());
    }
}

pub(crate) struct Client {
    pub(crate) tools: ToolHeaders,
    pub(crate) messages: Messages,
    pub(crate) inbox: Inbox,
}

impl Client {
    pub(crate) fn new() -> Self {
        Self::with(|layer| layer)
    }

    /// That opens subscriptions again, after waits without a random part.
    pub(crate) fn relistening() -> Self {
        Self::with(|layer| layer.relisten(true).backoff(Backoff::default().jitter(0.0, 0.0)))
    }

    pub(crate) fn with(layer: impl FnOnce(ReissueLayer) -> ReissueLayer) -> Self {
        Self::limited(1000, layer)
    }

    /// Below it only so many calls may wait for the head of their answer at a time.
    pub(crate) fn limited(calls: usize, layer: impl FnOnce(ReissueLayer) -> ReissueLayer) -> Self {
        let (sender, arrived) = mpsc::unbounded_channel();
        let http = service_fn(move |request: Request<Full<Bytes>>| {
            let sender = sender.clone();
            let sent: BoxFuture<'static, _> = Box::pin(async move {
                let (parts, body) = request.into_parts();
                assert_eq!(parts.method, Method::POST);
                let message = serde_json::from_slice(&body.collect().await?.to_bytes())?;
                let (head, answer) = oneshot::channel();
                // The test may be over.
                let _ = sender.send(Arrived { headers: parts.headers, message, at: Instant::now(), head });
                answer.await?
            });
            sent
        });
        let (session, tools) = (Session::new(), ToolHeaders::new());
        let below = ServiceBuilder::new()
            .layer(ConcurrencyLimitLayer::new(calls))
            .layer(EnvelopeLayer::new(endpoint(), session.clone()))
            .layer(SetSessionIdLayer::new(session.clone()))
            .layer(StampVersionLayer::new(session.clone()))
            .layer(MirrorHeadersLayer::new().tools(tools.clone()))
            .layer(SseLayer::new(Limits::default()))
            .layer(FirstByteTimeoutLayer::new())
            .service(Http::new(http));
        let reissue = layer(ReissueLayer::new(session.clone(), tools.clone())).layer(Below::new(below));
        let messages = TranslateCancelLayer::new(session.clone()).layer(reissue);
        Self { tools, messages, inbox: Inbox { arrived, ids: HashSet::new() } }
    }

    /// Has had a modern request answered: what names no version is modern from then on.
    pub(crate) async fn turn_modern(&mut self) {
        let (mut call, sent) = self.send(list("modern")).await;
        sent.result(&json!({}));
        call.result("modern", &json!({})).await;
    }

    pub(crate) fn call(&self, message: JsonRpcMessage) -> Call {
        Call::of(self.messages.clone().oneshot(message))
    }

    /// A call that is at the server.
    #[track_caller]
    pub(crate) fn send(&mut self, message: JsonRpcMessage) -> impl Future<Output = (Call, Arrived)> {
        let call = self.call(message);
        let next = self.inbox.next();
        async move { (call, next.await) }
    }
}

/// Gives what was spawned its turns: the tests have one thread.
pub(crate) async fn settle() {
    for _ in 0..64 {
        tokio::task::yield_now().await;
    }
}
