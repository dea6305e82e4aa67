//! Whoever gives the request up ends everything that was going on for it.

use futures_util::FutureExt as _;
use mcp_streamable_http_layers::{EnvelopeLayer, JsonRpcMessage, TranslateCancelLayer};
use serde_json::json;
use tower::{Layer, ServiceExt};

use super::*;

#[tokio::test(start_paused = true)]
async fn dropping_the_events_while_they_are_read_ends_the_stream() {
    for resumed in [false, true] {
        let mut client = Client::in_session().await;
        let (call, pen) = match resumed {
            false => client.open("id: e1\ndata:\n\n").await,
            true => {
                let call = client.interrupted().await;
                (call, client.inbox.get_after(secs(1)).await.stream("id: e2\ndata:\n\n"))
            }
        };
        settle().await;
        assert!(!pen.watch().is_dropped());
        call.drop_it().await;
        assert!(pen.watch().is_dropped(), "resumed: {resumed}");
        drop(pen);
        client.inbox.assert_silent("it was given up").await;
    }
}

#[tokio::test(start_paused = true)]
async fn dropping_the_events_during_the_wait_ends_the_wait() {
    for failed in 0..3 {
        let mut client = Client::in_session().await;
        let call = client.interrupted().await;
        for n in 0..failed {
            client.inbox.get_after(secs(1 << n)).await.fail("reset");
        }
        settle().await;
        call.drop_it().await;
        client.inbox.assert_silent("it was given up").await;
    }
}

#[tokio::test(start_paused = true)]
async fn dropping_the_events_while_the_get_is_under_way_closes_it() {
    let mut client = Client::in_session().await;
    let call = client.interrupted().await;
    let get = client.inbox.get_after(secs(1)).await;
    settle().await;
    assert!(!get.is_dropped());
    call.drop_it().await;
    assert!(get.is_dropped());
    client.inbox.assert_silent("it was given up").await;
}

#[tokio::test(start_paused = true)]
async fn dropping_the_call_before_the_head_of_its_answer_closes_it() {
    let mut client = Client::in_session().await;
    let call = client.call(tool(7));
    let post = client.inbox.next().await;
    call.drop_it().await;
    assert!(post.is_dropped());
    client.inbox.assert_silent("it was given up").await;
}

/// The call is cancelled by the caller in the legacy era, which tells the server.
async fn cancelled(client: &mut Client, interrupt: bool) -> (Call, Pen) {
    let layer = TranslateCancelLayer::new(client.session.clone());
    let envelope = EnvelopeLayer::new(endpoint(), client.session.clone());
    let service = layer.layer(envelope.layer(client.envelopes.clone()));
    let sent = service.clone().oneshot(tool(7)).boxed();
    let call = Reading::of(async { sent.await.unwrap() });
    let pen = client.inbox.next().await.stream("id: e1\ndata:\n\n");
    settle().await;
    let pen = if interrupt { script().0 } else { pen };
    settle().await;
    let cancel = JsonRpcMessage::notification("notifications/cancelled", json!({ "requestId": 7 }));
    let told = tokio::spawn(service.oneshot(cancel));
    let post = client.inbox.next().await;
    assert_eq!(post.message["method"], "notifications/cancelled");
    post.status(202).await;
    let _ = told.await.unwrap().unwrap();
    (call, pen)
}

#[tokio::test(start_paused = true)]
async fn a_request_that_the_caller_has_cancelled_is_not_resumed() {
    let mut client = Client::in_session().await;
    let (mut call, _) = cancelled(&mut client, true).await;
    assert!(call.failure().await.is_cancelled());
    client.inbox.assert_silent("it was cancelled during the wait").await;

    let (mut call, pen) = cancelled(&mut client, false).await;
    call.assert_waiting("a late answer is welcome").await;
    drop(pen);
    assert!(call.fails_now().await.is_cancelled());
    client.inbox.assert_silent("it was cancelled before the break").await;
}
