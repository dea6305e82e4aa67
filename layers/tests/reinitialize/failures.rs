//! Handshakes that fail, and sessions that expire again.

use std::time::Duration;

use mcp_streamable_http_layers::{Events, JsonRpcError, JsonRpcMessage, SessionStatus};
use serde_json::json;
use tokio::time::Instant;

use crate::support::*;

/// Three requests that wait for a handshake, and the handshake.
async fn three(world: &mut World) -> ([Call; 3], Exchange) {
    let first = world.expire(1).await;
    let handshake = world.expect("initialize").await;
    let calls = [first, world.call(ping(2)), world.call(ping(3))];
    settle().await;
    (calls, handshake)
}

/// All three have failed, without another attempt, and the next request makes one.
async fn fails_for_all(mut world: World, calls: [Call; 3]) {
    for call in calls {
        expired(call).await;
    }
    world.silent().await;
    assert_eq!(world.session.status(), SessionStatus::Expired);
    let call = world.call(ping(4));
    world.renew("three").await;
    let again = world.expect_in("three", "ping").await;
    assert_eq!(again.id(), "4");
    again.result(json!({}));
    result(call).await;
    world.silent().await;
}

#[tokio::test(start_paused = true)]
async fn a_handshake_that_is_answered_with_an_error_fails_for_all_that_waited() {
    let mut world = World::in_session().await;
    let (calls, handshake) = three(&mut world).await;
    let id = handshake.message.as_ref().unwrap().id().unwrap().clone();
    let error = JsonRpcMessage::error(id, JsonRpcError::new(-32602, "Unsupported protocol version"));
    handshake.answer(200, Events::from(error));
    fails_for_all(world, calls).await;
}

#[tokio::test(start_paused = true)]
async fn a_handshake_that_is_refused_fails_for_all_that_waited() {
    for status in [401, 404, 503] {
        let mut world = World::in_session().await;
        let (calls, handshake) = three(&mut world).await;
        handshake.answer(status, Events::error("no"));
        fails_for_all(world, calls).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_handshake_without_a_connection_fails_for_all_that_waited() {
    let mut world = World::in_session().await;
    let (calls, handshake) = three(&mut world).await;
    handshake.send(Err("connection refused".into()));
    fails_for_all(world, calls).await;
}

#[tokio::test(start_paused = true)]
async fn a_handshake_whose_answer_ends_or_cannot_be_read_fails_for_all_that_waited() {
    let mut world = World::in_session().await;
    let (calls, handshake) = three(&mut world).await;
    drop(handshake.open("two"));
    // It never came into use, and nobody else would end it.
    world.expect_in("two", "DELETE").await.accept();
    fails_for_all(world, calls).await;

    let mut world = World::in_session().await;
    let (calls, handshake) = three(&mut world).await;
    handshake.begin_with("two", "not\na version");
    world.expect_in("two", "DELETE").await.accept();
    fails_for_all(world, calls).await;
}

#[tokio::test(start_paused = true)]
async fn a_handshake_has_ten_seconds_and_then_fails_for_all_that_waited() {
    let mut world = World::in_session().await;
    let began = Instant::now();
    let (calls, handshake) = three(&mut world).await;
    tokio::time::sleep(Duration::from_millis(9_900)).await;
    assert!(!handshake.is_dropped() && calls.iter().all(|call| !call.is_finished()));
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(handshake.is_dropped() && calls.iter().all(Call::is_finished));
    assert!(began.elapsed() < Duration::from_secs(11));
    fails_for_all(world, calls).await;
}

#[tokio::test(start_paused = true)]
async fn the_time_of_a_handshake_can_be_set_and_counts_what_the_server_streams() {
    let mut world = World::with(|layer| layer.timeout(Duration::from_secs(2)), |wire| wire);
    world.handshake("one").await;
    let (calls, handshake) = three(&mut world).await;
    let stream = handshake.open("two");
    for _ in 0..4 {
        let _ = stream.send(JsonRpcMessage::notification("notifications/message", json!({})));
        tokio::time::sleep(Duration::from_millis(600)).await;
    }
    assert!(stream.is_closed());
    fails_for_all(world, calls).await;
}

#[tokio::test(start_paused = true)]
async fn a_session_that_expires_before_it_answered_a_request_is_not_renewed_again() {
    let mut world = World::in_session().await;
    let call = world.expire(1).await;
    world.renew("two").await;
    world.expect_in("two", "ping").await.not_found();
    expired(call).await;
    for id in 2..5 {
        expired(world.call(ping(id))).await;
    }
    world.silent().await;

    // The application may.
    world.handshake("three").await;
    let call = world.expire(5).await;
    world.renew("four").await;
    world.expect_in("four", "ping").await.result(json!({}));
    result(call).await;
}

#[tokio::test(start_paused = true)]
async fn a_session_that_refuses_initialized_as_expired_is_not_renewed_again() {
    let mut world = World::in_session().await;
    let first = world.expire(1).await;
    let handshake = world.expect("initialize").await;
    let second = world.call(ping(2));
    settle().await;
    handshake.begin("two");
    world.expect_in("two", INITIALIZED).await.not_found();
    expired(first).await;
    expired(second).await;
    expired(world.call(ping(3))).await;
    world.silent().await;
}

#[tokio::test(start_paused = true)]
async fn a_session_that_has_answered_a_request_is_renewed_again_and_again() {
    let mut world = World::in_session().await;
    for session in ["two", "three", "four", "five"] {
        let call = world.expire(1).await;
        world.renew(session).await;
        world.expect_in(session, "ping").await.result(json!({}));
        result(call).await;
        assert_eq!(world.session.id().unwrap(), session);
    }
    world.silent().await;
}

#[tokio::test(start_paused = true)]
async fn what_a_session_did_with_notifications_is_no_answer_to_a_request() {
    let mut world = World::in_session().await;
    let call = world.expire(1).await;
    world.renew("two").await;
    let sent = world.expect_in("two", "ping").await;
    let told = world.tell(JsonRpcMessage::notification("notifications/x", ()));
    world.expect_in("two", "notifications/x").await.accept();
    assert!(soon(told).await.unwrap().is_ok());
    sent.not_found();
    expired(call).await;
    expired(world.call(ping(2))).await;
    world.silent().await;
}

#[tokio::test(start_paused = true)]
async fn a_request_is_sent_again_once_even_if_yet_another_session_has_begun() {
    let mut world = World::in_session().await;
    let call = world.expire(1).await;
    world.renew("two").await;
    let again = world.expect_in("two", "ping").await;
    // Another request proves the session, so that it may be renewed.
    let other = world.call(ping(2));
    world.expect_in("two", "ping").await.result(json!({}));
    result(other).await;
    again.not_found();
    expired(call).await;
    world.silent().await;

    let call = world.call(ping(3));
    world.renew("three").await;
    world.expect_in("three", "ping").await.result(json!({}));
    result(call).await;
}
