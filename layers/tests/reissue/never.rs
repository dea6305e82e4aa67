//! What is not sent again, whatever breaks.

use mcp_streamable_http_layers::error::NotSent;
use mcp_streamable_http_layers::options::{Deadline, FirstByte, Idempotent};
use mcp_streamable_http_layers::{Error, JsonRpcMessage};
use serde_json::{Value, json};

use super::breaks::BREAKS;
use super::*;

/// Sends `message`, breaks its connection in every way, and asserts that this is the error, and all.
async fn assert_not_repeated(new: impl Fn() -> Client, message: JsonRpcMessage) {
    for (how, breaks) in BREAKS {
        let why = format!("{how}: {message}");
        let mut client = new();
        client.turn_modern().await;
        let (mut call, sent) = client.send(message.clone()).await;
        breaks(sent);
        let error = call.failure().await;
        assert_eq!(error.to_json_rpc().code(), -32000, "{why}");
        assert!(error.may_have_run(), "{why}");
        client.inbox.assert_silent(&why).await;
    }
}

#[tokio::test(start_paused = true)]
async fn what_may_do_harm_twice_is_not_sent_again() {
    for message in [
        tool(7),
        modern(7, "tasks/cancel", json!({ "taskId": "t" })),
        modern(7, "tasks/update", json!({ "taskId": "t" })),
        modern(7, "vendor/method", json!({})),
        modern(7, "subscriptions/listen", json!({ "notifications": {} })),
    ] {
        assert_not_repeated(Client::new, message).await;
    }
}

