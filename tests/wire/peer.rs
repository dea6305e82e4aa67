//! A server on hyper, for what the scripted one does not speak: HTTP/2 and TLS.
//!
//! It answers each call with a short script, and keeps account of what it sees.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::stream;
use http::{Request, Response, Uri, Version};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use mcp_streamable_http::error::BoxError;
use rustls::ServerConfig;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};
use tokio_rustls::TlsAcceptor;

use crate::common::{progress, soon};
use crate::support::Gate;

/// A message that arrived.
pub(crate) struct Call {
    pub(crate) message: Value,
}

impl Call {
    pub(crate) fn id(&self) -> i64 {
        self.message["id"].as_i64().unwrap()
    }

    pub(crate) fn is(&self, method: &str) -> bool {
        self.message["method"] == method
    }
}

/// The answer to a call.
pub(crate) enum Play {
    /// The result, as JSON.
    Json,
    /// The same, once the gate is open.
    JsonAfter(Gate),
    /// An event stream.
    Events(Vec<Step>),
    /// No answer: the stream is reset (RST_STREAM).
    Reset(h2::Reason),
}

/// A step of an event stream. It ends after the last one.
#[derive(Clone)]
pub(crate) enum Step {
    Progress,
    /// So many KiB of comments, in one piece.
    Comments(usize),
    Result,
    Wait(Gate),
    Reset,
}

/// What has happened so far.
#[derive(Default)]
pub(crate) struct Seen {
    pub(crate) connections: usize,
    pub(crate) closed: usize,
    /// The connection and the HTTP version of each call.
    pub(crate) calls: Vec<(usize, Version)>,
    /// The ids of the calls that the client dropped, in that order.
    pub(crate) cancelled: Vec<i64>,
}

struct Shared {
    handler: Box<dyn Fn(&Call) -> Play + Send + Sync>,
    tls: Option<TlsAcceptor>,
    max_streams: Option<u32>,
    seen: watch::Sender<Seen>,
    /// The connections before this one are shut down.
    retired: watch::Sender<usize>,
}

pub(crate) struct Peer {
    address: SocketAddr,
    shared: Arc<Shared>,
    accepting: JoinHandle<()>,
}

impl Peer {
    /// Speaks HTTP/2, and no TLS.
    pub(crate) async fn http2(handler: impl Fn(&Call) -> Play + Send + Sync + 'static) -> Self {
        Self::start(None, None, handler).await
    }

    /// The same, with so many streams at once for each connection.
    pub(crate) async fn http2_with_max_streams(
        max_streams: u32,
        handler: impl Fn(&Call) -> Play + Send + Sync + 'static,
    ) -> Self {
        Self::start(None, Some(max_streams), handler).await
    }

    /// Speaks TLS, and in it the version of HTTP that was agreed upon; HTTP/1.1 if none was.
    pub(crate) async fn tls(config: ServerConfig) -> Self {
        Self::start(Some(TlsAcceptor::from(Arc::new(config))), None, |_| Play::Json).await
    }

