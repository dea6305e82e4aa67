//! The modern era: no session, everything in the message, mirrored in headers.

use mcp_streamable_http::error::NotOffered;
use mcp_streamable_http::{Era, JsonRpcMessage, ProtocolVersion};
use serde_json::{Value, json};

use crate::common::*;
use crate::support::mcp::{SESSION, result};
use crate::support::{Answer, Request, Server};

const MODERN: &str = "2026-07-28";
const KEY: &str = "io.modelcontextprotocol/protocolVersion";

fn stamped(id: i64, version: &str, method: &'static str, params: Value) -> JsonRpcMessage {
    let mut params = params;
    params["_meta"] = json!({ KEY: version, "io.modelcontextprotocol/clientInfo": { "name": "test" } });
    JsonRpcMessage::request(id, method, params)
}

fn answer(request: &Request) -> Answer {
    Answer::json(200, result(request, json!({}))).header("mcp-session-id", "never-asked-for")
}

fn header<'a>(request: &'a Request, name: &str) -> Option<&'a str> {
    request.header(name)
}

#[tokio::test]
async fn version_method_and_name_are_mirrored() {
    let server = Server::start(answer).await;
    let transport = transport(&server);
    for (method, params, name) in [
        ("tools/call", json!({ "name": "add", "arguments": { "name": "inner" } }), Some("add")),
        ("tools/call", json!({ "name": "grüße" }), Some("=?base64?Z3LDvMOfZQ==?=")),
        ("tools/call", json!({ "name": " padded " }), Some("=?base64?IHBhZGRlZCA=?=")),
        ("tools/call", json!({ "name": "a\tb" }), Some("=?base64?YQli?=")),
        ("tools/call", json!({ "name": "a\r\nx: y" }), Some("=?base64?YQ0KeDogeQ==?=")),
        ("tools/call", json!({ "name": "=?base64?eA==?=" }), Some("=?base64?PT9iYXNlNjQ/ZUE9PT89?=")),
        ("prompts/get", json!({ "name": "hello" }), Some("hello")),
        ("resources/read", json!({ "uri": "file:///a b" }), Some("file:///a b")),
        ("tasks/get", json!({ "taskId": "t-1" }), Some("t-1")),
        ("tasks/update", json!({ "taskId": "t-1" }), Some("t-1")),
        ("tasks/cancel", json!({ "taskId": "t-1" }), Some("t-1")),
        ("tools/list", json!({ "name": "no name here" }), None),
        ("resources/list", json!({ "uri": "x" }), None),
    ] {
        let message = stamped(1, MODERN, method, params);
        let sent = message.encode();
        ask(&transport, message).await.unwrap();
        let request = server.requests().pop().unwrap();
        assert_eq!(header(&request, "mcp-protocol-version"), Some(MODERN));
        assert_eq!(header(&request, "mcp-method"), Some(method));
        assert_eq!(header(&request, "mcp-name"), name, "{method}");
        assert_eq!(header(&request, "mcp-session-id"), None);
        assert_eq!(request.body, sent, "the message is sent as it is");
    }
    assert_eq!(transport.session().id(), None);
}

#[tokio::test]
async fn messages_without_a_version_are_sent_under_the_last_one() {
    let server = Server::start(answer).await;
    let transport = transport(&server);
    let progress = || JsonRpcMessage::notification("notifications/progress", ());
    drop(send(&transport, progress()).await.unwrap());
    ask(&transport, ping(1)).await.unwrap();
    ask(&transport, stamped(2, MODERN, "tools/list", json!({}))).await.unwrap();
    drop(send(&transport, progress()).await.unwrap());
    ask(&transport, ping(3)).await.unwrap();
    ask(&transport, stamped(4, "2025-06-18", "tools/list", json!({}))).await.unwrap();
    ask(&transport, ping(5)).await.unwrap();

    let requests = server.requests();
    let seen: Vec<_> = requests
        .iter()
        .map(|request| (header(request, "mcp-protocol-version"), header(request, "mcp-method")))
        .collect();
    let modern = |method| (Some(MODERN), Some(method));
    let legacy = (Some("2025-06-18"), None);
    assert_eq!(
        seen,
        [
            (None, None),
            (None, None),
            modern("tools/list"),
            modern("notifications/progress"),
            modern("ping"),
            legacy,
            legacy,
        ]
    );
}

#[tokio::test]
async fn every_version_that_is_not_a_legacy_one_is_modern() {
    let server = Server::start(answer).await;
    for (version, era) in [
        ("2024-10-07", Era::Legacy),
        ("2024-11-05", Era::Legacy),
        ("2025-03-26", Era::Legacy),
        ("2025-06-18", Era::Legacy),
        ("2025-11-25", Era::Legacy),
        (MODERN, Era::Modern),
        ("2099-01-01", Era::Modern),
        ("DRAFT-2027-v1", Era::Modern),
    ] {
        let transport = transport(&server);
        ask(&transport, stamped(1, version, "tools/list", json!({}))).await.unwrap();
        let request = server.requests().pop().unwrap();
        assert_eq!(header(&request, "mcp-protocol-version"), Some(version));
        assert_eq!(header(&request, "mcp-method").is_some(), era == Era::Modern, "{version}");
        assert_eq!(transport.session().era(), era, "{version}");
    }
}

