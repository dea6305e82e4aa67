//! Clients and servers of either era, as far as they can be told apart from here.

use mcp_streamable_http::Probe;
use serde_json::{Value, json};

use crate::asked::*;
use crate::common::*;
use crate::support::*;

fn unsupported(supported: &[&str]) -> Value {
    json!({ "code": -32022, "message": "Unsupported protocol version", "data": { "supported": supported, "requested": MODERN } })
}

/// A client of both eras finds out which, and does the first thing that it wants to do.
async fn adapts_to(server: &Server) -> Vec<String> {
    let transport = plain(server);
    if let Probe::Modern { .. } = in_time(transport.probe(meta())).await.unwrap() {
        ask(&transport, tool(1)).await.unwrap();
    } else {
        ask(&transport, initialize(1)).await.unwrap();
        accepted(&transport, initialized()).await;
        ask(&transport, request(2)).await.unwrap();
    }
    server.outline()
}

const STAYS_MODERN: [&str; 2] = ["server/discover", "tools/call"];
const FALLS_BACK: [&str; 4] = ["server/discover", "initialize", "notifications/initialized", "ping"];

#[tokio::test(start_paused = true)]
async fn a_client_of_both_stays_modern_with_a_modern_server() {
    let server = Server::scripted(chatty);
    assert_eq!(adapts_to(&server).await, STAYS_MODERN);
    // One that would have another modern version is modern too.
    let server = Server::scripted(|seen| match seen.what() {
        "server/discover" => Some(refused(seen, 400, &unsupported(&["2027-01-01"]))),
        _ => chatty(seen),
    });
    assert_eq!(adapts_to(&server).await, STAYS_MODERN);
    let server = Server::scripted(|seen| chatty(seen).or_else(|| legacy(seen)));
    assert_eq!(adapts_to(&server).await, STAYS_MODERN);
}

#[tokio::test(start_paused = true)]
async fn a_client_of_both_falls_back_with_a_legacy_server() {
    let answers: [fn(&Seen) -> Answer; 9] = [
        |_| with_status(400, Answer::text("text/plain", "Bad Request: Missing session ID")),
        |_| {
            with_status(
                400,
                Answer::json(
                    &json!({ "jsonrpc": "2.0", "id": "server-error", "error": { "code": -32600, "message": "Missing session ID" } }),
                ),
            )
        },
        |_| {
            with_status(
                400,
                Answer::json(
                    &json!({ "jsonrpc": "2.0", "id": null, "error": { "code": -32000, "message": "Bad Request: Server not initialized" } }),
                ),
            )
        },
        |_| Answer::status(404),
        |_| Answer::status(405),
        |seen| refused(seen, 404, &json!({ "code": -32601, "message": "Method not found" })),
        |seen| refused(seen, 200, &json!({ "code": -32601, "message": "Method not found" })),
        |seen| refused(seen, 400, &unsupported(&["2025-11-25", "2025-06-18"])),
        |_| Answer::events(&[]),
    ];
    for answer in answers {
        let server = Server::scripted(move |seen| match seen.what() {
            "server/discover" => Some(answer(seen)),
            "ping" => Some(Answer::json(&seen.result(json!({})))),
            _ => legacy(seen),
        });
        let mut sent = adapts_to(&server).await;
        // An empty stream is a break as well, after which it may be asked once more.
        sent.dedup();
        assert_eq!(sent, FALLS_BACK);
    }
}

#[tokio::test(start_paused = true)]
async fn a_modern_client_works_with_a_modern_server_without_asking_and_learns_of_versions() {
    let server = Server::scripted(|seen| match seen.header("mcp-protocol-version") {
        Some(MODERN) => Some(refused(seen, 400, &unsupported(&["2027-01-01"]))),
        _ => chatty(seen),
    });
    let transport = plain(&server);
    let response = ask(&transport, tool(1)).await.unwrap();
    let error = response.outcome().unwrap_err();
    // As the server has said it.
    assert_eq!(error.as_raw().to::<Value>().unwrap(), unsupported(&["2027-01-01"]));
    let other = json!({ "name": "add", "_meta": { KEY: "2027-01-01" } });
    let response =
        ask(&transport, mcp_streamable_http::JsonRpcMessage::request(2, "tools/call", other)).await.unwrap();
    assert_eq!(response.result::<Value>().unwrap(), json!({ "a": 1 }));
    let headers: Vec<_> =
        server.seen().iter().map(|seen| seen.header("mcp-protocol-version").unwrap().to_owned()).collect();
    assert_eq!(headers, [MODERN, "2027-01-01"]);
}

#[tokio::test(start_paused = true)]
async fn a_modern_client_is_told_what_a_legacy_server_says() {
    let server =
        Server::scripted(|_| Some(with_status(400, Answer::text("text/plain", "Missing session ID"))));
    let error = ask(&plain(&server), tool(1)).await.unwrap_err();
    assert_eq!(error.status().unwrap(), 400);
    assert!(error.to_string().contains("Missing session ID") && !error.may_have_run());

    let server = Server::scripted(|seen| {
        Some(refused(seen, 400, &json!({ "code": -32600, "message": "no session" })))
    });
    let response = ask(&plain(&server), tool(1)).await.unwrap();
    assert_eq!(response.outcome().unwrap_err().message(), "no session");
    assert_eq!(server.outline(), ["tools/call"], "nothing else is tried");
}

#[tokio::test(start_paused = true)]
async fn a_legacy_client_is_told_what_a_modern_server_says() {
    let server = Server::scripted(|seen| Some(refused(seen, 400, &unsupported(&[MODERN]))));
    let response = ask(&plain(&server), initialize(1)).await.unwrap();
    assert_eq!(response.outcome().unwrap_err().as_raw().to::<Value>().unwrap(), unsupported(&[MODERN]));
    assert_eq!(server.outline(), ["initialize"]);
}

#[tokio::test(start_paused = true)]
async fn a_legacy_client_works_with_a_server_of_both() {
    let server = Server::scripted(|seen| match seen.what() {
        "ping" => Some(Answer::json(&seen.result(json!({})))),
        _ => chatty(seen).or_else(|| legacy(seen)),
    });
    let transport = plain(&server);
    ask(&transport, initialize(1)).await.unwrap();
    accepted(&transport, initialized()).await;
    ask(&transport, request(2)).await.unwrap();
    let seen = server.seen();
    assert!(seen.iter().all(|seen| seen.header("mcp-method").is_none()));
    assert_eq!(seen[2].header("mcp-session-id"), Some(SESSION));
}
