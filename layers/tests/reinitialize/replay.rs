//! What is sent again in the new session, and what is not.

use mcp_streamable_http_layers::{
    Events, JsonRpcError, JsonRpcMessage, ReinitializePolicy, SavedSession, SessionStatus,
};
use serde_json::{Value, json};

use crate::common::{endpoint, versioned};
use crate::support::*;

async fn with_policy(policy: ReinitializePolicy) -> World {
    let mut world = World::with(|layer| layer.policy(policy), |wire| wire);
    world.handshake("one").await;
    world
}

/// The next request of an application works, in another session.
async fn works_in(world: &mut World, session: &str) {
    let call = world.call(ping(100));
    world.renew(session).await;
    world.expect_in(session, "ping").await.result(json!({}));
    result(call).await;
}

#[tokio::test(start_paused = true)]
async fn notifications_and_responses_fail_and_are_not_sent_again() {
    for (what, message) in [
        ("notifications/cancelled", JsonRpcMessage::notification("notifications/cancelled", json!({}))),
        ("=", JsonRpcMessage::response("s-1", json!({}))),
        ("=", JsonRpcMessage::error("s-1", JsonRpcError::new(-32601, "no"))),
    ] {
        let mut world = World::in_session().await;
        let sent = world.tell(message.clone());
        world.expect_in("one", what).await.not_found();
        assert!(soon(sent).await.unwrap().unwrap_err().is_session_expired());
        world.silent().await;

        // Nor do they start a session later.
        assert!(soon(world.tell(message)).await.unwrap().unwrap_err().is_session_expired());
        world.silent().await;
        works_in(&mut world, "two").await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_delete_ends_the_session_and_starts_none() {
    let mut world = World::in_session().await;
    let sent = world.put(endpoint().delete());
    world.expect_in("one", "DELETE").await.not_found();
    let _ = soon(sent).await.unwrap().unwrap();
    world.silent().await;
    assert_eq!(world.session.status(), SessionStatus::None);

    let mut world = World::in_session().await;
    let call = world.expire(1).await;
    let handshake = world.expect("initialize").await;
    refused(world.put(endpoint().delete())).await;
    world.silent().await;
    drop((call, handshake));
}

#[tokio::test(start_paused = true)]
async fn listening_begins_anew_without_the_last_event_of_the_old_session() {
    let mut world = World::in_session().await;
    let listening = world.put(endpoint().get());
    let _stream = world.expect_in("one", "GET").await.open("");
    let _ = soon(listening).await.unwrap().unwrap();

    let mut get = endpoint().get();
    get.headers_mut().insert("last-event-id", "e-17".parse().unwrap());
    let listening = world.put(get);
    let first = world.expect_in("one", "GET").await;
    assert_eq!(first.header("last-event-id"), Some("e-17"));
    first.not_found();
    world.renew("two").await;
    let again = world.expect_in("two", "GET").await;
    assert_eq!(again.header("last-event-id"), None);
    assert_eq!(again.header("mcp-protocol-version"), Some(VERSION));
    let stream = again.open("");
    assert!(soon(listening).await.unwrap().unwrap().body().is_stream());
    drop(stream);
    world.silent().await;
}

#[tokio::test(start_paused = true)]
async fn what_is_pinned_to_the_old_session_fails_in_it() {
    // A GET that resumes a stream is pinned.
    let mut world = World::in_session().await;
    let listening = world.put(endpoint().get());
    let _stream = world.expect_in("one", "GET").await.open("");
    let _ = soon(listening).await.unwrap().unwrap();
    let mut get = endpoint().get();
    get.extensions_mut().insert(world.session.pin());
    get.headers_mut().insert("last-event-id", "e-17".parse().unwrap());
    let resuming = world.put(get.clone());
    world.expect_in("one", "GET").await.not_found();
    refused(resuming).await;
    world.silent().await;
    works_in(&mut world, "two").await;
    refused(world.put(get)).await;
    world.silent().await;

    let mut world = World::in_session().await;
    let call = world.call(ping(1).with(world.session.pin()));
    world.expect_in("one", "ping").await.not_found();
    expired(call).await;
    world.silent().await;
}

#[tokio::test(start_paused = true)]
async fn another_protocol_version_renews_the_session_but_nothing_is_sent_again_in_it() {
    let mut world = World::in_session().await;
    let call = world.expire(1).await;
    world.expect("initialize").await.begin_with("two", "2025-06-18");
    let initialized = world.expect_in("two", INITIALIZED).await;
    assert_eq!(initialized.header("mcp-protocol-version"), Some("2025-06-18"));
    initialized.accept();
    expired(call).await;
    world.silent().await;

    let call = world.call(ping(2));
    let next = world.expect_in("two", "ping").await;
    assert_eq!(next.header("mcp-protocol-version"), Some("2025-06-18"));
    next.result(json!({}));
    result(call).await;
}

#[tokio::test(start_paused = true)]
async fn renew_starts_a_session_and_lets_the_request_fail() {
    let mut world = with_policy(ReinitializePolicy::Renew).await;
    let call = world.expire(1).await;
    world.renew("two").await;
    assert_eq!(expired(call).await.status().unwrap(), 404);
    world.silent().await;
    let call = world.call(ping(2));
    world.expect_in("two", "ping").await.result(json!({}));
    result(call).await;
}

#[tokio::test(start_paused = true)]
async fn fail_leaves_it_to_the_application() {
    let mut world = with_policy(ReinitializePolicy::Fail).await;
    let call = world.expire(1).await;
    assert_eq!(expired(call).await.status().unwrap(), 404);
    assert_eq!(expired(world.call(ping(2))).await.status(), None);
    world.silent().await;
    assert_eq!(world.session.status(), SessionStatus::Expired);

    world.handshake("two").await;
    let call = world.call(ping(3));
    world.expect_in("two", "ping").await.result(json!({}));
    result(call).await;
}

#[tokio::test(start_paused = true)]
async fn without_a_stored_handshake_there_is_nothing_to_start_a_session_with() {
    let mut world = World::new();
    let saved = r#"{"id":"one","protocolVersion":"2025-11-25","initialize":null}"#;
    world.session.restore(serde_json::from_str::<SavedSession>(saved).unwrap());
    let call = world.call(ping(1));
    world.expect_in("one", "ping").await.not_found();
    expired(call).await;
    expired(world.call(ping(2))).await;
    world.silent().await;
}

#[tokio::test(start_paused = true)]
async fn a_json_rpc_error_under_the_requests_own_id_is_the_answer_even_in_a_404() {
    let mut world = World::in_session().await;
    let call = world.call(ping(1));
    let error = JsonRpcMessage::error(1, JsonRpcError::new(-32601, "Method not found"));
    world.expect("ping").await.answer(404, Events::from(error));
    let response = soon(call).await.unwrap().unwrap();
    assert_eq!(response.outcome().unwrap_err().code(), -32601);
    world.silent().await;
    assert_eq!(world.session.id().unwrap(), "one");

    let call = world.call(ping(2));
    let error = JsonRpcMessage::error(2, JsonRpcError::new(-32001, "Session not found"));
    world.expect("ping").await.answer(404, Events::from(error));
    world.renew("two").await;
    world.expect_in("two", "ping").await.result(json!({}));
    result(call).await;
}

#[tokio::test(start_paused = true)]
async fn other_failures_start_no_session() {
    let mut world = World::in_session().await;
    for status in [400, 401, 403, 405, 410, 429, 500, 503] {
        let call = world.call(ping(1));
        world.expect_in("one", "ping").await.answer(status, Events::error("no"));
        assert!(!soon(call).await.unwrap().unwrap_err().is_session_expired(), "{status}");
    }
    let call = world.call(ping(1));
    world.expect_in("one", "ping").await.send(Err("connection reset".into()));
    assert!(!soon(call).await.unwrap().unwrap_err().is_session_expired());
    world.silent().await;
    assert_eq!(world.session.id().unwrap(), "one");
}

#[tokio::test(start_paused = true)]
async fn an_initialize_that_is_answered_404_is_not_sent_again() {
    let mut world = World::in_session().await;
    let call = world.call(initialize(1));
    world.expect("initialize").await.answer(404, Events::error("no such page"));
    assert!(!soon(call).await.unwrap().unwrap_err().is_session_expired());
    world.silent().await;
}

#[tokio::test(start_paused = true)]
async fn modern_requests_start_no_session_and_are_sent_once() {
    // Beside a legacy session, and on a connection that has none.
    for mut world in [World::in_session().await, World::new()] {
        let call = world.call(versioned("tools/list", "2026-07-28"));
        let sent = world.expect("tools/list").await;
        assert_eq!((sent.session(), sent.header("mcp-protocol-version")), (None, Some("2026-07-28")));
        sent.answer(404, Events::error("no"));
        assert!(!soon(call).await.unwrap().unwrap_err().is_session_expired());
        world.silent().await;
        assert!(!world.session.is_expired());
    }
}

#[tokio::test(start_paused = true)]
async fn a_modern_request_is_not_held_up_by_a_session_that_has_expired() {
    let mut world = World::in_session().await;
    let call = world.expire(1).await;
    let handshake = world.expect("initialize").await;
    let modern = world.call(versioned("tools/list", "2026-07-28"));
    world.expect("tools/list").await.result(json!({ "tools": [] }));
    assert_eq!(result(modern).await, json!({ "tools": [] }));
    drop((call, handshake));
}

#[tokio::test(start_paused = true)]
async fn every_request_but_initialize_is_sent_again_whatever_it_does() {
    let mut world = World::in_session().await;
    for (n, method) in ["tools/call", "resources/subscribe", "x/own"].into_iter().enumerate() {
        let call = world.call(JsonRpcMessage::request(1, method, json!({ "n": n })));
        world.expect(method).await.not_found();
        let session = format!("next-{n}");
        world.renew(&session).await;
        let again = world.expect_in(&session, method).await;
        let params: Value = again.message.as_ref().unwrap().params().unwrap().to().unwrap();
        assert_eq!(params, json!({ "n": n }));
        again.result(json!({}));
        result(call).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_restored_session_is_replaced_with_the_handshake_that_was_saved_with_it() {
    let saved = World::in_session().await.session.save().unwrap();
    let mut world = World::new();
    world.session.restore(serde_json::from_value(serde_json::to_value(saved).unwrap()).unwrap());
    let call = world.call(ping(1));
    world.expect_in("one", "ping").await.not_found();
    world.renew("two").await;
    world.expect_in("two", "ping").await.result(json!({}));
    result(call).await;
}
