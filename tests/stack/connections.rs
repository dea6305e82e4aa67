//! How many TCP connections calls use, and when they are given up.

use std::time::Duration;

use mcp_streamable_http::{JsonRpcMessage, Limits, StreamableHttp};
use serde_json::json;

use crate::common::*;
use crate::support::mcp::{error, result};
use crate::support::{Answer, Gate, Request, Server};

const CALLS: i64 = 50;

/// How many connections `CALLS` calls use, one after the other.
async fn connections(answer: impl Fn(&Request) -> Answer + Send + Sync + 'static) -> usize {
    let server = Server::start(answer).await;
    let transport = transport(&server);
    for id in 0..CALLS {
        ask(&transport, call(id)).await.unwrap();
    }
    server.connections()
}

#[tokio::test]
async fn json_answers_use_one_connection() {
    assert_eq!(connections(|request| Answer::json(200, result(request, json!({})))).await, 1);
    assert_eq!(connections(|request| Answer::json(200, result(request, json!({}))).chunked()).await, 1);
}

#[tokio::test]
async fn error_answers_use_one_connection() {
    assert_eq!(connections(|request| Answer::json(400, error(request, -32602, "no"))).await, 1);
}

#[tokio::test]
async fn streams_that_end_with_their_answer_use_few_connections() {
    // All of it in one write, in both framings.
    let chunked = |request: &Request| {
        let event = format!("data: {}\n\n", result(request, json!({})));
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked";
        Answer::raw_response(format!("{head}\r\n\r\n{:x}\r\n{event}\r\n0\r\n\r\n", event.len()))
    };
    let counted = |request: &Request| {
        let event = format!("data: {}\n\n", result(request, json!({})));
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream";
        Answer::raw_response(format!("{head}\r\ncontent-length: {}\r\n\r\n{event}", event.len()))
    };
    for used in [connections(chunked).await, connections(counted).await] {
        assert!(used <= 2, "{used}");
    }
}

#[tokio::test]
async fn a_stream_that_ends_a_moment_later_keeps_its_connection() {
    let gate = Gate::new();
    let answer = gate.clone();
    let server =
        server(move |request| Answer::sse().event(result(request, json!({}))).wait(&answer).end()).await;
    let limits = Limits::default().drain_timeout(Duration::from_secs(3600));
    let transport = StreamableHttp::builder(server.url()).limits(limits).build().unwrap();
    for id in 0..5 {
        ask(&transport, call(id)).await.unwrap();
    }
    assert_eq!((server.connections(), server.gone_count()), (5, 0));
    gate.open();
    // Once the client has seen the ends, it uses these connections again. Until then it may make others.
    soon(async {
        while server.requests().pop().unwrap().connection >= 5 || server.requests().len() == 5 {
            ping_works(&transport).await;
        }
    })
    .await;
    assert_eq!(server.gone_count(), 0);
}

#[tokio::test]
async fn a_stream_that_stays_open_after_its_answer_is_given_up() {
    let server = server(|request| Answer::sse().event(result(request, json!({}))).hang()).await;
    let transport = transport(&server);
    for id in 1..=3 {
        ask(&transport, call(id)).await.unwrap();
        server.wait_gone(usize::try_from(id).unwrap()).await;
    }
    ping_works(&transport).await;
}

#[tokio::test]
async fn a_stream_that_talks_on_after_its_answer_is_given_up() {
    let server = server(|request| {
        Answer::sse().event(result(request, json!({}))).raw(": and another thing\n".repeat(10_000)).hang()
    })
    .await;
    // The time is not what ends it here.
    let limits = Limits::default().drain_timeout(Duration::from_secs(3600));
    let transport = StreamableHttp::builder(server.url()).limits(limits).build().unwrap();
    ask(&transport, call(1)).await.unwrap();
    server.gone().await;
}

#[tokio::test]
async fn without_a_drain_the_stream_is_dropped_with_its_answer() {
    let server = server(|request| Answer::sse().event(result(request, json!({}))).hang()).await;
    let limits = Limits::default().drain_timeout(Duration::ZERO);
    let transport = StreamableHttp::builder(server.url()).limits(limits).build().unwrap();
    ask(&transport, call(1)).await.unwrap();
    server.gone().await;
}

#[tokio::test]
async fn a_connection_that_the_server_closed_is_replaced() {
    let server =
        Server::start(|request| Answer::json(200, result(request, json!({}))).header("connection", "close"))
            .await;
    let transport = transport(&server);
    for id in 0..5 {
        ask(&transport, call(id)).await.unwrap();
    }
    assert_eq!((server.connections(), server.requests().len()), (5, 5));
}

#[tokio::test]
async fn a_connection_that_was_closed_while_idle_costs_no_call() {
    // Closed without a word, right after the answer.
    let server = Server::start(|request| {
        let body = result(request, json!({})).to_string();
        let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json";
        Answer::raw_response(format!("{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len())).close()
    })
    .await;
    let elsewhere = Server::start(pong).await;
    let (transport, other) = (transport(&server), transport(&elsewhere));
    for id in 0..20 {
        ask(&transport, call(id)).await.unwrap();
        // A round trip: the client has seen the closing by then.
        ping_works(&other).await;
    }
    assert_eq!((server.connections(), server.requests().len()), (20, 20));
}

#[tokio::test]
async fn an_open_stream_has_a_connection_of_its_own() {
    let (server, transport) = session(|_| Answer::sse().event(progress(1)).hang()).await;
    let mut open = send(&transport, call(1)).await.unwrap();
    next_message(&mut open).await;
    for _ in 0..10 {
        ping_works(&transport).await;
        let note = JsonRpcMessage::notification("notifications/initialized", ());
        assert!(rest(send(&transport, note).await.unwrap()).await.is_empty());
    }
    assert!(server.connections() <= 3, "{}", server.connections());
}
