//! How much may wait, and where.

use futures_util::{FutureExt, SinkExt};
use mcp_streamable_http::JsonRpcMessage;
use mcp_streamable_http::channel::{ChannelOptions, Incoming, Sender, TooManyInFlight};
use serde_json::json;

use crate::common::*;
use crate::support::Server;

fn is_refused(item: &Incoming, expected: i64) -> bool {
    let refusal = item.failure.as_ref().and_then(|failure| failure.find::<TooManyInFlight>());
    refusal.is_some() && id(item) == expected
}

/// The message that a full channel gives back.
fn given_back(sender: &Sender, message: JsonRpcMessage) -> JsonRpcMessage {
    let error = sender.send(message).unwrap_err();
    assert!(error.is_full() && !error.is_closed());
    error.into_message().unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_request_over_the_limit_is_answered_at_once_and_not_sent() {
    let mut server = Server::manual();
    let mut channel = server.transport().channel_with(ChannelOptions::default().max_in_flight(2));
    send(&channel.sender(), [request(1), request(2), request(3)]);
    let item = next(&mut channel).await;
    assert!(is_refused(&item, 3), "{item:?}");
    assert_eq!(failure(&item), -32000);
    assert_eq!(item.failure.unwrap().find::<TooManyInFlight>().unwrap().limit, 2);
    settle().await;
    assert_eq!(server.ids("ping"), [1, 2].into());

    // An answer takes its request's place until it is read.
    server.expect("ping").await.result(json!({}));
    settle().await;
    send(&channel.sender(), [request(4)]);
    assert_eq!(result(&next(&mut channel).await), json!({}));
    assert!(is_refused(&next(&mut channel).await, 4));
    send(&channel.sender(), [request(5)]);
    settle().await;
    assert_eq!(server.ids("ping"), [1, 2, 5].into());
    silent(&mut channel).await;
}

#[tokio::test(start_paused = true)]
async fn an_id_in_flight_can_be_used_again_at_the_limit() {
    let mut server = Server::manual();
    let mut channel = server.transport().channel_with(ChannelOptions::default().max_in_flight(1));
    send(&channel.sender(), [request(1)]);
    let _first = server.expect("ping").await;
    send(&channel.sender(), [request(1)]);
    server.expect("ping").await.result(json!({ "second": true }));
    assert_eq!(result(&next(&mut channel).await), json!({ "second": true }));
    silent(&mut channel).await;
}

#[tokio::test(start_paused = true)]
async fn refusals_that_nobody_reads_are_bounded_too() {
    let server = Server::manual();
    let mut channel = server.transport().channel_with(ChannelOptions::default().max_in_flight(2));
    let sender = channel.sender();
    send(&sender, (1..=4).map(request));
    let secret = JsonRpcMessage::request(5, "s3cret", ());
    assert_eq!(given_back(&sender, secret.clone()), secret);
    let error = sender.send(secret).unwrap_err();
    assert!(!format!("{error} {error:?}").contains("s3cret"));
    assert!(is_refused(&next(&mut channel).await, 3));
    send(&sender, [request(5)]);
    given_back(&sender, request(6));
    assert!(is_refused(&next(&mut channel).await, 4));
    assert!(is_refused(&next(&mut channel).await, 5));
    silent(&mut channel).await;
    assert_eq!(server.ids("ping"), [1, 2].into());
}

#[tokio::test(start_paused = true)]
async fn notifications_and_responses_over_the_limit_are_given_back() {
    let mut server = Server::manual();
    let channel = server.transport().channel_with(ChannelOptions::default().max_unsent(1));
    let sender = channel.sender();
    send(&sender, [notification("a")]);
    let first = server.expect("a").await;
    assert_eq!(given_back(&sender, notification("b")), notification("b"));
    assert_eq!(given_back(&sender, response(1)), response(1));
    send(&sender, [request(1)]);
    let _request = server.expect("ping").await;
    first.accept();
    settle().await;
    send(&sender, [notification("c")]);
    server.expect("c").await.accept();
    assert_eq!(server.outline(), ["a", "ping", "c"]);
}

#[tokio::test(start_paused = true)]
async fn what_was_overtaken_keeps_its_room_until_it_ends() {
    let mut server = Server::manual();
    let channel = server.transport().channel_with(ChannelOptions::default().max_unsent(2));
    let sender = channel.sender();
    send(&sender, [notification("a"), notification("b")]);
    let late = server.expect("a").await;
    pass(6).await;
    let _unanswered = server.expect("b").await;
    // Both are on their way, so what is overdue cannot pile up.
    assert_eq!(given_back(&sender, notification("c")), notification("c"));
    assert!(!late.is_dropped());
    late.accept();
    settle().await;
    send(&sender, [notification("c")]);
    assert_eq!(given_back(&sender, notification("d")), notification("d"));
}

#[tokio::test(start_paused = true)]
async fn what_is_never_answered_gives_its_room_back_when_it_is_given_up() {
    let mut server = Server::manual();
    let channel = server.transport().channel_with(ChannelOptions::default().max_unsent(1));
    send(&channel.sender(), [notification("a")]);
    let unanswered = server.expect("a").await;
    pass(36).await;
    assert!(unanswered.is_dropped());
    send(&channel.sender(), [notification("b")]);
    server.expect("b").await.accept();
}

#[tokio::test(start_paused = true)]
async fn a_sink_that_was_fed_a_request_keeps_no_room_from_others() {
    let mut server = Server::manual();
    let channel = server.transport().channel_with(ChannelOptions::default().max_unsent(1));
    let (mut sink, _receiver) = channel.split();
    let other = sink.clone();
    soon(sink.feed(request(1))).await.unwrap();
    send(&other, [notification("a")]);
    let mut what = [server.next().await, server.next().await].map(|arrived| arrived.seen.what().to_owned());
    what.sort_unstable();
    assert_eq!(what, ["a", "ping"]);
}

#[tokio::test(start_paused = true)]
async fn a_sink_waits_for_room() {
    let mut server = Server::manual();
    let mut channel = server.transport().channel_with(ChannelOptions::default().max_unsent(1));
    soon(channel.feed(notification("a"))).await.unwrap();
    soon(channel.flush()).await.unwrap();
    let first = server.expect("a").await;
    let mut feeding = tokio::spawn(async move {
        channel.feed(notification("b")).await.unwrap();
        channel
    });
    settle().await;
    assert!((&mut feeding).now_or_never().is_none());
    first.accept();
    let mut channel = soon(feeding).await.unwrap();
    server.expect("b").await.accept();
    settle().await;

    // The room that requests do not need is there for the next message.
    for message in [request(1), request(2), notification("c")] {
        soon(channel.feed(message)).await.unwrap();
    }
    let mut arrived = Vec::new();
    for _ in 0..3 {
        arrived.push(server.next().await);
    }
    assert_eq!(arrived.iter().filter(|exchange| exchange.seen.what() == "ping").count(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_sink_that_waits_for_room_hears_of_the_end() {
    let mut server = Server::manual();
    let channel = server.transport().channel_with(ChannelOptions::default().max_unsent(1));
    let (mut sender, _receiver) = channel.split();
    let closer = sender.clone();
    send(&sender, [notification("a")]);
    let _unanswered = server.expect("a").await;
    let feeding = tokio::spawn(async move { sender.feed(notification("b")).await });
    settle().await;
    let closing = closer.close();
    assert!(soon(feeding).await.unwrap().unwrap_err().is_closed());
    in_time(closing).await;
}

#[tokio::test(start_paused = true)]
async fn streams_are_not_read_on_while_nobody_reads() {
    let mut server = Server::listening();
    let mut channel = server.transport().channel_with(ChannelOptions::default().max_unread(4));
    handshake(&mut channel).await;
    let heard = server.expect("GET").await.open();
    send(&channel.sender(), [request(1)]);
    let call = server.expect("ping").await.open();
    for number in 0..50 {
        call.send(&progress(number));
        heard.send(&progress(100 + number));
    }
    call.result(json!({}));
    settle().await;
    // What waits to be read, and for each stream the one that it holds in its hand.
    assert!(call.reads() + heard.reads() <= 6, "{} and {}", call.reads(), heard.reads());

    // What is sent goes all the same.
    send(&channel.sender(), [response(7), notification("a"), request(2)]);
    let mut what = Vec::new();
    let mut second = None;
    for _ in 0..3 {
        let arrived = server.next().await;
        what.push(arrived.seen.what().to_owned());
        if arrived.seen.what() == "ping" { second = Some(arrived) } else { arrived.accept() }
    }
    what.sort_unstable();
    assert_eq!(what, ["=", "a", "ping"]);
    // Answers need no room.
    second.unwrap().result(json!({}));
    settle().await;

    let (mut called, mut listened, mut answered) = (Vec::new(), Vec::new(), Vec::new());
    while called.len() + listened.len() + answered.len() < 102 {
        let item = next(&mut channel).await;
        match item.message.method() {
            None => answered.push(id(&item)),
            Some(_) if step(&item) < 100 => {
                assert!(!answered.contains(&1), "before the answer");
                called.push(step(&item));
            }
            Some(_) => listened.push(step(&item) - 100),
        }
    }
    let all: Vec<usize> = (0..50).collect();
    assert_eq!((called, listened), (all.clone(), all));
    answered.sort_unstable();
    assert_eq!(answered, [1, 2]);
    silent(&mut channel).await;
}
