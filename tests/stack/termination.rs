//! The end of a session.

use std::time::Duration;

use mcp_streamable_http::StreamableHttp;
use serde_json::json;

use crate::common::*;
use crate::support::mcp::{SESSION, VERSION, legacy_handshake, result};
use crate::support::{Answer, Request, Server};

fn deletes(server: &Server) -> Vec<Request> {
    server.requests().into_iter().filter(|request| request.method == "DELETE").collect()
}

/// A transport inside a session of a server that answers DELETE with `answer`.
async fn before_delete(
    timeout: Duration,
    answer: impl Fn(&Request) -> Answer + Send + Sync + 'static,
) -> (Server, StreamableHttp) {
    let server = server(move |request| match request.method.as_str() {
        "DELETE" => answer(request),
        _ => legacy_handshake(request).unwrap(),
    })
    .await;
    let transport = StreamableHttp::builder(server.url()).terminate_timeout(timeout).build().unwrap();
    handshake(&transport).await;
    (server, transport)
}

#[tokio::test]
async fn it_is_one_delete_and_any_answer_will_do() {
    for status in [200, 202, 204, 400, 404, 405, 500, 503] {
        let (server, transport) =
            before_delete(Duration::from_secs(10), move |_| Answer::status(status)).await;
        soon(transport.terminate()).await.unwrap();
        assert!(transport.session().id().is_none() && transport.session().version().is_none());
        assert!(!transport.session().is_expired(), "{status}");
        soon(transport.terminate()).await.unwrap();

        let deletes = deletes(&server);
        assert_eq!(deletes.len(), 1, "{status}");
        assert_eq!(deletes[0].header("mcp-session-id"), Some(SESSION));
        assert_eq!(deletes[0].header("mcp-protocol-version"), Some(VERSION));
        assert_eq!((deletes[0].target.as_str(), deletes[0].body.len()), ("/mcp", 0));

        ping_works(&transport).await;
        assert_eq!(server.requests().last().unwrap().header("mcp-session-id"), None, "{status}");
    }
}

#[tokio::test]
async fn without_a_session_nothing_is_sent() {
    let server = server(|request| match request.rpc_method() {
        Some("initialize") => Answer::json(200, result(request, json!({ "protocolVersion": VERSION }))),
        _ => Answer::status(202),
    })
    .await;
    let transport = transport(&server);
    transport.terminate().await.unwrap();
    // A server need not have sessions.
    handshake(&transport).await;
    transport.terminate().await.unwrap();
    assert_eq!(deletes(&server).len(), 0);
}

#[tokio::test]
async fn no_answer_in_time_is_an_error_and_can_be_tried_again() {
    let (server, transport) = before_delete(Duration::from_millis(40), |request| match request.nth {
        0 => Answer::raw_response("").hang(),
        _ => Answer::status(204),
    })
    .await;
    let error = soon(transport.terminate()).await.unwrap_err();
    assert!(error.is_timeout(), "{error:?}");
    assert!(error.to_string().contains("session") && error.to_string().contains("40ms"), "{error}");
    server.gone().await;
    assert_eq!(transport.session().id().unwrap(), SESSION);

    // That long a busy machine may take.
    soon(async { while transport.terminate().await.is_err() {} }).await;
    assert!(deletes(&server).len() >= 2);
    assert!(transport.session().id().is_none());
}

#[tokio::test]
async fn a_broken_connection_is_an_error_and_no_timeout() {
    let (_server, transport) =
        before_delete(Duration::from_secs(10), |_| Answer::raw_response("").reset()).await;
    let error = soon(transport.terminate()).await.unwrap_err();
    assert!(!error.is_timeout() && error.status().is_none(), "{error:?}");
    assert_eq!(transport.session().id().unwrap(), SESSION);
}

#[tokio::test]
async fn a_status_is_an_answer_even_if_its_body_never_ends() {
    for status in [200, 405, 500] {
        let (_server, transport) = before_delete(Duration::from_secs(2), move |_| {
            Answer::status(status).chunked().body("text/plain", "wait for").hang()
        })
        .await;
        soon(transport.terminate()).await.unwrap();
        assert!(transport.session().id().is_none(), "{status}");
    }
}

#[tokio::test]
async fn a_call_in_flight_may_still_be_answered() {
    let gate = crate::support::Gate::new();
    let answer = gate.clone();
    let (_server, transport) =
        session(move |request| Answer::json(200, result(request, json!({ "sum": 5 }))).head_after(&answer))
            .await;
    let call = tokio::spawn({
        let transport = transport.clone();
        async move { ask_for_result(&transport, call(1)).await }
    });
    _server.wait_for(3).await;
    transport.terminate().await.unwrap();
    gate.open();
    assert_eq!(call.await.unwrap(), json!({ "sum": 5 }));
}
