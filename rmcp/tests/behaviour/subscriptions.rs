//! `subscriptions/listen` of the modern era.

use rmcp::model::{ServerNotification, SubscriptionFilter};
use rmcp::service::{Subscription, SubscriptionEnd};
use serde_json::{Value, json};

use crate::common::*;
use crate::support::{Answer, Events, Server};

fn notification(events: &Events, method: &str, mut params: Value) -> Value {
    params["_meta"]["io.modelcontextprotocol/subscriptionId"] = events.seen.message["id"].clone();
    json!({ "jsonrpc": "2.0", "method": method, "params": params })
}

/// A client that has subscribed to changes of the list of tools, and has heard of one.
async fn subscribed(server: &mut Server) -> (Client, Subscription, Events) {
    let client = connect_modern(server).await;
    let peer = client.peer().clone();
    let subscribing =
        tokio::spawn(
            async move { peer.listen(SubscriptionFilter::builder().tools_list_changed().build()).await },
        );
    let events = server.expect("subscriptions/listen").await.open();
    let accepted = json!({ "notifications": { "toolsListChanged": true } });
    events.send(&notification(&events, "notifications/subscriptions/acknowledged", accepted));
    let mut subscription = soon(subscribing).await.unwrap().unwrap();
    events.send(&notification(&events, "notifications/tools/list_changed", json!({})));
    let heard = soon(subscription.next()).await.unwrap().unwrap();
    assert!(matches!(heard, ServerNotification::ToolListChangedNotification(_)));
    (client, subscription, events)
}

#[tokio::test(start_paused = true)]
async fn it_hears_on_its_own_stream_and_cancels_by_closing_it() {
    let mut server = either();
    let (_client, mut subscription, events) = subscribed(&mut server).await;
    soon(subscription.cancel()).await.unwrap();
    settle().await;
    assert!(events.is_dropped());
    assert_eq!(server.outline(), ["server/discover", "subscriptions/listen"]);
    assert_eq!(subscription.end(), Some(&SubscriptionEnd::Cancelled));
}

#[tokio::test(start_paused = true)]
async fn it_ends_when_the_server_ends_it() {
    let mut server = either();
    let (_client, mut subscription, events) = subscribed(&mut server).await;
    let meta = json!({ "io.modelcontextprotocol/subscriptionId": events.seen.message["id"] });
    events.result(json!({ "resultType": "complete", "_meta": meta }));
    assert!(soon(subscription.next()).await.unwrap().is_none());
    assert!(matches!(subscription.end(), Some(SubscriptionEnd::Graceful(_))), "{:?}", subscription.end());
}

#[tokio::test(start_paused = true)]
async fn it_ends_abruptly_when_its_stream_does() {
    let mut server = either();
    let (client, mut subscription, events) = subscribed(&mut server).await;
    drop(events);
    assert!(soon(subscription.next()).await.unwrap().is_none());
    assert_eq!(subscription.end(), Some(&SubscriptionEnd::Abrupt));
    // The rest goes on.
    let calling = call(&client, "add");
    server.expect("tools/call").await.result(said("3"));
    assert_eq!(came_to(calling).await.unwrap(), "3");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn what_came_before_the_end_is_heard_before_it() {
    let mut server = either();
    for _ in 0..100 {
        let (_client, mut subscription, events) = subscribed(&mut server).await;
        for _ in 0..10 {
            events.send(&notification(&events, "notifications/tools/list_changed", json!({})));
        }
        drop(events);
        for _ in 0..10 {
            soon(subscription.next()).await.unwrap().unwrap();
        }
        assert!(soon(subscription.next()).await.unwrap().is_none());
        assert_eq!(subscription.end(), Some(&SubscriptionEnd::Abrupt));
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_refuses_it_says_why() {
    let mut server = either();
    let client = connect_modern(&server).await;
    for answer in [Answer::status(500), Answer::of(200, "text/html", "<html>"), Answer::broken()] {
        let peer = client.peer().clone();
        let subscribing = tokio::spawn(async move {
            peer.listen(SubscriptionFilter::builder().tools_list_changed().build()).await
        });
        server.expect("subscriptions/listen").await.answer(answer);
        cause(&soon(subscribing).await.unwrap().unwrap_err());
    }
}
