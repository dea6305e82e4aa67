//! How many connections the server sees.

use std::time::Duration;

use futures_util::future::join_all;
use http::Uri;
use mcp_streamable_http::StreamableHttp;
use serde_json::json;

use crate::common::*;
use crate::support::mcp::{error, result};
use crate::support::{Answer, Request, Server};

const CALLS: i64 = 1000;
/// Connections in the pool, and calls at a time.
const POOL: usize = 4;

fn pong(request: &Request) -> Answer {
    Answer::json(200, result(request, json!({})))
}

/// How many connections `CALLS` calls use, one after the other.
async fn connections(answer: impl Fn(&Request) -> Answer + Send + Sync + 'static) -> usize {
    let server = Server::start(answer).await;
    let transport = transport(server.url(), plain());
    for id in 0..CALLS {
        works(&transport, call(id)).await;
    }
    assert_eq!(server.requests().len(), usize::try_from(CALLS).unwrap());
    server.connections()
}

/// A client that keeps few connections, and those for ever.
fn pooling(uri: Uri) -> StreamableHttp {
    let client = plain().pool_max_idle_per_host(POOL).pool_idle_timeout(None);
    terse_transport(uri, client, 1000)
}

/// Waits until no more connections are open than the pool keeps, and none once the client is gone.
async fn none_leaks(server: &Server, transport: StreamableHttp) {
    server.wait_open(POOL).await;
    works(&transport, ping(-1)).await;
    drop(transport);
    server.wait_open(0).await;
}

#[tokio::test]
async fn a_thousand_json_answers_use_one_connection() {
    assert_eq!(connections(pong).await, 1);
}

#[tokio::test]
async fn a_thousand_streams_that_end_with_their_answer_use_four_connections_at_most() {
    let used = connections(|request| {
        let event = format!("data: {}\n\n", result(request, json!({})));
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked";
        Answer::raw_response(format!("{head}\r\n\r\n{:x}\r\n{event}\r\n0\r\n\r\n", event.len()))
    })
    .await;
    assert!(used <= 4, "{used}");
}

#[tokio::test]
async fn a_thousand_streams_that_end_a_millisecond_later_use_thirty_connections_at_most() {
    let later = Duration::from_millis(1);
    let used =
        connections(move |request| Answer::sse().event(result(request, json!({}))).delay(later).end()).await;
    assert!(used <= 30, "{used}");
}

#[tokio::test]
async fn a_thousand_dropped_replies_leak_no_connection() {
    let server = Server::start(|request| match request.rpc_method() {
        Some("ping") => pong(request),
        _ => Answer::sse().event(progress()).hang(),
    })
    .await;
    let transport = pooling(server.url());
    for _ in 0..CALLS / 10 {
        let replies = join_all((0..10).map(|id| open(&transport, call(id)))).await;
        drop(replies);
    }
    server.wait_gone(usize::try_from(CALLS).unwrap()).await;
    none_leaks(&server, transport).await;
}

#[tokio::test]
async fn a_thousand_error_statuses_leak_no_connection() {
    let server = Server::start(|request| match (request.rpc_method(), request.nth % 4) {
        (Some("ping"), _) => pong(request),
        (_, 0) => Answer::status(500),
        (_, 1) => Answer::status(404).text("nothing here"),
        (_, 2) => Answer::json(400, error(request, -32602, "no")),
        _ => Answer::status(502).body("text/html", "<html>".repeat(10)).chunked(),
    })
    .await;
    let transport = pooling(server.url());
    let mut statuses = 0;
    for _ in 0..CALLS / 10 {
        let outcomes = join_all((0..10).map(|id| ask(&transport, call(id)))).await;
        statuses += outcomes.into_iter().filter_map(Result::err).filter_map(|e| e.status()).count();
    }
    // A quarter of them is answered with an error of JSON-RPC.
    assert_eq!(statuses, usize::try_from(CALLS).unwrap() / 4 * 3);
    none_leaks(&server, transport).await;
}

#[tokio::test]
async fn a_thousand_oversize_answers_leak_no_connection() {
    let server = Server::start(|request| match (request.rpc_method(), request.nth % 4) {
        (Some("ping"), _) => pong(request),
        (_, 0) => Answer::json(200, result(request, json!("x".repeat(2000)))),
        // Those below never end of themselves.
        (_, 1) => Answer::status(200).chunked().body("application/json", " ".repeat(2000)).hang(),
        (_, 2) => Answer::sse().raw(format!("data: {}", "x".repeat(2000))).hang(),
        _ => Answer::status(500).chunked().text("x".repeat(2000)).hang(),
    })
    .await;
    let transport = pooling(server.url());
    let mut too_large = 0;
    for _ in 0..CALLS / 10 {
        for error in join_all((0..10).map(|id| fails(&transport, call(id)))).await {
            assert!(error.may_have_run(), "{error:?}");
            too_large += usize::from(error.find::<mcp_streamable_http::error::TooLarge>().is_some());
        }
    }
    // What is too much of an error is cut off.
    assert_eq!(too_large, usize::try_from(CALLS).unwrap() / 4 * 3);
    none_leaks(&server, transport).await;
}

#[tokio::test]
async fn calls_given_up_before_their_head_leak_no_connection() {
    let server = Server::start(|request| match request.rpc_method() {
        Some("ping") => pong(request),
        Some("notifications/cancelled") => Answer::status(202),
        _ => Answer::raw_response("").hang(),
    })
    .await;
    let transport = pooling(server.url());
    for round in 1..=10 {
        let calls: Vec<_> = (0..10)
            .map(|id| {
                let transport = transport.clone();
                tokio::spawn(async move { send(&transport, call(id)).await })
            })
            .collect();
        let is_call = |request: &&Request| request.rpc_method() == Some("tools/call");
        server.wait_until("calls", move |all| all.iter().filter(is_call).count() == round * 10).await;
        calls.iter().for_each(tokio::task::JoinHandle::abort);
    }
    server.wait_gone(100).await;
    none_leaks(&server, transport).await;
}
