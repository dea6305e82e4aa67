//! Requests of the legacy era that the caller has cancelled, and answers that come too late or too early.

use std::time::Duration;

use mcp_streamable_http::JsonRpcMessage;
use mcp_streamable_http::channel::{Channel, ChannelOptions};
use mcp_streamable_http::options::{Deadline, FirstByte};
use serde_json::{Value, json};

use crate::common::*;
use crate::support::{Answer, Events, Exchange, Server, legacy};

/// A channel in a session with room for one request, and that request, which is cancelled.
async fn cancelled_call(server: &mut Server, call: JsonRpcMessage) -> (Channel, Exchange) {
    let mut channel = server.transport().channel_with(ChannelOptions::default().max_in_flight(1));
    handshake(&mut channel).await;
    send(&channel.sender(), [call]);
    let call = server.expect("call").await;
    send(&channel.sender(), [cancelled(1)]);
    server.expect("notifications/cancelled").await.accept();
    settle().await;
    (channel, call)
}

/// Nothing came of it, and its place is free again.
async fn is_forgotten(server: &mut Server, channel: &mut Channel) {
    silent(channel).await;
    send(&channel.sender(), [request(2)]);
    server.expect("ping").await.result(json!({}));
    let item = next(channel).await;
    assert_eq!((id(&item), result(&item)), (2, json!({})));
    silent(channel).await;
    assert_eq!(server.count("notifications/cancelled"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_request_that_fails_in_whatever_way_has_no_answer() {
    let failures = [
        Answer::broken(),
        Answer::status(500),
        Answer::status(400),
        Answer::status(202),
        Answer::text("text/html", "<html>"),
        Answer::text("application/json", "{no json"),
        Answer::events(&[]),
        Answer::text("text/event-stream", "data: {no json\n\n"),
    ];
    for failure in failures {
        let mut server = Server::legacy();
        let (mut channel, call) = cancelled_call(&mut server, numbered(1, 1)).await;
        call.answer(failure);
        is_forgotten(&mut server, &mut channel).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_request_whose_time_is_up_has_no_answer() {
    let within = Duration::from_secs(10);
    let timed =
        [numbered(1, 1).with(Deadline::within(within)), numbered(1, 1).with(FirstByte::within(within))];
    for call in timed {
        let mut server = Server::legacy();
        let (mut channel, call) = cancelled_call(&mut server, call).await;
        pass(11).await;
        assert!(call.is_dropped());
        is_forgotten(&mut server, &mut channel).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_request_without_an_answer_is_given_up_after_thirty_seconds() {
    for is_open in [false, true] {
        let mut server = Server::legacy();
        let (mut channel, call) = cancelled_call(&mut server, numbered(1, 1)).await;
        let is_dropped: Box<dyn Fn() -> bool> = if is_open {
            let stream = call.open();
            Box::new(move || stream.is_dropped())
        } else {
            Box::new(move || call.is_dropped())
        };
        pass(29).await;
        assert!(!is_dropped());
        pass(2).await;
        assert!(is_dropped());
        is_forgotten(&mut server, &mut channel).await;
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_cancelled_request_still_says_does_not_prolong_it() {
    let mut server = Server::legacy();
    let (mut channel, call) = cancelled_call(&mut server, numbered(1, 1)).await;
    let stream = call.open();
    for number in 0..29 {
        stream.send(&progress(number));
        assert_eq!(step(&next(&mut channel).await), number);
        pass(1).await;
    }
    pass(2).await;
    assert!(stream.is_dropped());
    is_forgotten(&mut server, &mut channel).await;
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_request_that_is_answered_in_time_has_its_answer() {
    let mut server = Server::legacy();
    let (mut channel, call) = cancelled_call(&mut server, numbered(1, 1)).await;
    pass(29).await;
    call.result(json!({ "late": true }));
    assert_eq!(result(&next(&mut channel).await), json!({ "late": true }));
    is_forgotten(&mut server, &mut channel).await;
}

fn answer_to(id: i64, result: Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "result": result })
}

/// A channel that listens, to a server that leaves further handshakes to the test.
async fn listening() -> (Server, Channel, Events) {
    let mut server = Server::scripted(|seen| match seen.what() {
        "initialize" | "notifications/initialized" => None,
        _ => legacy(seen),
    });
    let mut channel = server.transport().channel();
    send(&channel.sender(), [initialize(0)]);
    let first = server.expect("initialize").await;
    let answer = legacy(&first.seen).unwrap();
    first.answer(answer);
    next(&mut channel).await;
    send(&channel.sender(), [initialized()]);
    server.expect("notifications/initialized").await.accept();
    let events = server.expect("GET").await.open();
    (server, channel, events)
}

#[tokio::test(start_paused = true)]
async fn a_request_that_was_not_sent_has_no_answer_yet() {
    let (mut server, mut channel, events) = listening().await;
    send(&channel.sender(), [initialized(), request(5)]);
    let notified = server.expect("notifications/initialized").await;
    events.send(&answer_to(5, json!({ "stale": true })));
    events.send(&progress(1));
    assert_eq!(step(&next(&mut channel).await), 1);
    silent(&mut channel).await;
    notified.accept();
    let mut call = server.next().await;
    while call.seen.what() != "ping" {
        call = server.next().await;
    }
    call.result(json!({ "stale": false }));
    assert_eq!(result(&next(&mut channel).await), json!({ "stale": false }));
}

#[tokio::test(start_paused = true)]
async fn what_is_left_of_a_session_does_not_answer_the_next_handshake() {
    for is_under_way in [false, true] {
        let (mut server, mut channel, events) = listening().await;
        send(&channel.sender(), [initialize(0)]);
        if is_under_way {
            settle().await;
        }
        events.send(&answer_to(0, json!({ "stale": true })));
        let again = server.expect("initialize").await;
        silent(&mut channel).await;
        assert!(events.is_dropped() && !again.is_dropped());
        let answer = legacy(&again.seen).unwrap();
        again.answer(answer);
        assert_eq!(result(&next(&mut channel).await)["protocolVersion"], VERSION);
    }
}
