//! Checks that every server passes.

use futures_util::StreamExt;
use futures_util::future::join_all;
use mcp_streamable_http::{JsonRpcMessage, JsonRpcNotification};
use mcp_streamable_http_interop::{Client, ToolResult};
use serde_json::{Value, json};

use crate::profile::{Exchange, Profile};

pub(crate) async fn tools_are_listed(profile: &Profile) {
    let client = profile.connect().await;
    let list = client.call("tools/list", json!({})).await;
    let names: Vec<_> = list["tools"].as_array().unwrap().iter().map(|tool| &tool["name"]).collect();
    for tool in profile.tools {
        assert!(names.iter().any(|name| *name == tool), "{tool:?} is not in {names:?}");
    }
}

pub(crate) async fn echo_echoes(profile: &Profile) {
    let client = profile.connect().await;
    let long = "x".repeat(100_000);
    for text in
        ["hello", "Grüße, 世界 🦀", "two\nlines\r\n\ndata: {}", "\u{2028}\u{85}\u{0} \" \\", "", &long]
    {
        exchange(&client, &(profile.echo)(text)).await;
    }
}

pub(crate) async fn numbers_add_up(profile: &Profile) {
    exchange(&profile.connect().await, &(profile.add)()).await;
}

pub(crate) async fn progress_comes_first(profile: &Profile) {
    with_progress(&profile.connect().await, profile, json!("a token")).await;
}

pub(crate) async fn an_unknown_tool_fails(profile: &Profile) {
    let client = profile.connect().await;
    let result = client.tool("zzz", json!({})).await;
    assert_eq!(result, ToolResult { text: profile.unknown_tool.into(), is_error: true });
}

pub(crate) async fn an_unknown_method_is_refused(profile: &Profile) {
    let client = profile.connect().await;
    let error = client.refused("zzz/unknown", json!({})).await;
    assert_eq!((error.code(), error.message()), (-32601, "Method not found"));
    // It was this one request that failed.
    exchange(&client, &(profile.echo)("still here")).await;
}

pub(crate) async fn a_resource_is_read(profile: &Profile) {
    let client = profile.connect().await;
    let (uri, beginning) = profile.resource;
    let result = client.call("resources/read", json!({ "uri": uri })).await;
    let text = result["contents"][0]["text"].as_str().unwrap();
    assert!(text.starts_with(beginning), "{text}");
}

pub(crate) async fn a_prompt_is_rendered(profile: &Profile) {
    prompt(&profile.connect().await, &(profile.prompt)()).await;
}

pub(crate) async fn many_calls_at_once(profile: &Profile) {
    let client = profile.connect().await;
    let slow = join_all((0..8).map(|token| with_progress(&client, profile, json!(token))));
    let quick = join_all((0..16).map(|n| {
        let client = &client;
        async move { exchange(client, &(profile.echo)(&format!("call {n}"))).await }
    }));
    futures_util::future::join(slow, quick).await;
}

/// Calls a tool, which must answer with the text of `exchange`.
pub(crate) async fn exchange(client: &Client, exchange: &Exchange) {
    let result = client.tool(exchange.name, exchange.arguments.clone()).await;
    assert_eq!(result, ToolResult { text: exchange.text.clone(), is_error: false });
}

/// Gets a prompt, which must have the text of `exchange`.
pub(crate) async fn prompt(client: &Client, exchange: &Exchange) {
    let params = json!({ "name": exchange.name, "arguments": exchange.arguments });
    let result = client.call("prompts/get", params).await;
    assert_eq!(result["messages"][0]["content"]["text"], exchange.text.as_str());
}

/// Calls the slow tool: its reports come in order, and are this call's own; then comes the result, which is the last.
pub(crate) async fn with_progress(client: &Client, profile: &Profile, token: Value) {
    let slow = (profile.slow)();
    let request = client.request(
        "tools/call",
        json!({ "name": slow.name, "arguments": slow.arguments, "_meta": { "progressToken": token } }),
    );
    let id = request.id().cloned();
    let mut items: Vec<_> = StreamExt::map(client.send(request).await, Result::unwrap).collect().await;

    let response = items.pop().unwrap();
    assert_eq!(response.id(), id.as_ref());
    let result = response.as_response().unwrap().result().unwrap();
    assert_eq!(ToolResult::read(&result), ToolResult { text: slow.text, is_error: false });

    let reports: Vec<_> = items.iter().map(report).collect();
    let expected: Vec<_> = (1..=profile.reports).map(|step| (token.clone(), step as f64)).collect();
    assert_eq!(reports, expected);
}

/// The token and the progress of a report.
fn report(message: &JsonRpcMessage) -> (Value, f64) {
    let report = message.as_notification().unwrap();
    assert_eq!(report.method(), "notifications/progress");
    let params: Value = report.params().unwrap().to().unwrap();
    assert_eq!(params["total"].as_f64(), Some(3.0));
    (params["progressToken"].clone(), params["progress"].as_f64().unwrap())
}

/// The method of a notification.
pub(crate) fn method(message: &JsonRpcMessage) -> Option<&str> {
    message.as_notification().map(JsonRpcNotification::method)
}
