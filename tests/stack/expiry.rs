//! Sessions that the server has forgotten.

use mcp_streamable_http::error::SessionExpired;
use mcp_streamable_http::{Error, ReinitializePolicy, StreamableHttp};
use serde_json::{Value, json};

use crate::common::*;
use crate::support::mcp::{SESSION, error, legacy_handshake, result};
use crate::support::{Answer, Gate, Request, Server};

const ID: &str = "mcp-session-id";

#[tokio::test]
async fn a_404_ends_the_session_until_there_is_another() {
    let server = session_server(|_| Answer::status(404).body("text/html", "<h1>Not Found</h1>")).await;
    let fail = ReinitializePolicy::Fail;
    let transport = StreamableHttp::builder(server.url()).reinitialize(fail).build().unwrap();
    handshake(&transport).await;
    let error = ask(&transport, call(1)).await.unwrap_err();
    assert_eq!(server.requests().len(), 3);
    assert!(error.is_session_expired() && !error.is_timeout() && !error.may_have_run());
    assert_eq!(error.status().unwrap(), 404);
    assert!(error.to_string().contains("404") && error.to_string().contains("initialize"), "{error}");
    let json_rpc = error.to_json_rpc();
    assert_eq!((json_rpc.code(), json_rpc.message()), (-32600, "Session terminated"));
    let data: Value = json_rpc.data().unwrap().to().unwrap();
    assert_eq!(data, json!({ "source": "mcp-streamable-http", "status": 404 }));
    assert!(transport.session().is_expired() && transport.session().id().is_none());

    // What follows is refused without being sent.
    let sent = server.requests().len();
    let refused = [
        send(&transport, ping(2)).await.map(drop),
        send(&transport, initialized()).await.map(drop),
        Err(next_error(&mut transport.listen()).await),
    ];
    for refused in refused {
        let error = refused.unwrap_err();
        assert!(error.is_session_expired() && !error.may_have_run(), "{error:?}");
        assert_eq!(error.find::<SessionExpired>().unwrap().status(), None);
    }
    transport.terminate().await.unwrap();
    assert_eq!(server.requests().len(), sent);

    handshake(&transport).await;
    ping_works(&transport).await;
    let requests = server.requests();
    assert_eq!(requests[sent].header(ID), None);
    assert_eq!(requests.last().unwrap().header(ID), Some(SESSION));
}

#[tokio::test]
async fn a_404_to_a_notification_is_expiry_too() {
    let (_server, transport) = session(|_| Answer::status(404)).await;
    let cancelled = mcp_streamable_http::JsonRpcMessage::notification("notifications/cancelled", ());
    assert!(send(&transport, cancelled).await.unwrap_err().is_session_expired());
    assert!(transport.session().is_expired());
}

async fn answer_to_404(body: impl Fn(&Request) -> Value + Send + Sync + 'static) -> (StreamableHttp, bool) {
    let (_server, transport) = session(move |request| Answer::json(404, body(request))).await;
    match ask(&transport, call(1)).await {
        Ok(response) => {
            response.outcome().unwrap_err();
            (transport, true)
        }
        Err(error) => {
            assert!(error.is_session_expired(), "{error:?}");
            (transport, false)
        }
    }
}

#[tokio::test]
async fn a_404_about_the_request_itself_is_its_answer() {
    for code in [-32601, -32602, -32002, -32603, 404] {
        let (transport, answered) = answer_to_404(move |request| error(request, code, "no such tool")).await;
        assert!(answered && !transport.session().is_expired(), "{code}");
    }
}

#[tokio::test]
async fn a_404_about_the_session_is_expiry_whatever_its_body() {
    for code in [-32000, -32001, -32600] {
        let (transport, answered) = answer_to_404(move |request| error(request, code, "no session")).await;
        assert!(!answered && transport.session().is_expired(), "{code}");
    }
    for id in [json!(null), json!("server-error"), json!(99), json!("1")] {
        let body = json!({ "jsonrpc": "2.0", "id": id, "error": { "code": -32602, "message": "?" } });
        let (transport, answered) = answer_to_404(move |_| body.clone()).await;
        assert!(!answered && transport.session().is_expired(), "{id}");
    }
    let (transport, answered) = answer_to_404(|request| result(request, json!({}))).await;
    assert!(!answered && transport.session().is_expired(), "a result");
}

