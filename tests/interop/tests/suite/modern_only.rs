//! Checks of the revision 2026-07-28.

use http::{HeaderMap, HeaderName, HeaderValue};
use mcp_streamable_http::options::ExtraHeaders;
use mcp_streamable_http::{Era as Protocol, JsonRpcMessage};
use mcp_streamable_http_interop::{Client, ToolResult};
use serde_json::{Value, json};

use crate::calls::prompt;
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
    for header in ["mcp-method", "mcp-name", "mcp-param-region"] {
        let call = client.request("tools/call", json!({ "name": "locate", "arguments": { "region": "eu" } }));
        let reply = client.send(with_header(call, header, "other")).await;
        assert_eq!(reply.response().await.unwrap().outcome().unwrap_err().code(), -32020, "{header}");
    }
}

pub(crate) async fn a_parameter_in_a_header(profile: &Profile) {
    let client = profile.connect().await;
    let result = client.tool("locate", json!({ "region": "eu" })).await;
    assert_eq!(result, ToolResult { text: "located in eu".into(), is_error: false });
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
