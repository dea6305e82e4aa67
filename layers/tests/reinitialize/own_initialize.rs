//! An `initialize` of the application's while a session is being renewed.

use mcp_streamable_http_layers::{Events, JsonRpcMessage, SessionStatus};
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
    delete.answer(200, Events::EMPTY);
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
        world.expect_in("two", "DELETE").await.answer(status, Events::EMPTY);
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

#[tokio::test(start_paused = true)]
async fn an_initialize_that_is_not_answered_yet_wins_too() {
    let mut world = World::in_session().await;
    let call = world.expire(1).await;
    let handshake = world.expect("initialize").await;
    let own = world.call(initialize(9));
    let answer = world.expect("initialize").await;
    assert_eq!(answer.id(), "9");
    handshake.begin("two");
    world.expect_in("two", "DELETE").await.accept();
    // There is no session that the request could be sent in.
    expired(call).await;
    answer.begin("own");
    assert_eq!(result(own).await["protocolVersion"], VERSION);
    assert_eq!(world.session.id().unwrap(), "own");
    world.silent().await;
}

#[tokio::test(start_paused = true)]
async fn the_end_of_the_losing_session_is_never_that_of_the_applications_own() {
    let mut world = World::with(|layer| layer, |wire| tower::limit::ConcurrencyLimit::new(wire, 1));
    world.handshake("one").await;
    let call = world.expire(1).await;
    let handshake = world.expect("initialize").await;
    let id = handshake.message.as_ref().unwrap().id().unwrap().clone();
    // Its head is there, so that there is room for the application's.
    let stream = handshake.open("two");
    settle().await;
    let own = world.call(initialize(9));
    let answer = world.expect("initialize").await;
    stream.send(JsonRpcMessage::response(id, json!({ "protocolVersion": VERSION }))).unwrap();
    settle().await;
    answer.begin("own");
    result(own).await;
    let delete = world.expect_in("two", "DELETE").await;
    delete.accept();
    drop(call);
    settle().await;
    assert_eq!(world.session.id().unwrap(), "own");
}
