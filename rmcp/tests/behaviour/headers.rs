//! Headers that rmcp knows nothing of.

use http::{HeaderMap, HeaderValue};
use mcp_streamable_http::StreamableHttp;
use mcp_streamable_http_rmcp::IntoRmcp;
use rmcp::ServiceExt;
use rmcp::model::CallToolRequestParams;
use serde_json::{Value, json};

use crate::common::*;

#[tokio::test(start_paused = true)]
async fn those_of_the_user_are_in_every_request() {
    let mut server = either();
    let mine = HeaderMap::from_iter([("x-tenant".parse().unwrap(), HeaderValue::from_static("a"))]);
    let uri = "http://in.memory/mcp".parse().unwrap();
    let transport = StreamableHttp::with_client(uri, server.wire()).headers(mine).build().unwrap();
    let client = soon(().serve(transport.into_rmcp())).await.unwrap();
    let calling = call(&client, "add");
    server.expect("tools/call").await.result(said("3"));
    came_to(calling).await.unwrap();
    client.cancel().await.unwrap();
    let seen = server.seen();
    assert_eq!(seen.len(), 5);
    assert!(seen.iter().all(|seen| seen.header("x-tenant") == Some("a")));
}

fn tool(name: &str, header: Value) -> Value {
    let region = json!({ "type": "string", "x-mcp-header": header });
    let schema = json!({ "type": "object", "properties": { "region": region } });
    json!({ "name": name, "inputSchema": schema })
}

#[tokio::test(start_paused = true)]
async fn arguments_are_mirrored_and_tools_that_ask_for_the_impossible_are_left_out() {
    let mut server = either();
    let client = connect_modern(&server).await;
    let peer = client.peer().clone();
    let listing = tokio::spawn(async move { peer.list_tools(None).await });
    let tools = [tool("good", json!("Region")), tool("bad", json!("")), tool("worse", json!("a b"))];
    server
        .expect("tools/list")
        .await
        .result(json!({ "resultType": "complete", "tools": tools, "ttlMs": 0, "cacheScope": "private" }));
    let tools = soon(listing).await.unwrap().unwrap().tools;
    assert_eq!(tools.iter().map(|tool| &*tool.name).collect::<Vec<_>>(), ["good"]);

    let peer = client.peer().clone();
    let mut params = CallToolRequestParams::new("good");
    params.arguments = json!({ "region": "Zürich" }).as_object().cloned();
    let calling = tokio::spawn(async move { peer.call_tool(params).await });
    let called = server.expect("tools/call").await;
    assert_eq!(called.seen.header("mcp-param-region"), Some("=?base64?WsO8cmljaA==?="));
    called.result(said("3"));
    soon(calling).await.unwrap().unwrap();
}
