//! The session's id: where it comes from, where it goes.

use mcp_streamable_http::ProtocolVersion;
use serde_json::json;

use crate::common::*;
use crate::support::mcp::{SESSION, VERSION, error, legacy_handshake, result};
use crate::support::{Answer, Gate, Request, Server};

const ID: &str = "mcp-session-id";
const PROTOCOL: &str = "mcp-protocol-version";

fn id_of(request: &Request) -> Option<&[u8]> {
    request.headers.get(ID).map(|value| value.as_bytes())
}

fn welcome(request: &Request, version: &str) -> Answer {
    Answer::json(200, result(request, json!({ "protocolVersion": version, "capabilities": {} })))
}

#[tokio::test]
async fn the_id_is_echoed_byte_for_byte_on_post_get_and_delete() {
    const ODD: &[u8] = b"\"a b\";,=\t~\xfc\xff%";
    let server = Server::start(|request| match request.rpc_method() {
        Some("initialize") => welcome(request, VERSION).header("Mcp-Session-Id", ODD),
        Some("ping") => pong(request),
        _ => legacy_handshake(request).unwrap(),
    })
    .await;
    let transport = transport(&server);
    handshake(&transport).await;
    ping_works(&transport).await;
    next_error(&mut transport.listen()).await;
    transport.terminate().await.unwrap();

    let requests = server.requests();
    let methods: Vec<_> = requests.iter().map(|request| request.method.as_str()).collect();
    assert_eq!(methods, ["POST", "POST", "POST", "GET", "DELETE"]);
    assert_eq!((id_of(&requests[0]), requests[0].header(PROTOCOL)), (None, None));
    for request in &requests[1..] {
        assert_eq!((id_of(request), request.header(PROTOCOL)), (Some(ODD), Some(VERSION)), "{request}");
    }
}

#[tokio::test]
async fn what_was_negotiated_can_be_read() {
    let (_server, transport) = session(|request| panic!("{request}")).await;
    let session = transport.session();
    assert_eq!(session.id().unwrap(), SESSION);
    assert!(session.id().unwrap().is_sensitive());
    assert_eq!(session.version(), Some(ProtocolVersion::V2025_11_25));
    assert_eq!(session.handshake().unwrap().id(), &0.into());
}

#[tokio::test]
async fn the_version_is_the_one_that_the_server_chose() {
    let server = server(|request| match request.rpc_method() {
        Some("initialize") => welcome(request, "2025-03-26"),
        _ => legacy_handshake(request).unwrap(),
    })
    .await;
    let transport = transport(&server);
    handshake(&transport).await;
    assert_eq!(server.requests()[1].header(PROTOCOL), Some("2025-03-26"));
}

#[tokio::test]
async fn sending_initialize_drops_id_and_version_at_once() {
    let gate = Gate::new();
    let answer = gate.clone();
    let server = server(move |request| match (request.rpc_method(), request.nth) {
        (Some("initialize"), 0) => welcome(request, VERSION).header(ID, "first"),
        (Some("initialize"), _) => welcome(request, "2025-06-18").header(ID, "second").head_after(&answer),
        _ => legacy_handshake(request).unwrap(),
    })
    .await;
    let transport = transport(&server);
    handshake(&transport).await;

    let again = tokio::spawn({
        let transport = transport.clone();
        async move { ask(&transport, initialize(7)).await }
    });
    server.wait_for(3).await;
    assert_eq!((transport.session().id(), transport.session().version()), (None, None));
    ping_works(&transport).await;

    gate.open();
    again.await.unwrap().unwrap();
    ping_works(&transport).await;
    let seen: Vec<_> = server
        .requests()
        .iter()
        .map(|request| (request.header(ID).map(str::to_owned), request.header(PROTOCOL).map(str::to_owned)))
        .collect();
    let first = (Some("first".to_owned()), Some(VERSION.to_owned()));
    let second = (Some("second".to_owned()), Some("2025-06-18".to_owned()));
    let none = (None, None);
    assert_eq!(seen, [none.clone(), first, none.clone(), none, second]);
}

#[tokio::test]
async fn an_initialize_without_an_id_leaves_none_of_the_last_session() {
    let server = server(|request| match (request.rpc_method(), request.nth) {
        (Some("initialize"), 0) => welcome(request, VERSION).header(ID, "first"),
        (Some("initialize"), _) => welcome(request, VERSION),
        _ => legacy_handshake(request).unwrap(),
    })
    .await;
    let transport = transport(&server);
    handshake(&transport).await;
    handshake(&transport).await;
    assert_eq!(transport.session().id(), None);
    assert_eq!(server.requests()[3].header(ID), None);
}

