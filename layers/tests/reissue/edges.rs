//! What is easily got wrong.

use mcp_streamable_http_layers::error::NotSent;
use mcp_streamable_http_layers::options::{Deadline, Idempotent};
use mcp_streamable_http_layers::{Backoff, JsonRpcMessage};
use serde_json::json;
use tokio::time::{Instant, sleep};

use super::breaks::BREAKS;
use super::mismatch::*;
use super::subscriptions::*;
use super::*;

#[tokio::test(start_paused = true)]
async fn what_broke_once_may_have_run_even_if_the_second_was_never_sent() {
    for (how, breaks) in BREAKS {
        let mut client = Client::new();
        let (mut call, sent) = client.send(modern(7, "vendor/method", json!({})).with(Idempotent)).await;
        breaks(sent);
        client.inbox.next().await.fail(NotSent("refused".into()));
        let error = call.failure().await;
        assert!(error.may_have_run(), "{how}: {error}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_servers_cancellation_has_the_callers_id_in_its_meta_too() {
    let mut client = Client::relistening();
    let (mut call, pen) = client.subscribed().await;
    drop(pen);
    let again = client.inbox.next().await;
    let ours = again.id().clone();
    let pen = acknowledge(again);
    call.message().await;
    let cancelled = |id: &serde_json::Value| {
        let params = json!({ "requestId": id, "_meta": { SUBSCRIPTION: id } });
        json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params })
    };
    pen.write(event(&cancelled(&ours)));
    assert_eq!(call.read().await, cancelled(&json!(7)));
}

#[tokio::test(start_paused = true)]
async fn the_listing_does_not_have_the_headers_that_the_caller_set_for_the_call() {
    let mut client = Client::new();
    let headers = extra(&[
        ("mcp-method", "tools/call"),
        ("mcp-name", "query"),
        ("mcp-param-user", "u"),
        ("x-tenant", "t"),
    ]);
    let (_call, sent) = client.send(tool(7).with(headers)).await;
    sent.error(400, REFUSAL);
    let listing = client.inbox.next().await;
    assert_eq!(listing.header("x-tenant"), Some("t"));
    assert_eq!(listing.header("mcp-method"), Some("tools/list"));
    assert_eq!((listing.header("mcp-name"), listing.header("mcp-param-user")), (None, None));
}

#[tokio::test(start_paused = true)]
async fn a_deadline_that_passes_while_a_subscription_waits_ends_it() {
    for backoff in [secs(1), secs(30)] {
        let layer = Backoff::default().base(backoff).jitter(0.0, 0.0);
        let mut client = Client::with(|reissue| reissue.relisten(true).backoff(layer));
        let start = Instant::now();
        let (mut call, sent) = client.send(listen().with(Deadline::within(secs(10)))).await;
        let pen = acknowledge(sent);
        call.message().await;
        sleep(secs(9)).await;
        drop(pen);
        // It hangs, if it is sent in time.
        let error = call.failure().await;
        assert!(error.is_timeout(), "{error}");
        assert_eq!(start.elapsed(), secs(10));
    }
}

#[tokio::test(start_paused = true)]
async fn a_subscription_waits_as_long_as_the_server_asks() {
    for (status, header, wait) in
        [(503, Some(("retry-after", "20")), 20), (429, Some(("retry-after", "20")), 20), (409, None, 5)]
    {
        let mut client = Client::relistening();
        let (_call, pen) = client.subscribed().await;
        drop(pen);
        let sent = client.inbox.next().await;
        let before = sent.at;
        sent.status(status, header);
        let wait_was = client.inbox.next().await.at - before;
        assert!(wait_was >= secs(wait), "{status}: {wait_was:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_refusal_on_a_stream_is_one_too() {
    let mut client = Client::new();
    let (mut call, sent) = client.send(tool(7)).await;
    let text = format!("data: {{\"jsonrpc\":\"2.0\",\"id\":7,\"error\":{REFUSAL}}}\n\n");
    sent.stream().write(text);
    client.inbox.next().await.result(&tools(&[("region", "Region")]));
    client.inbox.next().await.result(&json!({}));
    call.result(7, &json!({})).await;
}

#[tokio::test(start_paused = true)]
async fn a_backoff_without_attempts_opens_nothing_again() {
    let mut client = Client::with(|layer| layer.relisten(true).backoff(Backoff::default().attempts(0)));
    let (mut call, pen) = client.subscribed().await;
    drop(pen);
    call.failure().await;
    client.inbox.assert_silent("no attempts").await;
}

#[tokio::test(start_paused = true)]
async fn a_response_under_the_callers_own_id_is_the_response() {
    let mut client = Client::new();
    let (mut call, sent) = client.send(list(7)).await;
    drop(sent.stream());
    client.inbox.next().await.json(200, &json!({ "jsonrpc": "2.0", "id": 7, "result": {} }));
    call.result(7, &json!({})).await;
}

#[tokio::test(start_paused = true)]
async fn a_deadline_bounds_the_wait_for_a_listing_of_others() {
    let mut client = Client::new();
    let start = Instant::now();
    let (_first, sent) = client.send(tool("first")).await;
    let (mut second, sent_too) = client.send(tool(7).with(Deadline::within(secs(2)))).await;
    sent.error(400, REFUSAL);
    let _hangs = client.inbox.next().await;
    sent_too.error(400, REFUSAL);
    let _ = second.next().await;
    assert!(start.elapsed() <= secs(2), "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_request_without_a_version_goes_again_in_the_era_that_it_was_sent_in() {
    let mut client = Client::new();
    client.turn_modern().await;
    let (_call, sent) = client.send(JsonRpcMessage::request(7, "ping", ())).await;
    let (mut init, begun) = client.send(initialize(1)).await;
    begun.result(&json!({ "protocolVersion": LEGACY }));
    init.response(1).await;
    sent.fail("reset");
    settle().await;
    // It would do, too, not to send it again.
    let again = client.inbox.next().await;
    assert_eq!(again.header("mcp-protocol-version"), Some(MODERN));
}
