//! The server, in its own process: just enough of MCP in both eras for the measurements.

use std::convert::Infallible;
use std::io::{Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use bytes::Bytes;
use futures_util::stream::{self, StreamExt};
use http::{Method, Request, Response, StatusCode, header};
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use serde_json::{Value, json};
use tokio::net::TcpSocket;
use tokio::sync::Barrier;

use crate::BoxError;
use crate::server::Protocol;

pub(crate) const COMMAND: &str = "serve";

/// The answers that stay open, by what is to be asked for.
pub(crate) const STREAMING_TOOL: &str = "stream";
pub(crate) const SUBSCRIBE: &str = "subscriptions/listen";
/// The tool whose calls are answered when all have arrived.
pub(crate) const GATHERING_TOOL: &str = "gather";
/// How many connections there were so far.
pub(crate) const CONNECTIONS: &str = "connections";

/// Room for all connections of a measurement to be made at once; the system may allow fewer.
const BACKLOG: u32 = 4096;

type Body = UnsyncBoxBody<Bytes, Infallible>;

struct State {
    gathering: Barrier,
    connections: AtomicUsize,
}

/// How `protocol` is called on the command line.
pub(crate) fn word(protocol: Protocol) -> &'static str {
    match protocol {
        Protocol::Http1 => "http1",
        Protocol::Http2 => "http2",
    }
}

/// Serves until the standard input ends. The port is the one line of output.
pub(crate) fn run(protocol: Option<String>, gathers: Option<String>) -> Result<(), BoxError> {
    let protocol =
        [Protocol::Http1, Protocol::Http2].into_iter().find(|&p| Some(word(p)) == protocol.as_deref());
    let (Some(protocol), Some(gathers)) = (protocol, gathers) else {
        return Err("this is the server of the measurements, which they start themselves".into());
    };
    let gathering = Barrier::new(gathers.parse()?);
    let state = Arc::new(State { gathering, connections: AtomicUsize::new(0) });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    std::thread::spawn(|| {
        // Nothing is ever written to it: it ends, or breaks, with the process that has started this one.
        let _ = std::io::stdin().read(&mut [0]);
        std::process::exit(0);
    });
    runtime.block_on(serve(protocol, state))
}

async fn serve(protocol: Protocol, state: Arc<State>) -> Result<(), BoxError> {
    let socket = TcpSocket::new_v4()?;
    socket.bind(([127, 0, 0, 1], 0).into())?;
    let listener = socket.listen(BACKLOG)?;
    writeln!(std::io::stdout(), "{}", listener.local_addr()?.port())?;
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        state.connections.fetch_add(1, Relaxed);
        let (io, state) = (TokioIo::new(stream), state.clone());
        let service = service_fn(move |request| answer(request, state.clone()));
        // A connection that breaks is the client's business: it tells what it has not got.
        match protocol {
            Protocol::Http1 => drop(tokio::spawn(http1::Builder::new().serve_connection(io, service))),
            Protocol::Http2 => {
                let mut builder = http2::Builder::new(TokioExecutor::new());
                builder.timer(TokioTimer::new()).max_concurrent_streams(u32::MAX);
                drop(tokio::spawn(builder.serve_connection(io, service)));
            }
        }
    }
}

async fn answer(request: Request<Incoming>, state: Arc<State>) -> Result<Response<Body>, BoxError> {
    if request.method() != Method::POST {
        return events();
    }
    let message: Value = serde_json::from_slice(&request.into_body().collect().await?.to_bytes())?;
    let Some(id) = message.get("id") else {
        return Ok(Response::builder().status(StatusCode::ACCEPTED).body(Body::default())?);
    };
    let tool = message.pointer("/params/name").and_then(Value::as_str).unwrap_or_default();
    let result = match (message["method"].as_str().unwrap_or_default(), tool) {
        (SUBSCRIBE, _) | (_, STREAMING_TOOL) => return events(),
        ("initialize", _) => json!({ "protocolVersion": "2025-11-25" }),
        (CONNECTIONS, _) => json!({ "connections": state.connections.load(Relaxed) }),
        (_, tool) => {
            if tool == GATHERING_TOOL {
                state.gathering.wait().await;
            }
            json!({ "content": [], "structuredContent": message["params"]["arguments"] })
        }
    };
    let body = json!({ "jsonrpc": "2.0", "id": id, "result": result }).to_string();
    let response = Response::builder().header(header::CONTENT_TYPE, "application/json");
    // What is a session is up to the server: here there is one for all.
    let response = response.header("mcp-session-id", "5f1d7a0e-8c5b-4d5e-9a51-7d3e2f9c1b64");
    Ok(response.body(Full::from(body).boxed_unsync())?)
}

/// One event, with an id as servers that can resume a stream give it, and then silence.
fn events() -> Result<Response<Body>, BoxError> {
    const EVENT: &[u8] =
        b"id: 0192f3a4-0001\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\
        \"params\":{\"level\":\"info\",\"data\":\"the stream is open\"}}\n\n";
    let frames = stream::iter([Ok(Frame::data(Bytes::from_static(EVENT)))]).chain(stream::pending());
    let response = Response::builder().header(header::CONTENT_TYPE, "text/event-stream");
    Ok(response.body(StreamBody::new(frames).boxed_unsync())?)
}
