//! Requests that are given up: what the server sees of it.

use std::time::Duration;

use mcp_streamable_http::options::ExtraHeaders;
use mcp_streamable_http::{JsonRpcMessage, Reply};
use serde_json::{Value, json};
use tower::timeout::Timeout;
use tower::{Service, ServiceExt};

use crate::common::*;
use crate::support::mcp::{SESSION, VERSION, result};
use crate::support::{Answer, Gate, Request, Server};

/// On the real clock: short enough to wait for, and long enough for what must come before it.
const SHORT: Duration = Duration::from_millis(300);

fn is_told(request: &Request) -> bool {
    is(request, "notifications/cancelled")
}

fn modern(id: i64) -> JsonRpcMessage {
    let meta = json!({ "io.modelcontextprotocol/protocolVersion": "2026-07-28" });
    JsonRpcMessage::request(id, "tools/call", json!({ "name": "add", "_meta": meta }))
}

/// The caller's own.
fn cancel(id: impl Into<Value>) -> JsonRpcMessage {
    JsonRpcMessage::notification("notifications/cancelled", json!({ "requestId": id.into() }))
}

/// Answers a call with a first word, and then nothing.
fn first_word(request: &Request) -> Answer {
    if is_told(request) { Answer::status(202) } else { Answer::sse().event(progress(1)).hang() }
}

/// Answers a call with nothing at all.
fn silence(request: &Request) -> Answer {
    if is_told(request) { Answer::status(202) } else { Answer::raw_response("").hang() }
}

/// Waits until the server has been told, and returns all that it was told.
async fn told(server: &Server) -> Vec<Request> {
    let mut requests = server.wait_until("a cancellation", |all| all.iter().any(is_told)).await;
    requests.retain(is_told);
    requests
}

/// Asserts that nothing was told, by the time that another call has made its way.
async fn assert_not_told(server: &Server, transport: &mcp_streamable_http::StreamableHttp) {
    ping_works(transport).await;
    assert!(!server.requests().iter().any(is_told));
}

async fn begun(transport: &mcp_streamable_http::StreamableHttp, message: JsonRpcMessage) -> Reply {
    let mut reply = send(transport, message).await.unwrap();
    assert_eq!(step_of(&next_message(&mut reply).await), 1);
    reply
}

#[tokio::test]
async fn a_reply_that_is_dropped_closes_the_stream_and_tells_the_server() {
    let (server, transport) = session(first_word).await;
    let mut extra = http::HeaderMap::new();
    extra.insert("x-tenant", "blue".parse().unwrap());
    let reply = begun(&transport, call(7).with(ExtraHeaders(extra))).await;
    assert_eq!(server.gone_count(), 0);
    drop(reply);
    server.gone().await;
    let told = told(&server).await;
    assert_eq!(told.len(), 1);
    let (frame, params) = (told[0].json(), told[0].json()["params"].clone());
    assert_eq!((told[0].method.as_str(), &frame["jsonrpc"]), ("POST", &json!("2.0")));
    assert_eq!(params["requestId"], 7);
    assert!(frame.get("id").is_none());
    for (name, value) in
        [("mcp-session-id", SESSION), ("mcp-protocol-version", VERSION), ("x-tenant", "blue")]
    {
        assert_eq!(told[0].header(name), Some(value), "{name}");
    }
    ping_works(&transport).await;
    assert_eq!(server.requests().iter().filter(|request| is_told(request)).count(), 1);
}

#[tokio::test]
async fn a_call_that_is_dropped_before_the_head_does_too() {
    let (server, transport) = session(silence).await;
    let sending = tokio::spawn(transport.clone().oneshot(call(7)));
    server.wait_until("the call", |all| all.iter().any(|request| is(request, "tools/call"))).await;
    sending.abort();
    server.gone().await;
    let told = told(&server).await;
    assert_eq!((told.len(), &told[0].json()["params"]["requestId"]), (1, &json!(7)));
    ping_works(&transport).await;
}

#[tokio::test]
async fn what_is_modern_is_closed_and_that_is_all() {
    let server = server(first_word).await;
    let transport = transport(&server);
    drop(begun(&transport, modern(1)).await);
    server.gone().await;
    assert_not_told(&server, &transport).await;

    let mut reply = begun(&transport, modern(2)).await;
    let accepted = send(&transport, cancel(2)).await.unwrap();
    assert!(rest(accepted).await.is_empty());
    assert!(next_error(&mut reply).await.is_cancelled());
    assert!(next(&mut reply).await.is_none());
    server.wait_gone(2).await;
    // Nothing is in flight under these.
    for frame in [cancel(2), cancel("2"), cancel(Value::Null)] {
        assert!(rest(send(&transport, frame).await.unwrap()).await.is_empty());
    }
    assert_not_told(&server, &transport).await;
}

#[tokio::test]
async fn a_modern_call_that_is_dropped_before_the_head_is_closed() {
    let server = server(silence).await;
    let transport = transport(&server);
    let sending = tokio::spawn(transport.clone().oneshot(modern(1)));
    server.wait_for(1).await;
    sending.abort();
    server.gone().await;
    assert_not_told(&server, &transport).await;
}

#[tokio::test]
async fn a_timeout_of_towers_gives_a_call_up() {
    for (message, is_legacy) in [(call(1), true), (modern(1), false)] {
        let (server, transport) = session(silence).await;
        let mut timed = Timeout::new(transport.clone(), SHORT);
        let error = soon(timed.ready().await.unwrap().call(message)).await.unwrap_err();
        assert!(error.is::<tower::timeout::error::Elapsed>(), "{error:?}");
        server.gone().await;
        if is_legacy {
            assert_eq!(told(&server).await.len(), 1);
            ping_works(&transport).await;
        } else {
            assert_not_told(&server, &transport).await;
        }
    }
}

#[tokio::test]
async fn a_call_that_the_caller_has_cancelled_may_still_be_answered() {
    let gate = Gate::new();
    let open = gate.clone();
    let (server, transport) = session(move |request| {
        if is_told(request) {
            return Answer::status(202);
        }
        let answer = Answer::sse().event(progress(1)).wait(&open);
        match request.rpc_id().as_i64() {
            Some(1) => answer.event(result(request, json!({ "late": true }))).end(),
            _ => answer.end(),
        }
    })
    .await;
    let answered = begun(&transport, call(1)).await;
    let mut unanswered = begun(&transport, call(2)).await;
    for id in [1, 2] {
        assert!(rest(send(&transport, cancel(id)).await.unwrap()).await.is_empty());
    }
    assert_eq!((told(&server).await.len(), server.gone_count()), (2, 0));
    gate.open();
    let late: Value = soon(answered.response()).await.unwrap().result().unwrap();
    assert_eq!(late, json!({ "late": true }));
    assert!(next_error(&mut unanswered).await.is_cancelled());
    ping_works(&transport).await;
    assert_eq!(told(&server).await.len(), 2, "only by the caller");
}

#[tokio::test]
async fn an_answered_call_is_not_taken_back() {
    let (server, transport) = session(|request| {
        let answer = Answer::sse().event(progress(1)).event(result(request, json!({})));
        // The stream stays open after the response.
        if is_told(request) { Answer::status(202) } else { answer.hang() }
    })
    .await;
    let mut reply = begun(&transport, call(1)).await;
    assert!(next_message(&mut reply).await.as_response().is_some());
    drop(reply);
    server.gone().await;
    assert_not_told(&server, &transport).await;
}