#[tokio::test(start_paused = true)]
async fn the_continuation_of_an_exchange_is_not_sent_again() {
    for params in [json!({ "requestState": "s" }), json!({ "inputResponses": {} })] {
        for message in [
            modern(7, "prompts/get", params.clone()),
            modern(7, "resources/read", params.clone()).with(Idempotent),
            modern(7, "tools/call", params).with(Idempotent),
        ] {
            assert_not_repeated(Client::new, message).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_legacy_is_not_sent_again() {
    let legacy = |method| JsonRpcMessage::request(7, method, json!({ "_meta": { VERSION: LEGACY } }));
    for message in [
        legacy("ping"),
        legacy("tools/list").with(Idempotent),
        legacy("subscriptions/listen"),
        JsonRpcMessage::request(7, "ping", ()).with(extra(&[("mcp-protocol-version", LEGACY)])),
        initialize(7),
    ] {
        assert_not_repeated(Client::relistening, message).await;
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_is_sent_again_if_that_is_not_wanted() {
    let new = || Client::with(|layer| layer.repeat(false));
    for message in [list(7), tool(7), modern(7, "vendor/method", json!({})).with(Idempotent)] {
        assert_not_repeated(new, message).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_notification_is_not_sent_again() {
    let mut client = Client::new();
    client.turn_modern().await;
    let mut call = client.call(notification());
    client.inbox.next().await.fail("reset");
    assert!(call.failure().await.may_have_run());
    client.inbox.assert_silent("a notification").await;
}

/// Sends a repeatable request, answers it, and returns the error, which must be all.
async fn failure_of(message: JsonRpcMessage, why: &str, answer: impl FnOnce(Arrived)) -> Error {
    let mut client = Client::new();
    let (mut call, sent) = client.send(message).await;
    answer(sent);
    let error = call.failure().await;
    client.inbox.assert_silent(why).await;
    error
}

#[tokio::test(start_paused = true)]
async fn what_was_answered_with_a_status_is_not_sent_again() {
    for status in [202, 204, 301, 400, 401, 403, 404, 405, 408, 429, 500, 502, 503, 504] {
        let why = status.to_string();
        let error = failure_of(list(7), &why, |sent| sent.status(status, None)).await;
        assert_eq!(error.status().unwrap(), status);
        // Whatever becomes of the page that goes with it.
        if status >= 400 {
            let broken = |sent: Arrived| sent.open(status, "text/html").fail("reset");
            assert_eq!(failure_of(list(7), &why, broken).await.status().unwrap(), status);
        }
    }
    let challenge = Some(("www-authenticate", "Bearer"));
    let error = failure_of(list(7), "challenge", |sent| sent.status(401, challenge)).await;
    assert_eq!(error.challenges().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn what_was_answered_with_something_that_cannot_be_read_is_not_sent_again() {
    for (content_type, text) in [
        ("application/json", r#"{"jsonrpc":"#),
        ("application/json", ""),
        ("application/json", "[]"),
        ("application/json", r#"{"jsonrpc":"2.0","method":"m"}"#),
        ("text/html", "<p>Hello"),
        ("", ""),
        ("text/event-stream", "data: {\"jsonrpc\":\n\n"),
    ] {
        let why = format!("{content_type} {text}");
        let error = failure_of(list(7), &why, |sent| sent.answer(200, content_type, text)).await;
        assert!(error.may_have_run(), "{why}");
    }
    let long = format!(r#"{{"jsonrpc":"2.0","id":7,"result":{{"a":"{}"}}}}"#, "x".repeat(64 << 20));
    let error = failure_of(list(7), "too long", |sent| sent.answer(200, "application/json", long)).await;
    assert_eq!(error.to_json_rpc().code(), -32000);
}

#[tokio::test(start_paused = true)]
async fn what_was_never_sent_is_not_sent_again() {
    let refused = |sent: Arrived| sent.fail(NotSent("refused".into()));
    let error = failure_of(list(7), "refused", refused).await;
    assert!(error.is_connect() && !error.may_have_run());
}

#[tokio::test(start_paused = true)]
async fn what_the_server_has_answered_with_an_error_is_not_sent_again() {
    for status in [200, 400, 404, 500] {
        let mut client = Client::new();
        let (mut call, sent) = client.send(list(7)).await;
        sent.error(status, r#"{"code":-32020,"message":"no"}"#);
        assert_eq!(call.response(7).await.outcome().unwrap_err().code(), -32020);
        client.inbox.assert_silent("answered").await;
    }
}

#[tokio::test(start_paused = true)]
async fn what_has_run_out_of_time_is_not_sent_again() {
    for message in [list(7).with(FirstByte::within(secs(5))), list(7).with(Deadline::within(secs(5)))] {
        let mut client = Client::new();
        let (mut call, sent) = client.send(message).await;
        assert!(call.failure().await.is_timeout());
        assert!(sent.is_dropped());
        client.inbox.assert_silent("no head").await;
    }
    // The clock may run out on a stream too.
    let mut client = Client::new();
    let (mut call, sent) = client.send(list(7).with(Deadline::within(secs(5)))).await;
    let pen = sent.stream();
    pen.write(event(&progress(1)));
    assert_eq!(call.read().await, progress(1));
    assert!(call.failure().await.is_timeout());
    assert!(pen.watch().is_dropped());
    client.inbox.assert_silent("no response").await;
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_sent_is_not_sent_again() {
    let mut client = Client::new();
    for message in [
        modern(7, "pröm/pts", json!({})).with(Idempotent),
        list(7).with(extra(&[("mcp-session-id", "x")])),
        list(7).with(extra(&[("mcp-protocol-version", "2026-07-29")])),
    ] {
        let error = client.call(message).failure().await;
        assert!(!error.may_have_run());
    }
    client.inbox.assert_silent("invalid").await;
}

#[tokio::test(start_paused = true)]
async fn what_has_its_response_is_not_sent_again() {
    let mut client = Client::new();
    let (mut call, sent) = client.send(list(7)).await;
    let response = sent.response(&json!({}));
    let pen = sent.stream();
    pen.write(event(&response));
    pen.fail("reset");
    call.result(7, &Value::Object(Default::default())).await;
    client.inbox.assert_silent("answered").await;
}
