//! Requests that are given up while their session is being renewed.

use mcp_streamable_http_layers::JsonRpcMessage;
use serde_json::json;

use crate::support::*;

/// A request that does the handshake, with the id 1, and one that waits for it, with the id 2.
async fn leader_and_follower(world: &mut World) -> (Call, Call) {
    let leader = world.expire(1).await;
    settle().await;
    (leader, world.call(ping(2)))
}

async fn give_up(call: &Call) {
    call.abort();
    settle().await;
}

/// The follower does the handshake and is answered, and nothing else is sent.
async fn takes_over(mut world: World, follower: Call) {
    world.renew("three").await;
    let again = world.expect_in("three", "ping").await;
    assert_eq!(again.id(), "2");
    again.result(json!({ "for": 2 }));
    assert_eq!(result(follower).await, json!({ "for": 2 }));
    world.silent().await;
}

#[tokio::test(start_paused = true)]
async fn the_next_takes_over_from_one_that_waits_for_the_answer_to_initialize() {
    let mut world = World::in_session().await;
    let (leader, follower) = leader_and_follower(&mut world).await;
    let handshake = world.expect("initialize").await;
    world.silent().await;
    give_up(&leader).await;
    assert!(handshake.is_dropped());
    takes_over(world, follower).await;
}

#[tokio::test(start_paused = true)]
async fn the_next_takes_over_from_one_that_reads_the_answer_to_initialize() {
    let mut world = World::in_session().await;
    let (leader, follower) = leader_and_follower(&mut world).await;
    let stream = world.expect("initialize").await.open("two");
    stream.send(JsonRpcMessage::notification("notifications/message", json!({}))).unwrap();
    world.silent().await;
    give_up(&leader).await;
    assert!(stream.is_closed());
    takes_over(world, follower).await;
}

#[tokio::test(start_paused = true)]
async fn the_next_takes_over_from_one_that_answers_a_ping() {
    let mut world = World::in_session().await;
    let (leader, follower) = leader_and_follower(&mut world).await;
    let stream = world.expect("initialize").await.open("two");
    stream.send(JsonRpcMessage::request("s-1", "ping", ())).unwrap();
    let pong = world.expect_in("two", "=").await;
    give_up(&leader).await;
    assert!(stream.is_closed() && pong.is_dropped());
    takes_over(world, follower).await;
}

#[tokio::test(start_paused = true)]
async fn the_next_takes_over_from_one_that_waits_for_the_answer_to_initialized() {
    let mut world = World::in_session().await;
    let (leader, follower) = leader_and_follower(&mut world).await;
    world.expect("initialize").await.begin("two");
    let initialized = world.expect_in("two", INITIALIZED).await;
    world.silent().await;
    give_up(&leader).await;
    assert!(initialized.is_dropped());
    // Nobody knows whether the server has it, so that session is of no use.
    takes_over(world, follower).await;
}

#[tokio::test(start_paused = true)]
async fn one_that_is_dropped_when_it_was_sent_again_leaves_the_others_and_the_session_alone() {
    let mut world = World::in_session().await;
    let (leader, follower) = leader_and_follower(&mut world).await;
    world.renew("two").await;
    let (first, second) = (world.expect_in("two", "ping").await, world.expect_in("two", "ping").await);
    let (mine, other) = if first.id() == "1" { (first, second) } else { (second, first) };
    give_up(&leader).await;
    assert!(mine.is_dropped());
    other.result(json!({}));
    result(follower).await;
    world.silent().await;
    assert_eq!(world.session.id().unwrap(), "two");
}

#[tokio::test(start_paused = true)]
async fn leaders_may_be_dropped_one_after_the_other() {
    let mut world = World::in_session().await;
    let first = world.expire(1).await;
    settle().await;
    let mut calls = vec![first];
    calls.extend((2..=10).map(|id| world.call(ping(id))));
    let last = world.call(ping(11));
    for leader in calls {
        let handshake = world.expect("initialize").await;
        give_up(&leader).await;
        assert!(handshake.is_dropped());
    }
    world.renew("two").await;
    let again = world.expect_in("two", "ping").await;
    assert_eq!(again.id(), "11");
    again.result(json!({}));
    result(last).await;
    world.silent().await;
}

#[tokio::test(start_paused = true)]
async fn a_request_that_is_dropped_while_it_waits_is_not_sent_again() {
    let mut world = World::in_session().await;
    let (leader, follower) = leader_and_follower(&mut world).await;
    let handshake = world.expect("initialize").await;
    let other = world.call(ping(3));
    settle().await;
    give_up(&follower).await;
    handshake.begin("two");
    world.expect_in("two", INITIALIZED).await.accept();
    let mut again = Vec::new();
    for _ in 0..2 {
        let sent = world.expect_in("two", "ping").await;
        again.push(sent.id());
        sent.result(json!({}));
    }
    again.sort_unstable();
    assert_eq!(again, ["1", "3"]);
    result(leader).await;
    result(other).await;
    world.silent().await;
}

#[tokio::test(start_paused = true)]
async fn a_session_that_nobody_waits_for_any_more_is_started_by_the_next_request() {
    let mut world = World::in_session().await;
    let leader = world.expire(1).await;
    let handshake = world.expect("initialize").await;
    give_up(&leader).await;
    assert!(handshake.is_dropped());
    world.silent().await;
    assert!(world.session.is_expired());
    let follower = world.call(ping(2));
    takes_over(world, follower).await;
}
