//! The trace that is handed on in the message.

use mcp_streamable_http_layers::options::{ExtraHeaders, Idempotent};
use mcp_streamable_http_layers::sse::Limits;
use mcp_streamable_http_layers::trace_context::TraceContext;
use mcp_streamable_http_layers::{
    EnvelopeLayer, JsonRpcMessage, MirrorHeadersLayer, Reply, Session, SetSessionIdLayer, SseLayer,
    StampVersionLayer, TraceContextLayer, TraceLayer, TranslateCancelLayer,
};
use serde_json::json;
use tower::{Layer, ServiceBuilder};
use tower_test::mock;

use crate::common::bridge::{PONG, Query};
use crate::common::*;
use crate::tool;

const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

fn context() -> Option<TraceContext> {
    TraceContext::new(PARENT, Some("a=1"))
}

/// What `message` becomes.
fn traced(message: JsonRpcMessage) -> JsonRpcMessage {
    let (mock, handle) = mock::pair::<JsonRpcMessage, Reply>();
    let mut server = Server(handle);
    let _sent = call(&mut TraceContextLayer::new(context).layer(mock), message);
    server.received().0
}

fn text(message: &JsonRpcMessage) -> Option<&str> {
    message.params().map(|params| params.as_str())
}

#[test]
fn requests_and_notifications_carry_the_trace_and_responses_do_not() {
    let meta = format!(r#""_meta":{{"traceparent":"{PARENT}","tracestate":"a=1"}}"#);
    let sent = traced(JsonRpcMessage::request("x", "tools/call", json!({ "name": "add" })));
    assert_eq!(text(&sent), Some(&*format!(r#"{{{meta},"name":"add"}}"#)));
    assert_eq!((sent.method(), sent.id()), (Some("tools/call"), Some(&"x".into())));
    let sent = traced(notification());
    assert_eq!(text(&sent), Some(&*format!("{{{meta}}}")));
    assert_eq!((sent.method(), sent.id()), (Some("notifications/initialized"), None));
    let response = JsonRpcMessage::response(1, json!({ "_meta": {} }));
    assert_eq!(traced(response.clone()), response);
}

#[test]
fn without_a_trace_a_message_stays_as_it_is() {
    let (mock, handle) = mock::pair::<JsonRpcMessage, Reply>();
    let mut server = Server(handle);
    let _sent = call(&mut TraceContextLayer::new(|| None).layer(mock), tool(1));
    assert_eq!(server.received().0, tool(1));
    // Of a trace of the caller's own, too.
    let own = JsonRpcMessage::request(1, "ping", json!({ "_meta": { "traceparent": "own" } }));
    assert_eq!(traced(own.clone()), own);
}

#[test]
fn what_the_caller_asked_for_is_kept() {
    for mut message in [tool(1), notification()] {
        message.extensions_mut().insert(extra(&[("x-own", "1")]));
        message.extensions_mut().insert(Idempotent);
        let sent = traced(message);
        assert!(sent.extensions().get::<Idempotent>().is_some());
        assert_eq!(sent.extensions().get::<ExtraHeaders>().unwrap().0["x-own"], "1");
    }
}

#[test]
fn readiness_is_that_of_the_service_below() {
    let (mock, handle) = mock::pair::<JsonRpcMessage, Reply>();
    assert_ready_passes_through(TraceContextLayer::new(context).layer(mock), &mut Server(handle));
    let (mock, handle) = mock::pair::<JsonRpcMessage, Reply>();
    assert_ready_passes_through(TraceLayer::new().layer(mock), &mut Server(handle));
}

#[test]
fn modern_messages_are_mirrored_as_ever() {
    let (mock, handle) = mock::pair::<Query, _>();
    let (mut server, session) = (Server(handle), Session::new());
    let mut client = ServiceBuilder::new()
        .layer(TraceLayer::new())
        .layer(TraceContextLayer::new(context))
        .layer(TranslateCancelLayer::new(session.clone()))
        .layer(EnvelopeLayer::new(endpoint(), session.clone()))
        .layer(SetSessionIdLayer::new(session.clone()))
        .layer(StampVersionLayer::new(session))
        .layer(MirrorHeadersLayer::new())
        .layer(SseLayer::new(Limits::default()))
        .service(mock);
    let meta = json!({ "io.modelcontextprotocol/protocolVersion": "2026-07-28" });
    let message = JsonRpcMessage::request(1, "tools/call", json!({ "name": "add", "_meta": meta }));
    let sent = call(&mut client, message);
    let (request, reply) = server.received();
    let header = |name: &str| request.headers()[name].to_str().unwrap();
    assert_eq!(
        (header("mcp-protocol-version"), header("mcp-method"), header("mcp-name")),
        ("2026-07-28", "tools/call", "add")
    );
    let body = now(http_body_util::BodyExt::collect(request.into_body())).unwrap().to_bytes();
    let body: serde_json::Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(
        body["params"]["_meta"],
        json!({
            "traceparent": PARENT, "tracestate": "a=1",
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        })
    );
    reply.send_response(json_answer(PONG));
    now(now(sent).unwrap().response()).unwrap().outcome().unwrap();
}
