//! Taking up the answer to a request that was sent before, by another process perhaps.

use http::Method;
use mcp_streamable_http_layers::JsonRpcMessage;
use mcp_streamable_http_layers::error::{GaveUp, InvalidMessage, SessionExpired};
use mcp_streamable_http_layers::options::{Deadline, ResumeFrom};

use super::*;

fn from(id: &str) -> ResumeFrom {
    ResumeFrom(id.into())
}

#[tokio::test(start_paused = true)]
async fn it_begins_with_the_get_and_posts_nothing() {
    let mut client = Client::in_session().await;
    let mut call = client.call(tool(7).with(from("e-17é")).with(extra(&[("x-tenant", "blue")])));
    let get = client.inbox.get_after(secs(0)).await;
    assert_eq!(get.last_event_id(), Some("e-17é"));
    assert_eq!(get.header("mcp-session-id"), Some("one"));
    assert_eq!(get.header("mcp-protocol-version"), Some(LEGACY));
    assert_eq!((get.header("accept"), get.header("x-tenant")), (Some("text/event-stream"), Some("blue")));
    assert!(get.extensions.get::<ResumeFrom>().is_none());
    let _pen = get.stream(event("e-18", "a") + &done("\"of the old process\""));
    assert_eq!(call.method().await, "a");
    assert_eq!(call.response().await.id(), Some(&7.into()));
    client.inbox.assert_silent("it is answered").await;
}

#[tokio::test(start_paused = true)]
async fn it_goes_on_like_any_stream() {
    let mut client = Client::in_session().await;
    let mut call = client.call(tool(7).with(from("e1")));
    client.inbox.get_after(secs(0)).await.fail("reset");
    client.inbox.get_after(secs(1)).await.status(503).await;
    let get = client.inbox.get_after(secs(2)).await;
    assert_eq!(get.last_event_id(), Some("e1"));
    drop(get.stream(event("e2", "a")));
    assert_eq!(call.method().await, "a");
    let get = client.inbox.get_after(secs(1)).await;
    assert_eq!(get.last_event_id(), Some("e2"));
    // What was delivered to this process is known again.
    let _pen = get.stream(event("e2", "a") + &done("7"));
    call.response().await;
}

#[tokio::test(start_paused = true)]
async fn five_gets_fail_and_there_is_no_sixth() {
    let mut client = Client::in_session().await;
    let mut call = client.call(tool(7).with(from("e1")));
    for wait in [0, 1, 2, 4, 8] {
        client.inbox.get_after(secs(wait)).await.fail("reset");
    }
    let error = call.fails_now().await;
    assert_eq!(error.find::<GaveUp>().map(GaveUp::attempts), Some(5), "{error}");
    assert!(error.may_have_run() && error.to_json_rpc().code() == -32000);
    client.inbox.assert_silent("it was given up").await;
}

#[tokio::test(start_paused = true)]
async fn a_server_that_no_longer_knows_the_event_is_not_asked_again() {
    let mut client = Client::in_session().await;
    let mut call = client.call(tool(7).with(from("e1")));
    client.inbox.get_after(secs(0)).await.status(400).await;
    let error = call.fails_now().await;
    assert!(error.find::<GaveUp>().is_some() && error.may_have_run(), "{error}");
    assert_eq!(error.status().map(|status| status.as_u16()), Some(400));
    client.inbox.assert_silent("it cannot heal").await;
}

#[tokio::test(start_paused = true)]
async fn a_deadline_and_a_drop_end_it() {
    let mut client = Client::in_session().await;
    let mut call = client.call(tool(7).with(from("e1")).with(Deadline::within(secs(9))));
    let get = client.inbox.get_after(secs(0)).await;
    assert!(call.failure().await.is_timeout() && get.is_dropped());

    let call = client.call(tool(7).with(from("e1")));
    let get = client.inbox.get_after(secs(0)).await;
    call.drop_it().await;
    assert!(get.is_dropped());
    client.inbox.assert_silent("it was given up").await;
}

#[tokio::test(start_paused = true)]
async fn the_modern_era_refuses_it() {
    let mut client = Client::new();
    let assert_refused = |error: mcp_streamable_http_layers::Error| {
        assert!(error.find::<InvalidMessage>().is_some() && !error.may_have_run(), "{error}");
        assert_eq!(error.to_json_rpc().code(), -32600);
    };
    // The message says so, then the connection does.
    assert_refused(client.call(versioned("tools/call", MODERN).with(from("e1"))).fails_now().await);
    assert_refused(client.call(tool(7).with(from("e1"))).fails_now().await);
    client.inbox.assert_silent("there is nothing to resume").await;
}

#[tokio::test(start_paused = true)]
async fn an_id_that_no_header_can_carry_is_refused() {
    let mut client = Client::in_session().await;
    for id in ["", "a\nb", "a\u{1}", &"x".repeat(8193)] {
        let error = client.call(tool(7).with(from(id))).fails_now().await;
        assert!(error.find::<InvalidMessage>().is_some() && !error.may_have_run(), "{error}");
    }
    client.inbox.assert_silent("it cannot be sent").await;
}

#[tokio::test(start_paused = true)]
async fn it_is_not_sent_in_a_session_that_has_expired() {
    let mut client = Client::in_session().await;
    client.expire().await;
    let error = client.call(tool(7).with(from("e1"))).fails_now().await;
    let expired = error.find::<SessionExpired>().unwrap();
    assert!(!expired.was_in_flight() && !error.may_have_run(), "nothing was sent here");
    client.inbox.assert_silent("the session is over").await;
}

#[tokio::test(start_paused = true)]
async fn it_is_not_sent_in_another_session_than_the_one_that_it_is_pinned_to() {
    let mut client = Client::in_session().await;
    let pinned = client.session.pin();
    let saved = client.session.save().unwrap();
    client.session.restore(saved);
    let error = client.call(tool(7).with(from("e1")).with(pinned)).fails_now().await;
    assert!(error.find::<SessionExpired>().is_some() && !error.may_have_run(), "{error}");
    client.inbox.assert_silent("that session is over").await;
}

#[tokio::test(start_paused = true)]
async fn what_is_no_request_is_sent_without_it() {
    let mut client = Client::in_session().await;
    for message in [notification(), JsonRpcMessage::response("s", serde_json::json!({}))] {
        let mut call = client.call(message.with(from("e1")));
        let post = client.inbox.next().await;
        assert_eq!((&post.method, post.last_event_id()), (&Method::POST, None));
        post.status(202).await;
        assert!(call.next().await.is_none());
    }
}

#[tokio::test(start_paused = true)]
async fn no_http_answer_stands_behind_its_reply() {
    use mcp_streamable_http_layers::EnvelopeLayer;
    use tower::{Layer, ServiceExt};

    let client = Client::in_session().await;
    let service = EnvelopeLayer::new(endpoint(), client.session.clone()).layer(client.envelopes.clone());
    let reply = service.oneshot(tool(7).with(from("e1"))).await.unwrap();
    assert!(reply.head().is_none());
}
