//! The mode `Auto`: what makes it fall back to `initialize`, and what must not.

use std::time::Duration;

use mcp_streamable_http_rmcp::{IntoRmcp, TransportError};
use rmcp::model::ProtocolVersion;
use rmcp::service::{ClientInitializeError, ClientLifecycleMode, ClientServiceExt};
use serde_json::{Value, json};

use crate::common::*;
use crate::support::{Answer, Seen, Server, legacy};

/// A server of the legacy era that answers `server/discover` as it likes.
fn legacy_with(discover: impl Fn(&Seen) -> Answer + Send + Sync + 'static) -> Server {
    Server::scripted(move |seen| match seen.what() {
        "server/discover" => Some(discover(seen)),
        "GET" => Some(Answer::status(405)),
        _ => legacy(seen),
    })
}

#[tokio::test(start_paused = true)]
async fn a_server_that_does_not_know_the_question_is_legacy() {
    let foreign = |id: Value, code: i64| {
        json!({ "jsonrpc": "2.0", "id": id, "error": { "code": code, "message": "no" } }).to_string()
    };
    let json = "application/json";
    let answers: [(u16, &str, String); 13] = [
        (422, "text/plain", "what?".into()),
        (422, "text/html", "x".repeat(100_000)),
        (404, "text/html", "<html>".into()),
        (405, json, "{}".into()),
        (400, json, foreign("server-error".into(), -32600)),
        (400, json, foreign(Value::Null, -32602)),
        (404, json, foreign(0.into(), -32601)),
        (200, json, foreign(0.into(), -32601)),
        (200, json, foreign("0".into(), -32601)),
        (200, "text/event-stream", String::new()),
        (200, "text/html", "<html>".into()),
        (200, json, "{}".into()),
        (202, "", String::new()),
    ];
    for (status, content_type, body) in answers {
        let shown = format!("{status} {content_type} {body:.60}");
        let server = legacy_with(move |_| Answer::of(status, content_type, body.clone()));
        let client =
            soon(discovering(&server, auto())).await.unwrap_or_else(|error| panic!("{shown}: {error}"));
        assert_eq!(client.peer_info().unwrap().protocol_version.as_str(), VERSION, "{shown}");
        settle().await;
        let expected = ["server/discover", "initialize", "notifications/initialized", "GET"];
        assert_eq!(server.outline(), expected, "{shown}");
        // Nothing of the question is left in the session.
        assert_eq!(server.seen()[3].header("mcp-protocol-version"), Some(VERSION));
    }
}

#[tokio::test(start_paused = true)]
async fn one_that_wants_another_version_is_asked_again() {
    let server = Server::scripted(|seen| {
        let version = &seen.message["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"];
        Some(match version == VERSION {
            true => Answer::json(&seen.result(json!({
                "resultType": "complete", "supportedVersions": [VERSION], "capabilities": {}, "ttlMs": 0, "cacheScope": "private",
            }))),
            false => {
                let mut refusal = refusal(seen, -32022, json!({ "supported": [VERSION], "requested": MODERN }));
                refusal["id"] = "server-error".into();
                Answer::of(400, "application/json", refusal.to_string())
            }
        })
    });
    let lifecycle = ClientLifecycleMode::Auto {
        preferred_versions: vec![ProtocolVersion::V_2026_07_28, ProtocolVersion::V_2025_11_25],
        legacy_version: None,
    };
    soon(discovering(&server, lifecycle)).await.unwrap();
    settle().await;
    assert_eq!(server.outline(), ["server/discover", "server/discover"]);
}

#[tokio::test(start_paused = true)]
async fn one_in_trouble_is_not_taken_for_legacy() {
    for (status, body) in [(429, ""), (500, ""), (503, "busy"), (403, "")] {
        let server = legacy_with(move |_| Answer::of(status, "text/plain", body).header("retry-after", "17"));
        let error = in_time(discovering(&server, auto())).await.map(drop).expect_err(&status.to_string());
        let cause = TransportError::of_startup(&error).unwrap_or_else(|| panic!("{error:?}")).error();
        assert_eq!(cause.status().unwrap().as_u16(), status);
        assert_eq!(cause.retry_after(), Some(Duration::from_secs(17)));
        assert_eq!(error.auth_challenge(), None);
        assert_eq!(server.outline(), ["server/discover"]);
    }
}

