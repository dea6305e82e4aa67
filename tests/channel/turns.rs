//! When notifications and responses are called, and in which session they are sent.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use mcp_streamable_http::JsonRpcMessage;
use mcp_streamable_http::channel::{Channel, ChannelOptions};
use serde_json::json;
use tower::limit::ConcurrencyLimitLayer;
use tower::util::MapRequestLayer;

use crate::common::*;
use crate::support::{Answer, Server, legacy};

#[tokio::test(start_paused = true)]
async fn a_message_that_waits_for_its_turn_has_not_entered_the_layers() {
    let mut server = Server::manual();
    let log = Arc::new(Mutex::new(Vec::new()));
    let noted = log.clone();
    let transport = server.transport().layer(MapRequestLayer::new(move |message: JsonRpcMessage| {
        noted.lock().unwrap().push(message.method().unwrap_or("=").to_owned());
        message
    }));
    let channel = transport.channel();
    send(&channel.sender(), [notification("a"), response(1), notification("b"), request(1)]);
    let called = || log.lock().unwrap().clone();
    let first = server.expect("a").await;
    server.expect("ping").await.result(json!({}));
    settle().await;
    assert_eq!(called(), ["a", "ping"]);
    first.accept();
    let second = server.expect("=").await;
    settle().await;
    assert_eq!(called(), ["a", "ping", "="]);
    second.accept();
    server.expect("b").await.accept();
    assert_eq!(called(), ["a", "ping", "=", "b"]);
}

/// So many messages at a time is what a layer of the caller's allows.
const LIMIT: usize = 8;

#[tokio::test(start_paused = true)]
async fn notifications_that_hang_take_no_places_from_requests() {
    let server = Server::scripted(|seen| match seen.what() {
        "ping" => Some(Answer::json(&seen.result(json!({})))),
        _ => None,
    });
    let transport = server.transport().layer(ConcurrencyLimitLayer::new(LIMIT));
    let mut channel = transport.channel();
    send(&channel.sender(), (0..3 * LIMIT).map(|_| notification("hangs")));
    settle().await;
    for number in 0..4 {
        send(&channel.sender(), [request(number)]);
        assert_eq!(result(&next(&mut channel).await), json!({}));
        pass(5).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_cancellation_does_not_wait_for_its_turn() {
    let mut server = Server::manual();
    let mut channel = server.transport().channel();
    send(&channel.sender(), [notification("a"), notification("b"), modern(1)]);
    let _unanswered = server.expect("a").await;
    let call = server.expect("ping").await;
    send(&channel.sender(), [cancelled(1)]);
    settle().await;
    assert!(call.is_dropped());
    silent(&mut channel).await;
    assert_eq!(server.outline(), ["a", "ping"]);
}

#[tokio::test(start_paused = true)]
async fn a_cancellation_that_waits_does_not_meet_another_request_under_its_id() {
    let mut server = Server::legacy();
    let mut channel = server.transport().channel();
    handshake(&mut channel).await;
    send(&channel.sender(), [notification("a"), numbered(1, 1)]);
    let first = server.expect("a").await;
    let _superseded = server.expect("call").await;
    send(&channel.sender(), [cancelled(1), numbered(1, 2), notification("b")]);
    let call = server.expect("call").await;
    first.accept();
    server.expect("b").await.accept();
    assert_eq!(server.count("notifications/cancelled"), 0);
    call.answer(Answer::json(&json!({ "jsonrpc": "2.0", "id": 1, "result": {} })));
    assert_eq!(id(&next(&mut channel).await), 1);
}

/// A channel in the session `s-0` of a server whose next session is `s-1`. It does not listen.
async fn in_first_session(options: ChannelOptions) -> (Server, Channel) {
    let sessions = AtomicUsize::new(0);
    let server = Server::scripted(move |seen| match seen.what() {
        "initialize" => {
            let session = format!("s-{}", sessions.fetch_add(1, Ordering::Relaxed));
            legacy(seen).map(|answer| answer.header("mcp-session-id", &session))
        }
        _ => legacy(seen),
    });
    let mut channel = server.transport().channel_with(options.listen(false));
    handshake(&mut channel).await;
    (server, channel)
}

#[tokio::test(start_paused = true)]
async fn what_waited_until_its_session_was_over_is_not_sent_in_another() {
    let (options, told) = with_hook(ChannelOptions::default());
    let (mut server, mut channel) = in_first_session(options).await;
    send(&channel.sender(), [notification("a"), notification("b"), response(7)]);
    let first = server.expect("a").await;
    send(&channel.sender(), [initialize(10)]);
    assert_eq!(id(&next(&mut channel).await), 10);
    first.accept();
    settle().await;
    assert_eq!(told_of(&told), ["b", "="]);
    send(&channel.sender(), [initialized(), notification("c")]);
    let third = server.expect("c").await;
    assert_eq!(third.seen.header("mcp-session-id"), Some("s-1"));
    third.accept();
    silent(&mut channel).await;
    assert_eq!((server.count("b"), server.count("=")), (0, 0));
    assert_eq!(told_of(&told), ["b", "="]);
}

#[tokio::test(start_paused = true)]
async fn what_is_given_during_a_handshake_is_of_the_session_that_comes_of_it() {
    let mut server = Server::manual();
    let (options, told) = with_hook(ChannelOptions::default());
    let mut channel = server.transport().channel_with(options);
    send(&channel.sender(), [initialize(0), response(7), response(8), notification("a")]);
    let first = server.expect("initialize").await;
    // The second waits for its turn until there is a session.
    let early = server.expect("=").await;
    let answer = legacy(&first.seen).unwrap();
    first.answer(answer);
    assert_eq!(id(&next(&mut channel).await), 0);
    early.accept();
    for what in ["=", "a"] {
        let arrived = server.expect(what).await;
        assert_eq!(arrived.seen.header("mcp-session-id"), Some(SESSION));
        arrived.accept();
    }
    settle().await;
    assert!(told_of(&told).is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_cancellation_that_waited_until_its_session_was_over_is_of_that_session() {
    let (mut server, mut channel) = in_first_session(ChannelOptions::default()).await;
    send(&channel.sender(), [notification("a"), cancelled(1)]);
    let first = server.expect("a").await;
    send(&channel.sender(), [initialize(10)]);
    assert_eq!(id(&next(&mut channel).await), 10);
    first.accept();
    settle().await;
    let seen = server.seen();
    let told = seen.iter().filter(|seen| seen.what() == "notifications/cancelled");
    assert!(told.into_iter().all(|told| told.header("mcp-session-id") == Some("s-0")));
}
