//! Clauses of the specification that are kept by several layers together, on a client in memory.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of a test")]

use std::convert::Infallible;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::{BoxStream, poll_fn};
use http::{HeaderMap, Request, Response};
use http_body::Frame;
use http_body_util::{BodyExt, Full, StreamBody};
use mcp_streamable_http::options::Gap;
use mcp_streamable_http::{Builder, Error, JsonRpcMessage, Probe, ProbeCache, Reply, StreamableHttp};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tower::util::BoxCloneSyncService;
use tower::{ServiceExt, service_fn};

const MODERN: &str = "2026-07-28";
const VERSION_KEY: &str = "io.modelcontextprotocol/protocolVersion";
const SUBSCRIPTION_KEY: &str = "io.modelcontextprotocol/subscriptionId";

type Stream = StreamBody<BoxStream<'static, Result<Frame<Bytes>, io::Error>>>;
type Client = BoxCloneSyncService<Request<Full<Bytes>>, Response<Stream>, Infallible>;

/// A request as the server got it.
#[derive(Clone, Debug)]
struct Seen {
    headers: HeaderMap,
    message: Value,
}

impl Seen {
    fn method(&self) -> &str {
        self.message["method"].as_str().unwrap_or_default()
    }

    fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    fn result(&self, result: Value) -> Response<Stream> {
        json_answer(200, &json!({ "jsonrpc": "2.0", "id": self.message["id"], "result": result }))
    }

    fn error(&self, status: u16, code: i64, data: Value) -> Response<Stream> {
        let error = json!({ "code": code, "message": "no", "data": data });
        json_answer(status, &json!({ "jsonrpc": "2.0", "id": self.message["id"], "error": error }))
    }
}

/// The rest of an answer: an error breaks it, dropping it ends it.
type Pen = mpsc::UnboundedSender<Result<Frame<Bytes>, io::Error>>;

fn answer(status: u16, content_type: &str) -> (Pen, Response<Stream>) {
    let (pen, mut frames) = mpsc::unbounded_channel();
    let body = StreamBody::new(poll_fn(move |cx| frames.poll_recv(cx)).boxed());
    (pen, Response::builder().status(status).header("content-type", content_type).body(body).unwrap())
}

fn text_answer(status: u16, content_type: &str, text: impl Into<Bytes>) -> Response<Stream> {
    let (pen, answer) = answer(status, content_type);
    pen.send(Ok(Frame::data(text.into()))).unwrap();
    answer
}

fn json_answer(status: u16, message: &Value) -> Response<Stream> {
    text_answer(status, "application/json", message.to_string())
}

fn write(pen: &Pen, message: &Value) {
    pen.send(Ok(Frame::data(format!("data: {message}\n\n").into()))).unwrap();
}

type Log = Arc<Mutex<Vec<Seen>>>;

/// A client whose server is `serve`, and what that has seen.
fn client(serve: impl Fn(&Seen) -> Response<Stream> + Send + Sync + 'static) -> (Client, Log) {
    let (log, serve) = (Log::default(), Arc::new(serve));
    let seen = log.clone();
    let client = service_fn(move |request: Request<Full<Bytes>>| {
        let (seen, serve) = (seen.clone(), serve.clone());
        async move {
            let (head, body) = request.into_parts();
            let body = body.collect().await?.to_bytes();
            let message = serde_json::from_slice(&body).unwrap_or_default();
            let request = Seen { headers: head.headers, message };
            seen.lock().unwrap().push(request.clone());
            Ok(serve(&request))
        }
    });
    (BoxCloneSyncService::new(client), log)
}

fn builder(client: Client) -> Builder<Client> {
    StreamableHttp::with_client("http://in.memory/mcp".parse().unwrap(), client)
}

fn methods(log: &Log) -> Vec<String> {
    log.lock().unwrap().iter().map(|seen| seen.method().to_owned()).collect()
}

fn versioned(id: i64, version: &str, method: &'static str, params: Value) -> JsonRpcMessage {
    let mut params = params;
    params["_meta"] = json!({ VERSION_KEY: version, "io.modelcontextprotocol/clientCapabilities": {} });
    JsonRpcMessage::request(id, method, params)
}

/// Nothing here takes long.
async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(10), future).await.unwrap()
}

async fn send(transport: &StreamableHttp, message: JsonRpcMessage) -> Result<Reply, Error> {
    soon(transport.clone().oneshot(message)).await
}

async fn ask(transport: &StreamableHttp, message: JsonRpcMessage) -> Result<Value, i64> {
    let response = soon(send(transport, message).await.unwrap().response()).await.unwrap();
    response.into_outcome().map(|result| result.to().unwrap()).map_err(|error| error.code())
}

