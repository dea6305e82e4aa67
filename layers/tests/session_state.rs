//! The state of a connection as an application sees it: stored and taken up again, and watched.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "in a test a panic is how it fails, in its helpers too"
)]

mod common;

use common::client::{Client, RESULT};
use common::*;
use http::HeaderValue;
use mcp_streamable_http_layers::headers::MCP_SESSION_ID;
use mcp_streamable_http_layers::{JsonRpcMessage, SavedSession, Session, SessionStatus, SessionWatch};
use serde_json::{Value, json};
use tokio_test::task;

fn store(session: &Session) -> String {
    serde_json::to_string(&session.save().unwrap()).unwrap()
}

fn load(stored: &str) -> Result<SavedSession, serde_json::Error> {
    serde_json::from_str(stored)
}

/// A session that was taken up from what was stored.
fn restored(stored: &str) -> Session {
    let session = Session::new();
    session.restore(load(stored).unwrap());
    session
}

/// What the watch says without waiting; `None`: that nothing has changed.
fn told(watch: &mut SessionWatch) -> Option<SessionStatus> {
    match task::spawn(watch.changed()).poll() {
        std::task::Poll::Ready(status) => Some(status),
        std::task::Poll::Pending => None,
    }
}

#[test]
fn a_session_survives_storage_whole() {
    let client = Client::in_session("one");
    let stored = store(&client.session);
    let session = restored(&stored);
    assert_eq!(session.id().unwrap(), "one");
    assert_eq!(session.version().unwrap().as_str(), "2025-06-18");
    assert_eq!(session.status(), SessionStatus::Live);
    let (before, after) = (client.session.handshake().unwrap(), session.handshake().unwrap());
    assert_eq!(JsonRpcMessage::from(after), JsonRpcMessage::from(before));
    assert_eq!(store(&session), stored, "and once more");
}