#[tokio::test]
async fn an_id_beside_anything_but_a_result_is_none() {
    for case in ["error", "error status", "accepted", "empty id", "no response"] {
        let server = server(move |request| {
            let error = error(request, -32602, "no");
            match case {
                "error" => Answer::json(200, error).header(ID, "x"),
                "error status" => Answer::json(400, error).header(ID, "x"),
                "accepted" => Answer::status(202).header(ID, "x"),
                "empty id" => welcome(request, VERSION).header(ID, ""),
                _ => Answer::json(200, json!({ "hello": 1 })).header(ID, "x"),
            }
        })
        .await;
        let transport = transport(&server);
        let _ = ask(&transport, initialize(1)).await;
        assert_eq!(transport.session().id(), None, "{case}");
        ping_works(&transport).await;
        assert_eq!(server.requests()[1].header(ID), None, "{case}");
    }
}

#[tokio::test]
async fn a_later_answer_does_not_change_the_id() {
    let (server, transport) = session(|request| {
        let answer = result(request, json!({}));
        if request.nth == 0 { Answer::json(200, answer) } else { Answer::sse().event(answer) }
            .header(ID, "other")
    })
    .await;
    ask(&transport, call(1)).await.unwrap();
    ask(&transport, call(2)).await.unwrap();
    ping_works(&transport).await;
    assert_eq!(server.requests().last().unwrap().header(ID), Some(SESSION));
}

#[tokio::test]
async fn the_result_in_an_event_stream_begins_the_session_and_not_its_head() {
    let gate = Gate::new();
    let answer = gate.clone();
    let server = server(move |request| {
        let result = result(request, json!({ "protocolVersion": VERSION }));
        Answer::sse().header(ID, "streamed").event(progress(1)).wait(&answer).event(result)
    })
    .await;
    let transport = transport(&server);
    let mut reply = send(&transport, initialize(1)).await.unwrap();
    assert_eq!(step_of(&next_message(&mut reply).await), 1);
    assert_eq!(transport.session().id(), None, "an error might still come");

    gate.open();
    soon(reply.response()).await.unwrap();
    ping_works(&transport).await;
    let ping = server.requests().pop().unwrap();
    assert_eq!((ping.header(ID), ping.header(PROTOCOL)), (Some("streamed"), Some(VERSION)));
}

#[tokio::test]
async fn an_initialize_may_be_answered_with_other_messages_first() {
    let server = server(|request| match request.rpc_method() {
        Some("initialize") => Answer::sse()
            .header(ID, "s")
            .event(json!({ "jsonrpc": "2.0", "id": "from-server", "method": "ping" }))
            .event(progress(1))
            .hang(),
        _ => Answer::status(202),
    })
    .await;
    let transport = transport(&server);
    let mut reply = send(&transport, initialize(1)).await.unwrap();
    let question = next_message(&mut reply).await;
    assert_eq!((question.method(), question.id()), (Some("ping"), Some(&"from-server".into())));
    // The answer goes out while the `initialize` is unanswered.
    let pong = mcp_streamable_http::JsonRpcMessage::response("from-server", json!({}));
    assert!(rest(send(&transport, pong).await.unwrap()).await.is_empty());
    assert_eq!(server.requests()[1].json(), json!({ "jsonrpc": "2.0", "id": "from-server", "result": {} }));
    assert_eq!(step_of(&next_message(&mut reply).await), 1);
}

#[tokio::test]
async fn an_initialize_can_be_answered_with_an_error_in_a_stream() {
    let server =
        server(|request| Answer::sse().header(ID, "x").event(error(request, -32602, "too old"))).await;
    let transport = transport(&server);
    let response = ask(&transport, initialize(1)).await.unwrap();
    assert_eq!(response.outcome().unwrap_err().message(), "too old");
    assert_eq!(transport.session().id(), None);
}

#[tokio::test]
async fn the_answer_to_an_overtaken_initialize_begins_nothing() {
    let gate = Gate::new();
    let answer = gate.clone();
    let server = server(move |request| match request.nth {
        0 => welcome(request, "2025-03-26").header(ID, "slow").head_after(&answer),
        _ => welcome(request, VERSION).header(ID, "quick"),
    })
    .await;
    let transport = transport(&server);
    let slow = tokio::spawn({
        let transport = transport.clone();
        async move { ask(&transport, initialize(1)).await }
    });
    server.wait_for(1).await;
    ask(&transport, initialize(2)).await.unwrap();
    gate.open();
    slow.await.unwrap().unwrap();
    assert_eq!(transport.session().id().unwrap(), "quick");
    assert_eq!(transport.session().version(), Some(ProtocolVersion::V2025_11_25));
}

#[tokio::test]
async fn a_version_that_no_header_can_carry_fails_the_initialize() {
    let server = server(|request| welcome(request, "2025\r\nx: y").header(ID, "x")).await;
    let transport = transport(&server);
    let error = ask(&transport, initialize(1)).await.unwrap_err();
    assert!(error.to_string().contains("protocolVersion"), "{error}");
    assert_eq!((transport.session().id(), transport.session().version()), (None, None));
    ping_works(&transport).await;
}
