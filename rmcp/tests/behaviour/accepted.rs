//! Notifications and replies.

use std::time::Duration;

use rmcp::service::ServiceError;
use serde_json::json;

use crate::common::*;
use crate::support::Answer;

#[tokio::test(start_paused = true)]
async fn a_notification_is_through_when_the_server_has_taken_it() {
    let mut server = either();
    let client = connect(&server).await;
    for answer in [
        Answer::status(202),
        Answer::status(204),
        Answer::status(200),
        Answer::of(200, "text/plain", "ok"),
        Answer::of(200, "application/json", r#"{"jsonrpc":"2.0","result":{}}"#),
    ] {
        let peer = client.peer().clone();
        let notifying = tokio::spawn(async move { peer.notify_roots_list_changed().await });
        let posted = server.expect("notifications/roots/list_changed").await;
        settle().await;
        assert!(!notifying.is_finished());
        posted.answer(answer);
        soon(notifying).await.unwrap().unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn one_that_is_refused_is_an_error() {
    let mut server = either();
    let client = connect(&server).await;
    let peer = client.peer().clone();
    let notifying = tokio::spawn(async move { peer.notify_roots_list_changed().await });
    server.expect("notifications/roots/list_changed").await.answer(Answer::status(500));
    let error = soon(notifying).await.unwrap().unwrap_err();
    assert_eq!(cause(&error).status().unwrap().as_u16(), 500);
    assert!(matches!(error, ServiceError::TransportSend(_)));
}

#[tokio::test(start_paused = true)]
async fn one_that_hangs_holds_up_no_call_and_the_next_only_for_a_while() {
    let mut server = either();
    let client = connect(&server).await;
    let first = client.peer().clone();
    let first = tokio::spawn(async move { first.notify_roots_list_changed().await });
    let hanging = server.expect("notifications/roots/list_changed").await;
    let second = client.peer().clone();
    let second = tokio::spawn(async move { second.notify_roots_list_changed().await });
    let calling = call(&client, "add");
    server.expect("tools/call").await.result(said("3"));
    assert_eq!(came_to(calling).await.unwrap(), "3");
    tokio::time::sleep(Duration::from_secs(6)).await;
    server.expect("notifications/roots/list_changed").await.accept();
    soon(second).await.unwrap().unwrap();
    assert!(!first.is_finished());
    hanging.accept();
    soon(first).await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_request_that_cannot_be_read_is_refused() {
    let mut server = either();
    let client = connect(&server).await;
    let calling = call(&client, "add");
    let events = server.expect("tools/call").await.open();
    events.send(&json!({ "jsonrpc": "2.0", "id": 1.5, "method": "ping" }));
    let refused = server.expect("=").await;
    assert_eq!(refused.seen.message["id"], json!(1.5));
    assert_eq!(refused.seen.message["error"]["code"], -32600);
    refused.accept();
    events.result(said("3"));
    assert_eq!(came_to(calling).await.unwrap(), "3");
}
