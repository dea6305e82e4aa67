//! What the tests of the layers share: a mock below the layers, polled by hand, and bodies that arrive in pieces.

// Every file of tests is a crate of its own and uses only a part of this.
#![allow(dead_code, clippy::unwrap_used, clippy::panic)]

pub(crate) mod bridge;
pub(crate) mod client;

use std::fmt::Debug;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::Stream;
use http::{HeaderMap, Response, StatusCode};
use http_body::{Body, Frame};
use http_body_util::Full;
use mcp_streamable_http_layers::error::BoxError;
use mcp_streamable_http_layers::options::ExtraHeaders;
use mcp_streamable_http_layers::{Endpoint, Error, JsonRpcMessage, JsonRpcResponse, Reply};
use serde_json::json;
use tokio::sync::mpsc;
use tokio_test::{assert_ready, assert_ready_ok, task};
use tower::Service;
use tower_test::mock;

pub(crate) const ENDPOINT: &str = "https://example.com/mcp";

pub(crate) fn endpoint() -> Endpoint {
    Endpoint::new(ENDPOINT.parse().unwrap()).unwrap()
}

pub(crate) fn ping(id: i64) -> JsonRpcMessage {
    JsonRpcMessage::request(id, "ping", ())
}

pub(crate) fn notification() -> JsonRpcMessage {
    JsonRpcMessage::notification("notifications/initialized", ())
}

pub(crate) fn initialize(id: i64) -> JsonRpcMessage {
    JsonRpcMessage::request(id, "initialize", json!({ "protocolVersion": "2025-11-25" }))
}

/// A request that names `version` itself, as those of the modern era do.
pub(crate) fn versioned(method: &'static str, version: &str) -> JsonRpcMessage {
    let meta = json!({ "io.modelcontextprotocol/protocolVersion": version });
    JsonRpcMessage::request(1, method, json!({ "_meta": meta }))
}

pub(crate) fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
    pairs.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect()
}

