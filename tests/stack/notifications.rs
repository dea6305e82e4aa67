//! Answers to notifications and to responses.

use mcp_streamable_http::{JsonRpcError, JsonRpcMessage, Limits, StreamableHttp};
use serde_json::json;

use crate::common::*;
use crate::support::mcp::{error, result};
use crate::support::{Answer, Request};

/// A notification, and both kinds of response.
fn messages() -> [JsonRpcMessage; 3] {
    [
        JsonRpcMessage::notification("notifications/progress", json!({ "progress": 1 })),
        JsonRpcMessage::response("server-1", json!({ "roots": [] })),
        JsonRpcMessage::error(7, JsonRpcError::new(-32601, "no")),
    ]
}

type Script = fn(&Request) -> Answer;

const ACCEPTANCES: [(&str, Script); 12] = [
    ("202", |_| Answer::status(202)),
    ("204", |_| Answer::status(204)),
    ("200 without a body", |_| Answer::status(200)),
    ("200 with an object", |_| Answer::json(200, json!({}))),
    ("200 with a result", |request| Answer::json(200, result(request, json!({})))),
    ("200 with an error", |request| Answer::json(200, error(request, -32600, "?"))),
    ("200 with text", |_| Answer::status(200).text("ok")),
    ("202 with half of JSON", |_| Answer::status(202).body("application/json", "{")),
    ("an empty chunked body", |_| Answer::status(202).chunked()),
    ("an empty stream", |_| Answer::sse()),
    ("a stream with a message", |_| Answer::sse().event(progress(1))),
    ("an unknown success", |_| Answer::status(299).until_close().body("text/html", "<p>")),
];

#[tokio::test]
async fn any_success_is_acceptance() {
    for (name, script) in ACCEPTANCES {
        let server = server(script).await;
        let transport = transport(&server);
        for message in messages() {
            let reply =
                send(&transport, message.clone()).await.unwrap_or_else(|error| panic!("{name}: {error}"));
            assert_eq!(outline(&rest(reply).await), [""; 0], "{name}");
        }
        ping_works(&transport).await;
        assert_eq!(server.requests().len(), 4, "{name}");
    }
}

#[tokio::test]
async fn acceptance_does_not_wait_for_the_body() {
    let server = server(|_| Answer::status(202).chunked().text("ok, and").hang()).await;
    let limits = Limits::default().drain_timeout(std::time::Duration::from_millis(20));
    let transport = StreamableHttp::builder(server.url()).limits(limits).build().unwrap();
    for message in messages() {
        assert!(rest(send(&transport, message).await.unwrap()).await.is_empty());
    }
    server.wait_gone(3).await;
    ping_works(&transport).await;
}

#[tokio::test]
async fn a_body_that_ends_is_drained_so_that_the_connection_lives_on() {
    let server = server(|_| Answer::status(202).text("accepted, ".repeat(500))).await;
    let transport = transport(&server);
    for message in messages().into_iter().cycle().take(30) {
        assert!(rest(send(&transport, message).await.unwrap()).await.is_empty());
        // A round trip: the body is drained by then.
        ping_works(&transport).await;
    }
    assert!(server.connections() <= 2, "{}", server.connections());
}

#[tokio::test]
async fn any_other_status_is_an_error_and_the_transport_lives_on() {
    for status in [301, 400, 401, 403, 404, 405, 409, 413, 429, 500, 502, 503] {
        let server = server(move |request| {
            Answer::json(status, error(request, -32600, "not like this")).header("retry-after", "2")
        })
        .await;
        let transport = transport(&server);
        for message in messages() {
            let error = send(&transport, message).await.unwrap_err();
            assert_eq!(error.status().unwrap(), status);
            assert_eq!(error.retry_after().unwrap().as_secs(), 2);
            let text = error.to_string();
            assert!(text.contains(&status.to_string()) && text.contains("not like this"), "{text}");
            assert!(!error.is_timeout() && !error.is_session_expired());
        }
        ping_works(&transport).await;
    }
}

#[tokio::test]
async fn a_challenge_to_a_notification_is_told() {
    let server = server(|_| Answer::status(401).header("www-authenticate", "Bearer realm=\"r\"")).await;
    for message in messages() {
        let error = send(&transport(&server), message).await.unwrap_err();
        assert_eq!(error.challenges().len(), 1);
    }
}

#[tokio::test]
async fn it_has_no_response_to_wait_for() {
    let server = server(|_| Answer::status(202)).await;
    for message in messages() {
        let reply = send(&transport(&server), message).await.unwrap();
        let error = soon(reply.response()).await.unwrap_err();
        assert!(error.to_string().contains("only a request has a response"), "{error}");
    }
}

#[tokio::test]
async fn messages_travel_as_they_are() {
    let server = server(|_| Answer::status(202)).await;
    let transport = transport(&server);
    for message in messages() {
        drop(send(&transport, message).await.unwrap());
    }
    let sent: Vec<_> = server.requests().iter().map(Request::json).collect();
    assert_eq!(
        sent,
        [
            json!({ "jsonrpc": "2.0", "method": "notifications/progress", "params": { "progress": 1 } }),
            json!({ "jsonrpc": "2.0", "id": "server-1", "result": { "roots": [] } }),
            json!({ "jsonrpc": "2.0", "id": 7, "error": { "code": -32601, "message": "no" } }),
        ]
    );
}
