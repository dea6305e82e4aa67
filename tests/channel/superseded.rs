//! Requests that are given up: by their id being used again, or by a cancellation.

use mcp_streamable_http::channel::{ChannelOptions, TooManyInFlight};
use serde_json::json;
use tower::limit::ConcurrencyLimitLayer;

use crate::common::*;
use crate::support::{Exchange, Server};

fn echo(exchange: Exchange) {
    let params = exchange.seen.message["params"].clone();
    exchange.result(params);
}

#[tokio::test(start_paused = true)]
async fn of_two_requests_under_one_id_the_second_is_answered() {
    let mut server = Server::manual();
    let mut channel = server.transport().channel();
    send(&channel.sender(), [numbered(1, 1)]);
    let first = server.expect("call").await;
    send(&channel.sender(), [numbered(1, 2)]);
    let second = server.expect("call").await;
    settle().await;
    assert!(first.is_dropped());
    echo(first);
    silent(&mut channel).await;
    echo(second);
    assert_eq!(result(&next(&mut channel).await), json!({ "number": 2 }));
    silent(&mut channel).await;
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_nobody_has_read_goes_when_its_id_is_used_again() {
    let mut server = Server::manual();
    let mut channel = server.transport().channel();
    send(&channel.sender(), [numbered(1, 1)]);
    let first = server.expect("call").await.open();
    first.send(&progress(1));
    first.result(json!({ "number": 1 }));
    settle().await;
    send(&channel.sender(), [numbered(1, 2)]);
    let second = server.expect("call").await;
    silent(&mut channel).await;
    echo(second);
    assert_eq!(result(&next(&mut channel).await), json!({ "number": 2 }));
    silent(&mut channel).await;
}

#[tokio::test(start_paused = true)]
async fn one_id_in_a_row_is_answered_once() {
    let mut server = Server::manual();
    let mut channel = server.transport().channel();
    send(&channel.sender(), (0..20).map(|number| numbered(1, number)));
    settle().await;
    // Whichever of them were sent: the last was.
    let mut last = server.next().await;
    while last.seen.message["params"]["number"] != 19 {
        last = server.next().await;
    }
    echo(last);
    assert_eq!(result(&next(&mut channel).await), json!({ "number": 19 }));
    silent(&mut channel).await;
}

#[tokio::test(start_paused = true)]
async fn an_id_can_be_used_again_while_it_waits_for_the_handshake() {
    let mut server = Server::listening();
    let mut channel = server.transport().channel_with(ChannelOptions::default().listen(false));
    send(&channel.sender(), [initialize(0), numbered(1, 1), numbered(1, 2)]);
    assert_eq!(id(&next(&mut channel).await), 0);
    let mut last = server.next().await;
    while last.seen.message["params"]["number"] != 2 {
        last = server.next().await;
    }
    echo(last);
    assert_eq!(result(&next(&mut channel).await), json!({ "number": 2 }));
    silent(&mut channel).await;
}

#[tokio::test(start_paused = true)]
async fn a_modern_request_is_cancelled_by_closing_its_stream() {
    let mut server = Server::manual();
    let mut channel = server.transport().channel_with(ChannelOptions::default().max_in_flight(2));
    send(&channel.sender(), [modern(1), modern(2)]);
    let headless = server.expect("ping").await;
    let open = server.expect("ping").await.open();
    send(&channel.sender(), [cancelled(1), cancelled(2)]);
    settle().await;
    assert!(headless.is_dropped() && open.is_dropped());
    open.result(json!({}));
    silent(&mut channel).await;
    assert_eq!(server.outline(), ["ping", "ping"], "nothing was posted");

    // Their places are free again.
    send(&channel.sender(), [modern(3), modern(4), modern(5)]);
    let refused = next(&mut channel).await;
    assert!(refused.failure.as_ref().unwrap().find::<TooManyInFlight>().is_some());
    assert_eq!(id(&refused), 5);
    for expected in [3, 4] {
        server.expect("ping").await.result(json!({}));
        assert_eq!(id(&next(&mut channel).await), expected);
    }
}

#[tokio::test(start_paused = true)]
async fn it_waits_for_no_layer_in_which_the_request_takes_up_the_room() {
    let mut server = Server::manual();
    let transport = server.transport().layer(ConcurrencyLimitLayer::new(1));
    let mut channel = transport.channel();
    send(&channel.sender(), [modern(1), modern(2)]);
    let hanging = server.expect("ping").await;
    // The second was not sent yet, and never is.
    send(&channel.sender(), [cancelled(2), cancelled(1)]);
    settle().await;
    assert!(hanging.is_dropped());
    send(&channel.sender(), [modern(3)]);
    server.expect("ping").await.result(json!({}));
    assert_eq!(id(&next(&mut channel).await), 3);
    assert_eq!(server.outline(), ["ping", "ping"]);
}

#[tokio::test(start_paused = true)]
async fn a_legacy_request_that_is_cancelled_may_be_answered_late() {
    let mut server = Server::legacy();
    let mut channel = server.transport().channel();
    handshake(&mut channel).await;
    send(&channel.sender(), [request(1)]);
    let call = server.expect("ping").await.open();
    send(&channel.sender(), [cancelled(1)]);
    let frame = server.expect("notifications/cancelled").await;
    assert_eq!(frame.seen.message["params"]["requestId"], 1);
    frame.accept();
    silent(&mut channel).await;
    assert!(!call.is_dropped());
    call.result(json!({ "late": true }));
    assert_eq!(result(&next(&mut channel).await), json!({ "late": true }));
}

#[tokio::test(start_paused = true)]
async fn a_legacy_request_that_is_cancelled_need_not_be_answered() {
    let mut server = Server::legacy();
    let mut channel = server.transport().channel_with(ChannelOptions::default().max_in_flight(1));
    handshake(&mut channel).await;
    send(&channel.sender(), [request(1)]);
    let call = server.expect("ping").await.open();
    send(&channel.sender(), [cancelled(1)]);
    server.expect("notifications/cancelled").await.accept();
    settle().await;
    drop(call);
    silent(&mut channel).await;

    // Its place is free again.
    send(&channel.sender(), [request(2)]);
    server.expect("ping").await.result(json!({}));
    let item = next(&mut channel).await;
    assert_eq!((id(&item), result(&item)), (2, json!({})));
    assert_eq!(server.count("notifications/cancelled"), 1);
}
