//! A client's layers over a server that the test plays, on a clock that stands still.

#![allow(dead_code, reason = "the tests of the listening stream use a part of it")]

use std::ops::Deref;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::{FutureExt as _, Stream, StreamExt as _};
use http::{Extensions, HeaderMap, Method, Request, Response};
use http_body_util::{BodyExt, Full};
use mcp_streamable_http_layers::error::BoxError;
use mcp_streamable_http_layers::sse::Limits;
use mcp_streamable_http_layers::{
    Backoff, Envelope, EnvelopeLayer, Error, JsonRpcMessage, JsonRpcResponse, MirrorHeaders,
    MirrorHeadersLayer, Resume, ResumeLayer, Session, SetSessionId, SetSessionIdLayer, Sse, SseLayer,
    StampVersion, StampVersionLayer,
};
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};
use tower::util::BoxCloneSyncService;
use tower::{Layer, ServiceBuilder, ServiceExt, service_fn};

use super::common::*;

pub(crate) const LEGACY: &str = "2025-11-25";
pub(crate) const MODERN: &str = "2026-07-28";

/// A long time; the clock jumps to its end when there is nothing else to do.
pub(crate) const HOUR: Duration = Duration::from_secs(3600);

pub(crate) type Http = BoxCloneSyncService<Request<Full<Bytes>>, Response<Script>, BoxError>;
pub(crate) type Floor = SetSessionId<StampVersion<MirrorHeaders<Sse<Http>>>>;
pub(crate) type Envelopes = Resume<Floor>;

pub(crate) fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

pub(crate) fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// The waits without their random part.
pub(crate) fn plain() -> Backoff {
    Backoff::default().jitter(0.0, 0.0)
}

/// One request at the server, which waits for its answer.
pub(crate) struct Arrived {
    pub(crate) method: Method,
    pub(crate) headers: HeaderMap,
    pub(crate) extensions: Extensions,
    pub(crate) message: Value,
    pub(crate) at: Instant,
    head: oneshot::Sender<Result<Response<Script>, BoxError>>,
}

impl Arrived {
    /// What the header `name` says, if it is there.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| std::str::from_utf8(value.as_bytes()).unwrap())
    }

    pub(crate) fn last_event_id(&self) -> Option<&str> {
        self.header("last-event-id")
    }

    /// Whether the client has closed the exchange before the head.
    pub(crate) fn is_dropped(&self) -> bool {
        self.head.is_closed()
    }

    pub(crate) fn fail(self, error: impl Into<BoxError>) {
        let _ = self.head.send(Err(error.into()));
    }

    /// Answers with everything there.
    pub(crate) async fn answer(self, answer: Response<Full<Bytes>>) {
        let (head, body) = answer.into_parts();
        let (pen, script) = script();
        let text = body.collect().await.unwrap().to_bytes();
        if !text.is_empty() {
            pen.write(text);
        }
        let _ = self.head.send(Ok(Response::from_parts(head, script)));
    }

    pub(crate) async fn status(self, status: u16) {
        self.answer(answer(status, "", "")).await;
    }

    /// Answers with an event stream, which begins with `text`.
    pub(crate) fn stream(self, text: impl Into<Bytes>) -> Pen {
        let (pen, script) = script();
        pen.write(text);
        let head = answer(200, "text/event-stream", "").into_parts().0;
        let _ = self.head.send(Ok(Response::from_parts(head, script)));
        pen
    }
}

/// What is sent to the server.
pub(crate) struct Inbox(mpsc::UnboundedReceiver<Arrived>);

impl Inbox {
    #[track_caller]
    pub(crate) fn next(&mut self) -> impl Future<Output = Arrived> {
        let caller = std::panic::Location::caller();
        async move {
            match timeout(2 * HOUR, self.0.recv()).await {
                Ok(Some(arrived)) => arrived,
                _ => panic!("nothing was sent: {caller}"),
            }
        }
    }

    /// The next request, which must be a GET, and come this long after now.
    #[track_caller]
    pub(crate) fn get_after(&mut self, wait: Duration) -> impl Future<Output = Arrived> {
        let (caller, start) = (std::panic::Location::caller(), Instant::now());
        let next = self.next();
        async move {
            let get = next.await;
            assert_eq!((&get.method, get.at - start), (&Method::GET, wait), "{caller}");
            get
        }
    }

