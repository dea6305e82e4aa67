//! Many requests that meet the end of a session, and answers that come late.

use futures_util::future::join_all;
use serde_json::json;
use tower::limit::ConcurrencyLimit;

use crate::support::*;

#[tokio::test(start_paused = true)]
async fn parallel_requests_share_one_handshake() {
    let mut world = World::in_session().await;
    let calls: Vec<_> = (1..=64).map(|id| world.call(ping(id))).collect();
    let mut sent = Vec::new();
    for _ in 0..64 {
        sent.push(world.expect_in("one", "ping").await);
    }
    // Half of them are told before the handshake has begun, half while it is under way.
    let late = sent.split_off(32);
    sent.into_iter().for_each(Exchange::not_found);
    let handshake = world.expect("initialize").await;
    late.into_iter().for_each(Exchange::not_found);
    world.silent().await;
    handshake.begin("two");
    world.expect_in("two", INITIALIZED).await.accept();

    let mut seen = Vec::new();
    for _ in 0..64 {
        let again = world.expect_in("two", "ping").await;
        seen.push(again.id().parse::<i64>().unwrap());
        let id = again.id();
        again.result(json!({ "for": id }));
    }
    seen.sort_unstable();
    assert_eq!(seen, (1..=64).collect::<Vec<_>>(), "each once");
    for (id, answered) in (1..=64).zip(join_all(calls.into_iter().map(result)).await) {
        assert_eq!(answered, json!({ "for": id.to_string() }));
    }
    world.silent().await;
}

#[tokio::test(start_paused = true)]
async fn what_is_sent_while_the_session_is_being_renewed_waits_for_it() {
    let mut world = World::in_session().await;
    let first = world.expire(1).await;
    let handshake = world.expect("initialize").await;
    let second = world.call(ping(2));
    world.silent().await;
    handshake.begin("two");
    world.expect_in("two", INITIALIZED).await.accept();
    for _ in 0..2 {
        world.expect_in("two", "ping").await.result(json!({}));
    }
    result(first).await;
    result(second).await;
    world.silent().await;
}

#[tokio::test(start_paused = true)]
async fn a_late_404_of_the_old_session_does_not_touch_the_new_one() {
    let mut world = World::in_session().await;
    let slow = world.call(ping(1));
    let late = world.expect_in("one", "ping").await;
    let quick = world.expire(2).await;
    world.renew("two").await;
    world.expect_in("two", "ping").await.result(json!({}));
    result(quick).await;

    let mut watch = world.session.watch();
    late.not_found();
    let again = world.expect_in("two", "ping").await;
    assert_eq!(again.id(), "1");
    again.result(json!({}));
    result(slow).await;
    world.silent().await;
    assert_eq!(world.session.id().unwrap(), "two");
    assert!(futures_util::FutureExt::now_or_never(watch.changed()).is_none(), "the session did not change");
}

#[tokio::test(start_paused = true)]
async fn a_late_404_while_the_session_is_being_renewed_starts_no_second_handshake() {
    let mut world = World::in_session().await;
    let calls = [world.call(ping(1)), world.call(ping(2))];
    let (first, second) = (world.expect("ping").await, world.expect("ping").await);
    first.not_found();
    world.expect("initialize").await.begin("two");
    let initialized = world.expect_in("two", INITIALIZED).await;
    second.not_found();
    world.silent().await;
    initialized.accept();
    for _ in 0..2 {
        world.expect_in("two", "ping").await.result(json!({}));
    }
    for call in calls {
        result(call).await;
    }
    world.silent().await;
}

#[tokio::test(start_paused = true)]
async fn the_first_call_makes_room_before_the_second_is_made() {
    // Whatever limits calls below would otherwise wait for itself.
    let mut world = World::with(|layer| layer, |wire| ConcurrencyLimit::new(wire, 1));
    world.handshake("one").await;
    let call = world.expire(1).await;
    world.renew("two").await;
    world.expect_in("two", "ping").await.result(json!({}));
    result(call).await;

    let calls: Vec<_> = (1..=8).map(|id| world.call(ping(id))).collect();
    world.expect_in("two", "ping").await.not_found();
    // Those that were let in since are refused before they are sent, and all wait for the one handshake.
    world.renew("three").await;
    for _ in 0..8 {
        world.expect_in("three", "ping").await.result(json!({}));
    }
    for call in calls {
        result(call).await;
    }
    world.silent().await;
}
