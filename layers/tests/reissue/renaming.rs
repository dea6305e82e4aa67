//! The ids that the caller sees are its own.

use mcp_streamable_http_layers::{JsonRpcMessage, RequestId};
use serde_json::{Value, json};

use super::subscriptions::*;
use super::*;

/// A subscription under this id that was opened again, and the id that it has at the server.
async fn reopened(client: &mut Client, id: impl Into<RequestId>) -> (Call, Pen, Value) {
    let listen = modern(id, "subscriptions/listen", json!({ "notifications": {} }));
    let (mut call, sent) = client.send(listen).await;
    let pen = acknowledge(sent);
    call.message().await;
    drop(pen);
    let again = client.inbox.next().await;
    let (ours, pen) = (again.id().clone(), acknowledge(again));
    (call, pen, ours)
}

#[tokio::test(start_paused = true)]
async fn they_are_in_every_message_of_a_subscription() {
    for (id, json) in [
        (RequestId::from(7), json!(7)),
        (RequestId::from("seven"), json!("seven")),
        (RequestId::from("\"\n\\"), json!("\"\n\\")),
        (RequestId::from(i64::MIN), json!(i64::MIN)),
    ] {
        let mut client = Client::relistening();
        let (mut call, pen, ours) = reopened(&mut client, id.clone()).await;
        assert_eq!(call.read().await, news(ACKNOWLEDGED, &json));
        for _ in 0..2 {
            pen.write(event(&news(CHANGED, &ours)));
            assert_eq!(call.read().await, news(CHANGED, &json));
        }
        let result =
            |id: &Value| json!({ "resultType": "complete", "_meta": { SUBSCRIPTION: id, "x": [1.0] } });
        pen.write(event(&json!({ "jsonrpc": "2.0", "id": ours, "result": result(&ours) })));
        call.result(id, &result(&json)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn they_are_whichever_time_it_is_opened() {
    let mut client = Client::relistening();
    let (mut call, mut pen, mut ours) = reopened(&mut client, 7).await;
    for _ in 0..5 {
        assert_eq!(call.read().await, news(ACKNOWLEDGED, &json!(7)));
        pen.write(event(&news(CHANGED, &ours)));
        assert_eq!(call.read().await, news(CHANGED, &json!(7)));
        drop(pen);
        let again = client.inbox.next().await;
        ours = again.id().clone();
        pen = acknowledge(again);
    }
}

#[tokio::test(start_paused = true)]
async fn they_are_in_the_servers_cancellation() {
    let mut client = Client::relistening();
    let (mut call, pen, ours) = reopened(&mut client, 7).await;
    call.message().await;
    let cancelled = |id: &Value| {
        let params = json!({ "requestId": id, "reason": "bye" });
        json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params })
    };
    pen.write(event(&cancelled(&ours)));
    assert_eq!(call.read().await, cancelled(&json!(7)));
}

#[tokio::test(start_paused = true)]
async fn nothing_else_is_changed() {
    let mut client = Client::relistening();
    let (mut call, pen, ours) = reopened(&mut client, 7).await;
    call.message().await;
    let ours = ours.to_string();
    for text in [
        // Ids of others, and places that are no id.
        r#"{"jsonrpc":"2.0","method":"m","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":"other"}}}"#.to_owned(),
        r#"{"jsonrpc":"2.0","method":"m","params":{"_meta":{ "io.modelcontextprotocol/subscriptionId" : 8 }, "n":1.0}}"#.to_owned(),
        format!(r#"{{"jsonrpc":"2.0","method":"m","params":{{"requestId":{ours},"subscriptionId":{ours}}}}}"#),
        format!(r#"{{"jsonrpc":"2.0","method":"m","params":{{"_meta":{{"x":{ours}}},"data":[{ours}]}}}}"#),
        r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"other"}}"#.to_owned(),
        r#"{"jsonrpc":"2.0","method":"m"}"#.to_owned(),
    ] {
        pen.write(format!("data: {text}\n\n"));
        assert_eq!(call.message().await.to_string(), text);
    }
    let text = format!(
        r#"{{"jsonrpc":"2.0","method":"m","params":{{ "a" : 1.0,"_meta":{{"b":2,"io.modelcontextprotocol/subscriptionId": {ours} }} }}}}"#
    );
    pen.write(format!("data: {text}\n\n"));
    assert_eq!(call.message().await.to_string(), text.replace(&ours, "7"));
}

#[tokio::test(start_paused = true)]
async fn a_request_that_is_sent_again_has_none_of_it_in_its_messages() {
    let mut client = Client::new();
    let (mut call, sent) = client.send(list(7)).await;
    sent.fail("reset");
    let again = client.inbox.next().await;
    let (ours, response) = (again.id().clone(), again.response(&json!({ "a": 1 })));
    let pen = again.stream();
    let cancelled = |id: &Value| json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": id } });
    pen.write(event(&cancelled(&ours)));
    assert_eq!(call.read().await, cancelled(&json!(7)));
    pen.write(event(&response));
    call.result(7, &json!({ "a": 1 })).await;
}

#[tokio::test(start_paused = true)]
async fn a_response_to_another_that_is_in_flight_is_not_this_ones() {
    let mut client = Client::new();
    let (mut call, sent) = client.send(list(7)).await;
    let (_other, _waits) = client.send(list(8)).await;
    sent.fail("reset");
    client.inbox.next().await.json(200, &json!({ "jsonrpc": "2.0", "id": 8, "result": {} }));
    let error = call.failure().await;
    assert!(error.find::<mcp_streamable_http_layers::error::ForeignResponse>().is_some(), "{error}");
}

#[test]
fn an_id_of_ours_is_a_string_with_a_prefix_of_its_own() {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    let id = runtime.block_on(async {
        let mut client = Client::new();
        let (_call, sent) = client.send(list(7)).await;
        sent.fail("reset");
        client.inbox.next().await.message["id"].clone()
    });
    assert!(id.as_str().unwrap().starts_with("mcp-streamable-http:"));
    assert!(JsonRpcMessage::decode(format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#)).is_ok());
}
