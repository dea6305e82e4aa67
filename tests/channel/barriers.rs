//! What waits for the handshake.

use std::time::Duration;

use mcp_streamable_http::RequestId;
use mcp_streamable_http::channel::{Channel, Origin};
use mcp_streamable_http::error::TimedOut;
use mcp_streamable_http::options::Deadline;
use serde_json::json;
use tokio::time::Instant;

use crate::common::*;
use crate::support::{Answer, Exchange, Server, legacy};

/// A channel whose `initialize` waits for its answer, with a request and a notification behind it.
async fn in_handshake(server: &mut Server) -> (Channel, Exchange) {
    let channel = server.transport().channel();
    send(&channel.sender(), [initialize(0), request(1), notification("a")]);
    let first = server.expect("initialize").await;
    settle().await;
    assert_eq!(server.outline(), ["initialize"]);
    (channel, first)
}

async fn is_released(server: &mut Server) {
    let arrived = [server.next().await, server.next().await];
    let mut what = arrived.each_ref().map(|exchange| exchange.seen.what());
    what.sort_unstable();
    assert_eq!(what, ["a", "ping"]);
    arrived.into_iter().for_each(Exchange::accept);
}

#[tokio::test(start_paused = true)]
async fn requests_and_notifications_wait_for_initialize() {
    let mut server = Server::manual();
    let (mut channel, first) = in_handshake(&mut server).await;
    let answer = legacy(&first.seen).unwrap();
    first.answer(answer);
    assert_eq!(id(&next(&mut channel).await), 0);
    is_released(&mut server).await;
    for seen in &server.seen()[1..] {
        assert_eq!(seen.header("mcp-session-id"), Some(SESSION));
        assert_eq!(seen.header("mcp-protocol-version"), Some(VERSION));
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_of_the_server_can_be_answered_before_initialize_is() {
    let mut server = Server::manual();
    let (mut channel, first) = in_handshake(&mut server).await;
    let events = first.open();
    events.send(&json!({ "jsonrpc": "2.0", "id": 7, "method": "ping" }));
    let asked = next(&mut channel).await;
    assert_eq!(asked.message.method(), Some("ping"));
    assert_eq!(asked.origin, Origin::Request(0.into()));
    send(&channel.sender(), [response(7)]);
    let answer = server.expect("=").await;
    assert!(answer.seen.has_id(7));
    answer.accept();
    settle().await;
    assert_eq!(server.outline(), ["initialize", "="], "all else still waits");
    events.result(json!({ "protocolVersion": VERSION, "capabilities": {} }));
    assert_eq!(id(&next(&mut channel).await), 0);
    is_released(&mut server).await;
}

#[tokio::test(start_paused = true)]
async fn an_initialize_that_fails_holds_nothing_up() {
    let refusal = json!({ "jsonrpc": "2.0", "id": 0, "error": { "code": -32602, "message": "no" } });
    let outcomes = [
        (Answer::status(500), Some(-32603)),
        (Answer::broken(), Some(-32000)),
        (Answer::text("text/event-stream", ""), Some(-32000)),
        (Answer::json(&refusal), None),
    ];
    for (outcome, code) in outcomes {
        let mut server = Server::manual();
        let (mut channel, first) = in_handshake(&mut server).await;
        first.answer(outcome);
        let answer = next(&mut channel).await;
        assert_eq!(id(&answer), 0);
        assert_eq!(answer.failure.is_some().then(|| failure(&answer)), code);
        is_released(&mut server).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_deadline_that_passes_while_a_request_waits_is_told_when_it_would_be_sent() {
    let mut server = Server::manual();
    let (mut channel, first) = in_handshake(&mut server).await;
    let deadline = Deadline::within(Duration::from_secs(5));
    send(&channel.sender(), [numbered(2, 2).with(deadline)]);
    pass(10).await;
    silent(&mut channel).await;
    let answer = legacy(&first.seen).unwrap();
    first.answer(answer);
    assert_eq!(id(&next(&mut channel).await), 0);
    let item = next(&mut channel).await;
    assert!(item.failure.as_ref().unwrap().find::<TimedOut>().is_some());
    assert_eq!(id(&item), 2);
    is_released(&mut server).await;
}

#[tokio::test(start_paused = true)]
async fn a_second_initialize_passes_and_what_is_held_waits_for_it() {
    let mut server = Server::manual();
    let (mut channel, first) = in_handshake(&mut server).await;
    send(&channel.sender(), [initialize(10)]);
    let second = server.expect("initialize").await;
    assert!(second.seen.has_id(10));
    let answer = legacy(&first.seen).unwrap().header("mcp-session-id", "s-0");
    first.answer(answer);
    assert_eq!(id(&next(&mut channel).await), 0);
    settle().await;
    assert_eq!(server.outline(), ["initialize", "initialize"]);
    let answer = legacy(&second.seen).unwrap().header("mcp-session-id", "s-2");
    second.answer(answer);
    assert_eq!(id(&next(&mut channel).await), 10);
    is_released(&mut server).await;
    assert!(server.seen()[2..].iter().all(|seen| seen.header("mcp-session-id") == Some("s-2")));
}

#[tokio::test(start_paused = true)]
async fn an_initialize_under_the_same_id_takes_the_place_of_the_first() {
    let mut server = Server::manual();
    let (mut channel, first) = in_handshake(&mut server).await;
    send(&channel.sender(), [initialize(0)]);
    let second = server.expect("initialize").await;
    settle().await;
    assert!(first.is_dropped());
    assert_eq!(server.outline(), ["initialize", "initialize"]);
    let answer = legacy(&second.seen).unwrap();
    second.answer(answer);
    assert!(result(&next(&mut channel).await).is_object());
    is_released(&mut server).await;
    // That of the ping that was accepted only.
    assert_eq!(id(&next(&mut channel).await), 1);
    silent(&mut channel).await;
}

/// A channel whose `notifications/initialized` waits to be accepted, with one message of each kind behind it.
async fn before_acceptance(server: &mut Server) -> (Channel, Exchange) {
    let mut channel = server.transport().channel();
    send(&channel.sender(), [initialize(0)]);
    let first = server.expect("initialize").await;
    let answer = legacy(&first.seen).unwrap();
    first.answer(answer);
    assert_eq!(id(&next(&mut channel).await), 0);
    send(&channel.sender(), [initialized(), request(1), notification("a"), response(2)]);
    let notified = server.expect("notifications/initialized").await;
    settle().await;
    assert_eq!(server.outline(), ["initialize", "notifications/initialized"]);
    (channel, notified)
}

/// What was held goes; an attempt to listen does not count.
async fn all_of_it_goes(server: &mut Server) {
    let mut order = Vec::new();
    while order.len() < 3 {
        let next = server.next_in_time().await;
        if next.seen.what() != "GET" {
            order.push(next.seen.what().to_owned());
            next.accept();
        }
    }
    order.retain(|what| what != "ping");
    assert_eq!(order, ["a", "="]);
}

#[tokio::test(start_paused = true)]
async fn everything_waits_until_initialized_is_accepted() {
    let mut server = Server::manual();
    let (_channel, notified) = before_acceptance(&mut server).await;
    let start = Instant::now();
    notified.accept();
    all_of_it_goes(&mut server).await;
    assert_eq!(start.elapsed().as_millis(), 0);
}

#[tokio::test(start_paused = true)]
async fn an_initialized_that_fails_holds_nothing_up() {
    for outcome in [Answer::status(500), Answer::status(400), Answer::broken()] {
        let mut server = Server::manual();
        let (_channel, notified) = before_acceptance(&mut server).await;
        let start = Instant::now();
        notified.answer(outcome);
        all_of_it_goes(&mut server).await;
        assert_eq!(start.elapsed().as_millis(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn an_initialized_without_an_answer_holds_up_for_five_seconds() {
    let mut server = Server::manual();
    let start = Instant::now();
    let (_channel, notified) = before_acceptance(&mut server).await;
    all_of_it_goes(&mut server).await;
    assert_eq!(start.elapsed().as_secs(), 5);
    assert!(!notified.is_dropped());
}

#[tokio::test(start_paused = true)]
async fn a_whole_handshake_can_be_given_at_once() {
    let mut server = Server::legacy();
    let mut channel = server.transport().channel();
    send(&channel.sender(), [initialize(0), initialized(), request(1), notification("a")]);
    assert_eq!(id(&next(&mut channel).await), 0);
    is_released(&mut server).await;
    let ping = server.seen().into_iter().find(|seen| seen.what() == "ping").unwrap();
    assert_eq!(ping.message["id"], json!(1));
    assert_eq!(ping.header("mcp-session-id"), Some(SESSION));
    assert_eq!(server.outline()[..2], ["initialize", "notifications/initialized"]);
    let answer = next(&mut channel).await;
    assert_eq!(answer.origin, Origin::Request(RequestId::from(1)));
}
