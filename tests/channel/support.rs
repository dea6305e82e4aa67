//! A server without a network: each request waits until the test answers it, or a script does.

use std::collections::HashSet;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use http_body::{Body, Frame};
use http_body_util::{BodyExt, Full};
use mcp_streamable_http::StreamableHttp;
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};
use tower::{BoxError, Service};

use crate::common::{SESSION, VERSION, in_time, soon};

/// A request as it arrived.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) http_method: String,
    pub(crate) headers: HeaderMap,
    /// `Null` for a request without a body.
    pub(crate) message: Value,
}

impl Seen {
    /// The method of its message, `"="` for a response; of a request without one, that of HTTP.
    pub(crate) fn what(&self) -> &str {
        match &self.message {
            Value::Null => &self.http_method,
            message => message["method"].as_str().unwrap_or("="),
        }
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    pub(crate) fn has_id(&self, id: i64) -> bool {
        self.message["id"] == id
    }

    /// The response with this result.
    pub(crate) fn result(&self, result: Value) -> Value {
        json!({ "jsonrpc": "2.0", "id": self.message["id"], "result": result })
    }
}

/// What a request is answered with.
pub(crate) struct Answer {
    after: Duration,
    outcome: Result<Response<Content>, BoxError>,
}

impl Answer {
    fn with(status: u16, content: Content) -> Self {
        let response = Response::builder().status(status).body(content).unwrap();
        Self { after: Duration::ZERO, outcome: Ok(response) }
    }

    pub(crate) fn status(status: u16) -> Self {
        Self::with(status, Content::Whole(Full::default()))
    }

    pub(crate) fn of(status: u16, content_type: &str, body: impl Into<Bytes>) -> Self {
        Self::with(status, Content::Whole(Full::new(body.into()))).header("content-type", content_type)
    }

    pub(crate) fn json(value: &Value) -> Self {
        Self::text("application/json", value.to_string())
    }

    pub(crate) fn text(content_type: &str, text: impl Into<Bytes>) -> Self {
        Self::of(200, content_type, text)
    }

    /// A whole event stream.
    pub(crate) fn events(events: &[Value]) -> Self {
        let events: String = events.iter().map(event).collect();
        Self::text("text/event-stream", events)
    }

    /// The connection breaks.
    pub(crate) fn broken() -> Self {
        Self { after: Duration::ZERO, outcome: Err("the connection broke".into()) }
    }

    pub(crate) fn header(mut self, name: &'static str, value: &str) -> Self {
        if let Ok(response) = &mut self.outcome {
            response.headers_mut().insert(name, value.parse().unwrap());
        }
        self
    }

    /// One more header of the same name.
    #[allow(dead_code, reason = "for the tests of the adapter for rmcp, which share this file")]
    pub(crate) fn another(mut self, name: &'static str, value: &str) -> Self {
        if let Ok(response) = &mut self.outcome {
            response.headers_mut().append(name, value.parse().unwrap());
        }
        self
    }

    pub(crate) fn after(self, after: Duration) -> Self {
        Self { after, ..self }
    }
}

fn event(message: &Value) -> String {
    format!("data: {message}\n\n")
}

/// A request that waits for its answer. Dropping it breaks its connection.
pub(crate) struct Exchange {
    pub(crate) seen: Seen,
    head: oneshot::Sender<Answer>,
}

impl Exchange {
    pub(crate) fn answer(self, answer: Answer) {
        let _ = self.head.send(answer);
    }

    pub(crate) fn accept(self) {
        self.answer(Answer::status(202));
    }

    pub(crate) fn result(self, result: Value) {
        let response = self.seen.result(result);
        self.answer(Answer::json(&response));
    }

    /// Answers with the head of an event stream.
    pub(crate) fn open(self) -> Events {
        let (chunks, receiver) = mpsc::unbounded_channel();
        let reads = Arc::<AtomicUsize>::default();
        let content = Content::Chunks(receiver, reads.clone());
        let events = Events { seen: self.seen.clone(), chunks, reads };
        self.answer(Answer::with(200, content).header("content-type", "text/event-stream"));
        events
    }

    /// Whether the client has given it up.
    pub(crate) fn is_dropped(&self) -> bool {
        self.head.is_closed()
    }
}

/// The server's end of an event stream. Dropping it ends the stream.
pub(crate) struct Events {
    pub(crate) seen: Seen,
    chunks: mpsc::UnboundedSender<Bytes>,
    reads: Arc<AtomicUsize>,
}

impl Events {
    pub(crate) fn send(&self, message: &Value) {
        self.send_text(event(message));
    }

    pub(crate) fn send_text(&self, text: impl Into<Bytes>) {
        let _ = self.chunks.send(text.into());
    }

    pub(crate) fn result(&self, result: Value) {
        self.send(&self.seen.result(result));
    }

    /// How many chunks the client has read.
    pub(crate) fn reads(&self) -> usize {
        self.reads.load(Ordering::Relaxed)
    }

