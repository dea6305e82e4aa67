//! What closing still sends, what it gives up, and what it does not say.

use std::time::Duration;

use mcp_streamable_http::channel::{Channel, ChannelOptions};
use mcp_streamable_http::options::{Deadline, QuietDrop};
use tokio::time::Instant;

use crate::common::*;
use crate::support::{Answer, Server, legacy};

/// A channel in a session whose end is up to the test.
async fn in_session(options: ChannelOptions) -> (Server, Channel, Told) {
    let server = Server::scripted(|seen| match seen.what() {
        "DELETE" => None,
        "GET" => Some(Answer::status(405)),
        _ => legacy(seen),
    });
    let (options, told) = with_hook(options);
    let mut channel = server.transport().channel_with(options);
    handshake(&mut channel).await;
    (server, channel, told)
}

#[tokio::test(start_paused = true)]
async fn closing_waits_for_what_was_overtaken_too() {
    let (mut server, channel, told) = in_session(ChannelOptions::default()).await;
    send(&channel.sender(), [notification("a"), notification("b")]);
    let late = server.expect("a").await;
    pass(6).await;
    server.expect("b").await.accept();
    let closing = tokio::spawn(channel.close());
    pass(1).await;
    assert!(!late.is_dropped());
    assert_eq!(server.count("DELETE"), 0);
    late.accept();
    server.expect("DELETE").await.answer(Answer::status(200));
    soon(closing).await.unwrap();
    assert!(told_of(&told).is_empty());
}

#[tokio::test(start_paused = true)]
async fn what_closing_gives_up_is_told() {
    let (mut server, channel, told) = in_session(ChannelOptions::default()).await;
    send(&channel.sender(), [notification("a"), notification("b"), response(1), notification("c")]);
    // One overtaken, one on its way, and two that wait.
    let late = server.expect("a").await;
    pass(6).await;
    let unanswered = server.expect("b").await;
    let start = Instant::now();
    let closing = tokio::spawn(channel.close());
    let delete = server.next_in_time().await;
    assert_eq!((delete.seen.what(), start.elapsed().as_secs()), ("DELETE", 2));
    assert!(late.is_dropped() && unanswered.is_dropped());
    delete.answer(Answer::status(200));
    soon(closing).await.unwrap();
    let mut told = told_of(&told);
    told.sort_unstable();
    assert_eq!(told, ["=", "a", "b", "c"]);
}

#[tokio::test(start_paused = true)]
async fn what_has_no_session_to_be_sent_in_is_told() {
    let mut server = Server::manual();
    let (options, told) = with_hook(ChannelOptions::default());
    let channel = server.transport().channel_with(options);
    send(&channel.sender(), [initialize(0), initialized(), request(1), notification("a")]);
    let _unanswered = server.expect("initialize").await;
    soon(channel.close()).await;
    assert_eq!(told_of(&told), ["notifications/initialized", "a"]);
    assert_eq!(server.outline(), ["initialize"]);
}

#[tokio::test(start_paused = true)]
async fn what_a_close_without_time_gives_up_is_told() {
    let (mut server, channel, told) =
        in_session(ChannelOptions::default().close_timeout(Duration::ZERO)).await;
    send(&channel.sender(), [notification("a"), notification("b")]);
    let unanswered = server.expect("a").await;
    soon(channel.close()).await;
    settle().await;
    assert!(unanswered.is_dropped());
    let mut told = told_of(&told);
    told.sort_unstable();
    assert_eq!(told, ["a", "b"]);
}

