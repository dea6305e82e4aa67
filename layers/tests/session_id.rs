//! Sessions: where their id comes from, and what it is sent with.

mod common;

use common::client::{Client, RESULT};
use common::*;
use futures_util::StreamExt as _;
use http::{Request, Response};
use mcp_streamable_http_layers::error::Undecodable;
use mcp_streamable_http_layers::headers::{MCP_PROTOCOL_VERSION, MCP_SESSION_ID};
use mcp_streamable_http_layers::{
    Era, Events, JsonRpcMessage, Payload, ProtocolVersion, Session, SetSessionIdLayer,
};
use serde_json::json;
use tokio_test::task;
use tower::Layer as _;
use tower_test::mock;

const REFUSAL: &str = r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"no"}}"#;

#[test]
fn the_id_is_sent_byte_for_byte_with_every_later_request() {
    let id = b"a/b==\xe4 ~;,\"";
    for content_type in ["application/json", "text/event-stream"] {
        let mut client = Client::new();
        let body =
            if content_type == "application/json" { RESULT.into() } else { format!("data: {RESULT}\n\n") };
        let begun = with_header(answer(200, content_type, body), "mcp-session-id", id);
        response(client.exchange(initialize(1), begun)).unwrap();

        for message in [ping(2), notification(), JsonRpcMessage::response("s", json!({}))] {
            assert_eq!(client.headers_of(message)[MCP_SESSION_ID].as_bytes(), id);
        }
        for request in [endpoint().get(), endpoint().delete()] {
            let (headers, _) = client.exchange_empty(request, answer(405, "", ""));
            assert_eq!(headers[MCP_SESSION_ID].as_bytes(), id);
        }
    }
}

#[test]
fn an_initialize_forgets_the_old_session_when_it_is_sent() {
    let mut client = Client::in_session("one");
    let headers = client.headers_of(initialize(2));
    assert!(!headers.contains_key(MCP_SESSION_ID) && !headers.contains_key(MCP_PROTOCOL_VERSION));

    assert_eq!((client.session.id(), client.session.version()), (None, None));
    assert!(client.session.handshake().is_none());
    let headers = client.headers_of(ping(3));
    assert!(!headers.contains_key(MCP_SESSION_ID) && !headers.contains_key(MCP_PROTOCOL_VERSION));
}

#[test]
fn each_result_replaces_the_session_whole() {
    let mut client = Client::in_session("one");
    let result = r#"{"jsonrpc":"2.0","id":2,"result":{"protocolVersion":"2025-11-25"}}"#;
    response(client.exchange(initialize(2), json_answer(result))).unwrap();
    assert_eq!(client.session.id(), None);
    assert_eq!(client.session.version(), Some(ProtocolVersion::V2025_11_25));
    assert_eq!(client.session.handshake().map(JsonRpcMessage::from), Some(initialize(2)));
}

