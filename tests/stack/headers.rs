//! The headers of requests: ours, and those of the user.

use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use mcp_streamable_http::options::ExtraHeaders;
use mcp_streamable_http::{JsonRpcMessage, StreamableHttp};
use serde_json::json;

use crate::common::*;
use crate::support::mcp::{VERSION, legacy_handshake, result};
use crate::support::{Answer, Request, Server};

const PROTOCOL: &str = "mcp-protocol-version";

fn map(headers: &[(&'static str, &'static str)]) -> HeaderMap {
    headers
        .iter()
        .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)))
        .collect()
}

fn extra(message: JsonRpcMessage, headers: &[(&'static str, &'static str)]) -> JsonRpcMessage {
    message.with(ExtraHeaders(map(headers)))
}

async fn any_server() -> Server {
    Server::start(|request| match request.rpc_method() {
        Some("initialize") | None => legacy_handshake(request).unwrap(),
        Some(_) => Answer::json(200, result(request, json!({}))),
    })
    .await
}

fn last(server: &Server) -> Request {
    server.requests().pop().unwrap()
}

#[tokio::test]
async fn what_is_accepted_and_sent_is_declared() {
    let server = any_server().await;
    let transport = transport(&server);
    handshake(&transport).await;
    next_error(&mut transport.listen()).await;
    transport.terminate().await.unwrap();
    let [initialize, initialized, get, delete] = &server.requests()[..] else { panic!("four requests") };
    for post in [initialize, initialized] {
        assert_eq!(post.header("accept"), Some("application/json, text/event-stream"));
        assert_eq!(post.header("content-type"), Some("application/json"));
    }
    assert_eq!((get.header("accept"), get.header("content-type")), (Some("text/event-stream"), None));
    assert_eq!(delete.header("content-type"), None);
    for request in [initialize, initialized, get, delete] {
        assert_eq!(request.header("accept-encoding"), None, "nothing here could decode it");
    }
}

#[tokio::test]
async fn headers_of_the_connection_go_with_every_request() {
    let server = any_server().await;
    let mut headers =
        map(&[("authorization", "Bearer x"), ("accept", "text/html"), ("content-type", "text/xml")]);
    headers.append("x-many", HeaderValue::from_static("1"));
    headers.append("x-many", HeaderValue::from_static("2"));
    let transport = StreamableHttp::builder(server.url()).headers(headers).build().unwrap();
    handshake(&transport).await;
    next_error(&mut transport.listen()).await;
    transport.terminate().await.unwrap();
    let requests = server.requests();
    assert_eq!(requests.len(), 4);
    for request in &requests {
        assert_eq!(request.header("authorization"), Some("Bearer x"));
        let many: Vec<_> = request.headers.get_all("x-many").iter().collect();
        assert_eq!(many, ["1", "2"]);
    }
    for request in &requests[..2] {
        assert_eq!(request.header("accept"), Some("application/json, text/event-stream"));
        assert_eq!(request.header("content-type"), Some("application/json"));
    }
    assert_eq!(requests[2].header("accept"), Some("text/event-stream"));
}

#[tokio::test]
async fn headers_that_are_the_transports_own_are_refused_when_it_is_built() {
    for name in [
        "mcp-session-id",
        "mcp-protocol-version",
        "mcp-method",
        "mcp-name",
        "mcp-param-x",
        "last-event-id",
        "connection",
        "content-length",
        "transfer-encoding",
        "te",
        "trailer",
        "upgrade",
        "keep-alive",
        "proxy-connection",
    ] {
        let uri = "http://127.0.0.1:1/mcp".parse().unwrap();
        let error = StreamableHttp::builder(uri).headers(map(&[(name, "s3cret")])).build().unwrap_err();
        assert!(error.to_string().contains(name) && !error.to_string().contains("s3cret"), "{error}");
    }
}

#[tokio::test]
async fn extra_headers_go_with_their_message_only() {
    let server = any_server().await;
    let headers = map(&[("authorization", "Bearer connection"), ("x-common", "1")]);
    let transport = StreamableHttp::builder(server.url()).headers(headers).build().unwrap();
    let given =
        [("authorization", "Bearer message"), ("x-own", "2"), ("accept", "*/*"), ("content-type", "x/y")];
    ask(&transport, extra(ping(1), &given)).await.unwrap();
    let request = last(&server);
    assert_eq!(request.header("authorization"), Some("Bearer message"), "in place of the connection's");
    assert_eq!((request.header("x-own"), request.header("x-common")), (Some("2"), Some("1")));
    assert_eq!(request.header("accept"), Some("application/json, text/event-stream"));
    assert_eq!(request.header("content-type"), Some("application/json"));

    ask(&transport, ping(2)).await.unwrap();
    let request = last(&server);
    assert_eq!((request.header("authorization"), request.header("x-own")), (Some("Bearer connection"), None));

    let note = JsonRpcMessage::notification("notifications/progress", ());
    drop(send(&transport, extra(note, &given)).await.unwrap());
    assert_eq!(last(&server).header("x-own"), Some("2"));
}

