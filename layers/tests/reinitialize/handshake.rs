//! What is sent to start the new session, and what counts as its beginning.

use std::collections::HashSet;

use http::HeaderMap;
use mcp_streamable_http_layers::{Event, Events, JsonRpcMessage, SessionStatus};
use serde_json::{Value, json};

use crate::common::extra;
use crate::support::*;

fn names(headers: &HeaderMap) -> Vec<&str> {
    let mut names: Vec<_> = headers.keys().map(|name| name.as_str()).collect();
    names.sort_unstable();
    names
}

fn params(exchange: &Exchange) -> Value {
    exchange.message.as_ref().unwrap().params().unwrap().to().unwrap()
}

#[tokio::test(start_paused = true)]
async fn an_expired_session_is_replaced_and_the_request_sent_once_more_in_exactly_three_requests() {
    let mut world = World::in_session().await;
    let call = world.call(JsonRpcMessage::request(7, "tools/call", json!({ "name": "add" })));
    let first = world.expect_in("one", "tools/call").await;
    let (message, version) = (first.message.clone(), first.header("mcp-protocol-version").map(str::to_owned));
    assert_eq!(version.as_deref(), Some(VERSION));
    first.not_found();

    let again = world.expect("initialize").await;
    assert_eq!(names(&again.headers), ["x-tenant"], "neither a session nor a version");
    assert_eq!(again.header("x-tenant"), Some("blue"));
    let JsonRpcMessage::Request(original) = initialize(0) else { panic!("not a request") };
    assert_eq!(params(&again), original.params().unwrap().to::<Value>().unwrap());
    again.begin("two");

    let initialized = world.expect_in("two", INITIALIZED).await;
    assert_eq!(names(&initialized.headers), ["mcp-protocol-version", "mcp-session-id", "x-tenant"]);
    assert!(initialized.message.as_ref().unwrap().params().is_none());
    initialized.accept();

    let replayed = world.expect_in("two", "tools/call").await;
    assert_eq!(replayed.message, message);
    assert_eq!(replayed.header("mcp-protocol-version"), Some(VERSION));
    replayed.result(json!({ "sum": 5 }));
    assert_eq!(result(call).await, json!({ "sum": 5 }));
    world.silent().await;
    assert_eq!(world.session.id().unwrap(), "two");
    assert_eq!(world.session.status(), SessionStatus::Live);
}

#[tokio::test(start_paused = true)]
async fn the_headers_of_a_request_are_sent_again_with_it() {
    let mut world = World::in_session().await;
    let call = world.call(ping(1).with(extra(&[("x-trace", "abc")])));
    world.expect("ping").await.not_found();
    world.renew("two").await;
    let replayed = world.expect_in("two", "ping").await;
    assert_eq!(replayed.header("x-trace"), Some("abc"));
    assert_eq!(replayed.header("x-tenant"), None, "that was a header of the handshake");
    replayed.result(json!({}));
    result(call).await;
}

#[tokio::test(start_paused = true)]
async fn each_handshake_has_an_id_that_no_application_uses() {
    let mut world = World::in_session().await;
    let mut ids = HashSet::new();
    for session in ["two", "three", "four"] {
        let call = world.expire(1).await;
        let again = world.expect("initialize").await;
        let id = again.message.as_ref().unwrap().id().unwrap().clone();
        assert!(id.to_string().trim_matches('"').starts_with("mcp-streamable-http:"), "{id}");
        assert!(ids.insert(id.to_string()), "{id} is used twice");
        again.begin(session);
        world.expect_in(session, INITIALIZED).await.accept();
        world.expect_in(session, "ping").await.result(json!({}));
        result(call).await;
    }
}

#[tokio::test(start_paused = true)]
async fn the_request_waits_until_initialized_was_answered_whatever_the_answer() {
    for status in [200, 202, 400, 500] {
        let mut world = World::in_session().await;
        let call = world.expire(1).await;
        world.expect("initialize").await.begin("two");
        let initialized = world.expect_in("two", INITIALIZED).await;
        world.silent().await;
        initialized.answer(status, Events::EMPTY);
        world.expect_in("two", "ping").await.result(json!({}));
        result(call).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_new_session_may_have_no_id() {
    let mut world = World::in_session().await;
    let call = world.expire(1).await;
    world.expect("initialize").await.begin("");
    let initialized = world.expect(INITIALIZED).await;
    assert_eq!(initialized.session(), None);
    initialized.accept();
    let replayed = world.expect("ping").await;
    assert_eq!((replayed.session(), replayed.header("mcp-protocol-version")), (None, Some(VERSION)));
    replayed.result(json!({}));
    result(call).await;
    assert_eq!(world.session.status(), SessionStatus::None);

    // A 404 where there is no session is an answer like any other.
    let call = world.call(ping(2));
    world.expect("ping").await.not_found();
    assert!(!soon(call).await.unwrap().unwrap_err().is_session_expired());
    world.silent().await;
}

#[tokio::test(start_paused = true)]
async fn the_server_may_stream_the_answer_and_ask_first_whether_anybody_is_there() {
    let mut world = World::in_session().await;
    let call = world.expire(1).await;
    let again = world.expect("initialize").await;
    let id = again.message.as_ref().unwrap().id().unwrap().clone();
    let stream = again.open("two");
    stream.send(JsonRpcMessage::notification("notifications/message", json!({}))).unwrap();
    stream.send(JsonRpcMessage::request("are-you-there", "ping", ())).unwrap();

    let pong = world.expect_in("two", "=").await;
    assert_eq!(pong.id(), r#""are-you-there""#);
    assert_eq!(pong.header("x-tenant"), Some("blue"));
    assert_eq!(pong.message.as_ref().unwrap().as_response().unwrap().result::<Value>().unwrap(), json!({}));
    assert!(world.session.is_expired(), "the new session has not begun yet");
    pong.accept();
    world.silent().await;

    stream.send(JsonRpcMessage::response(id, json!({ "protocolVersion": VERSION }))).unwrap();
    world.expect_in("two", INITIALIZED).await.accept();
    world.expect_in("two", "ping").await.result(json!({}));
    result(call).await;
    assert!(stream.is_closed(), "the stream is of no more use");
}

#[tokio::test(start_paused = true)]
async fn a_stream_in_the_new_session_is_handed_up_as_it_comes() {
    let mut world = World::in_session().await;
    let sent = world.put(crate::common::endpoint().post(ping(1)));
    world.expect("ping").await.not_found();
    world.renew("two").await;
    let stream = world.expect_in("two", "ping").await.open("");
    let mut events = soon(sent).await.unwrap().unwrap().into_body();
    for step in 0..3 {
        stream
            .send(JsonRpcMessage::notification("notifications/progress", json!({ "progress": step })))
            .unwrap();
        let event: Event = soon(futures_util::StreamExt::next(&mut events)).await.unwrap().unwrap();
        assert_eq!(event.message.unwrap().params().unwrap().to::<Value>().unwrap()["progress"], step);
    }
}