async fn next(reply: &mut Reply) -> Option<Result<JsonRpcMessage, Error>> {
    soon(reply.next()).await
}

async fn next_message(reply: &mut Reply) -> JsonRpcMessage {
    next(reply).await.unwrap().unwrap()
}

fn tools(header: &str) -> Value {
    let region = json!({ "type": "string", "x-mcp-header": header });
    let schema = |region: Value| json!({ "type": "object", "properties": { "region": region } });
    json!({ "tools": [
        { "name": "locate", "inputSchema": schema(region) },
        { "name": "misdescribed", "inputSchema": schema(json!({ "type": "string", "x-mcp-header": "a b" })) },
    ] })
}

fn locate(id: i64) -> JsonRpcMessage {
    versioned(id, MODERN, "tools/call", json!({ "name": "locate", "arguments": { "region": "eu" } }))
}

#[tokio::test]
async fn after_a_mismatch_of_headers_the_tools_are_listed_and_the_call_is_sent_with_the_right_ones() {
    let (client, log) = client(|seen| match (seen.method(), seen.header("mcp-param-area")) {
        ("tools/list", _) => seen.result(tools("Area")),
        (_, Some("eu")) => seen.result(json!({ "located": true })),
        _ => seen.error(400, -32020, json!({})),
    });
    let transport = builder(client).build().unwrap();
    assert_eq!(ask(&transport, locate(7)).await, Ok(json!({ "located": true })));
    assert_eq!(methods(&log), ["tools/call", "tools/list", "tools/call"]);
    let seen = log.lock().unwrap().clone();
    assert_eq!(seen[0].header("mcp-param-area"), None, "nothing was known of the tool");
    assert_eq!(seen[0].message["params"], seen[2].message["params"]);
    // Where the headers were right the server has the last word.
    let (client, log) = self::client(|seen| match seen.method() {
        "tools/list" => seen.result(tools("Area")),
        _ => seen.error(400, -32020, json!({})),
    });
    let transport = builder(client).tool_headers(transport.tool_headers().clone()).build().unwrap();
    assert_eq!(ask(&transport, locate(8)).await, Err(-32020));
    assert_eq!(methods(&log), ["tools/call", "tools/list"]);
}

static LOGGED: Mutex<Vec<u8>> = Mutex::new(Vec::new());

struct Logged;

