//! Calls that are refused because their headers do not match the tool.

use mcp_streamable_http_layers::JsonRpcMessage;
use serde_json::{Value, json};

use super::*;

/// As the server writes it: it must come out like this.
pub(crate) const REFUSAL: &str = r#"{ "code" : -32020, "message":"Header mismatch","data":{"n":1.0} }"#;

/// A page of tools: `query` has these arguments in headers.
pub(crate) fn page(headers: &[(&str, &str)], next: Option<&str>) -> Value {
    let mut properties = json!({ "region": { "type": "string" }, "user": { "type": "string" } });
    for (argument, header) in headers {
        properties[argument]["x-mcp-header"] = json!(header);
    }
    let mut page = json!({ "tools": [{ "name": "query", "inputSchema": { "type": "object", "properties": properties } }] });
    if let Some(next) = next {
        page["nextCursor"] = json!(next);
    }
    page
}

pub(crate) fn tools(headers: &[(&str, &str)]) -> Value {
    page(headers, None)
}

impl Client {
    /// That has been told of these headers of `query`.
    fn knowing(headers: &[(&str, &str)]) -> Self {
        let client = Self::new();
        client.tools.learn(&tools(headers)["tools"][0]).unwrap();
        client
    }

    /// A call that has been refused, and the listing that is asked for.
    pub(crate) async fn refused(&mut self) -> (Call, Value, Arrived) {
        let (call, sent) = self.send(tool(7)).await;
        let first = sent.message.clone();
        sent.error(400, REFUSAL);
        let listing = self.inbox.next().await;
        assert_eq!(listing.method(), "tools/list");
        (call, first, listing)
    }
}

pub(crate) async fn assert_refused(call: &mut Call) {
    assert_eq!(call.response(7).await.outcome().unwrap_err().as_raw().as_str(), REFUSAL);
}

#[tokio::test(start_paused = true)]
async fn the_tools_are_listed_and_the_call_is_sent_with_the_new_headers() {
    for (before, after, region, user) in [
        (vec![], vec![("region", "Region")], Some("eu"), None),
        (vec![("region", "Region")], vec![("user", "User")], None, Some("u")),
        (vec![("region", "Region")], vec![("region", "Region"), ("user", "User")], Some("eu"), Some("u")),
        (vec![("region", "Region")], vec![], None, None),
        (vec![("region", "Region")], vec![("user", "Region")], Some("u"), None),
    ] {
        let mut client = Client::knowing(&before);
        let (mut call, first, listing) = client.refused().await;
        call.assert_waiting("the refusal is kept back").await;
        listing.result(&tools(&after));
        let again = client.inbox.again(&first).await;
        assert_eq!((again.header("mcp-param-region"), again.header("mcp-param-user")), (region, user));
        assert_eq!(
            (again.header("mcp-name"), again.header("mcp-method")),
            (Some("query"), Some("tools/call"))
        );
        again.result(&json!({ "rows": 1 }));
        // Neither the refusal nor the listing reach the application.
        call.result(7, &json!({ "rows": 1 })).await;
        client.inbox.assert_silent("answered").await;
    }
}

#[tokio::test(start_paused = true)]
async fn the_second_answer_may_be_a_stream() {
    let mut client = Client::new();
    let (mut call, _, listing) = client.refused().await;
    listing.result(&tools(&[("region", "Region")]));
    let again = client.inbox.next().await;
    let response = again.response(&json!({ "rows": 1 }));
    let pen = again.stream();
    pen.write(event(&progress(1)));
    assert_eq!(call.read().await, progress(1));
    pen.write(event(&response));
    call.result(7, &json!({ "rows": 1 })).await;
}

#[tokio::test(start_paused = true)]
async fn a_refusal_beside_the_status_200_is_one_too() {
    let mut client = Client::new();
    let (mut call, sent) = client.send(tool(7)).await;
    sent.error(200, REFUSAL);
    client.inbox.next().await.result(&tools(&[("region", "Region")]));
    client.inbox.next().await.result(&json!({}));
    call.result(7, &json!({})).await;
}

#[tokio::test(start_paused = true)]
async fn the_refusal_is_the_answer_if_the_headers_stay_the_same() {
    for known in [vec![], vec![("region", "Region")]] {
        let mut client = Client::knowing(&known);
        let (mut call, _, listing) = client.refused().await;
        listing.result(&tools(&known));
        assert_refused(&mut call).await;
        client.inbox.assert_silent("unchanged").await;
    }
    // What changes about an argument that the call does not have, or about another tool, changes no header.
    let mut client = Client::new();
    let (mut call, sent) =
        client.send(modern(7, "tools/call", json!({ "name": "other", "arguments": {} }))).await;
    sent.error(400, REFUSAL);
    client.inbox.next().await.result(&tools(&[("region", "Region")]));
    assert_refused(&mut call).await;
    client.inbox.assert_silent("another tool").await;
}

