//! Subscriptions that are opened again when their stream breaks.

use mcp_streamable_http_layers::error::NotSent;
use mcp_streamable_http_layers::options::Gap;
use mcp_streamable_http_layers::{Backoff, JsonRpcMessage};
use serde_json::{Value, json};

use super::*;

pub(crate) fn listen() -> JsonRpcMessage {
    modern(7, "subscriptions/listen", json!({ "notifications": { "toolsListChanged": true } }))
}

/// What the server sends on the subscription of this id.
pub(crate) fn news(method: &str, subscription: &Value) -> Value {
    json!({ "jsonrpc": "2.0", "method": method, "params": { "_meta": { SUBSCRIPTION: subscription } } })
}

pub(crate) const ACKNOWLEDGED: &str = "notifications/subscriptions/acknowledged";
pub(crate) const CHANGED: &str = "notifications/tools/list_changed";

/// Answers with a stream that acknowledges the subscription.
pub(crate) fn acknowledge(sent: Arrived) -> Pen {
    let text = event(&news(ACKNOWLEDGED, sent.id()));
    let pen = sent.stream();
    pen.write(text);
    pen
}

impl Client {
    /// A subscription that is acknowledged.
    pub(crate) async fn subscribed(&mut self) -> (Call, Pen) {
        let (mut call, sent) = self.send(listen()).await;
        let pen = acknowledge(sent);
        let message = call.message().await;
        assert_eq!(message.method(), Some(ACKNOWLEDGED));
        assert!(message.extensions().get::<Gap>().is_none());
        (call, pen)
    }
}

/// The next message: its method, and whether it is the first after a gap.
async fn seen(call: &mut Call) -> (String, bool) {
    let message = call.message().await;
    (message.method().unwrap().to_owned(), message.extensions().get::<Gap>().is_some())
}

#[tokio::test(start_paused = true)]
async fn by_default_they_are_not_opened_again() {
    for (how, breaks) in [("broken", true), ("ended", false)] {
        let mut client = Client::new();
        let (mut call, pen) = client.subscribed().await;
        if breaks {
            pen.fail("reset");
        }
        drop(pen);
        let error = call.failure().await;
        assert_eq!(error.to_json_rpc().code(), -32000, "{how}");
        assert!(error.may_have_run(), "{how}");
        client.inbox.assert_silent(how).await;
    }
}

#[tokio::test(start_paused = true)]
async fn it_is_sent_again_after_a_wait_and_the_first_message_is_marked() {
    let mut client = Client::relistening();
    let (mut call, sent) = client.send(listen()).await;
    let first = sent.message.clone();
    let pen = acknowledge(sent);
    assert_eq!(seen(&mut call).await, (ACKNOWLEDGED.to_owned(), false));
    // It may go on like this: the wait is short again after each message.
    let mut pen = pen;
    for how in ["broken", "ended", "broken"] {
        if how == "broken" {
            pen.fail("reset");
        }
        drop(pen);
        let broken = tokio::time::Instant::now();
        let again = client.inbox.again(&first).await;
        assert_eq!(again.at - broken, secs(1), "{how}");
        assert_eq!(again.header("mcp-method"), Some("subscriptions/listen"));
        call.assert_waiting("nothing is said of the break").await;
        let changed = event(&news(CHANGED, again.id()));
        pen = acknowledge(again);
        pen.write(changed);
        assert_eq!(seen(&mut call).await, (ACKNOWLEDGED.to_owned(), true));
        assert_eq!(seen(&mut call).await, (CHANGED.to_owned(), false));
    }
}

