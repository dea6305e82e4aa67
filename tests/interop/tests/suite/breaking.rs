//! Checks of connections that break in the middle of a modern request, of which nothing can be taken up again.

use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::StreamExt;
use mcp_streamable_http::options::Idempotent;
use mcp_streamable_http::{
    Builder, Client as DefaultClient, Error, JsonRpcResponse, Reply, RequestId, StreamableHttp,
};
use mcp_streamable_http_interop::{Client, Relay, ToolResult};
use serde_json::{Value, json};

use crate::profile::Profile;
use crate::resuming::Trip;

/// The server may have acted on it, so it is for the caller to decide. The server notices that nobody is there.
pub(crate) async fn a_cut_call_fails(profile: &Profile) {
    let relay = Relay::to(&profile.server.uri()).await;
    let client = Client::modern(relay.uri());
    let mut trip = Trip::begin(&client, false).await;
    trip.reports_of(0).await;
    relay.cut().await;
    let error = trip.reply.next().await.unwrap().unwrap_err();
    assert!(error.may_have_run(), "{error:?}");
    assert!(trip.reply.next().await.is_none());
    assert_eq!(relay.calls_of("tools/call"), 1);
    assert_eq!(client.tool("echo", json!({ "text": "hello" })).await.text, "hello");
}

/// The same where the server has not begun to answer.
pub(crate) async fn a_cut_call_without_a_head_fails(profile: &Profile) {
    let server = profile.connect().await;
    let relay = Relay::to(&profile.server.uri()).await;
    let client = Client::modern(relay.uri());
    let name = name();
    let call = json!({ "name": "linger", "arguments": { "name": name } });
    let cutting = async {
        while fate(&server, &name).await != "running" {}
        relay.cut().await;
        while fate(&server, &name).await != "cancelled" {}
    };
    let (outcome, ()) = tokio::join!(client.try_call("tools/call", call), cutting);
    let error = outcome.unwrap_err();
    assert!(error.may_have_run(), "{error:?}");
    assert_eq!(relay.calls_of("tools/call"), 1);
}

/// What does no harm twice is asked for once more: the caller sees what it has seen before again, and one answer.
pub(crate) async fn a_cut_prompt_is_asked_for_again(profile: &Profile) {
    let mut errand = Errand::begin(profile, 1, |builder| builder).await;
    assert_eq!(errand.report().await, 1.0);
    errand.relay.cut().await;
    assert_eq!(errand.report().await, 2.0);
    let answer = errand.reply.next().await.unwrap().unwrap();
    let answer = answer.as_response().unwrap();
    assert_eq!(answer.id(), Some(&errand.id));
    assert_eq!(text(answer), "call 2 is done");
    assert!(errand.reply.next().await.is_none());
    assert_eq!(errand.relay.calls_of("prompts/get"), 2);
}

/// Once, and not more often.
pub(crate) async fn a_prompt_that_is_cut_twice_fails(profile: &Profile) {
    let mut errand = Errand::begin(profile, 2, |builder| builder).await;
    for number in [1.0, 2.0] {
        assert_eq!(errand.report().await, number);
        errand.relay.cut().await;
    }
    assert!(errand.fails().await.may_have_run());
    assert_eq!(errand.relay.calls_of("prompts/get"), 2);
}

pub(crate) async fn a_cut_prompt_fails_if_so_wanted(profile: &Profile) {
    let mut errand = Errand::begin(profile, 1, |builder| builder.repeat_broken(false)).await;
    assert_eq!(errand.report().await, 1.0);
    errand.relay.cut().await;
    assert!(errand.fails().await.may_have_run());
    assert_eq!(errand.relay.calls_of("prompts/get"), 1);
}

/// Before the server has begun to answer.
pub(crate) async fn a_cut_prompt_without_a_head_is_asked_for_again(profile: &Profile) {
    let server = profile.connect().await;
    let relay = Relay::to(&profile.server.uri()).await;
    let client = Client::modern(relay.uri());
    let name = name();
    let cutting = async {
        while fate(&server, &name).await != "call 1" {}
        relay.cut().await;
    };
    let (outcome, ()) = tokio::join!(client.try_call("prompts/get", errand(&name, 1)), cutting);
    assert_eq!(text(&outcome.unwrap()), "call 2 is done");
    assert_eq!(relay.calls_of("prompts/get"), 2);
}

/// A prompt that reports progress, and is answered only when it has been lost so often.
struct Errand {
    relay: Relay,
    id: RequestId,
    reply: Reply,
}

impl Errand {
    async fn begin(
        profile: &Profile,
        losses: usize,
        options: impl FnOnce(Builder<DefaultClient>) -> Builder<DefaultClient>,
    ) -> Self {
        let relay = Relay::to(&profile.server.uri()).await;
        let transport = options(StreamableHttp::builder(relay.uri())).build().unwrap();
        let client = Client::modern_over(transport);
        let mut params = errand(&name(), losses);
        params["_meta"] = json!({ "progressToken": "t" });
        let request = client.request("prompts/get", params);
        let id = request.id().cloned().unwrap();
        Self { relay, id, reply: client.send(request).await }
    }

    /// The number in the report that comes next.
    async fn report(&mut self) -> f64 {
        let report = self.reply.next().await.unwrap().unwrap();
        let report = report.as_notification().unwrap();
        assert_eq!(report.method(), "notifications/progress");
        let params: Value = report.params().unwrap().to().unwrap();
        assert_eq!(params["progressToken"], "t");
        params["progress"].as_f64().unwrap()
    }

    /// The error that comes next, and last.
    async fn fails(&mut self) -> Error {
        let error = self.reply.next().await.unwrap().unwrap_err();
        assert!(self.reply.next().await.is_none());
        error
    }
}

fn errand(name: &str, losses: usize) -> Value {
    json!({ "name": "errand", "arguments": { "name": name, "losses": losses.to_string() } })
}

fn text(answer: &JsonRpcResponse) -> String {
    let result: Value = answer.clone().result().unwrap();
    result["messages"][0]["content"]["text"].as_str().unwrap().into()
}

/// One that no other test has.
fn name() -> String {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    format!("break {}", COUNT.fetch_add(1, Ordering::Relaxed))
}

async fn fate(client: &Client, name: &str) -> String {
    client.tool("fate", json!({ "name": name })).await.text
}

/// What the caller says does no harm twice is made once more, too.
pub(crate) async fn a_cut_call_that_may_be_repeated_is_made_again(profile: &Profile) {
    let relay = Relay::to(&profile.server.uri()).await;
    let client = Client::modern(relay.uri());
    let mut call = errand(&name(), 1);
    call["_meta"] = json!({ "progressToken": "t" });
    let mut reply = client.send(client.request("tools/call", call).with(Idempotent)).await;
    reply.next().await.unwrap().unwrap();
    relay.cut().await;
    let answer = reply.response().await.unwrap();
    assert_eq!(ToolResult::read(&answer.result().unwrap()).text, "call 2 is done");
    assert_eq!(relay.calls_of("tools/call"), 2);
}
