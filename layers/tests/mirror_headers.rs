//! Mirrored headers: what of a modern message is repeated in its HTTP headers, and how.

#![allow(clippy::unwrap_used)]

mod common;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use common::*;
use http::{HeaderMap, HeaderName, Request, Response};
use mcp_streamable_http_layers::error::InvalidMessage;
use mcp_streamable_http_layers::headers::{MCP_METHOD, MCP_NAME, MCP_PROTOCOL_VERSION};
use mcp_streamable_http_layers::{
    Events, JsonRpcMessage, MirrorHeaders, MirrorHeadersLayer, Payload, RawJson,
};
use proptest::prelude::*;
use serde_json::json;
use tower::Layer;
use tower_test::mock;

type Mirrored = MirrorHeaders<mock::Mock<Request<Payload>, Response<Events>>>;

fn mirrored() -> (Mirrored, Server<Request<Payload>, Response<Events>>) {
    let (mock, handle) = mock::pair();
    (MirrorHeadersLayer::new().layer(mock), Server(handle))
}

/// The headers that come out, under the version that was stamped outside.
fn headers_of(version: Option<&str>, mut request: Request<Payload>) -> HeaderMap {
    if let Some(version) = version {
        request.headers_mut().insert(MCP_PROTOCOL_VERSION, version.parse().unwrap());
    }
    let (mut service, mut server) = mirrored();
    let _sent = call(&mut service, request);
    server.received().0.headers().clone()
}

/// `mcp-method` and `mcp-name` of a message of the modern era.
fn modern(message: JsonRpcMessage) -> (Option<String>, Option<String>) {
    let headers = headers_of(Some("2026-07-28"), endpoint().post(message));
    let text = |name: HeaderName| headers.get(name).map(|value| value.to_str().unwrap().to_owned());
    (text(MCP_METHOD), text(MCP_NAME))
}

fn call_of(name: &str) -> JsonRpcMessage {
    JsonRpcMessage::request(1, "tools/call", json!({ "name": name }))
}

#[test]
fn every_modern_message_names_its_method_and_some_a_name() {
    let params = json!({ "name": "n", "uri": "file:///u", "taskId": "t", "arguments": { "name": "inner" } });
    for (method, name) in [
        ("tools/call", Some("n")),
        ("prompts/get", Some("n")),
        ("resources/read", Some("file:///u")),
        ("tasks/get", Some("t")),
        ("tasks/update", Some("t")),
        ("tasks/cancel", Some("t")),
        ("tasks/list", None),
        ("resources/subscribe", None),
        ("completion/complete", None),
        ("x-vendor/own method", None),
    ] {
        let headers = modern(JsonRpcMessage::request(1, method, params.clone()));
        assert_eq!(headers, (Some(method.into()), name.map(Into::into)), "{method}");
    }
    let (method, name) = modern(JsonRpcMessage::notification("notifications/progress", params));
    assert_eq!((method.as_deref(), name), (Some("notifications/progress"), None));
}

#[test]
fn a_name_that_is_missing_or_no_string_is_not_mirrored() {
    for params in
        [json!({}), json!({ "name": null }), json!({ "name": 1 }), json!({ "name": ["n"] }), json!([])]
    {
        let (method, name) = modern(JsonRpcMessage::request(1, "tools/call", params.clone()));
        assert_eq!((method.as_deref(), name), (Some("tools/call"), None), "{params}");
    }
    assert_eq!(modern(JsonRpcMessage::request(1, "tools/call", ())).1, None);
}

#[test]
fn outside_the_modern_era_nothing_is_added() {
    for version in [None, Some("2024-11-05"), Some("2025-03-26"), Some("2025-06-18"), Some("2025-11-25")] {
        let headers = headers_of(version, endpoint().post(call_of("n")));
        assert!(!headers.contains_key(MCP_METHOD) && !headers.contains_key(MCP_NAME), "{version:?}");
    }
    // A method that no header can carry is no reason to refuse it there.
    headers_of(Some("2025-11-25"), endpoint().post(JsonRpcMessage::request(1, "grüße", ())));
}