impl io::Write for Logged {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        LOGGED.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn a_tool_that_is_left_out_of_a_list_is_named_in_a_warning_with_the_reason() {
    // For the whole process, as one for this thread would miss what another thread has logged first.
    tracing_subscriber::fmt().with_ansi(false).with_writer(|| Logged).init();
    let transport = builder(client(|seen| seen.result(tools("Region"))).0).build().unwrap();
    let listed = ask(&transport, versioned(1, MODERN, "tools/list", json!({}))).await.unwrap();
    assert_eq!(listed["tools"].as_array().unwrap().len(), 1);
    let logged = String::from_utf8(LOGGED.lock().unwrap().clone()).unwrap();
    let warning = logged.lines().find(|line| line.contains("misdescribed")).unwrap();
    assert!(warning.contains("WARN") && warning.contains("region"), "{warning}");
}

#[tokio::test]
async fn headers_that_are_too_large_for_a_server_are_an_error_with_its_status() {
    for status in [413, 431] {
        let (client, log) = client(move |seen| match seen.method() {
            "tools/call" => text_answer(status, "text/html", "<h1>Too large</h1>"),
            _ => seen.result(json!({})),
        });
        let transport = builder(client).build().unwrap();
        let error = send(&transport, locate(1)).await.unwrap_err();
        assert_eq!(error.status().unwrap(), status);
        assert!(error.to_string().contains(&status.to_string()) && !error.is_timeout(), "{error}");
        assert_eq!(ask(&transport, versioned(2, MODERN, "tools/list", json!({}))).await, Ok(json!({})));
        assert_eq!(methods(&log), ["tools/call", "tools/list"], "it is not sent again as it is");
    }
}

#[tokio::test]
async fn after_an_unsupported_version_a_request_can_be_sent_in_one_that_the_server_names() {
    let (client, log) = client(|seen| match seen.header("mcp-protocol-version") {
        Some(MODERN) => seen.result(json!({})),
        _ => seen.error(400, -32022, json!({ "supported": [MODERN], "requested": "2031-01-01" })),
    });
    let transport = builder(client).build().unwrap();
    let refused = send(&transport, versioned(1, "2031-01-01", "tools/list", json!({}))).await.unwrap();
    let refused = soon(refused.response()).await.unwrap();
    let data: Value = refused.outcome().unwrap_err().data().unwrap().to().unwrap();
    let supported = data["supported"][0].as_str().unwrap();
    assert_eq!(ask(&transport, versioned(2, supported, "tools/list", json!({}))).await, Ok(json!({})));
    assert_eq!(methods(&log), ["tools/list"; 2], "no handshake is tried in between");
}

/// A server of subscriptions: hands out the pen of each.
fn subscriptions() -> (Client, Log, mpsc::UnboundedReceiver<(Value, Pen)>) {
    let (opened, pens) = mpsc::unbounded_channel();
    let (client, log) = client(move |seen| {
        let (pen, answer) = answer(200, "text/event-stream");
        write(&pen, &about(&seen.message["id"], "notifications/subscriptions/acknowledged"));
        opened.send((seen.message["id"].clone(), pen)).unwrap();
        answer
    });
    (client, log, pens)
}

fn about(id: &Value, method: &str) -> Value {
    json!({ "jsonrpc": "2.0", "method": method, "params": { "_meta": { SUBSCRIPTION_KEY: id } } })
}

fn listen(id: i64) -> JsonRpcMessage {
    versioned(id, MODERN, "subscriptions/listen", json!({ "notifications": { "toolsListChanged": true } }))
}

/// The next message: its method, and the subscription that it names.
async fn heard(reply: &mut Reply) -> (String, Value) {
    let message = next_message(reply).await;
    let params: Value = message.params().unwrap().to().unwrap();
    (message.method().unwrap().to_owned(), params["_meta"][SUBSCRIPTION_KEY].clone())
}

const CHANGED: &str = "notifications/tools/list_changed";
const ACKNOWLEDGED: &str = "notifications/subscriptions/acknowledged";

#[tokio::test]
async fn several_subscriptions_have_each_a_stream_and_an_end_of_their_own() {
    let (client, log, mut pens) = subscriptions();
    let transport = builder(client).build().unwrap();
    let mut replies =
        [send(&transport, listen(1)).await.unwrap(), send(&transport, listen(2)).await.unwrap()];
    let (first, second) = (soon(pens.recv()).await.unwrap().1, soon(pens.recv()).await.unwrap().1);
    for (reply, id) in replies.iter_mut().zip([1, 2]) {
        assert_eq!(heard(reply).await, (ACKNOWLEDGED.to_owned(), json!(id)));
    }
    write(&second, &about(&json!(2), CHANGED));
    let [one, mut two] = replies;
    assert_eq!(heard(&mut two).await, (CHANGED.to_owned(), json!(2)));
    // Dropping it is how it is cancelled.
    drop(one);
    soon(first.closed()).await;
    write(&second, &about(&json!(2), CHANGED));
    assert_eq!(heard(&mut two).await, (CHANGED.to_owned(), json!(2)));
    assert_eq!(methods(&log), ["subscriptions/listen"; 2], "nothing else is sent");
}

#[tokio::test]
async fn a_subscription_that_the_server_closes_ends_with_a_response_and_one_that_breaks_with_an_error() {
    for is_graceful in [true, false] {
        let (client, log, mut pens) = subscriptions();
        let transport = builder(client).build().unwrap();
        let mut reply = send(&transport, listen(1)).await.unwrap();
        let pen = soon(pens.recv()).await.unwrap().1;
        if is_graceful {
            write(&pen, &json!({ "jsonrpc": "2.0", "id": 1, "result": { "resultType": "complete" } }));
        }
        drop(pen);
        assert_eq!(heard(&mut reply).await.0, ACKNOWLEDGED);
        match next(&mut reply).await.unwrap() {
            Ok(message) => assert!(is_graceful && message.as_response().is_some(), "{message}"),
            Err(error) => assert!(!is_graceful && !error.is_timeout(), "{error}"),
        }
        assert!(next(&mut reply).await.is_none());
        assert_eq!(methods(&log), ["subscriptions/listen"], "it is not opened again unasked");
    }
}

#[tokio::test(start_paused = true)]
async fn a_subscription_that_broke_is_opened_again_if_that_was_asked_for() {
    let (client, log, mut pens) = subscriptions();
    let transport = builder(client).relisten(true).build().unwrap();
    let mut reply = send(&transport, listen(1)).await.unwrap();
    let (_, pen) = soon(pens.recv()).await.unwrap();
    assert_eq!(heard(&mut reply).await.0, ACKNOWLEDGED);
    pen.send(Err(io::Error::other("reset"))).unwrap();
    // To the caller it is the same subscription still, with a gap.
    let again = next_message(&mut reply).await;
    assert!(again.extensions().get::<Gap>().is_some());
    let (id, pen) = soon(pens.recv()).await.unwrap();
    assert_ne!(id, json!(1), "an id is not used twice");
    write(&pen, &about(&id, CHANGED));
    assert_eq!(heard(&mut reply).await, (CHANGED.to_owned(), json!(1)));
    assert_eq!(methods(&log), ["subscriptions/listen"; 2]);
}

#[tokio::test(start_paused = true)]
async fn a_listening_stream_is_opened_again_no_sooner_than_the_server_asks() {
    let (client, log) = client(|_| text_answer(200, "text/event-stream", "id: 1\nretry: 7000\ndata:\n\n"));
    let transport = builder(client).listen_without_session(true).build().unwrap();
    let mut listening = transport.listen();
    tokio::time::timeout(Duration::from_secs(20), listening.next()).await.unwrap_err();
    assert_eq!(log.lock().unwrap().len(), 3, "at once, and twice after seven seconds and some random part");
}

fn meta() -> Value {
    json!({ VERSION_KEY: MODERN, "io.modelcontextprotocol/clientCapabilities": {} })
}

#[tokio::test]
async fn the_answer_to_one_modern_request_tells_the_era() {
    type Serve = fn(&Seen) -> Response<Stream>;
    let modern: [Serve; 4] = [
        |seen| seen.result(json!({ "supportedVersions": [MODERN], "capabilities": {} })),
        |seen| seen.error(400, -32022, json!({ "supported": [MODERN] })),
        |seen| seen.error(400, -32020, json!({})),
        |seen| seen.error(400, -32021, json!({})),
    ];
    let legacy: [Serve; 5] = [
        |_| text_answer(400, "text/plain", ""),
        |_| text_answer(404, "text/html", "<h1>Not Found</h1>"),
        |_| text_answer(405, "text/plain", ""),
        |seen| seen.error(400, -32000, json!({})),
        |seen| seen.error(400, -32600, json!({})),
    ];
    for (at, serve) in modern.into_iter().enumerate() {
        let (client, log) = client(serve);
        let probe = soon(builder(client).build().unwrap().probe(meta())).await.unwrap();
        assert!(matches!(probe, Probe::Modern { .. }), "{at}: {probe:?}");
        assert_eq!(methods(&log), ["server/discover"]);
    }
    for (at, serve) in legacy.into_iter().enumerate() {
        let (client, log) = client(move |seen| match seen.method() {
            "initialize" => seen.result(json!({ "protocolVersion": "2025-11-25" })),
            "ping" => seen.result(json!({})),
            _ => serve(seen),
        });
        let transport = builder(client).build().unwrap();
        assert_eq!(soon(transport.probe(meta())).await.unwrap(), Probe::Legacy, "{at}");
        // And from there on it is as if the probe had never been.
        let hello = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {} });
        ask(&transport, JsonRpcMessage::request(1, "initialize", hello)).await.unwrap();
        ask(&transport, JsonRpcMessage::request(2, "ping", ())).await.unwrap();
        let seen = log.lock().unwrap().clone();
        let headers = |nth: usize| (seen[nth].header("mcp-protocol-version"), seen[nth].header("mcp-method"));
        assert_eq!((headers(1), headers(2)), ((None, None), (Some("2025-11-25"), None)), "{at}");
    }
}