    /// Asserts that nothing is sent for an hour.
    pub(crate) async fn assert_silent(&mut self, why: &str) {
        sleep(HOUR).await;
        if let Ok(sent) = self.0.try_recv() {
            panic!("{why}: a {} was sent", sent.method);
        }
    }

    /// Asserts that nothing was sent so far.
    pub(crate) fn assert_empty(&mut self, why: &str) {
        assert!(self.0.try_recv().is_err(), "{why}");
    }
}

/// A stream that is read in a task of its own, as soon as it has anything.
pub(crate) struct Reading<T> {
    items: mpsc::UnboundedReceiver<T>,
    task: JoinHandle<()>,
}

pub(crate) type Call = Reading<Result<JsonRpcMessage, Error>>;

impl<T: Send + 'static> Reading<T> {
    pub(crate) fn of<S, F>(stream: F) -> Self
    where
        S: Stream<Item = T> + Send + 'static,
        F: Future<Output = S> + Send + 'static,
    {
        let (sender, items) = mpsc::unbounded_channel();
        let task = tokio::spawn(async move {
            let mut stream = Box::pin(stream.await);
            while let Some(item) = stream.next().await {
                if sender.send(item).is_err() {
                    return;
                }
            }
        });
        Self { items, task }
    }

    /// The next item; `None`: the stream has ended.
    #[track_caller]
    pub(crate) fn next(&mut self) -> impl Future<Output = Option<T>> {
        let caller = std::panic::Location::caller();
        async move { timeout(HOUR, self.items.recv()).await.unwrap_or_else(|_| panic!("nothing came: {caller}")) }
    }

    /// Asserts that there is nothing to read at the moment.
    pub(crate) async fn assert_waiting(&mut self, why: &str) {
        settle().await;
        assert!(self.items.try_recv().is_err() && !self.task.is_finished(), "{why}");
    }

    /// Drops the stream.
    pub(crate) async fn drop_it(self) {
        self.task.abort();
        settle().await;
        assert!(self.task.is_finished());
    }
}

impl Call {
    /// The next message, which is no response.
    pub(crate) async fn method(&mut self) -> String {
        let message = self.next().await.unwrap().unwrap();
        message.method().unwrap().to_owned()
    }

    /// The next item, which must be the response.
    pub(crate) async fn response(&mut self) -> JsonRpcResponse {
        match self.next().await {
            Some(Ok(JsonRpcMessage::Response(response))) => response,
            other => panic!("no response: {other:?}"),
        }
    }

    /// The next item, which must be an error, and the last one.
    pub(crate) async fn failure(&mut self) -> Error {
        let error = self.next().await.unwrap().unwrap_err();
        assert!(self.next().await.is_none(), "more after the error");
        error
    }

    /// The same, and it must come at once.
    #[track_caller]
    pub(crate) fn fails_now(&mut self) -> impl Future<Output = Error> {
        let (caller, start) = (std::panic::Location::caller(), Instant::now());
        async move {
            let error = self.failure().await;
            assert_eq!(start.elapsed(), Duration::ZERO, "{caller}: {error}");
            error
        }
    }
}

pub(crate) struct Client {
    pub(crate) session: Session,
    pub(crate) floor: Floor,
    pub(crate) envelopes: Envelopes,
    messages: Envelope<Envelopes>,
    pub(crate) inbox: Inbox,
}

impl Client {
    pub(crate) fn new() -> Self {
        Self::with(|session| ResumeLayer::new(endpoint(), session, plain()))
    }

