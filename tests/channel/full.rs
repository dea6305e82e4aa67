//! Requests whose streams are not read on, because their reader is slow.

use std::time::Duration;

use mcp_streamable_http::JsonRpcMessage;
use mcp_streamable_http::channel::{Channel, ChannelOptions};
use mcp_streamable_http::error::TimedOut;
use mcp_streamable_http::options::Deadline;
use serde_json::json;

use crate::common::*;
use crate::support::{Events, Server};

/// A channel in a session, with room for one message to be read.
async fn narrow(server: &Server) -> Channel {
    let mut channel =
        server.transport().channel_with(ChannelOptions::default().max_unread(1).max_in_flight(1));
    handshake(&mut channel).await;
    channel
}

/// Sends `message`, whose stream brings more than there is room for.
async fn stuck(server: &mut Server, channel: &Channel, message: JsonRpcMessage) -> Events {
    send(&channel.sender(), [message]);
    let call = server.next().await.open();
    (1..=5).for_each(|number| call.send(&progress(number)));
    settle().await;
    assert!(call.reads() < 5 && !call.is_dropped());
    call
}

/// The only place for a request is free again.
async fn has_place(server: &mut Server, channel: &mut Channel) {
    send(&channel.sender(), [request(2)]);
    server.expect("ping").await.result(json!({}));
    let item = next(channel).await;
    assert_eq!((id(&item), result(&item)), (2, json!({})));
    silent(channel).await;
}

#[tokio::test(start_paused = true)]
async fn a_modern_request_is_cancelled_while_its_reader_is_full() {
    let mut server = Server::legacy();
    let mut channel = narrow(&server).await;
    let call = stuck(&mut server, &channel, modern(1)).await;
    send(&channel.sender(), [cancelled(1)]);
    settle().await;
    assert!(call.is_dropped());
    assert_eq!(server.count("notifications/cancelled"), 0);
    silent(&mut channel).await;
    has_place(&mut server, &mut channel).await;
}

#[tokio::test(start_paused = true)]
async fn a_legacy_request_is_cancelled_while_its_reader_is_full() {
    let mut server = Server::legacy();
    let mut channel = narrow(&server).await;
    let call = stuck(&mut server, &channel, numbered(1, 1)).await;
    send(&channel.sender(), [cancelled(1)]);
    server.expect("notifications/cancelled").await.accept();
    pass(29).await;
    assert!(!call.is_dropped());
    pass(2).await;
    assert!(call.is_dropped());
    silent(&mut channel).await;
    has_place(&mut server, &mut channel).await;
    assert_eq!(server.count("notifications/cancelled"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_request_is_superseded_while_its_reader_is_full() {
    let mut server = Server::legacy();
    let mut channel = narrow(&server).await;
    let call = stuck(&mut server, &channel, numbered(1, 1)).await;
    send(&channel.sender(), [numbered(1, 2)]);
    let second = server.expect("call").await;
    settle().await;
    assert!(call.is_dropped());
    second.result(json!({ "second": true }));
    // What the first had to say is nobody's any more.
    assert_eq!(result(&next(&mut channel).await), json!({ "second": true }));
    silent(&mut channel).await;
    assert_eq!(server.count("notifications/cancelled"), 0);
}

#[tokio::test(start_paused = true)]
async fn a_deadline_passes_while_its_reader_is_full() {
    let mut server = Server::legacy();
    let mut channel = narrow(&server).await;
    let message = numbered(1, 1).with(Deadline::within(Duration::from_secs(10)));
    let call = stuck(&mut server, &channel, message).await;
    pass(8).await;
    assert!(!call.is_dropped());
    pass(3).await;
    assert!(call.is_dropped());
    server.expect("notifications/cancelled").await.accept();
    // What had room, then the answer.
    assert_eq!(step(&next(&mut channel).await), 1);
    let item = next(&mut channel).await;
    failure(&item);
    assert!(item.failure.as_ref().unwrap().find::<TimedOut>().is_some());
    has_place(&mut server, &mut channel).await;
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_was_held_up_goes_on_when_there_is_room() {
    let mut server = Server::legacy();
    let mut channel = narrow(&server).await;
    let call = stuck(&mut server, &channel, numbered(1, 1)).await;
    pass(600).await;
    call.result(json!({ "late": true }));
    for number in 1..=5 {
        assert_eq!(step(&next(&mut channel).await), number);
    }
    assert_eq!(result(&next(&mut channel).await), json!({ "late": true }));
    has_place(&mut server, &mut channel).await;
}
