//! The ways to close a channel, and what is left of it.

use futures_util::{FutureExt, SinkExt, StreamExt};
use mcp_streamable_http::JsonRpcMessage;
use mcp_streamable_http::channel::{Channel, ChannelOptions, Origin, Sender};
use serde_json::json;

use crate::common::*;
use crate::support::{Answer, Exchange, Server, legacy};

/// A channel in a session, with a request in flight.
async fn busy(server: &mut Server) -> (Channel, Exchange) {
    let mut channel = server.transport().channel();
    handshake(&mut channel).await;
    send(&channel.sender(), [request(1)]);
    let call = server.expect("ping").await;
    (channel, call)
}

fn is_closed(sender: &Sender) {
    assert!(sender.is_closed());
    for message in [request(9), notification("late"), response(9)] {
        let error = sender.send(message.clone()).unwrap_err();
        assert!(error.is_closed() && !error.is_full());
        assert_eq!(error.into_message(), Some(message));
    }
}

#[tokio::test(start_paused = true)]
async fn after_the_end_nothing_is_taken_and_what_has_arrived_can_be_read() {
    let mut server = Server::legacy();
    let (channel, call) = busy(&mut server).await;
    let (sender, mut receiver) = channel.split();
    // One that is not answered yet, and one that is.
    let unanswered = call.open();
    unanswered.send(&progress(1));
    settle().await;
    send(&sender, [request(2)]);
    let answered = server.expect("ping").await.open();
    answered.send(&progress(2));
    answered.result(json!({}));
    settle().await;
    let closing = sender.close();
    // At once, not when it is done.
    is_closed(&sender);
    soon(closing).await;
    is_closed(&sender);
    assert!(unanswered.is_dropped());
    for number in [1, 2] {
        let item = next(&mut receiver).await;
        assert_eq!(
            (step(&item), item.origin),
            (number, Origin::Request(i64::try_from(number).unwrap().into()))
        );
    }
    assert_eq!(id(&next(&mut receiver).await), 2);
    end(&mut receiver).await;
    pass(60).await;
    assert_eq!((server.count("late"), server.count("=")), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn each_way_to_drop_a_channel_closes_it_in_the_background() {
    let drops: [fn(Channel) -> Option<Sender>; 4] = [
        |channel| {
            drop(channel);
            None
        },
        |channel| {
            let (sender, receiver) = channel.split();
            drop(receiver);
            Some(sender)
        },
        |channel| {
            let sender = channel.sender();
            drop(channel);
            Some(sender)
        },
        |channel| {
            drop(channel.close());
            None
        },
    ];
    for drop_it in drops {
        let before = alive_tasks();
        let mut server = Server::legacy();
        let (channel, call) = busy(&mut server).await;
        let sender = drop_it(channel);
        if let Some(sender) = &sender {
            is_closed(sender);
        }
        settle().await;
        assert!(call.is_dropped());
        assert_eq!((server.count("DELETE"), server.count("notifications/cancelled")), (1, 0));
        assert_eq!(alive_tasks(), before);
    }
}

#[tokio::test(start_paused = true)]
async fn the_channel_closes_with_the_last_sender() {
    let mut server = Server::legacy();
    let (channel, call) = busy(&mut server).await;
    let (sender, mut receiver) = channel.split();
    let clones = vec![sender.clone(), sender.clone()];
    drop(sender);
    silent(&mut receiver).await;
    assert!(!clones[1].is_closed() && !call.is_dropped());
    drop(clones);
    end(&mut receiver).await;
    assert!(call.is_dropped());
    assert_eq!(server.count("DELETE"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_sink_is_closed_when_all_of_it_is_done() {
    let mut server = Server::scripted(|seen| match seen.what() {
        "DELETE" => None,
        "GET" => Some(Answer::status(405)),
        _ => legacy(seen),
    });
    let (mut channel, call) = busy(&mut server).await;
    {
        let mut closing = SinkExt::<JsonRpcMessage>::close(&mut channel);
        assert!((&mut closing).now_or_never().is_none());
        let delete = server.expect("DELETE").await;
        settle().await;
        assert!((&mut closing).now_or_never().is_none());
        delete.answer(Answer::status(200));
        soon(closing).await.unwrap();
    }
    assert!(call.is_dropped());
    assert!(soon(channel.feed(notification("late"))).await.unwrap_err().is_closed());
    assert!(soon(SinkExt::<JsonRpcMessage>::flush(&mut channel)).await.is_ok());
    end(&mut channel).await;
}

#[tokio::test(start_paused = true)]
async fn a_sink_that_is_closed_can_be_closed_again() {
    let server = Server::legacy();
    let mut channel = server.transport().channel();
    handshake(&mut channel).await;
    // Given up, done, and done once more.
    assert!(SinkExt::<JsonRpcMessage>::close(&mut channel).now_or_never().is_none());
    for _ in 0..2 {
        soon(SinkExt::<JsonRpcMessage>::close(&mut channel)).await.unwrap();
    }
    let mut sender = channel.sender();
    soon(SinkExt::<JsonRpcMessage>::close(&mut sender)).await.unwrap();
    assert_eq!(server.count("DELETE"), 1);
}

#[tokio::test(start_paused = true)]
async fn closing_twice_waits_for_the_same_end() {
    let mut server = Server::legacy();
    let (channel, _call) = busy(&mut server).await;
    let (sender, receiver) = channel.split();
    let other = sender.clone();
    let (first, second) = (sender.close(), other.close());
    soon(futures_util::future::join(first, second)).await;
    drop(receiver);
    soon(sender.close()).await;
    settle().await;
    assert_eq!(server.count("DELETE"), 1);
}

#[tokio::test(start_paused = true)]
async fn no_task_outlives_a_channel() {
    let before = alive_tasks();
    let mut server = Server::listening();
    let mut channel = server.transport().channel();
    handshake(&mut channel).await;
    let _heard = server.expect("GET").await.open();
    send(&channel.sender(), [request(1), request(2), notification("a"), notification("b"), response(3)]);
    let mut unanswered = Vec::new();
    for _ in 0..3 {
        unanswered.push(server.next().await);
    }
    assert!(alive_tasks() > before);
    in_time(channel.close()).await;
    // Without any time passing: not even a task that is about to end.
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    assert_eq!(alive_tasks(), before);
}

#[tokio::test(start_paused = true)]
async fn no_task_outlives_a_close_that_took_too_long() {
    let before = alive_tasks();
    let mut server = Server::scripted(|seen| match seen.what() {
        "DELETE" | "GET" => None,
        _ => legacy(seen),
    });
    let mut channel = server.transport().channel();
    handshake(&mut channel).await;
    send(&channel.sender(), [request(1), notification("a")]);
    let mut unanswered = Vec::new();
    for _ in 0..3 {
        unanswered.push(server.next().await);
    }
    in_time(channel.close()).await;
    unanswered.push(server.expect("DELETE").await);
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    assert_eq!(alive_tasks(), before);
    assert!(unanswered.iter().all(Exchange::is_dropped));
}

#[tokio::test(start_paused = true)]
async fn a_close_timeout_of_nothing_ends_everything_at_once() {
    let before = alive_tasks();
    let mut server = Server::legacy();
    let options = ChannelOptions::default().close_timeout(std::time::Duration::ZERO);
    let mut channel = server.transport().channel_with(options);
    handshake(&mut channel).await;
    send(&channel.sender(), [request(1), notification("a")]);
    let unanswered = [server.next().await, server.next().await];
    soon(channel.close()).await;
    settle().await;
    assert!(unanswered.iter().all(Exchange::is_dropped));
    assert_eq!(alive_tasks(), before);
    assert_eq!(server.count("notifications/cancelled"), 0);
}

#[test]
fn outside_a_runtime_it_is_closed_from_the_start() {
    let server = Server::legacy();
    let mut channel = server.transport().channel();
    is_closed(&channel.sender());
    let error = channel.next().now_or_never().unwrap().unwrap().unwrap_err();
    assert!(error.to_string().contains("runtime"), "{error}");
    assert!(channel.next().now_or_never().unwrap().is_none());
    assert!(channel.feed(request(1)).now_or_never().unwrap().unwrap_err().is_closed());
    assert!(channel.close().now_or_never().is_some());
    assert!(server.outline().is_empty());
}

#[test]
fn a_channel_survives_the_end_of_its_runtime() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let server = Server::manual();
    let mut channel = runtime.block_on(async { server.transport().channel() });
    let sender = channel.sender();
    send(&sender, [request(1), notification("a")]);
    drop(runtime);
    is_closed(&sender);
    assert!(channel.next().now_or_never().unwrap().is_none());
    assert!(channel.close().now_or_never().is_some());
}
