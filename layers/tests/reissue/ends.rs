//! What ends a subscription for good.

use mcp_streamable_http_layers::error::TimedOut;
use mcp_streamable_http_layers::options::{Deadline, Gap};
use serde_json::json;

use super::subscriptions::*;
use super::*;

#[tokio::test(start_paused = true)]
async fn its_response_ends_it() {
    for reopened in [false, true] {
        let mut client = Client::relistening();
        let (mut call, sent) = client.send(listen()).await;
        let mut response = sent.response(&json!({}));
        let mut pen = acknowledge(sent);
        call.message().await;
        if reopened {
            pen.fail("reset");
            let again = client.inbox.next().await;
            response = again.response(&json!({}));
            pen = acknowledge(again);
            call.message().await;
        }
        pen.write(event(&response));
        call.result(7, &json!({})).await;
        client.inbox.assert_silent("it is over").await;
        assert!(pen.watch().is_dropped());
    }
}

#[tokio::test(start_paused = true)]
async fn a_response_in_place_of_a_stream_ends_it() {
    let mut client = Client::relistening();
    let (mut call, sent) = client.send(listen()).await;
    sent.result(&json!({ "a": 1 }));
    call.result(7, &json!({ "a": 1 })).await;
    client.inbox.assert_silent("answered").await;

    // It may be the first message after a gap.
    for status in [200, 400, 404] {
        let mut client = Client::relistening();
        let (mut call, pen) = client.subscribed().await;
        drop(pen);
        client.inbox.next().await.error(status, r#"{"code":-32601,"message":"no"}"#);
        let response = call.response(7).await;
        assert_eq!(response.outcome().unwrap_err().code(), -32601);
        assert!(response.extensions().get::<Gap>().is_some());
        client.inbox.assert_silent("answered").await;
    }
}

#[tokio::test(start_paused = true)]
async fn the_servers_cancellation_ends_it() {
    for (how, breaks) in [("broken", true), ("ended", false)] {
        for reopened in [false, true] {
            let mut client = Client::relistening();
            let (mut call, mut pen) = client.subscribed().await;
            let mut id = json!(7);
            if reopened {
                pen.fail("reset");
                let again = client.inbox.next().await;
                id = again.id().clone();
                pen = acknowledge(again);
                call.message().await;
            }
            let cancelled = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": id } });
            pen.write(event(&cancelled));
            assert_eq!(call.message().await.method(), Some("notifications/cancelled"));
            if breaks {
                pen.fail("reset");
            }
            drop(pen);
            call.failure().await;
            client.inbox.assert_silent(how).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_cancellation_of_another_does_not() {
    let mut client = Client::relistening();
    let (mut call, pen) = client.subscribed().await;
    for id in [json!(8), json!("7"), json!(null)] {
        let params = json!({ "requestId": id });
        pen.write(event(&json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params })));
        call.message().await;
    }
    drop(pen);
    client.inbox.next_after(secs(1)).await;
}

#[tokio::test(start_paused = true)]
async fn a_status_that_no_time_heals_ends_it() {
    for status in [400, 401, 403, 404, 405, 410, 422] {
        let mut client = Client::relistening();
        let (mut call, pen) = client.subscribed().await;
        drop(pen);
        client.inbox.next().await.status(status, None);
        assert_eq!(call.failure().await.status().unwrap(), status);
        client.inbox.assert_silent("refused").await;
    }
    let mut client = Client::relistening();
    let (mut call, pen) = client.subscribed().await;
    drop(pen);
    client.inbox.next().await.status(401, Some(("www-authenticate", "Bearer")));
    assert_eq!(call.failure().await.challenges().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_cannot_be_read_ends_it() {
    for (content_type, text) in
        [("text/html", "<p>"), ("application/json", "{"), ("text/event-stream", "data: {\n\n")]
    {
        let mut client = Client::relistening();
        let (mut call, pen) = client.subscribed().await;
        drop(pen);
        client.inbox.next().await.answer(200, content_type, text);
        call.failure().await;
        client.inbox.assert_silent(content_type).await;
    }
}

#[tokio::test(start_paused = true)]
async fn its_deadline_ends_it_while_its_stream_is_open() {
    let mut client = Client::relistening();
    let (mut call, sent) = client.send(listen().with(Deadline::within(secs(60)))).await;
    let start = sent.at;
    let pen = acknowledge(sent);
    call.message().await;
    let error = call.failure().await;
    assert_eq!(error.find::<TimedOut>().unwrap().knob(), "Deadline");
    assert_eq!(start.elapsed(), secs(60));
    assert!(pen.watch().is_dropped());
    client.inbox.assert_silent("too late").await;

    // It is one deadline, however often it is opened.
    let mut client = Client::relistening();
    let (mut call, sent) = client.send(listen().with(Deadline::within(secs(60)))).await;
    let start = sent.at;
    acknowledge(sent);
    call.message().await;
    let _pen = acknowledge(client.inbox.next().await);
    call.message().await;
    assert!(call.failure().await.is_timeout());
    assert_eq!(start.elapsed(), secs(60));
    client.inbox.assert_silent("too late").await;
}