#[tokio::test]
async fn there_is_no_session_no_get_and_no_delete() {
    let server = Server::start(|request| match request.rpc_method() {
        Some("tools/list") if request.nth == 0 => {
            Answer::sse().header("mcp-session-id", "x").raw("id: 7\n").event(result(request, json!({})))
        }
        _ => answer(request),
    })
    .await;
    let transport = transport(&server);
    for id in 0..3 {
        ask(&transport, stamped(id, MODERN, "tools/list", json!({}))).await.unwrap();
    }
    let items = rest(transport.listen()).await;
    assert_eq!(outline(&items), ["!"]);
    assert_eq!(items[0].as_ref().unwrap_err().find::<NotOffered>().unwrap().status(), None);
    transport.terminate().await.unwrap();

    let requests = server.requests();
    assert_eq!(requests.len(), 3);
    for request in &requests {
        assert_eq!((header(request, "mcp-session-id"), header(request, "last-event-id")), (None, None));
    }
}

#[tokio::test]
async fn a_session_of_the_legacy_era_is_not_named_in_a_modern_message() {
    let (server, transport) = session(answer).await;
    ask(&transport, stamped(1, MODERN, "tools/list", json!({}))).await.unwrap();
    assert_eq!(header(&server.requests()[2], "mcp-session-id"), None);
    // A legacy message is in it still.
    ask(&transport, stamped(2, "2025-11-25", "tools/list", json!({}))).await.unwrap();
    assert_eq!(header(&server.requests()[3], "mcp-session-id"), Some(SESSION));
}

#[tokio::test]
async fn a_response_is_refused_before_it_is_sent() {
    let server = Server::start(answer).await;
    let transport = transport(&server);
    ask(&transport, stamped(1, MODERN, "tools/list", json!({}))).await.unwrap();
    let error = send(&transport, JsonRpcMessage::response("q", json!({}))).await.unwrap_err();
    assert!(!error.may_have_run() && error.to_string().contains("not sent"), "{error}");
    assert_eq!(server.requests().len(), 1);
    ask(&transport, ping(2)).await.unwrap();
}

#[tokio::test]
async fn a_request_of_the_servers_is_dropped() {
    let question = json!({ "jsonrpc": "2.0", "id": "q", "method": "sampling/createMessage" });
    let server = Server::start(move |request| {
        let answer = result(request, json!({}));
        match request.nth {
            0 => Answer::sse().event(question.clone()).event(progress(1)).event(answer),
            1 => Answer::sse().event(json!([question, progress(1), answer])),
            _ => Answer::json(200, json!([question, progress(1), answer])),
        }
    })
    .await;
    for id in 0..3 {
        let list = stamped(id, MODERN, "tools/list", json!({}));
        let items = rest(send(&transport(&server), list).await.unwrap()).await;
        assert_eq!(outline(&items), ["notifications/progress", "="], "{id}");
    }
}

#[tokio::test]
async fn an_error_about_the_version_is_the_answer() {
    let server = Server::start(|request| {
        let error = json!({ "code": -32022, "message": "?", "data": { "supported": ["2025-11-25"] } });
        Answer::json(400, json!({ "jsonrpc": "2.0", "id": request.rpc_id(), "error": error }))
    })
    .await;
    let response = ask(&transport(&server), stamped(1, MODERN, "tools/list", json!({}))).await.unwrap();
    let error = response.outcome().unwrap_err();
    assert_eq!(error.data().unwrap().as_str(), r#"{"supported":["2025-11-25"]}"#);
}

#[tokio::test]
async fn closing_the_stream_is_the_cancel() {
    let server = Server::start(|request| match request.rpc_method() {
        Some("ping") => pong(request),
        _ => Answer::sse().event(progress(1)).hang(),
    })
    .await;
    let transport = transport(&server);
    let mut reply = send(&transport, stamped(1, MODERN, "tools/call", json!({ "name": "x" }))).await.unwrap();
    next_message(&mut reply).await;
    drop(reply);
    server.gone().await;
    ping_works(&transport).await;
    assert_eq!(server.requests().len(), 2, "nothing is posted for it");
}

#[tokio::test]
async fn initialize_takes_the_connection_back_to_the_legacy_era() {
    let (server, transport) = session(answer).await;
    ask(&transport, stamped(1, MODERN, "tools/list", json!({}))).await.unwrap();
    assert_eq!(transport.session().era(), Era::Modern);
    handshake(&transport).await;
    ask(&transport, ping(2)).await.unwrap();
    assert_eq!(transport.session().version(), Some(ProtocolVersion::V2025_11_25));
    let requests = server.requests();
    let initialize = &requests[3];
    for name in ["mcp-protocol-version", "mcp-method", "mcp-session-id"] {
        assert_eq!(header(initialize, name), None);
    }
    assert_eq!(header(requests.last().unwrap(), "mcp-session-id"), Some(SESSION));
}

#[tokio::test]
async fn a_version_or_method_that_no_header_can_carry_is_refused() {
    let server = Server::start(answer).await;
    let transport = transport(&server);
    for message in [
        stamped(1, "2026\n07", "tools/list", json!({})),
        stamped(1, "", "tools/list", json!({})),
        stamped(1, MODERN, "tööls/list", json!({})),
    ] {
        let error = send(&transport, message).await.unwrap_err();
        assert!(!error.may_have_run(), "{error:?}");
    }
    assert!(server.requests().is_empty());
}