#[tokio::test(start_paused = true)]
async fn closing_cancels_nothing_in_whatever_state_a_request_is() {
    let mut server = Server::legacy();
    let mut channel = server.transport().channel_with(ChannelOptions::default().max_unread(1));
    handshake(&mut channel).await;
    let sender = channel.sender();
    // One without an answer, one in the middle of it, one that nobody reads on, and one with a switch of its own that is off.
    let switch = QuietDrop::new();
    send(&sender, (1..=3).map(|id| numbered(id, id)));
    send(&sender, [numbered(4, 4).with(switch.clone())]);
    let mut calls = Vec::new();
    for _ in 0..4 {
        calls.push(server.expect("call").await);
    }
    let rest = calls.split_off(1);
    let streams: Vec<_> = rest.into_iter().map(|call| call.open()).collect();
    (1..=5).for_each(|number| streams[1].send(&progress(number)));
    settle().await;
    // One that waits for a handshake, one whose id is used again by another that waits, and one that has not even begun.
    send(&sender, [initialize(0), numbered(5, 5), numbered(1, 7)]);
    settle().await;
    send(&sender, [numbered(6, 6)]);
    soon(channel.close()).await;
    pass(60).await;
    assert!(calls[0].is_dropped() && streams.iter().all(|stream| stream.is_dropped()));
    assert_eq!((server.count("notifications/cancelled"), server.count("DELETE")), (0, 1));
    assert!(!switch.is_on(), "it is the caller's");
}

#[tokio::test(start_paused = true)]
async fn a_switch_of_the_callers_that_is_on_is_honoured() {
    for is_on in [false, true] {
        let mut server = Server::legacy();
        let mut channel = server.transport().channel();
        handshake(&mut channel).await;
        let switch = QuietDrop::new();
        let deadline = Deadline::within(Duration::from_secs(10));
        send(&channel.sender(), [numbered(1, 1).with(switch.clone()).with(deadline)]);
        let call = server.expect("call").await.open();
        // Late is early enough.
        is_on.then(|| switch.turn_on());
        pass(11).await;
        assert!(call.is_dropped());
        failure(&next(&mut channel).await);
        settle().await;
        assert_eq!(server.count("notifications/cancelled"), usize::from(!is_on));
    }
}

#[tokio::test(start_paused = true)]
async fn closing_may_take_for_ever() {
    for (flush, close, seconds) in [
        (Duration::MAX, Duration::from_secs(5), 5),
        (Duration::from_secs(2), Duration::MAX, 2),
        (Duration::MAX, Duration::MAX, 35),
    ] {
        let options = ChannelOptions::default().flush_timeout(flush).close_timeout(close);
        let (mut server, channel, told) = in_session(options).await;
        send(&channel.sender(), [notification("a")]);
        let unanswered = server.expect("a").await;
        let start = Instant::now();
        let closing = tokio::spawn(channel.close());
        while !unanswered.is_dropped() {
            pass(1).await;
            assert!(start.elapsed().as_secs() < 60, "it is not given up");
        }
        let elapsed = start.elapsed().as_secs();
        assert!(elapsed.abs_diff(seconds) <= 1 || (seconds == 35 && elapsed >= 30), "{elapsed} s");
        if close == Duration::MAX {
            server.expect("DELETE").await.answer(Answer::status(200));
        }
        soon(closing).await.unwrap();
        assert_eq!(told_of(&told), ["a"]);
    }
}

#[tokio::test(start_paused = true)]
async fn patience_may_be_without_an_end() {
    let (mut server, channel, told) = in_session(ChannelOptions::default().patience(Duration::MAX)).await;
    send(&channel.sender(), [notification("a"), notification("b")]);
    let first = server.expect("a").await;
    pass(20).await;
    assert_eq!(server.count("b"), 0);
    first.accept();
    server.expect("b").await.accept();
    settle().await;
    assert!(told_of(&told).is_empty());
    drop(channel);
}
#[tokio::test(start_paused = true)]
async fn a_hook_that_panics_at_the_end_does_not_keep_the_session_open() {
    let mut server = Server::scripted(|seen| match seen.what() {
        "GET" => Some(Answer::status(405)),
        _ => legacy(seen),
    });
    let options = ChannelOptions::default().on_send_failure(|_, _| panic!("the hook of a test"));
    let mut channel = server.transport().channel_with(options);
    handshake(&mut channel).await;
    send(&channel.sender(), ["a", "b", "c"].map(notification));
    let _unanswered = server.expect("a").await;
    in_time(channel.close()).await;
    assert_eq!(server.count("DELETE"), 1);
}
