//! A server in the process, in the shape of an HTTP client, that works on each call for a while.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use http::{HeaderMap, Method, Request, Response, StatusCode, Uri};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::Frame;
use mcp_streamable_http::{Builder, StreamableHttp};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::Instant;
use tower::Service;

type Body = UnsyncBoxBody<Bytes, Infallible>;

/// One request, as the server saw it.
#[derive(Clone)]
pub(crate) struct Seen {
    pub(crate) after: Duration,
    pub(crate) http_method: Method,
    /// That of the message.
    pub(crate) method: String,
    pub(crate) headers: HeaderMap,
}

/// Answers a call with the head of a stream and a word of progress at once, and with the response when its work is done.
#[derive(Clone)]
pub(crate) struct Server {
    start: Instant,
    work: Duration,
    seen: Arc<Mutex<Vec<Seen>>>,
    /// How many calls it works on, and on how many at the most.
    open: Arc<watch::Sender<(usize, usize)>>,
}

/// One call that is being worked on.
struct Work(Arc<watch::Sender<(usize, usize)>>);

impl Work {
    fn begin(open: Arc<watch::Sender<(usize, usize)>>) -> Self {
        open.send_modify(|(now, most)| {
            *now += 1;
            *most = (*most).max(*now);
        });
        Self(open)
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        self.0.send_modify(|(now, _)| *now -= 1);
    }
}

impl Server {
    pub(crate) fn new(work: Duration) -> Self {
        Self { start: Instant::now(), work, seen: Arc::default(), open: Arc::new(watch::Sender::new((0, 0))) }
    }

    pub(crate) fn builder(
        &self,
    ) -> Builder<
        impl Service<Request<Full<Bytes>>, Response = Response<Body>, Error = Infallible, Future: Send + 'static>
        + Clone
        + Send
        + Sync
        + 'static,
    > {
        let server = self.clone();
        let client = tower::service_fn(move |request| server.clone().answer(request));
        StreamableHttp::with_client(Uri::from_static("http://in.memory/mcp"), client)
    }

    pub(crate) fn transport(&self) -> StreamableHttp {
        self.builder().build().unwrap()
    }

    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    /// The requests with messages of this method.
    pub(crate) fn seen_of(&self, method: &str) -> Vec<Seen> {
        self.seen().into_iter().filter(|seen| seen.method == method).collect()
    }

    /// After how many seconds the calls came.
    pub(crate) fn seconds(&self) -> Vec<u64> {
        self.seen_of("tools/call").iter().map(|seen| seen.after.as_secs()).collect()
    }

    /// On how many calls it worked at the most.
    pub(crate) fn most_open(&self) -> usize {
        self.open.borrow().1
    }

    /// Waits until it works on so many calls.
    pub(crate) async fn works_on(&self, calls: usize) {
        crate::soon(self.open.subscribe().wait_for(|(now, _)| *now == calls)).await.unwrap();
    }

    /// Waits until it has seen so many messages of this method.
    pub(crate) async fn has_seen(&self, count: usize, method: &str) {
        let is_there = |_: &(usize, usize)| self.seen_of(method).len() >= count;
        crate::soon(self.open.subscribe().wait_for(is_there)).await.unwrap();
    }

    async fn answer(self, request: Request<Full<Bytes>>) -> Result<Response<Body>, Infallible> {
        let (head, body) = request.into_parts();
        let message: Value = serde_json::from_slice(&body.collect().await?.to_bytes()).unwrap_or_default();
        let method = message["method"].as_str().unwrap_or_default().to_owned();
        self.seen.lock().unwrap().push(Seen {
            after: self.start.elapsed(),
            http_method: head.method.clone(),
            method: method.clone(),
            headers: head.headers,
        });
        // Whoever waits is to look again.
        self.open.send_modify(|_| {});
        let id = &message["id"];
        Ok(match (head.method.as_str(), method.as_str()) {
            ("POST", "initialize") => {
                let server = json!({ "name": "in-memory", "version": "1" });
                let result =
                    json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": server });
                let response = json!({ "jsonrpc": "2.0", "id": id, "result": result });
                let body = Full::from(response.to_string()).boxed_unsync();
                let response = Response::builder().header("content-type", "application/json");
                response.header("mcp-session-id", "s-1").body(body).unwrap()
            }
            ("POST", _) if id.is_null() => status(StatusCode::ACCEPTED),
            ("POST", _) => {
                let (work, time) = (Work::begin(self.open), self.work);
                let progress = json!({ "jsonrpc": "2.0", "method": "notifications/progress", "params": {} });
                let response = json!({ "jsonrpc": "2.0", "id": id, "result": {} });
                let last = stream::once(async move {
                    tokio::time::sleep(time).await;
                    drop(work);
                    event(&response)
                });
                let body = StreamBody::new(stream::iter([event(&progress)]).chain(last)).boxed_unsync();
                Response::builder().header("content-type", "text/event-stream").body(body).unwrap()
            }
            ("DELETE", _) => status(StatusCode::NO_CONTENT),
            _ => status(StatusCode::METHOD_NOT_ALLOWED),
        })
    }
}

fn status(status: StatusCode) -> Response<Body> {
    let mut response = Response::new(Full::default().boxed_unsync());
    *response.status_mut() = status;
    response
}

fn event(message: &Value) -> Result<Frame<Bytes>, Infallible> {
    Ok(Frame::data(Bytes::from(format!("data: {message}\n\n"))))
}