#[tokio::test(start_paused = true)]
async fn nor_is_one_that_says_too_much() {
    let server = legacy_with(|_| Answer::of(200, "application/json", vec![b' '; 65 << 20]));
    let error = soon(discovering(&server, auto())).await.unwrap_err();
    assert!(TransportError::of_startup(&error).is_some(), "{error:?}");
    assert_eq!(server.outline(), ["server/discover"]);
}

#[tokio::test(start_paused = true)]
async fn nor_one_whose_connection_breaks() {
    let server = legacy_with(|_| Answer::broken());
    let error = in_time(discovering(&server, auto())).await.unwrap_err();
    assert!(TransportError::of_startup(&error).is_some(), "{error:?}");
    assert_eq!(server.count("initialize"), 0);
}

#[tokio::test(start_paused = true)]
async fn nor_one_that_breaks_off_in_the_middle() {
    let mut server = Server::manual();
    let transport = server.transport();
    let starting = tokio::spawn(async move { ().serve_with_lifecycle(transport.into_rmcp(), auto()).await });
    let asked = server.expect("server/discover").await.open();
    asked.send(&log());
    settle().await;
    asked.send_text(vec![b'x'; 17 << 20]);
    let error = soon(starting).await.unwrap().unwrap_err();
    assert!(TransportError::of_startup(&error).is_some(), "{error:?}");
    assert_eq!(server.count("initialize"), 0);
}

#[tokio::test(start_paused = true)]
async fn one_that_talks_without_end_before_it_answers_is_given_up() {
    let mut server = Server::manual();
    let transport = server.transport();
    let starting =
        tokio::spawn(async move { ().serve_with_lifecycle(transport.into_rmcp(), discover()).await });
    let asked = server.expect("server/discover").await.open();
    (0..1000).for_each(|_| asked.send(&log()));
    let error = in_time(starting).await.unwrap().unwrap_err();
    assert!(TransportError::of_startup(&error).unwrap().error().is_timeout(), "{error:?}");
}

#[tokio::test(start_paused = true)]
async fn a_modern_refusal_is_final() {
    for code in [-32020, -32021] {
        let server = legacy_with(move |seen| {
            Answer::of(400, "application/json", refusal(seen, code, Value::Null).to_string())
        });
        let error = soon(discovering(&server, auto())).await.unwrap_err();
        assert!(
            matches!(&error, ClientInitializeError::JsonRpcError(error) if i64::from(error.code.0) == code)
        );
        assert_eq!(server.outline(), ["server/discover"]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_silent_is_legacy_after_ten_seconds() {
    for has_begun in [false, true] {
        let mut server = Server::scripted(|seen| match seen.what() {
            "initialize" => None,
            "GET" => Some(Answer::status(405)),
            "server/discover" => None,
            _ => legacy(seen),
        });
        let transport = server.transport();
        let starting =
            tokio::spawn(async move { ().serve_with_lifecycle(transport.into_rmcp(), auto()).await });
        let asked = server.expect("server/discover").await;
        let (headless, begun) = if has_begun { (None, Some(asked.open())) } else { (Some(asked), None) };
        if let Some(asked) = &begun {
            asked.send(&log());
        }
        let initialize = server.next_in_time().await;
        assert_eq!(initialize.seen.what(), "initialize");
        settle().await;
        // It was given up the way of its era: nothing was posted.
        assert!(headless.is_none_or(|asked| asked.is_dropped()));
        assert!(begun.is_none_or(|asked| asked.is_dropped()));
        let answer = legacy(&initialize.seen).unwrap();
        initialize.answer(answer);
        let _client = soon(starting).await.unwrap().unwrap();
        settle().await;
        let expected = ["server/discover", "initialize", "notifications/initialized", "GET"];
        assert_eq!(server.outline(), expected);
    }
}