    /// Whether the client has closed it.
    pub(crate) fn is_dropped(&self) -> bool {
        self.chunks.is_closed()
    }
}

/// The body of an answer.
pub(crate) enum Content {
    Whole(Full<Bytes>),
    Chunks(mpsc::UnboundedReceiver<Bytes>, Arc<AtomicUsize>),
}

impl Body for Content {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        match self.get_mut() {
            Self::Whole(body) => Pin::new(body).poll_frame(cx).map_err(Into::into),
            Self::Chunks(chunks, reads) => {
                let chunk = ready!(chunks.poll_recv(cx));
                reads.fetch_add(usize::from(chunk.is_some()), Ordering::Relaxed);
                Poll::Ready(chunk.map(|chunk| Ok(Frame::data(chunk))))
            }
        }
    }
}

type Script = dyn Fn(&Seen) -> Option<Answer> + Send + Sync;

/// The HTTP client of the transport under test.
#[derive(Clone)]
pub(crate) struct Wire {
    log: Arc<Mutex<Vec<Seen>>>,
    arrivals: mpsc::UnboundedSender<Exchange>,
    script: Arc<Script>,
}

impl Service<Request<Full<Bytes>>> for Wire {
    type Response = Response<Content>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Content>, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Full<Bytes>>) -> Self::Future {
        let Self { log, arrivals, script } = self.clone();
        // Nothing is sent before the first poll.
        Box::pin(async move {
            let (head, body) = request.into_parts();
            let body = body.collect().await?.to_bytes();
            let message = if body.is_empty() { Value::Null } else { serde_json::from_slice(&body)? };
            let seen = Seen { http_method: head.method.to_string(), headers: head.headers, message };
            log.lock().unwrap().push(seen.clone());
            let answer = match script(&seen) {
                Some(answer) => answer,
                None => {
                    let (head, answer) = oneshot::channel();
                    let _ = arrivals.send(Exchange { seen, head });
                    answer.await?
                }
            };
            if !answer.after.is_zero() {
                tokio::time::sleep(answer.after).await;
            }
            answer.outcome
        })
    }
}

/// A server, and what it has seen.
pub(crate) struct Server {
    wire: Wire,
    arrivals: mpsc::UnboundedReceiver<Exchange>,
}

impl Server {
    /// What the script leaves is up to the test.
    pub(crate) fn scripted(script: impl Fn(&Seen) -> Option<Answer> + Send + Sync + 'static) -> Self {
        let (sender, arrivals) = mpsc::unbounded_channel();
        let wire = Wire { log: Arc::default(), arrivals: sender, script: Arc::new(script) };
        Self { wire, arrivals }
    }

    /// The test answers everything.
    pub(crate) fn manual() -> Self {
        Self::scripted(|_| None)
    }

    /// Answers the handshake and the DELETE; it does not offer to listen.
    pub(crate) fn legacy() -> Self {
        Self::scripted(|seen| legacy(seen).or_else(|| (seen.what() == "GET").then(|| Answer::status(405))))
    }

    /// Answers the handshake and the DELETE.
    pub(crate) fn listening() -> Self {
        Self::scripted(legacy)
    }

    pub(crate) fn transport(&self) -> StreamableHttp {
        let uri = "http://in.memory/mcp".parse().unwrap();
        StreamableHttp::with_client(uri, self.wire.clone()).build().unwrap()
    }

    pub(crate) fn wire(&self) -> Wire {
        self.wire.clone()
    }

    /// The next request that the script has left.
    pub(crate) async fn next(&mut self) -> Exchange {
        soon(self.arrivals.recv()).await.unwrap()
    }

    /// The next one, whenever it comes.
    pub(crate) async fn next_in_time(&mut self) -> Exchange {
        in_time(self.arrivals.recv()).await.unwrap()
    }

    /// The next one, which must be this.
    pub(crate) async fn expect(&mut self, what: &str) -> Exchange {
        let next = self.next().await;
        assert_eq!(next.seen.what(), what, "{:?}", next.seen);
        next
    }

    /// Everything that has arrived, what the script has answered included.
    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.wire.log.lock().unwrap().clone()
    }

    /// The same in short.
    pub(crate) fn outline(&self) -> Vec<String> {
        self.seen().iter().map(|seen| seen.what().to_owned()).collect()
    }

    pub(crate) fn count(&self, what: &str) -> usize {
        self.seen().iter().filter(|seen| seen.what() == what).count()
    }

    /// The ids of all requests that have arrived with this method.
    pub(crate) fn ids(&self, method: &str) -> HashSet<i64> {
        let seen = self.seen();
        seen.iter().filter(|seen| seen.what() == method).map(|s| s.message["id"].as_i64().unwrap()).collect()
    }
}

/// The frame of a session: its handshake, and its end.
pub(crate) fn legacy(seen: &Seen) -> Option<Answer> {
    match seen.what() {
        "initialize" => {
            let server = json!({ "name": "scripted", "version": "1" });
            let result = json!({ "protocolVersion": VERSION, "capabilities": {}, "serverInfo": server });
            Some(Answer::json(&seen.result(result)).header("mcp-session-id", SESSION))
        }
        "notifications/initialized" => Some(Answer::status(202)),
        "DELETE" => Some(Answer::status(200)),
        _ => None,
    }
}