pub(crate) fn extra(pairs: &[(&'static str, &str)]) -> ExtraHeaders {
    ExtraHeaders(headers(pairs))
}

/// An HTTP answer with everything there; an empty `content_type` is none.
pub(crate) fn answer(status: u16, content_type: &str, body: impl Into<Bytes>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = StatusCode::from_u16(status).unwrap();
    if !content_type.is_empty() {
        response.headers_mut().insert("content-type", content_type.parse().unwrap());
    }
    response
}

pub(crate) fn json_answer(body: impl Into<Bytes>) -> Response<Full<Bytes>> {
    answer(200, "application/json", body)
}

pub(crate) fn with_header<B>(mut response: Response<B>, name: &'static str, value: &[u8]) -> Response<B> {
    response.headers_mut().append(name, value.try_into().unwrap());
    response
}

/// What lies below the layers under test, in the hands of the test.
pub(crate) struct Server<Q, R>(pub(crate) mock::Handle<Q, R>);

impl<Q, R> Server<Q, R> {
    /// The next request that reached it.
    pub(crate) fn received(&mut self) -> (Q, mock::SendResponse<R>) {
        match self.0.poll_request() {
            Poll::Ready(Some(received)) => received,
            Poll::Ready(None) | Poll::Pending => panic!("nothing was sent"),
        }
    }

    #[track_caller]
    pub(crate) fn assert_nothing_received(&mut self) {
        assert!(!matches!(self.0.poll_request(), Poll::Ready(Some(_))), "a request was sent");
    }
}

/// Makes `service` ready and calls it.
pub(crate) fn call<S, Q>(service: &mut S, request: Q) -> task::Spawn<S::Future>
where
    S: Service<Q>,
    S::Error: Debug,
{
    let mut ready = task::spawn(());
    assert_ready_ok!(ready.enter(|cx, _| service.poll_ready(cx)));
    task::spawn(service.call(request))
}

/// Asserts that `poll_ready` of `service` says what the service below says: to wait, to go on, and to give up.
pub(crate) fn assert_ready_passes_through<S, Q, T, U>(service: S, server: &mut Server<T, U>)
where
    S: Service<Q>,
    S::Error: Debug + ToString,
{
    let mut service = mock::Spawn::new(service);
    server.0.allow(0);
    assert!(service.poll_ready().is_pending());
    server.0.allow(1);
    assert!(service.is_woken());
    assert_ready_ok!(service.poll_ready());
    server.0.send_error("out of order");
    match service.poll_ready() {
        Poll::Ready(Err(error)) => assert_eq!(error.to_string(), "out of order"),
        Poll::Ready(Ok(())) | Poll::Pending => panic!("the error was lost"),
    }
}

/// What a future that need not wait gives.
#[track_caller]
pub(crate) fn now<F: Future>(future: F) -> F::Output {
    assert_ready!(task::spawn(future).poll())
}

/// All the items of a stream that need not wait, to its end.
#[track_caller]
pub(crate) fn all<S: Stream>(stream: S) -> Vec<S::Item> {
    let mut stream = task::spawn(stream);
    let mut items = Vec::new();
    loop {
        match stream.poll_next() {
            Poll::Ready(Some(item)) => {
                items.push(item);
                assert!(items.len() < 10_000, "it does not end");
            }
            Poll::Ready(None) => return items,
            // It may let others have their turn.
            Poll::Pending => assert!(stream.is_woken(), "pending"),
        }
    }
}

/// The response at the end of a reply that need not wait.
#[track_caller]
pub(crate) fn response(reply: Result<Reply, Error>) -> Result<JsonRpcResponse, Error> {
    now(reply?.response())
}

/// The sending end of a [`Script`].
#[derive(Clone)]
pub(crate) struct Pen {
    frames: mpsc::UnboundedSender<Result<Frame<Bytes>, BoxError>>,
    dropped: Arc<AtomicBool>,
    ended: Arc<AtomicBool>,
}

/// A body that brings what the test writes, when the test writes it, and ends with the last [`Pen`].
pub(crate) struct Script {
    frames: mpsc::UnboundedReceiver<Result<Frame<Bytes>, BoxError>>,
    dropped: Arc<AtomicBool>,
    ended: Arc<AtomicBool>,
}

pub(crate) fn script() -> (Pen, Script) {
    let (sender, receiver) = mpsc::unbounded_channel();
    let (dropped, ended) = <(Arc<AtomicBool>, Arc<AtomicBool>)>::default();
    let pen = Pen { frames: sender, dropped: dropped.clone(), ended: ended.clone() };
    (pen, Script { frames: receiver, dropped, ended })
}

impl Pen {
    pub(crate) fn write(&self, chunk: impl Into<Bytes>) {
        // Nobody reads on: that is for the test to notice.
        let _ = self.frames.send(Ok(Frame::data(chunk.into())));
    }

    pub(crate) fn fail(&self, error: impl Into<BoxError>) {
        let _ = self.frames.send(Err(error.into()));
    }

    /// Leaves a note that outlives the pen.
    pub(crate) fn watch(&self) -> Watch {
        Watch { dropped: self.dropped.clone(), ended: self.ended.clone() }
    }
}

/// What became of a [`Script`].
pub(crate) struct Watch {
    dropped: Arc<AtomicBool>,
    ended: Arc<AtomicBool>,
}

impl Watch {
    pub(crate) fn is_dropped(&self) -> bool {
        self.dropped.load(Ordering::SeqCst)
    }

    /// Whether it was read to its end.
    pub(crate) fn is_read(&self) -> bool {
        self.ended.load(Ordering::SeqCst)
    }
}

impl Body for Script {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let frame = self.frames.poll_recv(cx);
        if let Poll::Ready(None) = frame {
            self.ended.store(true, Ordering::SeqCst);
        }
        frame
    }
}

impl Drop for Script {
    fn drop(&mut self) {
        self.dropped.store(true, Ordering::SeqCst);
    }
}