#[tokio::test(start_paused = true)]
async fn the_waits_are_those_of_the_backoff_for_as_long_as_it_takes() {
    let mut client = Client::relistening();
    let (mut call, pen) = client.subscribed().await;
    let mut before = tokio::time::Instant::now();
    drop(pen);
    let failures: [fn(Arrived); 8] = [
        |sent| sent.fail("reset"),
        |sent| sent.fail(NotSent("refused".into())),
        |sent| sent.status(500, None),
        |sent| sent.status(503, None),
        |sent| drop(sent.stream()),
        |sent| sent.status(408, None),
        |sent| sent.status(429, None),
        |sent| sent.stream().fail("reset"),
    ];
    let mut waits = Vec::new();
    for fail in failures.into_iter().cycle().take(20) {
        let sent = client.inbox.next().await;
        waits.push((sent.at - before).as_secs());
        before = sent.at;
        fail(sent);
    }
    assert_eq!(waits[..7], [1, 2, 4, 8, 16, 30, 30]);
    assert!(waits[5..].iter().all(|wait| *wait == 30), "{waits:?}");
    call.assert_waiting("it is never given up").await;
    acknowledge(client.inbox.next().await);
    assert_eq!(seen(&mut call).await, (ACKNOWLEDGED.to_owned(), true));
    // A message is progress, so they begin anew.
    let broken = tokio::time::Instant::now();
    assert_eq!(client.inbox.next().await.at - broken, secs(1));
}

#[tokio::test(start_paused = true)]
async fn the_backoff_is_the_callers() {
    let backoff = Backoff::default().base(secs(7)).max_wait(secs(20)).jitter(0.0, 0.0);
    let mut client = Client::with(|layer| layer.relisten(true).backoff(backoff));
    let (_call, pen) = client.subscribed().await;
    drop(pen);
    for wait in [7, 14, 20, 20] {
        client.inbox.next_after(secs(wait)).await.fail("reset");
    }
}

#[tokio::test(start_paused = true)]
async fn no_head_in_time_is_another_attempt() {
    use mcp_streamable_http_layers::options::FirstByte;
    let mut client = Client::relistening();
    let (mut call, sent) = client.send(listen().with(FirstByte::within(secs(60)))).await;
    let pen = acknowledge(sent);
    call.message().await;
    drop(pen);
    let hangs = client.inbox.next_after(secs(1)).await;
    let next = client.inbox.next_after(secs(62)).await;
    assert!(hangs.is_dropped());
    let _pen = acknowledge(next);
    assert_eq!(seen(&mut call).await, (ACKNOWLEDGED.to_owned(), true));
}

#[tokio::test(start_paused = true)]
async fn if_the_first_attempt_is_refused_or_breaks_before_the_head_that_is_the_error() {
    let failures: [Way; 3] = [
        ("broken", |sent| sent.fail("reset")),
        ("503", |sent| sent.status(503, None)),
        ("refused", |sent| sent.fail(NotSent("refused".into()))),
    ];
    for (how, fail) in failures {
        let mut client = Client::relistening();
        let (mut call, sent) = client.send(listen()).await;
        fail(sent);
        call.failure().await;
        client.inbox.assert_silent(how).await;
    }
}

#[tokio::test(start_paused = true)]
async fn two_subscriptions_are_opened_again_on_their_own() {
    let mut client = Client::relistening();
    let (mut first, pen) = client.subscribed().await;
    let (mut second, sent) =
        client.send(modern("s", "subscriptions/listen", json!({ "notifications": {} }))).await;
    let other = acknowledge(sent);
    second.message().await;
    drop(pen);
    let again = client.inbox.next_after(secs(1)).await;
    let (id, pen) = (again.id().clone(), acknowledge(again));
    assert_eq!(seen(&mut first).await, (ACKNOWLEDGED.to_owned(), true));
    second.assert_waiting("its stream is open").await;
    other.write(event(&news(CHANGED, &json!("s"))));
    assert_eq!(seen(&mut second).await, (CHANGED.to_owned(), false));
    drop(other);
    let again = client.inbox.next_after(secs(1)).await;
    assert_ne!(again.id(), &id);
    let _other = acknowledge(again);
    assert_eq!(second.read().await, news(ACKNOWLEDGED, &json!("s")));
    pen.write(event(&news(CHANGED, &id)));
    assert_eq!(first.read().await, news(CHANGED, &json!(7)));
}

#[tokio::test(start_paused = true)]
async fn repeating_and_listening_again_are_two_choices() {
    let mut client = Client::with(|layer| layer.repeat(false).relisten(true));
    let (_call, pen) = client.subscribed().await;
    drop(pen);
    client.inbox.next().await;
    let (mut list, sent) = client.send(super::list(8)).await;
    sent.fail("reset");
    list.failure().await;
}
