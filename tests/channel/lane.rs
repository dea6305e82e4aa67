//! The lane for notifications and responses.

use std::time::Duration;

use mcp_streamable_http::channel::{Channel, ChannelOptions};
use tokio::time::Instant;

use crate::common::*;
use crate::support::{Answer, Server};

fn with_hook(server: &Server, options: ChannelOptions) -> (Channel, Told) {
    let (options, told) = crate::common::with_hook(options);
    (server.transport().channel_with(options), told)
}

#[tokio::test(start_paused = true)]
async fn notifications_and_responses_go_one_at_a_time_in_order() {
    let mut server = Server::manual();
    let channel = server.transport().channel();
    send(&channel.sender(), [notification("a"), response(1), notification("b"), response(2)]);
    let mut expected = Vec::new();
    for what in ["a", "=", "b", "="] {
        let next = server.expect(what).await;
        settle().await;
        expected.push(what);
        assert_eq!(server.outline(), expected, "one at a time");
        next.accept();
    }
}

#[tokio::test(start_paused = true)]
async fn the_next_goes_however_the_last_one_ended() {
    let mut server = Server::manual();
    let channel = server.transport().channel();
    send(&channel.sender(), ["a", "b", "c", "d", "e"].map(notification));
    let outcomes = [Answer::status(202), Answer::status(200), Answer::status(500), Answer::broken()];
    for (what, outcome) in ["a", "b", "c", "d"].into_iter().zip(outcomes) {
        server.expect(what).await.answer(outcome);
    }
    server.expect("e").await.accept();
}

#[tokio::test(start_paused = true)]
async fn requests_do_not_wait_for_the_lane() {
    let mut server = Server::manual();
    let mut channel = server.transport().channel();
    send(&channel.sender(), [notification("a"), notification("b"), request(1)]);
    let _unanswered = server.expect("a").await;
    server.expect("ping").await.result(serde_json::json!({}));
    assert_eq!(id(&next(&mut channel).await), 1);
    assert_eq!(server.outline(), ["a", "ping"]);
}

#[tokio::test(start_paused = true)]
async fn after_five_seconds_the_next_goes_and_the_late_one_can_still_be_accepted() {
    let mut server = Server::manual();
    let (channel, told) = with_hook(&server, ChannelOptions::default());
    let start = Instant::now();
    send(&channel.sender(), [notification("a"), notification("b")]);
    let late = server.expect("a").await;
    let next = server.next_in_time().await;
    assert_eq!(next.seen.what(), "b");
    assert_eq!(start.elapsed().as_secs(), 5);
    assert!(!late.is_dropped());
    late.accept();
    next.accept();
    pass(60).await;
    assert!(told.lock().unwrap().is_empty(), "neither has failed");
}

#[tokio::test(start_paused = true)]
async fn a_late_failure_is_told_too() {
    let mut server = Server::manual();
    let (channel, told) = with_hook(&server, ChannelOptions::default());
    send(&channel.sender(), [response(1)]);
    let late = server.expect("=").await;
    pass(10).await;
    assert!(told.lock().unwrap().is_empty());
    late.answer(Answer::status(500));
    settle().await;
    assert_eq!(*told.lock().unwrap(), [("=".to_owned(), Some(500))]);
}

#[tokio::test(start_paused = true)]
async fn one_that_is_never_answered_is_given_up_in_the_end() {
    let mut server = Server::manual();
    let (mut channel, told) = with_hook(&server, ChannelOptions::default());
    send(&channel.sender(), [notification("a")]);
    let unanswered = server.expect("a").await;
    pass(36).await;
    assert!(unanswered.is_dropped());
    assert_eq!(*told.lock().unwrap(), [("a".to_owned(), None)]);
    silent(&mut channel).await;
}

#[tokio::test(start_paused = true)]
async fn the_patience_is_an_option() {
    let mut server = Server::manual();
    let patience = Duration::from_secs(60);
    let channel = server.transport().channel_with(ChannelOptions::default().patience(patience));
    send(&channel.sender(), [notification("a"), notification("b")]);
    let _unanswered = server.expect("a").await;
    // Before the bound on the head of an answer passes.
    pass(20).await;
    assert_eq!(server.outline(), ["a"]);

    let mut server = Server::manual();
    let patience = Duration::from_millis(10);
    let channel = server.transport().channel_with(ChannelOptions::default().patience(patience));
    send(&channel.sender(), [notification("a"), notification("b")]);
    let _unanswered = server.expect("a").await;
    server.expect("b").await.accept();
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_delivered_is_told_to_the_hook_and_not_to_the_reader() {
    let mut server = Server::manual();
    let (mut channel, told) = with_hook(&server, ChannelOptions::default());
    send(&channel.sender(), [notification("a"), response(1), notification("b"), notification("c")]);
    server.expect("a").await.answer(Answer::status(500));
    server.expect("=").await.answer(Answer::broken());
    server.expect("b").await.accept();
    server.expect("c").await.answer(Answer::status(404));
    silent(&mut channel).await;
    let expected = [("a", Some(500)), ("=", None), ("c", Some(404))];
    assert_eq!(*told.lock().unwrap(), expected.map(|(what, status)| (what.to_owned(), status)));

    send(&channel.sender(), [request(1)]);
    server.expect("ping").await.result(serde_json::json!({}));
    assert_eq!(id(&next(&mut channel).await), 1);
}

#[tokio::test(start_paused = true)]
async fn what_is_refused_before_it_is_sent_is_told_to_the_hook() {
    let mut server = Server::manual();
    let (mut channel, told) = with_hook(&server, ChannelOptions::default());
    // The modern era has no responses from client to server.
    send(&channel.sender(), [modern(1), response(2), notification("a")]);
    server.expect("ping").await.result(serde_json::json!({}));
    assert_eq!(id(&next(&mut channel).await), 1);
    server.expect("a").await.accept();
    assert_eq!(server.outline(), ["ping", "a"]);
    assert_eq!(*told.lock().unwrap(), [("=".to_owned(), None)]);
}

#[tokio::test(start_paused = true)]
async fn a_hook_that_panics_does_not_stop_the_lane() {
    let mut server = Server::manual();
    let options = ChannelOptions::default().on_send_failure(|_, _| panic!("the hook of a test"));
    let channel = server.transport().channel_with(options);
    send(&channel.sender(), [notification("a"), notification("b")]);
    server.expect("a").await.answer(Answer::status(500));
    server.expect("b").await.accept();
    settle().await;
    assert!(!channel.sender().is_closed());
}
