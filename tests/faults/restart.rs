//! A server that restarts while calls are under way, and knows no session from before.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use mcp_streamable_http::{Error, JsonRpcMessage, JsonRpcResponse, StreamableHttp};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tower::ServiceExt;

use crate::common::*;
use crate::support::{Answer, Events, Server};

type Call = JoinHandle<Result<JsonRpcResponse, Error>>;

/// A server whose sessions are `run-1`, `run-2` and so on. It leaves the calls to the test.
async fn begun() -> (Server, StreamableHttp) {
    let runs = AtomicUsize::new(1);
    let server = Server::scripted(move |seen| match seen.what() {
        "initialize" => {
            let session = format!("run-{}", runs.fetch_add(1, Ordering::Relaxed));
            let result = json!({ "protocolVersion": VERSION, "capabilities": {} });
            Some(Answer::json(&seen.result(result)).header("mcp-session-id", &session))
        }
        "notifications/initialized" => Some(Answer::status(202)),
        _ => None,
    });
    let transport = server.transport();
    let reply = soon(transport.clone().oneshot(initialize(0))).await.unwrap();
    soon(reply.response()).await.unwrap();
    let _ = soon(transport.clone().oneshot(initialized())).await.unwrap();
    (server, transport)
}

fn call(transport: &StreamableHttp, id: i64) -> Call {
    let sent = transport.clone().oneshot(JsonRpcMessage::request(id, "tools/call", json!({ "id": id })));
    tokio::spawn(async move { sent.await?.response().await })
}

/// The calls 1 to 10, each with an open stream that is to be taken up again after so many milliseconds.
async fn ten(
    server: &mut Server,
    transport: &StreamableHttp,
    retry: impl Fn(i64) -> u64,
) -> (Vec<Call>, Vec<Events>) {
    let (mut calls, mut streams) = (Vec::new(), Vec::new());
    for id in 1..=10 {
        calls.push(call(transport, id));
        let stream = server.expect("tools/call").await.open();
        stream.send_text(format!("id: e-{id}\nretry: {}\ndata: {}\n\n", retry(id), progress(1)));
        streams.push(stream);
    }
    settle().await;
    (calls, streams)
}

async fn result(call: Call) -> Value {
    soon(call).await.unwrap().unwrap().result().unwrap()
}

/// The call fails here and now, and says that it may have run.
async fn lost(call: Call) {
    let error = soon(call).await.unwrap().unwrap_err();
    assert!(error.is_session_expired() && error.may_have_run(), "{error}");
}

/// The next call works, in another session.
async fn next_call_works(server: &mut Server, transport: &StreamableHttp) {
    let next = call(transport, 100);
    let mut again = server.next().await;
    while again.seen.what() == "GET" {
        // It was on its way when the restart was found.
        assert!(again.is_dropped());
        again = server.next().await;
    }
    assert_eq!(again.seen.what(), "tools/call");
    assert_eq!(again.seen.header("mcp-session-id"), Some("run-2"));
    again.result(json!({ "again": true }));
    assert_eq!(result(next).await, json!({ "again": true }));
    assert_eq!(server.count("initialize"), 2);
    settle().await;
    assert_eq!(alive_tasks(), 0);
}

#[tokio::test(start_paused = true)]
async fn what_can_be_taken_up_again_is_answered_and_the_rest_fails_at_once() {
    let (mut server, transport) = begun().await;
    let (mut calls, streams) = ten(&mut server, &transport, |id| if id <= 5 { 100 } else { 500 }).await;
    let gone = calls.split_off(5);
    let restarted = Instant::now();
    drop(streams);

    // The first five find what is left of the old server.
    let mut resumed = Vec::new();
    for _ in 1..=5 {
        let get = server.expect("GET").await;
        assert_eq!(get.seen.header("mcp-session-id"), Some("run-1"));
        let id: i64 = get.seen.header("last-event-id").unwrap().strip_prefix("e-").unwrap().parse().unwrap();
        assert!(id <= 5, "{id}");
        resumed.push((id, get.open()));
    }
    // The others find the new one.
    server.expect("GET").await.answer(Answer::status(404));
    for call in gone {
        lost(call).await;
    }
    assert!(restarted.elapsed() < Duration::from_millis(600), "{:?}", restarted.elapsed());

    for (id, stream) in &resumed {
        let answer = json!({ "jsonrpc": "2.0", "id": id, "result": { "for": id } });
        stream.send_text(format!("id: last\ndata: {answer}\n\n"));
    }
    for (id, call) in (1..=5).zip(calls) {
        assert_eq!(result(call).await, json!({ "for": id }));
    }
    drop(resumed);
    assert!(server.count("GET") <= 10, "once for each stream at most");
    next_call_works(&mut server, &transport).await;
    assert_eq!(server.count("tools/call"), 11, "no call was sent again");
}

#[tokio::test(start_paused = true)]
async fn calls_that_wait_to_be_taken_up_again_fail_as_soon_as_another_finds_the_restart() {
    let (mut server, transport) = begun().await;
    let (calls, streams) = ten(&mut server, &transport, |_| 60_000).await;
    drop(streams);
    settle().await;
    assert!(calls.iter().all(|call| !call.is_finished()));

    let began = Instant::now();
    let finds = call(&transport, 11);
    server.expect("tools/call").await.answer(Answer::status(404));
    let again = server.expect("tools/call").await;
    assert_eq!(again.seen.header("mcp-session-id"), Some("run-2"));
    again.result(json!({}));
    result(finds).await;
    for call in calls {
        lost(call).await;
    }
    assert!(began.elapsed() < Duration::from_millis(100), "{:?}", began.elapsed());
    assert_eq!(server.count("GET"), 0);
    next_call_works(&mut server, &transport).await;
    assert_eq!(server.count("tools/call"), 13, "only the one whose session was not known was sent again");
}

#[tokio::test(start_paused = true)]
async fn streams_that_a_restart_leaves_open_have_five_seconds_for_their_answer() {
    let (mut server, transport) = begun().await;
    let (mut calls, streams) = ten(&mut server, &transport, |_| 100).await;
    let silent = calls.split_off(5);
    let finds = call(&transport, 11);
    server.expect("tools/call").await.answer(Answer::status(404));
    server.expect("tools/call").await.result(json!({}));
    result(finds).await;

    pass(4).await;
    for (id, stream) in (1..=5).zip(&streams) {
        stream.result(json!({ "for": id }));
    }
    for (id, call) in (1..=5).zip(calls) {
        assert_eq!(result(call).await, json!({ "for": id }));
    }
    assert!(silent.iter().all(|call| !call.is_finished()));
    pass(2).await;
    assert!(silent.iter().all(Call::is_finished));
    for call in silent {
        lost(call).await;
    }
    assert!(streams.iter().all(Events::is_dropped));
    assert_eq!(server.count("GET"), 0);
    next_call_works(&mut server, &transport).await;
}
