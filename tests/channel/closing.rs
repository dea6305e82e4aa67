//! What closing does.

use std::time::Duration;

use mcp_streamable_http::channel::{Channel, ChannelOptions};
use serde_json::json;
use tokio::time::Instant;

use crate::common::*;
use crate::support::{Answer, Server, legacy};

/// A channel in a session that does not listen.
async fn in_session(server: &Server, options: ChannelOptions) -> Channel {
    let mut channel = server.transport().channel_with(options);
    handshake(&mut channel).await;
    channel
}

/// A server of whose session the end is up to the test.
fn without_end() -> Server {
    Server::scripted(|seen| match seen.what() {
        "DELETE" => None,
        "GET" => Some(Answer::status(405)),
        _ => legacy(seen),
    })
}

#[tokio::test(start_paused = true)]
async fn requests_and_streams_are_aborted_without_a_word_and_the_session_is_ended() {
    let mut server = Server::listening();
    let mut channel = server.transport().channel();
    handshake(&mut channel).await;
    let heard = server.expect("GET").await.open();
    send(&channel.sender(), [request(1), request(2)]);
    let headless = server.expect("ping").await;
    let open = server.expect("ping").await.open();
    open.send(&progress(1));
    settle().await;
    let start = Instant::now();
    soon(channel.close()).await;
    assert_eq!(start.elapsed().as_millis(), 0);
    assert!(headless.is_dropped() && open.is_dropped() && heard.is_dropped());
    pass(60).await;
    assert_eq!(server.count("notifications/cancelled"), 0);
    assert_eq!(server.count("DELETE"), 1);
    let last = server.seen().pop().unwrap();
    assert_eq!((last.what(), last.header("mcp-session-id")), ("DELETE", Some(SESSION)));
}

#[tokio::test(start_paused = true)]
async fn notifications_and_responses_are_sent_before_the_session_ends() {
    let mut server = without_end();
    let channel = in_session(&server, ChannelOptions::default()).await;
    send(&channel.sender(), [notification("a"), response(1), notification("b")]);
    let closing = tokio::spawn(channel.close());
    for what in ["a", "=", "b"] {
        let next = server.expect(what).await;
        settle().await;
        next.accept();
    }
    server.expect("DELETE").await.answer(Answer::status(200));
    soon(closing).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_sent_in_two_seconds_is_given_up() {
    let mut server = without_end();
    let channel = in_session(&server, ChannelOptions::default()).await;
    send(&channel.sender(), [notification("a"), notification("b"), response(1), request(1)]);
    let (unanswered, call) = (server.expect("a").await, server.expect("ping").await);
    let start = Instant::now();
    let closing = tokio::spawn(channel.close());
    settle().await;
    assert!(call.is_dropped(), "a request is not waited for");
    assert!(!unanswered.is_dropped());
    let delete = server.next_in_time().await;
    assert_eq!((delete.seen.what(), start.elapsed().as_secs()), ("DELETE", 2));
    assert!(unanswered.is_dropped());
    delete.answer(Answer::status(200));
    soon(closing).await.unwrap();
    pass(60).await;
    assert_eq!((server.count("b"), server.count("=")), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn closing_takes_five_seconds_at_most() {
    for flushes in [true, false] {
        let mut server = without_end();
        let channel = in_session(&server, ChannelOptions::default()).await;
        let mut unanswered = Vec::new();
        if !flushes {
            send(&channel.sender(), [notification("a")]);
            unanswered.push(server.expect("a").await);
        }
        let start = Instant::now();
        let closing = tokio::spawn(channel.close());
        let delete = server.next_in_time().await;
        assert_eq!(delete.seen.what(), "DELETE");
        in_time(closing).await.unwrap();
        assert_eq!(start.elapsed().as_secs(), 5);
        assert!(delete.is_dropped());
    }
}

#[tokio::test(start_paused = true)]
async fn the_times_are_options() {
    let mut server = without_end();
    let (flush, close) = (Duration::from_secs(20), Duration::from_secs(22));
    let options = ChannelOptions::default().flush_timeout(flush).close_timeout(close);
    let channel = in_session(&server, options.patience(Duration::from_secs(60))).await;
    send(&channel.sender(), [notification("a")]);
    let _unanswered = server.expect("a").await;
    let start = Instant::now();
    let closing = tokio::spawn(channel.close());
    let delete = server.next_in_time().await;
    assert_eq!((delete.seen.what(), start.elapsed()), ("DELETE", flush));
    in_time(closing).await.unwrap();
    assert_eq!(start.elapsed(), close);
}

#[tokio::test(start_paused = true)]
async fn a_session_that_is_to_be_kept_is_not_ended() {
    let server = Server::legacy();
    let channel = in_session(&server, ChannelOptions::default().terminate(false)).await;
    soon(channel.close()).await;
    assert_eq!(server.count("DELETE"), 0);
}

#[tokio::test(start_paused = true)]
async fn without_a_session_there_is_none_to_end() {
    let mut server = Server::manual();
    let mut channel = server.transport().channel();
    send(&channel.sender(), [request(1)]);
    server.expect("ping").await.result(json!({}));
    assert_eq!(id(&next(&mut channel).await), 1);
    soon(channel.close()).await;
    assert_eq!(server.outline(), ["ping"]);
}

#[tokio::test(start_paused = true)]
async fn a_delete_that_is_refused_does_not_keep_the_channel_open() {
    for answer in [Answer::status(405), Answer::status(500), Answer::status(404), Answer::broken()] {
        let mut server = without_end();
        let channel = in_session(&server, ChannelOptions::default()).await;
        let closing = tokio::spawn(channel.close());
        server.expect("DELETE").await.answer(answer);
        soon(closing).await.unwrap();
        assert_eq!(server.count("DELETE"), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn closing_does_not_wait_for_an_initialize() {
    let mut server = Server::manual();
    let channel = server.transport().channel();
    send(&channel.sender(), [initialize(0), request(1), notification("a")]);
    let first = server.expect("initialize").await;
    soon(channel.close()).await;
    assert!(first.is_dropped());
    pass(60).await;
    // There is no session that they could be sent in, and none to end.
    assert_eq!(server.outline(), ["initialize"]);
}

#[tokio::test(start_paused = true)]
async fn responses_that_pass_an_initialize_are_sent_at_the_end_too() {
    let mut server = Server::manual();
    let channel = server.transport().channel();
    send(&channel.sender(), [initialize(0), response(7)]);
    let _first = server.expect("initialize").await;
    let closing = tokio::spawn(channel.close());
    let answer = server.expect("=").await;
    settle().await;
    assert!(!closing.is_finished());
    answer.accept();
    soon(closing).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn what_waits_behind_initialized_is_sent_but_for_requests() {
    let mut server = Server::scripted(|seen| (seen.what() == "initialize").then(|| legacy(seen)).flatten());
    let mut channel = server.transport().channel();
    send(&channel.sender(), [initialize(0)]);
    assert_eq!(id(&next(&mut channel).await), 0);
    send(&channel.sender(), [initialized(), request(1), notification("a"), response(2)]);
    let notified = server.expect("notifications/initialized").await;
    let closing = tokio::spawn(channel.close());
    settle().await;
    notified.accept();
    for what in ["a", "="] {
        server.expect(what).await.accept();
    }
    server.expect("DELETE").await.answer(Answer::status(200));
    soon(closing).await.unwrap();
    assert_eq!(server.outline(), ["initialize", "notifications/initialized", "a", "=", "DELETE"]);
}
