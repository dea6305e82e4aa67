//! Ids that are used again and again, and what that may cost.

use futures_util::{FutureExt, StreamExt};
use mcp_streamable_http::channel::{Channel, ChannelOptions, TooManyInFlight};
use serde_json::json;

use crate::common::*;
use crate::support::{Answer, Server, legacy};

const LIMIT: usize = 4;

fn narrow(server: &Server) -> Channel {
    server.transport().channel_with(ChannelOptions::default().max_in_flight(LIMIT).listen(false))
}

/// Gives the channel requests under one id until it takes no more; how many it took.
async fn fill(channel: &Channel) -> usize {
    for number in 0..1000 {
        if let Err(error) = channel.sender().send(numbered(1, number)) {
            assert!(error.is_full());
            return usize::try_from(number).unwrap();
        }
        settle().await;
    }
    panic!("it takes them without an end")
}

/// Reads all that there is: how many answers of the server's, and how many refusals.
async fn drain(channel: &mut Channel) -> (usize, usize) {
    let (mut answers, mut refusals) = (0, 0);
    settle().await;
    while let Some(item) = channel.next().now_or_never() {
        let item = item.unwrap().unwrap();
        match &item.failure {
            None => answers += 1,
            Some(failure) => {
                assert!(failure.find::<TooManyInFlight>().is_some(), "{item:?}");
                refusals += 1;
            }
        }
        settle().await;
    }
    (answers, refusals)
}

/// Room for as many requests as ever.
async fn has_all_places(server: &mut Server, channel: &mut Channel) {
    let ids = 100..100 + i64::try_from(LIMIT).unwrap();
    send(&channel.sender(), ids.clone().map(request));
    for _ in ids {
        server.expect("ping").await.result(json!({}));
        assert_eq!(result(&next(channel).await), json!({}));
    }
}

#[tokio::test(start_paused = true)]
async fn one_id_over_and_over_behind_a_handshake_is_bounded() {
    let mut server = Server::scripted(|seen| {
        (seen.what() == "call").then(|| Answer::json(&seen.result(seen.message["params"].clone())))
    });
    let mut channel = narrow(&server);
    send(&channel.sender(), [initialize(0)]);
    let first = server.expect("initialize").await;
    let taken = fill(&channel).await;
    assert!((LIMIT..=4 * LIMIT).contains(&taken), "{taken}");
    let answer = legacy(&first.seen).unwrap();
    first.answer(answer);
    assert_eq!(id(&next(&mut channel).await), 0);
    drain(&mut channel).await;
    assert_eq!(server.count("call"), 1, "what has lost its id is not sent");
    has_all_places(&mut server, &mut channel).await;
}

#[tokio::test(start_paused = true)]
async fn answers_under_one_id_that_nobody_reads_are_bounded() {
    let mut server = Server::scripted(|seen| {
        (seen.what() == "call").then(|| Answer::json(&seen.result(seen.message["params"].clone())))
    });
    let mut channel = narrow(&server);
    let taken = fill(&channel).await;
    assert!((LIMIT..=4 * LIMIT).contains(&taken), "{taken}");
    let sent = server.count("call");
    let (answers, refusals) = drain(&mut channel).await;
    // Of all that were sent only the last is of interest to anyone.
    assert_eq!((answers, refusals), (1, taken - sent));
    has_all_places(&mut server, &mut channel).await;
}

#[tokio::test(start_paused = true)]
async fn one_id_over_and_over_with_a_reader_is_not_refused() {
    let mut server = Server::manual();
    let mut channel = narrow(&server);
    for number in 0..100 {
        send(&channel.sender(), [numbered(1, number)]);
        settle().await;
    }
    let mut last = server.expect("call").await;
    while last.seen.message["params"]["number"] != 99 {
        assert!(last.is_dropped());
        last = server.expect("call").await;
    }
    last.result(json!({}));
    assert_eq!(result(&next(&mut channel).await), json!({}));
    silent(&mut channel).await;
    has_all_places(&mut server, &mut channel).await;
}

#[tokio::test(start_paused = true)]
async fn a_request_whose_id_is_used_again_is_given_up_before_the_other_is_sent() {
    let mut server = Server::scripted(|seen| match seen.what() {
        "initialize" => None,
        _ => legacy(seen),
    });
    let mut channel = narrow(&server);
    let shake = |first: crate::support::Exchange| {
        let answer = legacy(&first.seen).unwrap();
        first.answer(answer);
    };
    send(&channel.sender(), [initialize(0), initialized()]);
    shake(server.expect("initialize").await);
    assert_eq!(id(&next(&mut channel).await), 0);
    send(&channel.sender(), [numbered(1, 1)]);
    let call = server.expect("call").await.open();
    send(&channel.sender(), [initialize(10)]);
    let again = server.expect("initialize").await;
    send(&channel.sender(), [numbered(1, 2), numbered(1, 3)]);
    settle().await;
    assert!(call.is_dropped());
    silent(&mut channel).await;
    shake(again);
    assert_eq!(id(&next(&mut channel).await), 10);
    let last = server.expect("call").await;
    assert_eq!(last.seen.message["params"]["number"], 3);
    last.result(json!({}));
    assert_eq!(result(&next(&mut channel).await), json!({}));
    silent(&mut channel).await;
    assert_eq!((server.count("call"), server.count("notifications/cancelled")), (2, 0));
}

#[tokio::test(start_paused = true)]
async fn a_refusal_that_nobody_has_read_goes_when_its_id_is_used_again() {
    let mut server = Server::manual();
    let mut channel = server.transport().channel_with(ChannelOptions::default().max_in_flight(1));
    send(&channel.sender(), [modern(1), modern(2)]);
    let _given_up = server.expect("ping").await;
    send(&channel.sender(), [cancelled(1)]);
    settle().await;
    send(&channel.sender(), [modern(2)]);
    let second = server.expect("ping").await;
    silent(&mut channel).await;
    second.result(json!({ "second": true }));
    let item = next(&mut channel).await;
    assert_eq!((id(&item), result(&item)), (2, json!({ "second": true })));
    silent(&mut channel).await;
}