    async fn start(
        tls: Option<TlsAcceptor>,
        max_streams: Option<u32>,
        handler: impl Fn(&Call) -> Play + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (seen, retired) = (watch::Sender::default(), watch::Sender::default());
        let shared = Arc::new(Shared { handler: Box::new(handler), tls, max_streams, seen, retired });
        let accepting = tokio::spawn(accept(listener, Arc::clone(&shared)));
        Self { address, shared, accepting }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn url(&self) -> Uri {
        let scheme = if self.shared.tls.is_some() { "https" } else { "http" };
        format!("{scheme}://{}/mcp", self.address).parse().unwrap()
    }

    pub(crate) fn connections(&self) -> usize {
        self.shared.seen.borrow().connections
    }

    /// The ids of the calls that the client dropped.
    pub(crate) fn cancelled(&self) -> Vec<i64> {
        self.shared.seen.borrow().cancelled.clone()
    }

    /// The connections of the calls.
    pub(crate) fn connections_of_calls(&self) -> Vec<usize> {
        self.shared.seen.borrow().calls.iter().map(|(connection, _)| *connection).collect()
    }

    /// The HTTP versions of the calls.
    pub(crate) fn versions(&self) -> Vec<Version> {
        self.shared.seen.borrow().calls.iter().map(|(_, version)| *version).collect()
    }

    /// Waits until it has seen this.
    pub(crate) async fn wait(&self, ready: impl Fn(&Seen) -> bool) {
        soon(self.shared.seen.subscribe().wait_for(|seen| ready(seen))).await.unwrap();
    }

    /// Shuts down the connections that there are, with a GOAWAY: streams that are open may go on.
    pub(crate) fn retire_connections(&self) {
        self.shared.retired.send_replace(self.connections());
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        // Frames of control are small: held back, they would wait for an acknowledgement that is late.
        stream.set_nodelay(true).unwrap();
        let mut number = 0;
        shared.seen.send_modify(|seen| {
            number = seen.connections;
            seen.connections += 1;
        });
        let shared = Arc::clone(&shared);
        connections.spawn(async move {
            negotiate(stream, number, &shared).await;
            shared.seen.send_modify(|seen| seen.closed += 1);
        });
    }
}

async fn negotiate(stream: TcpStream, number: usize, shared: &Arc<Shared>) {
    let Some(tls) = &shared.tls else { return serve_http2(stream, number, shared).await };
    match tls.accept(stream).into_fallible().await {
        Ok(stream) if stream.get_ref().1.alpn_protocol() == Some(b"h2") => {
            serve_http2(stream, number, shared).await;
        }
        Ok(stream) => {
            let shared = Arc::clone(shared);
            let service = service_fn(move |request| answer(Arc::clone(&shared), number, request));
            let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
        }
        // Lets the client read the alert: closing over what it has sent since would reset the connection.
        Err((_, mut stream)) => {
            let _ = stream.read_to_end(&mut Vec::new()).await;
        }
    }
}

async fn serve_http2<I>(io: I, number: usize, shared: &Arc<Shared>)
where
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let mut retired = shared.retired.subscribe();
    let max_streams = shared.max_streams;
    let shared = Arc::clone(shared);
    let service = service_fn(move |request| answer(Arc::clone(&shared), number, request));
    let mut builder = http2::Builder::new(TokioExecutor::new());
    if let Some(max_streams) = max_streams {
        builder.max_concurrent_streams(max_streams);
    }
    let mut connection = pin!(builder.serve_connection(TokioIo::new(io), service));
    tokio::select! {
        _ = connection.as_mut() => return,
        _ = retired.wait_for(|first| number < *first) => connection.as_mut().graceful_shutdown(),
    }
    let _ = connection.await;
}

/// Notes that the client has dropped a call, unless it was finished before.
struct Canary {
    id: i64,
    /// `None`: it was finished.
    shared: Option<Arc<Shared>>,
}

impl Canary {
    fn finish(&mut self) {
        self.shared = None;
    }
}

impl Drop for Canary {
    fn drop(&mut self) {
        if let Some(shared) = &self.shared {
            shared.seen.send_modify(|seen| seen.cancelled.push(self.id));
        }
    }
}

async fn answer(
    shared: Arc<Shared>,
    connection: usize,
    request: Request<Incoming>,
) -> Result<Response<UnsyncBoxBody<Bytes, BoxError>>, BoxError> {
    let version = request.version();
    let body = request.into_body().collect().await?.to_bytes();
    let call = Call { message: serde_json::from_slice(&body)? };
    let mut canary = Canary { id: call.id(), shared: Some(Arc::clone(&shared)) };
    shared.seen.send_modify(|seen| seen.calls.push((connection, version)));
    let result = json!({ "jsonrpc": "2.0", "id": call.message["id"], "result": {} });
    let (content_type, body) = match (shared.handler)(&call) {
        Play::Events(steps) => ("text/event-stream", events(steps, result, canary)),
        Play::Reset(reason) => {
            canary.finish();
            return Err(h2::Error::from(reason).into());
        }
        play => {
            if let Play::JsonAfter(gate) = play {
                gate.passed().await;
            }
            canary.finish();
            let body = Full::<Bytes>::from(result.to_string()).map_err(|never| match never {});
            ("application/json", body.boxed_unsync())
        }
    };
    Ok(Response::builder().header("content-type", content_type).body(body)?)
}

fn events(steps: Vec<Step>, result: Value, canary: Canary) -> UnsyncBoxBody<Bytes, BoxError> {
    let state = (VecDeque::from(steps), canary);
    let stream = stream::unfold(state, move |(mut steps, mut canary)| {
        let event = |data: &Value| Bytes::from(format!("data: {data}\n\n"));
        let result = event(&result);
        async move {
            loop {
                let item = match steps.pop_front() {
                    Some(Step::Wait(gate)) => {
                        gate.passed().await;
                        continue;
                    }
                    Some(Step::Progress) => Ok(Frame::data(event(&progress()))),
                    Some(Step::Comments(kib)) => {
                        let line = format!(":{}\n", " ".repeat(1022));
                        Ok(Frame::data(line.repeat(kib).into()))
                    }
                    Some(Step::Result) => Ok(Frame::data(result)),
                    Some(Step::Reset) => Err("no more".into()),
                    None => {
                        canary.finish();
                        return None;
                    }
                };
                if item.is_err() {
                    canary.finish();
                }
                return Some((item, (steps, canary)));
            }
        }
    });
    StreamBody::new(stream).boxed_unsync()
}