#[tokio::test]
async fn no_other_status_is_expiry_or_a_timeout() {
    for status in [400, 401, 403, 405, 408, 409, 410, 429, 500, 502, 503, 504] {
        let (server, transport) =
            session(move |_| Answer::status(status).header("retry-after", "3").text("no")).await;
        let error = ask(&transport, call(1)).await.unwrap_err();
        assert!(!error.is_session_expired() && !error.is_timeout(), "{status}");
        assert_eq!(error.status().unwrap(), status);
        assert_eq!(error.retry_after().unwrap().as_secs(), 3);
        assert_eq!(error.to_json_rpc().code(), -32603);
        assert_eq!(error.may_have_run(), status >= 500, "{status}");
        ping_works(&transport).await;
        assert_eq!(server.requests().last().unwrap().header(ID), Some(SESSION), "{status}");
    }
}

#[tokio::test]
async fn a_404_without_a_session_is_not_expiry() {
    let server = server(|_| Answer::status(404).text("nothing here")).await;
    let transport = transport(&server);
    let error = ask(&transport, call(1)).await.unwrap_err();
    assert!(!error.is_session_expired());
    assert_eq!(error.status().unwrap(), 404);
    assert_eq!((error.to_json_rpc().code(), error.to_json_rpc().message()), (-32601, "Not Found"));
    ping_works(&transport).await;
}

/// A call is in flight when a second handshake begins the session `s-2`, and then finds that `s-1` is gone. Returns the
/// server, the transport, and what becomes of the call.
async fn late_404(policy: ReinitializePolicy) -> (Server, StreamableHttp, Result<Value, Error>) {
    let gate = Gate::new();
    let answer = gate.clone();
    let server = server(move |request| match (request.rpc_method(), request.nth) {
        (Some("initialize"), 1) => legacy_handshake(request).unwrap().header(ID, "s-2"),
        (Some("tools/call"), 0) => Answer::status(404).head_after(&answer),
        (Some("tools/call"), _) => Answer::json(200, result(request, json!({ "sum": 5 }))),
        _ => legacy_handshake(request).unwrap(),
    })
    .await;
    let transport = StreamableHttp::builder(server.url()).reinitialize(policy).build().unwrap();
    handshake(&transport).await;
    let late = tokio::spawn({
        let transport = transport.clone();
        async move { ask(&transport, call(1)).await }
    });
    server.wait_for(3).await;
    handshake(&transport).await;
    gate.open();
    let outcome = late.await.unwrap().map(|response| response.result().unwrap());
    (server, transport, outcome)
}

/// The sessions that the requests with this method were sent in.
fn sessions_of(server: &Server, method: &str) -> Vec<Option<String>> {
    let sent = server.requests().into_iter().filter(|request| is(request, method));
    sent.map(|request| request.header(ID).map(str::to_owned)).collect()
}

#[tokio::test]
async fn a_late_404_sends_the_call_again_in_the_session_that_there_is() {
    let (server, transport, outcome) = late_404(ReinitializePolicy::Replay).await;
    assert_eq!(outcome.unwrap(), json!({ "sum": 5 }));
    assert_eq!(sessions_of(&server, "tools/call"), [Some(SESSION.to_owned()), Some("s-2".to_owned())]);
    // The application has begun that session, so there is no third.
    assert_eq!(sessions_of(&server, "initialize"), [None, None]);
    assert_eq!(transport.session().id().unwrap(), "s-2");
}

#[tokio::test]
async fn a_late_404_leaves_the_next_session_alone() {
    for policy in [ReinitializePolicy::Renew, ReinitializePolicy::Fail] {
        let (server, transport, outcome) = late_404(policy).await;
        assert!(outcome.unwrap_err().is_session_expired(), "{policy:?}");
        assert_eq!(sessions_of(&server, "tools/call"), [Some(SESSION.to_owned())], "{policy:?}");
        assert_eq!(sessions_of(&server, "initialize"), [None, None], "{policy:?}");
        assert_eq!(transport.session().id().unwrap(), "s-2", "{policy:?}");
        ping_works(&transport).await;
        assert_eq!(server.requests().last().unwrap().header(ID), Some("s-2"));
    }
}

#[tokio::test]
async fn an_open_stream_may_still_answer_when_the_session_has_died() {
    let gate = Gate::new();
    let answer = gate.clone();
    let (_server, transport) = session(move |request| match request.nth {
        0 => Answer::sse().event(progress(1)).wait(&answer).event(result(request, json!({ "sum": 5 }))),
        _ => Answer::status(404),
    })
    .await;
    let mut open = send(&transport, call(1)).await.unwrap();
    next_message(&mut open).await;
    assert!(ask(&transport, call(2)).await.unwrap_err().is_session_expired());
    gate.open();
    let response = soon(open.response()).await.unwrap();
    assert_eq!(response.result::<Value>().unwrap(), json!({ "sum": 5 }));
}
