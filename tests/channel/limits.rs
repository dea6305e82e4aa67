//! What the caller's own limits, and its own bounds, mean for what waits.

use std::sync::atomic::{AtomicUsize, Ordering};

use mcp_streamable_http::channel::ChannelOptions;
use serde_json::json;
use tower::limit::ConcurrencyLimitLayer;

use crate::common::*;
use crate::support::{Answer, Server, legacy};

/// "Each is sent in the session in which it was given to the channel, or not at all."
#[tokio::test(start_paused = true)]
async fn a_cancellation_that_waited_for_a_limit_is_not_sent_in_another_session() {
    let sessions = AtomicUsize::new(0);
    let mut server = Server::scripted(move |seen| match seen.what() {
        "initialize" => {
            let session = format!("s-{}", sessions.fetch_add(1, Ordering::Relaxed));
            legacy(seen).map(|answer| answer.header("mcp-session-id", &session))
        }
        _ => legacy(seen),
    });
    let transport = server.transport().layer(ConcurrencyLimitLayer::new(3));
    let mut channel = transport.channel_with(ChannelOptions::default().listen(false));
    handshake(&mut channel).await;
    // No place is left for the cancellation, nor for the handshake.
    send(&channel.sender(), [notification("a"), request(2), request(3)]);
    let mut first = None;
    let mut requests = Vec::new();
    for _ in 0..3 {
        let arrived = server.next().await;
        if arrived.seen.what() == "a" { first = Some(arrived) } else { requests.push(arrived) }
    }
    send(&channel.sender(), [cancelled(1), initialize(10)]);
    settle().await;
    requests.into_iter().for_each(|call| call.result(json!({})));
    for _ in 0..3 {
        next(&mut channel).await;
    }
    first.unwrap().accept();
    settle().await;
    let seen = server.seen();
    assert_eq!(seen.iter().filter(|seen| seen.what() == "initialize").count(), 2);
    for told in seen.iter().filter(|seen| seen.what() == "notifications/cancelled") {
        assert_eq!(told.header("mcp-session-id"), Some("s-0"));
    }
}

/// What waits for its turn takes no place in a limit of the caller's.
#[tokio::test(start_paused = true)]
async fn cancellations_that_wait_take_no_places_from_requests() {
    let server = Server::scripted(|seen| match seen.what() {
        "notifications/initialized" => Some(Answer::status(202)),
        "ping" => Some(Answer::json(&seen.result(json!({})))),
        what if what.starts_with("notifications/") => None,
        _ => legacy(seen),
    });
    let transport = server.transport().layer(ConcurrencyLimitLayer::new(8));
    let mut channel = transport.channel_with(ChannelOptions::default().listen(false));
    handshake(&mut channel).await;
    send(&channel.sender(), (1..=10).map(cancelled));
    settle().await;
    send(&channel.sender(), [request(100)]);
    assert_eq!(result(&next(&mut channel).await), json!({}));
}

/// "Whatever happens, each is answered under its id": what is accepted and refused must not have the answer of another.
#[tokio::test(start_paused = true)]
async fn a_refused_request_is_not_answered_with_the_result_of_an_earlier_one() {
    let mut server = Server::scripted(|seen| {
        (seen.what() == "call").then(|| Answer::json(&seen.result(seen.message["params"].clone())))
    });
    let mut channel =
        server.transport().channel_with(ChannelOptions::default().max_in_flight(4).listen(false));
    send(&channel.sender(), [initialize(0)]);
    let first = server.expect("initialize").await;
    let mut last = 0;
    for number in 0..100 {
        if channel.sender().send(numbered(1, number)).is_err() {
            break;
        }
        last = number;
    }
    let answer = legacy(&first.seen).unwrap();
    first.answer(answer);
    settle().await;
    let answer = loop {
        let item = next(&mut channel).await;
        if id(&item) == 1 {
            break item;
        }
    };
    assert_eq!(result(&answer), json!({ "number": last }));
}
