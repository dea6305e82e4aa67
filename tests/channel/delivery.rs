//! Messages that are followed until they have arrived, or failed.

use futures_util::FutureExt;
use mcp_streamable_http::channel::{Channel, ChannelOptions, Delivery, TooManyInFlight, Until};
use mcp_streamable_http::error::EndedStream;
use mcp_streamable_http::{Error, JsonRpcMessage};
use serde_json::json;

use crate::common::*;
use crate::support::{Answer, Exchange, Server};

/// A request that is not sent again, whatever happens.
fn call(id: i64) -> JsonRpcMessage {
    numbered(id, 0)
}

fn deliver(channel: &Channel, message: JsonRpcMessage, until: Until) -> Delivery {
    channel.sender().deliver(message, until).unwrap()
}

/// What becomes of a message.
async fn outcome(delivery: Delivery) -> Result<(), Error> {
    soon(delivery).await
}

async fn pending(delivery: &mut Delivery) {
    settle().await;
    assert!(delivery.now_or_never().is_none());
}

/// A request that has reached the server.
async fn followed(until: Until) -> (Server, Channel, Delivery, Exchange) {
    let mut server = Server::manual();
    let channel = server.transport().channel();
    let delivery = deliver(&channel, call(1), until);
    let exchange = server.expect("call").await;
    (server, channel, delivery, exchange)
}

#[tokio::test(start_paused = true)]
async fn a_request_has_begun_with_the_first_message_of_its_reply() {
    let (_server, mut channel, mut delivery, call) = followed(Until::Begun).await;
    let events = call.open();
    pending(&mut delivery).await;
    events.send(&progress(1));
    outcome(delivery).await.unwrap();
    assert_eq!(step(&next(&mut channel).await), 1);
    // From there on it is as it was sent.
    drop(events);
    assert_eq!(failure(&next(&mut channel).await), -32000);
}