    pub(crate) fn with(resume: impl FnOnce(Session) -> ResumeLayer) -> Self {
        let (sender, arrived) = mpsc::unbounded_channel();
        let http = service_fn(move |request: Request<Full<Bytes>>| {
            let sender = sender.clone();
            let sent: BoxFuture<'static, _> = Box::pin(async move {
                let (parts, body) = request.into_parts();
                let body = body.collect().await?.to_bytes();
                let message = serde_json::from_slice(&body).unwrap_or_default();
                let (head, answer) = oneshot::channel();
                let http::request::Parts { method, headers, extensions, .. } = parts;
                let at = Instant::now();
                // The test may be over.
                let _ = sender.send(Arrived { method, headers, extensions, message, at, head });
                answer.await?
            });
            sent
        });
        let session = Session::new();
        let floor = ServiceBuilder::new()
            .layer(SetSessionIdLayer::new(session.clone()))
            .layer(StampVersionLayer::new(session.clone()))
            .layer(MirrorHeadersLayer::new())
            .layer(SseLayer::new(Limits::default().max_event_bytes(16 << 20)))
            .service(Http::new(http));
        let envelopes = resume(session.clone()).layer(floor.clone());
        let messages = EnvelopeLayer::new(endpoint(), session.clone()).layer(envelopes.clone());
        Self { session, floor, envelopes, messages, inbox: Inbox(arrived) }
    }

    /// With a session of the id `one`.
    pub(crate) async fn in_session() -> Self {
        Self::new().begun().await
    }

    pub(crate) async fn begun(mut self) -> Self {
        self.begin("one").await;
        self
    }

    pub(crate) async fn begin(&mut self, id: &str) {
        let params = json!({ "protocolVersion": LEGACY });
        let mut call = self.call(JsonRpcMessage::request("init", "initialize", params));
        let result = json!({ "jsonrpc": "2.0", "id": "init", "result": { "protocolVersion": LEGACY } });
        let post = self.inbox.next().await;
        post.answer(with_header(json_answer(result.to_string()), "mcp-session-id", id.as_bytes())).await;
        call.response().await;
        assert_eq!(self.session.id().unwrap(), id);
    }

    /// The server no longer knows the session.
    pub(crate) async fn expire(&mut self) {
        let mut call = self.call(ping(404));
        self.inbox.next().await.status(404).await;
        assert!(call.failure().await.is_session_expired() && self.session.is_expired());
    }

    /// The client ends the session.
    pub(crate) async fn end(&mut self) {
        let delete = tokio::spawn(self.floor.clone().oneshot(endpoint().delete()));
        self.inbox.next().await.status(204).await;
        let _ = delete.await.unwrap().unwrap();
        assert!(self.session.id().is_none());
    }

    pub(crate) fn call(&self, message: JsonRpcMessage) -> Call {
        let sent = self.messages.clone().oneshot(message).boxed();
        Reading::of(async {
            match sent.await {
                Ok(reply) => reply.left_stream(),
                Err(error) => futures_util::stream::iter([Err(error)]).right_stream(),
            }
        })
    }

    /// A call that was answered with a stream, which begins with `text`.
    pub(crate) async fn open(&mut self, text: &str) -> (Call, Pen) {
        let call = self.call(tool(7));
        let post = self.inbox.next().await;
        assert_eq!((&post.method, post.last_event_id()), (&Method::POST, None));
        let pen = post.stream(text.to_owned());
        settle().await;
        (call, pen)
    }

    /// A call whose stream has ended after the id `e1`.
    pub(crate) async fn interrupted(&mut self) -> Call {
        self.open("id: e1\ndata:\n\n").await.0
    }
}

impl Deref for Client {
    type Target = Session;

    fn deref(&self) -> &Session {
        &self.session
    }
}

/// Gives what was spawned its turns: the tests have one thread.
pub(crate) async fn settle() {
    for _ in 0..32 {
        tokio::task::yield_now().await;
    }
}

pub(crate) fn tool(id: i64) -> JsonRpcMessage {
    JsonRpcMessage::request(id, "tools/call", json!({ "name": "add" }))
}

/// An event with a notification of the method `method`, and with the id `id` unless that is empty.
pub(crate) fn event(id: &str, method: &str) -> String {
    let id = if id.is_empty() { String::new() } else { format!("id: {id}\n") };
    format!("{id}data: {{\"jsonrpc\":\"2.0\",\"method\":\"{method}\"}}\n\n")
}

/// An event with the response to the request `id`, which is JSON.
pub(crate) fn done(id: &str) -> String {
    format!("data: {{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{{}}}}\n\n")
}