#[tokio::test]
async fn the_era_of_a_server_is_remembered_stored_and_asked_for_again_once_it_is_wrong() {
    let modern = |seen: &Seen| seen.result(json!({ "supportedVersions": [MODERN], "capabilities": {} }));
    let (first, log) = client(modern);
    let cache = ProbeCache::new();
    let transport = builder(first).probe_cache(cache.clone()).build().unwrap();
    for _ in 0..3 {
        assert!(matches!(soon(transport.probe(meta())).await, Ok(Probe::Modern { .. })));
    }
    assert_eq!(methods(&log), ["server/discover"], "once is enough");

    // The next run of the application, and by now the server is an older one.
    let stored = serde_json::to_string(&cache).unwrap();
    let cache: ProbeCache = serde_json::from_str(&stored).unwrap();
    let (second, log) = client(|_| text_answer(400, "text/plain", "Bad Request"));
    let transport = builder(second).probe_cache(cache.clone()).build().unwrap();
    assert!(matches!(soon(transport.probe(meta())).await, Ok(Probe::Modern { .. })));
    assert!(methods(&log).is_empty());
    send(&transport, versioned(1, MODERN, "tools/list", json!({}))).await.unwrap_err();
    assert!(cache.is_empty());
    assert_eq!(soon(transport.probe(meta())).await.unwrap(), Probe::Legacy);
    assert_eq!(methods(&log), ["tools/list", "server/discover"]);
}