#[tokio::test(start_paused = true)]
async fn it_has_begun_though_nobody_reads() {
    let mut server = Server::manual();
    let channel = server.transport().channel_with(ChannelOptions::default().max_unread(1));
    send(&channel.sender(), [call(1)]);
    let other = server.expect("call").await.open();
    (0..3).for_each(|number| other.send(&progress(number)));
    let delivery = deliver(&channel, call(2), Until::Begun);
    server.expect("call").await.open().send(&progress(9));
    outcome(delivery).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_request_is_answered_with_its_response() {
    let (_server, mut channel, mut delivery, call) = followed(Until::Answered).await;
    let events = call.open();
    events.send(&progress(1));
    pending(&mut delivery).await;
    events.result(json!({}));
    outcome(delivery).await.unwrap();
    assert_eq!(step(&next(&mut channel).await), 1);
    assert_eq!(id(&next(&mut channel).await), 1);
    silent(&mut channel).await;
}

#[tokio::test(start_paused = true)]
async fn a_response_on_the_listening_stream_counts() {
    let mut server = Server::listening();
    let mut channel = server.transport().channel();
    handshake(&mut channel).await;
    let listening = server.expect("GET").await.open();
    let delivery = deliver(&channel, call(1), Until::Answered);
    let _reply = server.expect("call").await.open();
    settle().await;
    listening.send(&json!({ "jsonrpc": "2.0", "id": 1, "result": {} }));
    assert_eq!(id(&next(&mut channel).await), 1);
    outcome(delivery).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_failure_is_told_once() {
    let (_server, mut channel, delivery, call) = followed(Until::Begun).await;
    call.answer(Answer::status(401).header("www-authenticate", "Bearer"));
    let error = outcome(delivery).await.unwrap_err();
    assert_eq!((error.status().unwrap().as_u16(), error.challenges().len()), (401, 1));
    silent(&mut channel).await;
}

#[tokio::test(start_paused = true)]
async fn so_is_one_in_the_middle_of_the_reply() {
    let (_server, mut channel, delivery, call) = followed(Until::Answered).await;
    call.open().send(&progress(1));
    assert_eq!(step(&next(&mut channel).await), 1);
    assert!(outcome(delivery).await.unwrap_err().find::<EndedStream>().is_some());
    silent(&mut channel).await;
}

#[tokio::test(start_paused = true)]
async fn a_failure_that_nobody_follows_is_an_answer() {
    let (_server, mut channel, delivery, call) = followed(Until::Answered).await;
    drop(delivery);
    call.answer(Answer::status(500));
    assert_eq!(failure(&next(&mut channel).await), -32603);
}

#[tokio::test(start_paused = true)]
async fn what_has_failed_is_no_longer_in_flight() {
    let mut server = Server::manual();
    let mut channel = server.transport().channel_with(ChannelOptions::default().max_in_flight(1));
    for id in 1..10 {
        let delivery = deliver(&channel, call(id), Until::Answered);
        let over = deliver(&channel, call(0), Until::Begun);
        assert!(outcome(over).await.unwrap_err().find::<TooManyInFlight>().is_some());
        server.expect("call").await.answer(Answer::status(500));
        outcome(delivery).await.unwrap_err();
        // Who reads gets nothing, and makes room.
        silent(&mut channel).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_notification_is_accepted_or_refused() {
    for until in [Until::Begun, Until::Answered] {
        let mut server = Server::manual();
        let mut channel = server.transport().channel();
        let (mut first, second) =
            (deliver(&channel, notification("a"), until), deliver(&channel, response(7), until));
        let posted = server.expect("a").await;
        pending(&mut first).await;
        posted.accept();
        outcome(first).await.unwrap();
        server.expect("=").await.answer(Answer::status(500));
        assert_eq!(outcome(second).await.unwrap_err().status().unwrap().as_u16(), 500);
        silent(&mut channel).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_request_is_told_so() {
    let mut server = Server::manual();
    let channel = server.transport().channel();
    let call = deliver(&channel, modern(1), Until::Answered);
    let _reply = server.expect("ping").await.open();
    let cancel = deliver(&channel, cancelled(1), Until::Answered);
    outcome(cancel).await.unwrap();
    assert!(outcome(call).await.unwrap_err().is_cancelled());
}

#[tokio::test(start_paused = true)]
async fn one_whose_id_is_used_again_was_given_up() {
    let (_server, channel, delivery, _call) = followed(Until::Answered).await;
    let mut second = deliver(&channel, call(1), Until::Answered);
    outcome(delivery).await.unwrap_err();
    pending(&mut second).await;
}

#[tokio::test(start_paused = true)]
async fn closing_ends_the_wait() {
    let (_server, channel, delivery, _call) = followed(Until::Answered).await;
    let sender = channel.sender();
    channel.close().await;
    outcome(delivery).await.unwrap_err();
    assert!(sender.deliver(call(2), Until::Begun).unwrap_err().is_closed());
}

#[tokio::test(start_paused = true)]
async fn a_failure_that_was_not_taken_is_an_answer() {
    let (_server, mut channel, delivery, call) = followed(Until::Answered).await;
    call.answer(Answer::status(500));
    silent(&mut channel).await;
    drop(delivery);
    assert_eq!(failure(&next(&mut channel).await), -32603);
    silent(&mut channel).await;
}

#[tokio::test(start_paused = true)]
async fn refusals_that_nobody_follows_do_not_pile_up() {
    let mut server = Server::manual();
    let mut channel = server.transport().channel_with(ChannelOptions::default().max_in_flight(1));
    let _in_flight = deliver(&channel, call(1), Until::Answered);
    let _call = server.expect("call").await;
    for id in 2..1000 {
        drop(deliver(&channel, call(id), Until::Answered));
    }
    for id_of_answer in 2..5 {
        assert_eq!(id(&next(&mut channel).await), id_of_answer);
    }
    silent(&mut channel).await;
}