#[tokio::test(start_paused = true)]
async fn headers_that_the_caller_set_do_not_change() {
    let mut client = Client::new();
    let (mut call, sent) = client.send(tool(7).with(extra(&[("mcp-param-region", "eu")]))).await;
    sent.error(400, REFUSAL);
    client.inbox.next().await.result(&tools(&[("region", "Region")]));
    assert_refused(&mut call).await;
    client.inbox.assert_silent("the same headers").await;
}

#[tokio::test(start_paused = true)]
async fn the_refusal_is_the_answer_if_the_arguments_have_no_headers_then() {
    let mut client = Client::new();
    let params = json!({ "name": "query", "arguments": { "region": [1] } });
    let (mut call, sent) = client.send(modern(7, "tools/call", params)).await;
    sent.error(400, REFUSAL);
    client.inbox.next().await.result(&tools(&[("region", "Region")]));
    assert_refused(&mut call).await;
    client.inbox.assert_silent("it cannot be sent").await;
}

#[tokio::test(start_paused = true)]
async fn a_second_mismatch_is_the_answer() {
    let mut client = Client::new();
    let (mut call, _, listing) = client.refused().await;
    listing.result(&tools(&[("region", "Region")]));
    client.inbox.next().await.error(400, REFUSAL);
    assert_refused(&mut call).await;
    client.inbox.assert_silent("refused twice").await;
}

#[tokio::test(start_paused = true)]
async fn a_break_of_the_second_call_is_the_error() {
    for (how, breaks) in super::breaks::BREAKS {
        let mut client = Client::new();
        let (mut call, _, listing) = client.refused().await;
        listing.result(&tools(&[("region", "Region")]));
        breaks(client.inbox.next().await);
        let error = call.failure().await;
        assert_eq!(error.to_json_rpc().code(), -32000, "{how}");
        assert!(error.may_have_run(), "{how}");
        client.inbox.assert_silent(how).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_later_mismatch_is_another_reason_to_list() {
    let mut client = Client::new();
    for header in ["One", "Two", "Three"] {
        let (mut call, sent) = client.send(tool(header)).await;
        sent.error(400, REFUSAL);
        client.inbox.next().await.result(&tools(&[("region", header)]));
        let again = client.inbox.next().await;
        assert_eq!(again.header(&format!("mcp-param-{}", header.to_lowercase())), Some("eu"));
        again.result(&json!({}));
        call.result(header, &json!({})).await;
    }
}

#[tokio::test(start_paused = true)]
async fn mismatches_side_by_side_share_one_listing() {
    let mut client = Client::new();
    let mut calls = Vec::new();
    let mut refused = Vec::new();
    for id in 0..5 {
        let (call, sent) = client.send(tool(id)).await;
        calls.push(call);
        refused.push(sent);
    }
    refused.into_iter().for_each(|sent| sent.error(400, REFUSAL));
    let listing = client.inbox.next().await;
    assert_eq!(listing.method(), "tools/list");
    settle().await;
    listing.result(&tools(&[("region", "Region")]));
    for _ in 0..5 {
        let again = client.inbox.next().await;
        assert_eq!((again.method(), again.header("mcp-param-region")), ("tools/call", Some("eu")));
        again.result(&json!({}));
    }
    for (id, mut call) in (0..).zip(calls) {
        call.result(id, &json!({})).await;
    }
    client.inbox.assert_silent("answered").await;
}

#[tokio::test(start_paused = true)]
async fn a_listing_of_the_applications_own_will_do() {
    let mut client = Client::new();
    let (mut call, refused) = client.send(tool(7)).await;
    let (mut listing, sent) = client.send(modern(8, "tools/list", json!({}))).await;
    sent.result(&tools(&[("region", "Region")]));
    listing.result(8, &tools(&[("region", "Region")])).await;
    refused.error(400, REFUSAL);
    let again = client.inbox.next().await;
    assert_eq!((again.method(), again.header("mcp-param-region")), ("tools/call", Some("eu")));
    again.result(&json!({}));
    call.result(7, &json!({})).await;
}

#[tokio::test(start_paused = true)]
async fn nothing_else_is_refused_like_that() {
    let legacy = json!({ "name": "query", "_meta": { VERSION: LEGACY } });
    for (message, code) in [
        (modern(7, "prompts/get", json!({ "name": "query" })), -32020),
        (modern(7, "tools/list", json!({})), -32020),
        (JsonRpcMessage::request(7, "tools/call", legacy), -32020),
        (tool(7), -32021),
        (tool(7), -32022),
        (tool(7), -32602),
    ] {
        let why = format!("{code}: {message}");
        let mut client = Client::new();
        let (mut call, sent) = client.send(message).await;
        let error = format!(r#"{{"code":{code},"message":"no","data":[ 1 ]}}"#);
        sent.error(400, &error);
        assert_eq!(call.response(7).await.outcome().unwrap_err().as_raw().as_str(), error, "{why}");
        client.inbox.assert_silent(&why).await;
    }
}
