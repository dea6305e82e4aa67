//! An `initialize` of the application's while a session is being renewed.

use mcp_streamable_http_layers::SessionStatus;
use serde_json::json;

use crate::support::*;

#[tokio::test(start_paused = true)]
async fn the_applications_own_initialize_wins_and_the_other_session_is_ended() {
    let mut world = World::in_session().await;
    let call = world.expire(1).await;
    let handshake = world.expect("initialize").await;
    world.handshake("own").await;
    handshake.begin("two");

    let delete = world.expect_in("two", "DELETE").await;
    assert_eq!(delete.header("mcp-protocol-version"), Some(VERSION));
    assert_eq!(delete.header("x-tenant"), Some("blue"));
    delete.answer(200, mcp_streamable_http_layers::Events::EMPTY);
    assert_eq!(world.session.id().unwrap(), "own");

    world.expect_in("own", "ping").await.result(json!({}));
    result(call).await;
    world.silent().await;
    assert_eq!(
        (world.session.id().unwrap(), world.session.status()),
        ("own".parse().unwrap(), SessionStatus::Live)
    );
}

#[tokio::test(start_paused = true)]
async fn the_end_of_the_losing_session_may_fail() {
    for status in [404, 405, 500] {
        let mut world = World::in_session().await;
        let call = world.expire(1).await;
        let handshake = world.expect("initialize").await;
        world.handshake("own").await;
        handshake.begin("two");
        world.expect_in("two", "DELETE").await.answer(status, mcp_streamable_http_layers::Events::EMPTY);
        world.expect_in("own", "ping").await.result(json!({}));
        result(call).await;
        assert_eq!(world.session.id().unwrap(), "own", "{status}");
    }

    let mut world = World::in_session().await;
    let call = world.expire(1).await;
    let handshake = world.expect("initialize").await;
    world.handshake("own").await;
    handshake.begin("two");
    world.expect_in("two", "DELETE").await.send(Err("connection reset".into()));
    world.expect_in("own", "ping").await.result(json!({}));
    result(call).await;
}

#[tokio::test(start_paused = true)]
async fn a_losing_session_without_an_id_needs_no_end() {
    let mut world = World::in_session().await;
    let call = world.expire(1).await;
    let handshake = world.expect("initialize").await;
    world.handshake("own").await;
    handshake.begin("");
    world.expect_in("own", "ping").await.result(json!({}));
    result(call).await;
    world.silent().await;
}

#[tokio::test(start_paused = true)]
async fn what_waits_when_the_application_starts_a_session_is_sent_in_that() {
    let mut world = World::in_session().await;
    let leader = world.expire(1).await;
    let handshake = world.expect("initialize").await;
    let follower = world.call(ping(2));
    settle().await;
    world.handshake("own").await;
    handshake.send(Err("connection reset".into()));
    // The one that did the handshake has failed at it; whoever waited finds a session.
    let error = soon(leader).await.unwrap();
    let again = world.expect_in("own", "ping").await;
    assert_eq!(again.id(), "2");
    again.result(json!({}));
    result(follower).await;
    assert!(error.is_err_and(|error| error.is_session_expired()));
    world.silent().await;
    assert_eq!(world.session.id().unwrap(), "own");
}