#[test]
fn only_a_result_begins_a_session() {
    let sse = |text: &str| answer(200, "text/event-stream", format!("data: {text}\n\n"));
    for (name, reply) in [
        ("error", json_answer(REFUSAL)),
        ("error on SSE", sse(REFUSAL)),
        ("result on an error status", answer(500, "application/json", RESULT)),
        ("error on an error status", answer(400, "application/json", REFUSAL)),
        ("accepted", answer(202, "", "")),
        ("no response", json_answer("{}")),
        ("ended stream", sse(r#"{"jsonrpc":"2.0","method":"notifications/message"}"#)),
    ] {
        let mut client = Client::new();
        let reply = client.exchange(initialize(1), with_header(reply, "mcp-session-id", b"abc"));
        let refused = response(reply).map_or(true, |response| response.outcome().is_err());
        assert!(refused && client.session.id().is_none() && client.session.version().is_none(), "{name}");
        assert!(!client.headers_of(ping(2)).contains_key(MCP_SESSION_ID), "{name}");
    }
}

#[test]
fn an_empty_id_is_none() {
    let mut client = Client::new();
    let answer = with_header(json_answer(RESULT), "mcp-session-id", b"");
    response(client.exchange(initialize(1), answer)).unwrap();
    assert_eq!(client.session.id(), None);
    assert_eq!(client.session.version(), Some(ProtocolVersion::V2025_06_18));
    assert!(!client.headers_of(ping(2)).contains_key(MCP_SESSION_ID));
}

#[test]
fn ids_on_other_answers_are_ignored() {
    let other = |answer| with_header(answer, "mcp-session-id", b"other");
    let pong = r#"{"jsonrpc":"2.0","id":2,"result":{}}"#;
    let stream = format!("data: {pong}\n\n");
    for mut client in [Client::in_session("one"), Client::new()] {
        let before = client.session.id();
        response(client.exchange(ping(2), other(json_answer(pong)))).unwrap();
        response(client.exchange(ping(2), other(answer(200, "text/event-stream", stream.clone())))).unwrap();
        let _ = client.exchange(notification(), other(answer(202, "", ""))).unwrap();
        let (_, listening) =
            client.exchange_empty(endpoint().get(), other(answer(200, "text/event-stream", "")));
        let _ = listening.unwrap();
        assert_eq!(client.session.id(), before);
    }
}

#[test]
fn a_stream_may_say_other_things_before_the_result_of_initialize() {
    let mut client = Client::new();
    let stream = format!(
        "id: 1\ndata:\n\n\
         data: {{\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{{}}}}\n\n\
         data: {{\"jsonrpc\":\"2.0\",\"id\":\"s\",\"method\":\"ping\"}}\n\n\
         data: {RESULT}\n\n"
    );
    let answer = with_header(answer(200, "text/event-stream", stream), "mcp-session-id", b"abc");
    let mut reply = task::spawn(client.exchange(initialize(1), answer).unwrap());

    for method in ["notifications/message", "ping"] {
        let message = now(reply.next()).unwrap().unwrap();
        assert_eq!(message.method(), Some(method));
        assert_eq!(client.session.id(), None, "before the result there is no session");
    }
    // The server's ping is answered while the handshake still runs.
    let pong = client.headers_of(JsonRpcMessage::response("s", json!({})));
    assert!(!pong.contains_key(MCP_SESSION_ID));

    let result = now(reply.next()).unwrap().unwrap();
    assert!(result.as_response().is_some());
    assert_eq!(client.session.id().unwrap(), "abc");
}

#[test]
fn the_late_answer_to_an_older_initialize_is_ignored() {
    let stream = format!("data: {RESULT}\n\n");
    for late in [json_answer(RESULT), answer(200, "text/event-stream", stream)] {
        let mut client = Client::new();
        let first = client.send(initialize(1));
        let (_, reply) = client.server.received();
        client.begin("new");

        reply.send_response(with_header(late, "mcp-session-id", b"old"));
        response(now(first)).unwrap();
        assert_eq!(client.session.id().unwrap(), "new");
    }
}

#[test]
fn a_late_stream_of_an_older_initialize_does_not_begin_a_session_before_the_newer_is_answered() {
    let mut client = Client::new();
    let stream = answer(200, "text/event-stream", format!("data: {RESULT}\n\n"));
    let old = client.exchange(initialize(1), with_header(stream, "mcp-session-id", b"old"));
    let _newer = client.send(initialize(2));
    response(old).unwrap();
    assert_eq!((client.session.id(), client.session.version()), (None, None));
}

#[test]
fn a_version_that_no_header_can_carry_fails_the_initialize() {
    for version in ["", "2025-11-25 ", "a\\r\\nx: y", "vé"] {
        let result = format!(r#"{{"jsonrpc":"2.0","id":1,"result":{{"protocolVersion":"{version}"}}}}"#);
        let stream = format!("data: {result}\n\n");
        for answer in [json_answer(result), answer(200, "text/event-stream", stream)] {
            let mut client = Client::new();
            let answer = with_header(answer, "mcp-session-id", b"abc");
            let error = response(client.exchange(initialize(1), answer)).unwrap_err();
            assert!(error.find::<Undecodable>().is_some(), "{version:?}: {error}");
            assert_eq!((client.session.id(), client.session.version()), (None, None), "{version:?}");
        }
    }
}

#[test]
fn a_modern_message_has_no_part_in_the_session() {
    let mut client = Client::in_session("one");
    let modern = || versioned("tools/list", "2026-07-28");
    assert!(!client.headers_of(modern()).contains_key(MCP_SESSION_ID));
    let error = client.exchange(modern(), answer(404, "", "")).unwrap_err();
    assert!(!error.is_session_expired());
    assert_eq!((client.session.id().unwrap(), client.session.era()), ("one".parse().unwrap(), Era::Modern));
}

#[test]
fn the_id_is_not_shown() {
    let mut client = Client::new();
    let mut reply = with_header(json_answer(RESULT), "mcp-session-id", b"s3cret");
    reply = with_header(reply, "set-cookie", b"s3cret");
    let head = client.exchange(initialize(1), reply).unwrap();
    let headers = client.headers_of(ping(2));
    assert_eq!(headers[MCP_SESSION_ID], "s3cret");
    for shown in [
        format!("{:?}", head.head().unwrap().headers),
        format!("{headers:?} {head:?}"),
        format!("{:?} {:?}", client.session, client.session.id()),
        format!("{:?}", client.messages),
    ] {
        assert!(!shown.contains("s3cret"), "{shown}");
    }
}

#[test]
fn the_layer_alone_keeps_its_rules_whatever_lies_below() {
    for (status, begins) in [(200, true), (202, true), (400, false), (500, false)] {
        let (mock, handle) = mock::pair::<Request<Payload>, Response<Events>>();
        let (session, mut server) = (Session::new(), Server(handle));
        let mut service = SetSessionIdLayer::new(session.clone()).layer(mock);
        let sent = call(&mut service, endpoint().post(initialize(1)));
        let mut answer = Response::new(Events::from(JsonRpcMessage::response(1, json!({}))));
        *answer.status_mut() = status.try_into().unwrap();
        server.received().1.send_response(with_header(answer, "mcp-session-id", b"abc"));
        let _ = all(now(sent).unwrap().into_body());
        assert_eq!(session.id().map(|id| id.is_sensitive()), begins.then_some(true), "{status}");
    }
}

#[test]
fn it_is_ready_when_the_service_below_is() {
    let mut client = Client::new();
    assert_ready_passes_through::<_, Request<Payload>, _, _>(client.envelopes, &mut client.server);
}
