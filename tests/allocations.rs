//! How often the transport allocates, and how much at a time, beyond the HTTP client below it.
//!
//! The counts are those of the whole process, so this file has one test only, and the client is in memory.
#![allow(clippy::unwrap_used, reason = "helpers of a test")]

use std::alloc::System;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, header};
use http_body::Frame;
use http_body_util::{BodyExt, Full, StreamBody};
use mcp_streamable_http::{JsonRpcMessage, Limits, StreamableHttp};
use serde_json::{Value, json};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, Stats, StatsAlloc};
use tower::util::BoxCloneSyncService;
use tower::{Service, ServiceExt};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// What a call may cost beyond the same exchange without the transport.
const PER_JSON_CALL: usize = 5;
const PER_SESSION_CALL: usize = 5;
const PER_MODERN_CALL: usize = 5;
const PER_EVENT: usize = 1;
/// How often each call is counted.
const ROUNDS: usize = 10;

/// The memory that an event may take up at a time, in tenths of its size.
const TENTHS_OF_LARGE_EVENT: usize = 22;
const LARGE_EVENT: usize = 16 << 20;
const FRAME: usize = 64 << 10;

const URI: &str = "http://in.memory/mcp";
const JSON: (HeaderName, HeaderValue) = (header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
const SSE: (HeaderName, HeaderValue) = (header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));

type Client = BoxCloneSyncService<Request<Full<Bytes>>, Response<Full<Bytes>>, Infallible>;

/// Answers everything with `body`.
fn client(headers: impl IntoIterator<Item = (HeaderName, HeaderValue)>, body: impl Into<Bytes>) -> Client {
    // Shared, so that a clone of the client costs no more than one of a real client.
    let (headers, body) = (Arc::new(HeaderMap::from_iter(headers)), body.into());
    BoxCloneSyncService::new(tower::service_fn(move |_: Request<Full<Bytes>>| {
        let mut response = Response::new(Full::new(body.clone()));
        for (name, value) in headers.iter() {
            response.headers_mut().insert(name, value.clone());
        }
        std::future::ready(Ok(response))
    }))
}

fn transport(client: Client) -> StreamableHttp {
    StreamableHttp::with_client(URI.parse().unwrap(), client).build().unwrap()
}

fn tools_call(more: &Value) -> JsonRpcMessage {
    let mut params = json!({ "name": "add", "arguments": { "a": 1, "b": 2 } });
    params.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    JsonRpcMessage::request(1, "tools/call", params)
}

async fn counted<T>(work: impl Future<Output = T>) -> (usize, T) {
    let region = Region::new(ALLOCATOR);
    let output = work.await;
    let change = region.change();
    (change.allocations + change.reallocations, output)
}