#[tokio::test]
async fn extra_headers_that_are_the_transports_own_are_refused_unsent() {
    let server = any_server().await;
    let transport = transport(&server);
    handshake(&transport).await;
    for name in ["mcp-session-id", "last-event-id", "connection", "content-length", "transfer-encoding", "te"]
    {
        let error = send(&transport, extra(ping(1), &[(name, "s3cret")])).await.unwrap_err();
        assert!(error.to_string().contains(name) && !error.to_string().contains("s3cret"), "{error}");
        assert!(!error.may_have_run());
        assert_eq!(error.to_json_rpc().code(), -32600);
    }
    // Nor does the refusal of an `initialize` touch the session.
    send(&transport, extra(initialize(1), &[("mcp-session-id", "x")])).await.unwrap_err();
    assert!(transport.session().id().is_some());
    assert_eq!(server.requests().len(), 2);
}

#[tokio::test]
async fn a_version_header_is_a_stamp() {
    let server = any_server().await;
    let transport = transport(&server);
    ask(&transport, extra(call(1), &[(PROTOCOL, "2026-07-28")])).await.unwrap();
    ask(&transport, ping(2)).await.unwrap();
    ask(&transport, extra(ping(3), &[(PROTOCOL, "2025-06-18")])).await.unwrap();
    ask(&transport, ping(4)).await.unwrap();
    let requests = server.requests();
    let seen: Vec<_> =
        requests.iter().map(|request| (request.header(PROTOCOL), request.header("mcp-method"))).collect();
    let legacy = (Some("2025-06-18"), None);
    let modern = |method| (Some("2026-07-28"), Some(method));
    assert_eq!(seen, [modern("tools/call"), modern("ping"), legacy, legacy]);
}

#[tokio::test]
async fn a_version_header_is_dropped_from_initialize() {
    let server = any_server().await;
    let transport = transport(&server);
    ask(&transport, extra(initialize(1), &[(PROTOCOL, "2026-07-28"), ("x-own", "1")])).await.unwrap();
    let request = last(&server);
    assert_eq!((request.header(PROTOCOL), request.header("x-own")), (None, Some("1")));
    ask(&transport, ping(2)).await.unwrap();
    assert_eq!(last(&server).header(PROTOCOL), Some(VERSION), "what was negotiated");
}

#[tokio::test]
async fn a_version_header_must_agree_with_the_message() {
    let server = any_server().await;
    let transport = transport(&server);
    let list = |version: &str| {
        let meta = json!({ "io.modelcontextprotocol/protocolVersion": version });
        JsonRpcMessage::request(1, "tools/list", json!({ "_meta": meta }))
    };
    let error = send(&transport, extra(list("2026-07-28"), &[(PROTOCOL, "2025-11-25")])).await.unwrap_err();
    assert!(error.to_string().contains("2026-07-28") && error.to_string().contains("2025-11-25"), "{error}");
    assert!(!error.may_have_run() && server.requests().is_empty());
    assert_eq!(transport.session().version(), None, "what is refused changes nothing");
    ask(&transport, extra(list("2026-07-28"), &[(PROTOCOL, "2026-07-28")])).await.unwrap();
    assert_eq!(last(&server).header(PROTOCOL), Some("2026-07-28"));
}

#[tokio::test]
async fn mirrored_headers_of_the_callers_replace_ours() {
    let server = any_server().await;
    let transport = transport(&server);
    let given =
        [(PROTOCOL, "2026-07-28"), ("mcp-method", "m"), ("mcp-name", "n"), ("mcp-param-region", "eu")];
    ask(&transport, extra(call(1), &given)).await.unwrap();
    let request = last(&server);
    for (name, value) in given {
        assert_eq!(request.header(name), Some(value));
    }
}

#[tokio::test]
async fn a_layer_below_sees_all_headers_and_may_change_them() {
    let server = any_server().await;
    let layer = tower::util::MapRequestLayer::new(
        |mut request: http::Request<http_body_util::Full<bytes::Bytes>>| {
            assert_eq!(request.method() != "DELETE", request.headers().contains_key(ACCEPT));
            assert_eq!(request.method() == "POST", request.headers().contains_key(CONTENT_TYPE));
            request.headers_mut().insert(AUTHORIZATION, HeaderValue::from_static("Bearer fresh"));
            request
        },
    );
    let transport = StreamableHttp::builder(server.url()).http_layer(layer).build().unwrap();
    handshake(&transport).await;
    next_error(&mut transport.listen()).await;
    transport.terminate().await.unwrap();
    assert!(server.requests().iter().all(|request| request.header("authorization") == Some("Bearer fresh")));
}
