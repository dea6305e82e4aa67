//! Checks of `subscriptions/listen`.

use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::StreamExt;
use http::Uri;
use mcp_streamable_http::options::Gap;
use mcp_streamable_http::{JsonRpcMessage, JsonRpcNotification, Reply, RequestId, StreamableHttp};
use mcp_streamable_http_interop::{Client, Relay};
use serde_json::{Value, json};

use crate::calls::method;
use crate::profile::Profile;
use crate::resuming::backoff;

pub(crate) async fn a_subscription_delivers(profile: &Profile) {
    let client = profile.connect().await;
    let filter = json!({ "toolsListChanged": true });
    let listen = client.request("subscriptions/listen", json!({ "notifications": filter }));
    let id = listen.id().cloned().unwrap();
    let mut reply = client.send(listen).await;

    let acknowledged = reply.next().await.unwrap().unwrap();
    is_of(&acknowledged, &id, "notifications/subscriptions/acknowledged");
    assert_eq!(params(&acknowledged)["notifications"], filter);
    for _ in 0..3 {
        client.tool("announce", json!({})).await;
        assert_eq!(method(&reply.next().await.unwrap().unwrap()), Some("notifications/tools/list_changed"));
    }
}

/// Dropping it closes the stream, which the server notices, and nothing else.
pub(crate) async fn a_subscription_ends_when_dropped(profile: &Profile) {
    let client = profile.connect().await;
    let (first, second) = (Subscription::begin(&client).await, Subscription::begin(&client).await);
    assert_eq!(first.touch(&client).await, 1);
    let Subscription { reply, uri, .. } = first;
    drop(reply);
    while touch(&client, &uri).await != 0 {}
    let mut second = second;
    assert_eq!(second.touch(&client).await, 1);
    second.hears_of_a_touch(false).await;
}

/// Unless it is asked for, a subscription whose stream breaks is not opened again.
pub(crate) async fn a_cut_subscription_fails(profile: &Profile) {
    let relay = Relay::to(&profile.server.uri()).await;
    let mut subscription = Subscription::begin(&Client::modern(relay.uri())).await;
    relay.cut().await;
    let error = subscription.reply.next().await.unwrap().unwrap_err();
    assert!(error.may_have_run(), "{error:?}");
    assert!(subscription.reply.next().await.is_none());
    assert_eq!(relay.calls_of("subscriptions/listen"), 1);
}

/// What the server says while the stream is broken is lost, and the application is told so; then it is live again.
pub(crate) async fn a_cut_subscription_is_opened_again(profile: &Profile) {
    let server = profile.connect().await;
    let relay = Relay::to(&profile.server.uri()).await;
    let client = relistening(relay.uri());
    let mut subscription = Subscription::begin(&client).await;
    for cut in 1..=3 {
        assert_eq!(subscription.touch(&server).await, 1);
        subscription.hears_of_a_touch(false).await;
        relay.cut_and_hold().await;
        // The server notices, and tells nobody of this.
        while subscription.touch(&server).await != 0 {}
        relay.release();
        subscription.is_acknowledged(true).await;
        assert_eq!(relay.calls_of("subscriptions/listen"), 1 + cut);
    }
    assert_eq!(subscription.touch(&server).await, 1);
    subscription.hears_of_a_touch(false).await;

    let Subscription { reply, uri, .. } = subscription;
    drop(reply);
    while touch(&server, &uri).await != 0 {}
    assert_eq!(relay.calls_of("subscriptions/listen"), 4);
}

/// A subscription to the changes of a resource that no other test knows.
struct Subscription {
    uri: String,
    id: RequestId,
    reply: Reply,
}

impl Subscription {
    /// Subscribes, and waits until that is acknowledged.
    async fn begin(client: &Client) -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let uri = format!("memo://{}", COUNT.fetch_add(1, Ordering::Relaxed));
        let filter = json!({ "resourceSubscriptions": [uri] });
        let listen = client.request("subscriptions/listen", json!({ "notifications": filter }));
        let id = listen.id().cloned().unwrap();
        let mut subscription = Self { uri, id, reply: client.send(listen).await };
        subscription.is_acknowledged(false).await;
        subscription
    }

    /// Changes the resource, and returns how many subscriptions there are to it.
    async fn touch(&self, client: &Client) -> i64 {
        touch(client, &self.uri).await
    }

    /// The next message is this, under the id of the subscription.
    async fn is_acknowledged(&mut self, is_after_gap: bool) {
        let params = self.next("notifications/subscriptions/acknowledged", is_after_gap).await;
        assert_eq!(params["notifications"]["resourceSubscriptions"], json!([self.uri]));
    }

    async fn hears_of_a_touch(&mut self, is_after_gap: bool) {
        let params = self.next("notifications/resources/updated", is_after_gap).await;
        assert_eq!(params["uri"], self.uri.as_str());
    }

    async fn next(&mut self, method: &str, is_after_gap: bool) -> Value {
        let message = self.reply.next().await.unwrap().unwrap();
        is_of(&message, &self.id, method);
        assert_eq!(message.extensions().get::<Gap>().is_some(), is_after_gap, "{method}");
        params(&message)
    }
}

fn relistening(uri: Uri) -> Client {
    let builder = StreamableHttp::builder(uri).relisten(true).backoff(backoff());
    Client::modern_over(builder.build().unwrap())
}

async fn touch(client: &Client, uri: &str) -> i64 {
    client.tool("touch", json!({ "uri": uri })).await.text.parse().unwrap()
}

/// A notification of the subscription with this id.
fn is_of(message: &JsonRpcMessage, id: &RequestId, expected: &str) {
    assert_eq!(method(message), Some(expected));
    let id: Value = serde_json::from_str(&id.to_string()).unwrap();
    assert_eq!(params(message)["_meta"]["io.modelcontextprotocol/subscriptionId"], id);
}

fn params(message: &JsonRpcMessage) -> Value {
    message.as_notification().and_then(JsonRpcNotification::params).unwrap().to().unwrap()
}
