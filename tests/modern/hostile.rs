//! Text that would be more than one header, if it were let.

use mcp_streamable_http::options::Idempotent;
use mcp_streamable_http::{JsonRpcMessage, ToolHeaders};
use serde_json::{Value, json};

use crate::asked::*;
use crate::common::*;
use crate::support::*;

/// Texts, and the forms in which they may stand in a header.
const TEXTS: [(&str, &str); 7] = [
    ("a\r\nx-evil: 1", "=?base64?YQ0KeC1ldmlsOiAx?="),
    ("a\nb", "=?base64?YQpi?="),
    ("\r", "=?base64?DQ==?="),
    ("a\0b", "=?base64?YQBi?="),
    ("\u{7f}", "=?base64?fw==?="),
    (" a", "=?base64?IGE=?="),
    ("a ", "=?base64?YSA=?="),
];

/// The only request so far: it has no header that is none of ours, and says what `message` says.
fn only(server: &Server, message: &Value) -> Seen {
    let [seen] = &server.seen()[..] else { panic!("{:?}", server.outline()) };
    assert_eq!(&seen.message, message);
    for (name, value) in &seen.headers {
        assert!(!name.as_str().contains("evil"), "{name}");
        assert!(!value.as_bytes().iter().any(|byte| b"\r\n\0".contains(byte)), "{name}");
    }
    seen.clone()
}

fn json_of(message: &JsonRpcMessage) -> Value {
    serde_json::from_slice(&message.encode()).unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_name_is_encoded() {
    for (text, encoded) in TEXTS {
        for (method, member) in [
            ("tools/call", "name"),
            ("prompts/get", "name"),
            ("resources/read", "uri"),
            ("tasks/get", "taskId"),
            ("tasks/update", "taskId"),
            ("tasks/cancel", "taskId"),
        ] {
            let server = Server::scripted(chatty);
            let message = stamped(1, method, json!({ member: text }));
            let sent = json_of(&message);
            ask(&plain(&server), message).await.unwrap();
            assert_eq!(only(&server, &sent).header("mcp-name"), Some(encoded), "{method} {text:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_method_is_refused() {
    for method in ["tools/call\r\nx-evil: 1", "a\nb", "\r", "a\0b", "\u{7f}", "tööls"] {
        let server = Server::scripted(chatty);
        let transport = plain(&server);
        ask(&transport, tool(0)).await.unwrap();
        let request =
            JsonRpcMessage::request(1, method.to_owned(), json!({ "_meta": meta() })).with(Idempotent);
        for message in [request, JsonRpcMessage::notification(method.to_owned(), ())] {
            let error = post(&transport, message).await.unwrap_err();
            assert!(!error.may_have_run(), "{method:?}: {error}");
        }
        assert_eq!(server.outline(), ["tools/call"], "{method:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_version_is_refused() {
    for version in ["2026-07-28\r\nx-evil: 1", "\n", "", "2026\u{0}", "vérsion"] {
        let server = Server::scripted(chatty);
        let transport = plain(&server);
        let call =
            JsonRpcMessage::request(1, "tools/call", json!({ "name": "add", "_meta": { KEY: version } }));
        assert!(!post(&transport, call).await.unwrap_err().may_have_run(), "{version:?}");
        assert!(in_time(transport.probe(json!({ KEY: version }))).await.is_err(), "{version:?}");
        assert!(server.seen().is_empty(), "{version:?}");
    }
}

fn annotated(header: &str) -> Value {
    let properties = json!({ "v": { "type": "string", "x-mcp-header": header } });
    json!({ "name": "add", "inputSchema": { "type": "object", "properties": properties } })
}

#[tokio::test(start_paused = true)]
async fn an_argument_is_encoded() {
    for (text, encoded) in TEXTS {
        let tools = ToolHeaders::new();
        tools.learn(&annotated("V")).unwrap();
        let server = Server::scripted(chatty);
        let transport = connect(&server, "/mcp", |builder| builder.tool_headers(tools));
        let message = stamped(1, "tools/call", json!({ "name": "add", "arguments": { "v": text } }));
        let sent = json_of(&message);
        ask(&transport, message).await.unwrap();
        assert_eq!(only(&server, &sent).header("mcp-param-v"), Some(encoded), "{text:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_cannot_choose_what_is_no_name_of_a_header() {
    for header in ["V\r\nx-evil: 1", "\n", "a b", "a:", "", "ü"] {
        let server = Server::scripted(move |seen| match seen.what() {
            "tools/list" => Some(Answer::json(&seen.result(json!({ "tools": [annotated(header)] })))),
            _ => chatty(seen),
        });
        let transport = plain(&server);
        let listed = ask(&transport, stamped(1, "tools/list", json!({}))).await.unwrap();
        assert_eq!(listed.result::<Value>().unwrap(), json!({ "tools": [] }), "{header:?}");
        ask(&transport, stamped(2, "tools/call", json!({ "name": "add", "arguments": { "v": "x" } })))
            .await
            .unwrap();
        let call = server.seen().pop().unwrap();
        assert!(call.headers.keys().all(|name| !name.as_str().starts_with("mcp-param")), "{header:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_legacy_era_has_none_of_these_headers() {
    let server = Server::scripted(|seen| Some(Answer::json(&seen.result(json!({})))));
    let transport = plain(&server);
    let call = JsonRpcMessage::request(1, "tools/call", json!({ "name": "a\r\nx-evil: 1" }));
    let sent = json_of(&call);
    ask(&transport, call).await.unwrap();
    assert_eq!(only(&server, &sent).header("mcp-name"), None);
}