#[test]
fn numbers_and_the_order_of_members_in_the_handshake_survive_storage() {
    let params = r#"{"z":1.0,"protocolVersion":"2025-11-25","a":12345678901234567890123}"#;
    let text = format!(r#"{{"jsonrpc":"2.0","id":"x","method":"initialize","params":{params}}}"#);
    let stored = json!({ "id": "s", "protocolVersion": "2025-11-25", "initialize": text }).to_string();
    let session = restored(&stored);
    assert_eq!(session.handshake().unwrap().params().unwrap().as_str(), params);
    assert_eq!(store(&session), store(&restored(&store(&session))));
}

#[test]
fn every_byte_that_a_header_can_carry_survives_storage() {
    let bytes: Vec<u8> = (0x20..=0x7e).chain(0x80..=0xff).chain([b'\t']).collect();
    let mut client = Client::new();
    let answer = with_header(json_answer(RESULT), "mcp-session-id", &bytes);
    response(client.exchange(initialize(1), answer)).unwrap();
    let stored = store(&client.session);
    assert!(serde_json::from_str::<Value>(&stored).is_ok());
    let id = restored(&stored).id().unwrap();
    assert_eq!(id.as_bytes(), bytes);
    assert!(id.is_sensitive());
}

#[test]
fn a_session_without_an_id_is_stored_for_its_version_and_handshake() {
    let mut client = Client::new();
    response(client.exchange(initialize(1), json_answer(RESULT))).unwrap();
    let session = restored(&store(&client.session));
    assert!(session.id().is_none() && session.handshake().is_some());
    assert_eq!(session.version().unwrap().as_str(), "2025-06-18");
    assert_eq!(session.status(), SessionStatus::None);
}

#[test]
fn there_is_nothing_to_store_before_a_handshake_nor_after_the_end() {
    assert!(Session::new().save().is_none());
    let mut client = Client::in_session("one");
    let _ = client.exchange_empty(endpoint().delete(), answer(200, "", "")).1.unwrap();
    assert!(client.session.save().is_none());
}

#[test]
fn an_expired_session_is_stored_without_the_id_that_is_of_no_more_use() {
    let mut client = Client::in_session("one");
    client.exchange(ping(2), answer(404, "", "")).unwrap_err();
    let stored = store(&client.session);
    assert!(!stored.contains("one"), "{stored}");
    assert!(restored(&stored).handshake().is_some());
}

#[test]
fn the_next_request_is_sent_in_the_restored_session() {
    let stored = store(&Client::in_session("one").session);
    let mut client = Client::new();
    client.session.restore(load(&stored).unwrap());
    let headers = client.headers_of(ping(2));
    assert_eq!(headers[MCP_SESSION_ID], "one");
    assert_eq!(headers["mcp-protocol-version"], "2025-06-18");
}

#[test]
fn a_restored_session_takes_the_place_of_the_one_that_was_there() {
    let stored = store(&Client::in_session("one").session);
    let mut client = Client::in_session("other");
    let slow = client.send(ping(2));
    let (_, reply) = client.server.received();
    client.session.restore(load(&stored).unwrap());
    reply.send_response(answer(404, "", ""));
    assert!(now(slow).unwrap_err().is_session_expired());
    assert_eq!(client.session.id().unwrap(), "one", "that 404 was about another session");
}

#[test]
fn the_answer_to_an_earlier_initialize_does_not_replace_a_restored_session() {
    let stored = store(&Client::in_session("one").session);
    let mut client = Client::new();
    let slow = client.send(initialize(1));
    let (_, reply) = client.server.received();
    client.session.restore(load(&stored).unwrap());
    reply.send_response(with_header(json_answer(RESULT), "mcp-session-id", b"late"));
    response(now(slow)).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(client.session.id().unwrap(), "one");
}

#[test]
fn nothing_shows_the_id_but_the_stored_form() {
    const SECRET: &str = "s3cret-id";
    let client = Client::in_session(SECRET);
    let saved = client.session.save().unwrap();
    let debug =
        format!("{saved:?} {:?} {:?} {:?}", client.session, client.session.id(), client.session.watch());
    assert!(!debug.contains(SECRET), "{debug}");
    assert!(debug.contains("2025-06-18"), "what is no secret is shown: {debug}");
    assert!(format!("{saved:#?}").contains("has_id: true"));
    assert!(store(&client.session).contains(SECRET));
}

#[test]
fn what_is_no_stored_session_is_an_error_that_does_not_show_the_id() {
    let request = |method: &str| json!({ "jsonrpc": "2.0", "id": 1, "method": method }).to_string();
    for (bad, why) in [
        (json!({ "id": "s3cret\n" }), "the id cannot be sent in a header"),
        (json!({ "id": "s3cret\u{0}" }), "the id cannot be sent in a header"),
        (json!({ "id": "s3cret\u{100}" }), "the id cannot be sent in a header"),
        (json!({ "id": 7 }), "`id` is not a string"),
        (json!({ "id": { "s3cret": 1 } }), "`id` is not a string"),
        (json!({ "id": "s3cret", "protocolVersion": 1 }), "`protocolVersion` is not a string"),
        (json!({ "id": "s3cret", "protocolVersion": "" }), "version"),
        (json!({ "id": "s3cret", "protocolVersion": "a\nb" }), "version"),
        (json!({ "id": "s3cret", "initialize": {} }), "`initialize` is not a string"),
        (json!({ "id": "s3cret", "initialize": "{" }), "`initialize` is not such a request"),
        (json!({ "id": "s3cret", "initialize": request("ping") }), "`initialize` is not such a request"),
        (
            json!({ "id": "s3cret", "initialize": r#"{"jsonrpc":"2.0","method":"initialize"}"# }),
            "`initialize` is not such a request",
        ),
    ] {
        let error = load(&bad.to_string()).unwrap_err().to_string();
        assert!(error.contains(why), "{bad}: {error}");
        assert!(!error.contains("s3cret"), "{error}");
    }
    assert!(load(r#"{"id":"#).is_err());
}

#[test]
fn what_is_no_map_at_all_is_an_error() {
    for bad in ["7", "[]", r#""one""#, "true"] {
        assert!(load(bad).is_err(), "{bad} was taken for a session");
    }
}

#[test]
fn what_is_missing_in_the_stored_form_is_none() {
    let session = restored(r#"{"id":"one","later":"addition"}"#);
    assert_eq!(session.id().unwrap(), HeaderValue::from_static("one"));
    assert!(session.version().is_none() && session.handshake().is_none());
}

#[test]
fn a_watch_tells_of_the_beginning_the_expiry_the_next_session_and_the_end() {
    let mut client = Client::new();
    let mut watch = client.session.watch();
    assert_eq!((told(&mut watch), client.session.status()), (None, SessionStatus::None));

    client.begin("one");
    assert_eq!(told(&mut watch), Some(SessionStatus::Live));
    assert_eq!(told(&mut watch), None, "once for each change");

    response(client.exchange(ping(1), json_answer(bridge::PONG))).unwrap();
    assert_eq!(told(&mut watch), None, "an answer is no change");

    client.exchange(ping(2), answer(404, "", "")).unwrap_err();
    assert_eq!(told(&mut watch), Some(SessionStatus::Expired));

    client.begin("two");
    assert_eq!(told(&mut watch), Some(SessionStatus::Live));

    let _ = client.exchange_empty(endpoint().delete(), answer(405, "", "")).1.unwrap();
    assert_eq!(told(&mut watch), Some(SessionStatus::None));
    assert_eq!(told(&mut watch), None);
}

#[test]
fn whoever_waits_is_woken_when_an_initialize_is_sent_and_when_it_is_answered() {
    let mut client = Client::in_session("one");
    let (session, mut watch) = (client.session.clone(), client.session.watch());
    let mut waiting = task::spawn(watch.changed());
    assert!(waiting.poll().is_pending());
    let sent = client.send(initialize(1));
    assert!(waiting.is_woken());
    assert_eq!(
        tokio_test::assert_ready!(waiting.poll()),
        SessionStatus::None,
        "what was negotiated no longer counts"
    );
    drop(waiting);

    let (_, reply) = client.server.received();
    reply.send_response(with_header(json_answer(RESULT), "mcp-session-id", b"two"));
    response(now(sent)).unwrap();
    assert_eq!(told(&mut watch), Some(SessionStatus::Live));
    assert_eq!(session.id().unwrap(), "two");
}

#[test]
fn a_watch_that_was_not_looked_at_tells_what_is_the_case_now() {
    let mut client = Client::new();
    let mut watch = client.session.watch();
    client.begin("one");
    client.exchange(ping(2), answer(404, "", "")).unwrap_err();
    client.begin("two");
    assert_eq!(told(&mut watch), Some(SessionStatus::Live));
    assert_eq!(told(&mut watch), None);
}

#[test]
fn a_wait_that_was_cancelled_loses_nothing_and_every_watch_is_told() {
    let mut client = Client::new();
    let (mut first, mut second) = (client.session.watch(), client.session.watch());
    assert_eq!(told(&mut first), None);
    client.session.restore(load(r#"{"id":"one"}"#).unwrap());
    drop(first.changed());
    assert_eq!(told(&mut first), Some(SessionStatus::Live));
    assert_eq!(told(&mut first.clone()), None);
    assert_eq!(told(&mut second), Some(SessionStatus::Live));
    client.begin("two");
    assert_eq!(told(&mut second), Some(SessionStatus::Live), "it is another");
}

#[test]
fn a_watch_starts_with_what_comes_after_it() {
    let client = Client::in_session("one");
    let mut watch = client.session.watch();
    assert_eq!(told(&mut watch), None);
    assert_eq!(client.session.status(), SessionStatus::Live);
}