/// The same exchange as a careful user of the bare client would write it, with the headers of MCP that it needs.
async fn bare_call(client: &mut Client, body: Bytes, mcp: &[(&'static str, &'static str)]) -> Bytes {
    let mut request = Request::post(URI).body(Full::new(body)).unwrap();
    let headers = request.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(header::ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
    for (name, value) in mcp {
        headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    let response = client.ready().await.unwrap().call(request).await.unwrap();
    response.into_body().collect().await.unwrap().to_bytes()
}

async fn call(transport: &mut StreamableHttp, message: JsonRpcMessage) -> usize {
    let reply = transport.ready().await.unwrap().call(message).await.unwrap();
    reply.count().await
}

/// How many allocations a call with `message` takes that the bare client does not.
async fn more_than_bare(
    mut transport: StreamableHttp,
    mut bare: Client,
    message: JsonRpcMessage,
    mcp: &[(&'static str, &'static str)],
) -> usize {
    let encoded = message.encode();
    let (mut ours, mut theirs) = (usize::MAX, usize::MAX);
    // The first call may set something up, and the other threads of the process only ever add to a count.
    for _ in 0..ROUNDS {
        theirs = theirs.min(counted(bare_call(&mut bare, encoded.clone(), mcp)).await.0);
        let (count, items) = counted(call(&mut transport, message.clone())).await;
        assert_eq!(items, 1);
        ours = ours.min(count);
    }
    ours.saturating_sub(theirs)
}

async fn json_call() -> usize {
    let client = client([JSON], r#"{"jsonrpc":"2.0","id":1,"result":{"sum":3}}"#);
    more_than_bare(transport(client.clone()), client, tools_call(&json!({})), &[]).await
}

async fn session_call() -> usize {
    let id = (HeaderName::from_static("mcp-session-id"), HeaderValue::from_static("a-session"));
    let result = r#"{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25"}}"#;
    let client = client([JSON, id], result);
    let mut transport = transport(client.clone());
    let initialize = JsonRpcMessage::request(1, "initialize", json!({ "protocolVersion": "2025-11-25" }));
    call(&mut transport, initialize).await;
    assert_eq!(transport.session().id().unwrap(), "a-session");
    let mcp = [("mcp-session-id", "a-session"), ("mcp-protocol-version", "2025-11-25")];
    more_than_bare(transport, client, tools_call(&json!({})), &mcp).await
}

async fn modern_call() -> usize {
    let client = client([JSON], r#"{"jsonrpc":"2.0","id":1,"result":{"sum":3}}"#);
    let meta = json!({ "_meta": { "io.modelcontextprotocol/protocolVersion": "2026-07-28" } });
    let mcp = [("mcp-protocol-version", "2026-07-28"), ("mcp-method", "tools/call"), ("mcp-name", "add")];
    more_than_bare(transport(client.clone()), client, tools_call(&meta), &mcp).await
}

async fn sse_call(events: usize) -> usize {
    let event =
        format!("data: {}\n\n", json!({ "jsonrpc": "2.0", "method": "notifications/message", "params": {} }));
    let body = event.repeat(events) + "data: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n\n";
    let mut transport = transport(client([SSE], body));
    let (count, items) = counted(call(&mut transport, tools_call(&json!({})))).await;
    assert_eq!(items, events + 1);
    count
}

/// The most memory in use at a time, as seen in samples. Between two of them all that was allocated counts as if none of
/// it had been freed, so the true peak is not above this.
struct Peak {
    start: usize,
    last: Stats,
    bytes: usize,
}

fn in_use(stats: &Stats) -> usize {
    stats.bytes_allocated - stats.bytes_deallocated
}

impl Peak {
    fn new() -> Self {
        let last = ALLOCATOR.stats();
        Self { start: in_use(&last), last, bytes: 0 }
    }

    fn sample(&mut self) {
        let now = ALLOCATOR.stats();
        let since = now.bytes_allocated - self.last.bytes_allocated;
        self.bytes = self.bytes.max((in_use(&self.last) + since).saturating_sub(self.start));
        self.last = now;
    }
}

/// The peak while an event with a message of this many bytes arrives in frames.
async fn large_event(bytes: usize) -> usize {
    let (first, last) = ("data: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":\"", "\"}\n\n");
    // One frame over and over, so that what the body itself takes up does not count.
    let filling = Bytes::from(vec![b'x'; FRAME]);
    let peak = Arc::new(Mutex::new(Peak::new()));
    let sampled = Arc::clone(&peak);
    let client = tower::service_fn(move |_: Request<Full<Bytes>>| {
        let (filling, sampled) = (filling.clone(), Arc::clone(&sampled));
        let mut left = bytes - (first.len() - "data: ".len()) - (last.len() - "\n\n".len());
        let middle = std::iter::from_fn(move || {
            let frame = filling.slice(..left.min(FRAME));
            left -= frame.len();
            (!frame.is_empty()).then_some(frame)
        });
        let frames = std::iter::once(Bytes::from(first))
            .chain(middle)
            .chain([Bytes::from(last)])
            .inspect(move |_| sampled.lock().unwrap().sample())
            .map(|frame| Ok::<_, Infallible>(Frame::data(frame)));
        let mut response = Response::new(StreamBody::new(stream::iter(frames)));
        response.headers_mut().extend([SSE]);
        std::future::ready(Ok::<_, Infallible>(response))
    });
    let limits = Limits::default().max_event_bytes(2 * bytes);
    let transport = StreamableHttp::with_client(URI.parse().unwrap(), client).limits(limits).build().unwrap();
    *peak.lock().unwrap() = Peak::new();
    let response = transport.oneshot(tools_call(&json!({}))).await.unwrap().response().await.unwrap();
    peak.lock().unwrap().sample();
    let message = JsonRpcMessage::from(response).encode();
    assert_eq!(message.len(), bytes);
    let peak = peak.lock().unwrap().bytes;
    assert!(peak >= bytes, "the message itself is in memory: {peak}");
    peak
}

#[tokio::test(flavor = "current_thread")]
async fn few_allocations_per_call_and_at_most_one_per_event_and_little_memory_at_a_time() {
    let (json, session, modern) = (json_call().await, session_call().await, modern_call().await);
    eprintln!("beyond the bare client: json {json}, in a session {session}, modern {modern}");
    let (few, many) = (sse_call(10).await, sse_call(1_010).await);
    eprintln!("sse: {few} for 10 events, {many} for 1,010");
    // A buffer that doubles suits some sizes better than others.
    for bytes in [LARGE_EVENT, LARGE_EVENT + 2 * FRAME] {
        let peak = large_event(bytes).await;
        eprintln!("a message of {bytes} bytes: {peak} bytes at a time");
        assert!(peak <= bytes / 10 * TENTHS_OF_LARGE_EVENT, "{peak} bytes for a message of {bytes}");
    }

    assert!(json <= PER_JSON_CALL, "{json} allocations more a call");
    assert!(session <= PER_SESSION_CALL, "{session} allocations more a call in a session");
    assert!(modern <= PER_MODERN_CALL, "{modern} allocations more a modern call");
    assert!(many <= few + 1_000 * PER_EVENT, "{} allocations for 1,000 events more", many - few);
}