#[test]
fn a_version_that_is_not_known_yet_is_modern() {
    let headers = headers_of(Some("2031-01-01"), endpoint().post(call_of("n")));
    assert_eq!(
        (&headers[MCP_METHOD], &headers[MCP_NAME]),
        (&"tools/call".parse().unwrap(), &"n".parse().unwrap())
    );
}

#[test]
fn requests_without_a_message_mirror_nothing() {
    for request in [endpoint().get(), endpoint().delete()] {
        let headers = headers_of(Some("2026-07-28"), request);
        assert!(!headers.contains_key(MCP_METHOD) && !headers.contains_key(MCP_NAME));
    }
}

#[test]
fn what_the_caller_set_stays() {
    let mut request = endpoint().post(call_of("n"));
    let own = headers(&[("mcp-method", "own/method"), ("mcp-name", "own"), ("mcp-param-region", "eu")]);
    request.headers_mut().extend(own.clone());
    let sent = headers_of(Some("2026-07-28"), request);
    for (name, value) in &own {
        assert_eq!(sent.get_all(name).iter().collect::<Vec<_>>(), [value], "{name}");
    }
}

#[test]
fn a_method_that_no_header_can_carry_is_refused_before_it_is_sent() {
    for method in ["grüße", "a\tb", "a\r\nx-evil: 1", " padded", "padded ", "\u{7f}"] {
        let (mut service, mut server) = mirrored();
        let mut request = endpoint().post(JsonRpcMessage::request(1, method, ()));
        request.headers_mut().insert(MCP_PROTOCOL_VERSION, "2026-07-28".parse().unwrap());
        let error = now(call(&mut service, request)).unwrap_err();
        assert!(error.downcast_ref::<InvalidMessage>().is_some(), "{method:?}: {error}");
        server.assert_nothing_received();
    }
}

#[test]
fn names_with_escapes_are_mirrored_decoded() {
    let params = RawJson::parse(r#"{"n\u0061me":"gr\u00fc\u00dfe"}"#).unwrap();
    let name = modern(JsonRpcMessage::request(1, "tools/call", params)).1;
    assert_eq!(name.as_deref(), Some("=?base64?Z3LDvMOfZQ==?="));
}

#[test]
fn the_message_itself_is_left_as_it_is() {
    let message = call_of("grüße");
    let (mut service, mut server) = mirrored();
    let _sent = call(&mut service, endpoint().post(message.clone()));
    assert_eq!(server.received().0.body(), &Payload::from(message));
}

#[test]
fn the_service_below_answers_and_fails_for_it() {
    let (mut service, mut server) = mirrored();
    let sent = call(&mut service, endpoint().post(ping(1)));
    server.received().1.send_error("connection reset");
    assert_eq!(now(sent).unwrap_err().to_string(), "connection reset");
    assert_ready_passes_through::<_, Request<Payload>, _, _>(service, &mut server);
}

/// What a server reads out of `mcp-name`.
fn decoded(value: &str) -> String {
    match value.strip_prefix("=?base64?").and_then(|rest| rest.strip_suffix("?=")) {
        Some(encoded) => String::from_utf8(STANDARD.decode(encoded).unwrap()).unwrap(),
        None => value.to_owned(),
    }
}

proptest! {
    #[test]
    fn a_server_reads_every_name_as_it_was(
        name in prop_oneof![any::<String>(), "[ -~]{0,12}", r"=\?base64\?[ -~]{0,8}(\?=)?", "[ \t]?[a-z\r\n\t]{0,3}[ \t]?"]
    ) {
        let value = modern(call_of(&name)).1.unwrap();
        prop_assert_eq!(decoded(&value), name);
        // Neither proxies nor servers change such a value.
        prop_assert!(value.bytes().all(|byte| matches!(byte, b' '..=b'~')));
        prop_assert_eq!(value.trim(), &value);
    }

    #[test]
    fn no_params_make_it_panic(params in "[\\[\\]{}\":,a-z_0-9 ]{0,40}") {
        if let Ok(params) = RawJson::parse(params) {
            modern(JsonRpcMessage::request(1, "tools/call", params));
        }
    }
}
