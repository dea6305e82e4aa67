//! Checks of the revision 2026-07-28.

use futures_util::StreamExt;
use http::{HeaderMap, HeaderName, HeaderValue};
use mcp_streamable_http::options::ExtraHeaders;
use mcp_streamable_http::{Era as Protocol, JsonRpcMessage, JsonRpcNotification};
use mcp_streamable_http_interop::{Client, ToolResult};
use serde_json::{Value, json};

use crate::calls::{method, prompt};
use crate::profile::{Exchange, Profile};

pub(crate) async fn discovers(profile: &Profile) {
    let client = profile.connect().await;
    let result = client.call("server/discover", json!({})).await;
    assert_eq!(result["supportedVersions"], json!(["2026-07-28"]));
    assert_eq!(result["_meta"]["io.modelcontextprotocol/serverInfo"]["name"], profile.name);
    let session = client.transport().session();
    assert_eq!((session.era(), session.id()), (Protocol::Modern, None));
    assert_eq!(session.version().unwrap().as_str(), "2026-07-28");
}

/// The server compares `Mcp-Name` with the body, so these arrive only if they are encoded as it decodes them.
pub(crate) async fn awkward_tool_names(profile: &Profile) {
    let client = profile.connect().await;
    for name in ["grüße", " padded ", "=?base64?ZWNobw==?="] {
        let result = client.tool(name, json!({ "text": name })).await;
        assert_eq!(result, ToolResult { text: name.into(), is_error: false });
    }
}

pub(crate) async fn awkward_and_plain_prompt_names(profile: &Profile) {
    let client = profile.connect().await;
    for (name, text) in [("greet", "Say hello to Ada."), ("begrüßen", "Sage Ada guten Tag.")] {
        let arguments = json!({ "name": "Ada" });
        prompt(&client, &Exchange { name, arguments, text: text.into() }).await;
    }
}

/// What the other checks rest on: a header that does not agree with the body is refused.
pub(crate) async fn headers_are_validated(profile: &Profile) {
    let client = profile.connect().await;
    for header in ["mcp-method", "mcp-name"] {
        let call = client.request("tools/call", json!({ "name": "echo", "arguments": { "text": "x" } }));
        let reply = client.send(with_header(call, header, "other")).await;
        assert_eq!(reply.response().await.unwrap().outcome().unwrap_err().code(), -32020, "{header}");
    }
}

pub(crate) async fn a_parameter_in_a_header(profile: &Profile) {
    let client = profile.connect().await;
    let call = client.request("tools/call", json!({ "name": "locate", "arguments": { "region": "eu" } }));
    let reply = client.send(with_header(call, "mcp-param-region", "eu")).await;
    let result = ToolResult::read(&reply.response().await.unwrap().result().unwrap());
    assert_eq!(result.text, "located in eu");
}

pub(crate) async fn a_subscription_delivers(profile: &Profile) {
    let client = profile.connect().await;
    let filter = json!({ "toolsListChanged": true });
    let listen = client.request("subscriptions/listen", json!({ "notifications": filter }));
    let id: Value = serde_json::from_str(&listen.id().unwrap().to_string()).unwrap();
    let mut reply = client.send(listen).await;

    let acknowledged = reply.next().await.unwrap().unwrap();
    assert_eq!(method(&acknowledged), Some("notifications/subscriptions/acknowledged"));
    let params = params(&acknowledged);
    assert_eq!(params["notifications"], filter);
    assert_eq!(params["_meta"]["io.modelcontextprotocol/subscriptionId"], id);

    for _ in 0..3 {
        client.tool("announce", json!({})).await;
        assert_eq!(method(&reply.next().await.unwrap().unwrap()), Some("notifications/tools/list_changed"));
    }
    // Dropping it closes the stream, and nothing else.
    drop(reply);
    assert_eq!(client.tool("announce", json!({})).await.text, "announced");
}

/// A client of the legacy era learns what the server speaks instead.
pub(crate) async fn the_handshake_is_refused(profile: &Profile) {
    let client = Client::legacy(profile.server.uri());
    let params = json!({
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": { "name": "interop", "version": "1.0" },
    });
    let error = client.refused("initialize", params).await;
    assert_eq!(error.code(), -32022);
    let data: Value = error.data().unwrap().to().unwrap();
    assert_eq!(data["supported"], json!(["2026-07-28"]));
    assert!(client.transport().session().handshake().is_none());
}

fn with_header(message: JsonRpcMessage, name: &'static str, value: &'static str) -> JsonRpcMessage {
    let header = (HeaderName::from_static(name), HeaderValue::from_static(value));
    message.with(ExtraHeaders(HeaderMap::from_iter([header])))
}

fn params(message: &JsonRpcMessage) -> Value {
    message.as_notification().and_then(JsonRpcNotification::params).unwrap().to().unwrap()
}
