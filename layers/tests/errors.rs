//! Errors: what they tell the caller, what they become in JSON-RPC, and what they keep to themselves.

#![allow(clippy::unwrap_used)]

mod common;

use std::fmt;
use std::time::Duration;

use common::bridge::Answer;
use common::client::Client;
use common::*;
use http::{Request, Response};
use mcp_streamable_http_layers::error::{
    BoxError, BrokenStream, EndedStream, InvalidMessage, NotOffered, NotSent, SessionExpired, TimedOut,
    TooLarge, Undecodable, UnexpectedContent, UnexpectedStatus,
};
use mcp_streamable_http_layers::{EnvelopeLayer, Error, Events, JsonRpcMessage, Payload, Session};
use serde_json::{Value, json};
use tokio_test::assert_pending;
use tower::{Layer, timeout::Timeout};
use tower_test::mock;

const REFUSAL: &str = r#"{"jsonrpc":"2.0","id":2,"error":{"code":-32042,"message":"m","data":{"own":1}}}"#;

/// The error that `message` ends with, sent in the session "s-1" or without one.
fn failed_with(in_session: bool, message: JsonRpcMessage, answer: Answer) -> Error {
    let mut client = if in_session { Client::in_session("s-1") } else { Client::new() };
    response(client.exchange(message, answer)).unwrap_err()
}

fn failed(answer: Answer) -> Error {
    failed_with(true, ping(2), answer)
}

fn challenge(answer: Answer) -> Answer {
    with_header(answer, "www-authenticate", b"Bearer realm=\"s3cret\"")
}

fn data_of(error: &Error) -> Value {
    error.to_json_rpc().data().unwrap().to().unwrap()
}

/// A layer's error around another, as users have them.
#[derive(Debug)]
struct Wrapped(BoxError);

impl fmt::Display for Wrapped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("wrapped")
    }
}

impl std::error::Error for Wrapped {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&*self.0)
    }
}

fn wrapped(error: impl Into<BoxError>) -> Wrapped {
    Wrapped(error.into())
}

#[test]
fn each_answer_that_is_none_has_a_code_and_its_status() {
    let stream = |text: &str| answer(200, "text/event-stream", format!("data: {text}\n\n"));
    for (code, status, error) in [
        (-32601, 404, failed_with(false, ping(2), answer(404, "", ""))),
        (-32600, 404, failed(answer(404, "", ""))),
        (-32600, 202, failed(answer(202, "", ""))),
        (-32600, 204, failed(answer(204, "", ""))),
        (-32600, 200, failed(answer(200, "", ""))),
        (-32600, 200, failed(json_answer(""))),
        (-32600, 200, failed(answer(200, "text/html", "<p>"))),
        (-32600, 301, failed(answer(301, "", ""))),
        (-32600, 307, failed(answer(307, "", ""))),
        (-32603, 400, failed(answer(400, "text/plain", "no"))),
        (-32603, 401, failed(challenge(answer(401, "", "")))),
        (-32603, 403, failed(answer(403, "", ""))),
        (-32603, 429, failed(answer(429, "", ""))),
        (-32603, 500, failed(answer(500, "", ""))),
        (-32603, 503, failed(answer(503, "", ""))),
        (-32700, 200, failed(json_answer("{nope}"))),
        (-32700, 200, failed(json_answer("{}"))),
        (-32700, 200, failed(json_answer("[]"))),
        (-32700, 200, failed(stream("{nope}"))),
    ] {
        assert_eq!((error.to_json_rpc().code(), error.status().unwrap().as_u16()), (code, status), "{error}");
        assert_eq!(data_of(&error), json!({ "source": "mcp-streamable-http", "status": status }));
    }
    let message = |error: Error| error.to_json_rpc().message().to_owned();
    assert_eq!(message(failed_with(false, ping(2), answer(404, "", ""))), "Not Found");
    assert_eq!(message(failed(answer(404, "", ""))), "Session terminated");
    assert_eq!(message(failed(answer(500, "", ""))), failed(answer(500, "", "")).to_string());
}

#[test]
fn what_ends_an_answer_has_its_status() {
    for stream in [b"data: {}\n\n".to_vec(), vec![b'x'; (16 << 20) + 1]] {
        let error = failed(answer(200, "text/event-stream", stream));
        assert_eq!(
            (error.to_json_rpc().code(), error.status()),
            (-32000, Some(http::StatusCode::OK)),
            "{error}"
        );
        assert_eq!(data_of(&error), json!({ "source": "mcp-streamable-http", "status": 200 }), "{error}");
        assert!(error.may_have_run());
    }
}

#[test]
fn what_has_no_answer_has_a_code_and_no_status() {
    for (code, error) in [
        (-32000, Error::new(NotSent("refused".into()))),
        (-32000, Error::new(BrokenStream("reset".into()))),
        (-32000, Error::new(TimedOut::new("it", "knob", Duration::from_secs(1)))),
        (-32000, Error::new(tower::timeout::error::Elapsed::new())),
        (-32000, Error::new("something of the client's")),
        (-32000, Error::new(NotOffered::new(None))),
        (-32600, Error::new(InvalidMessage::new("no"))),
        (-32600, Error::new(SessionExpired::new(None))),
    ] {
        assert_eq!((error.to_json_rpc().code(), error.status()), (code, None), "{error}");
        assert_eq!(data_of(&error), json!({ "source": "mcp-streamable-http" }), "{error}");
    }
}

#[test]
fn the_servers_own_error_is_kept_beside_a_challenge_only() {
    let own = failed(challenge(answer(401, "application/json", REFUSAL))).to_json_rpc();
    assert_eq!(own.as_raw().as_str(), r#"{"code":-32042,"message":"m","data":{"own":1}}"#);

    for error in [
        failed(answer(202, "application/json", REFUSAL)),
        failed_with(true, notification(), answer(400, "application/json", REFUSAL)),
        failed_with(true, notification(), answer(500, "", REFUSAL)),
    ] {
        assert_eq!(data_of(&error)["source"], "mcp-streamable-http", "{error}");
        assert!(error.find::<UnexpectedStatus>().unwrap().json_rpc().is_some(), "it can still be asked for");
    }
}

#[test]
fn errors_are_found_through_the_users_own() {
    for error in [
        Error::new(wrapped(NotSent("refused".into()))),
        Error::new(wrapped(wrapped(NotSent(wrapped("refused").into())))),
        Error::new(wrapped(Error::new(NotSent("refused".into())))),
        Error::new(wrapped(Error::new(wrapped(Error::new(NotSent("refused".into())))))),
        Error::new(BoxError::from(Error::new(NotSent("refused".into())))),
    ] {
        assert!(error.is_connect() && !error.may_have_run() && !error.is_timeout(), "{error:?}");
        assert_eq!(error.find::<NotSent>().unwrap().to_string(), "the server could not be reached: refused");
        assert!(error.find::<BrokenStream>().is_none());
    }
    let status =
        Error::new(wrapped(failed(challenge(with_header(answer(503, "", ""), "retry-after", b"3")))));
    assert_eq!(
        (status.status().unwrap().as_u16(), status.retry_after()),
        (503, Some(Duration::from_secs(3)))
    );
    assert_eq!(status.challenges().len(), 1);
    assert!(Error::new(wrapped(SessionExpired::new(None))).is_session_expired());
    assert!(Error::new("other").challenges().is_empty());
}

#[test]
fn an_error_speaks_for_the_one_in_it() {
    let error = Error::new(NotSent(wrapped("refused").into()));
    assert_eq!(
        error.to_string(),
        "the server could not be reached: refused",
        "what happened, not who wrapped it"
    );
    let source = std::error::Error::source(&error).unwrap();
    assert_eq!(source.to_string(), "wrapped");
    assert_eq!(Error::new("plain").to_string(), "plain");
}

#[test]
fn every_kind_of_timeout_is_one() {
    let io = |kind| std::io::Error::new(kind, "io");
    for (timeout, error) in [
        (true, Error::new(TimedOut::new("it", "knob", Duration::from_secs(1)))),
        (true, Error::new(tower::timeout::error::Elapsed::new())),
        (true, Error::new(io(std::io::ErrorKind::TimedOut))),
        (true, Error::new(BrokenStream(wrapped(io(std::io::ErrorKind::TimedOut)).into()))),
        (true, Error::new(NotSent(wrapped(tower::timeout::error::Elapsed::new()).into()))),
        (false, Error::new(io(std::io::ErrorKind::ConnectionReset))),
        (false, failed(answer(408, "", ""))),
        (false, failed(answer(504, "", ""))),
        (false, Error::new(EndedStream)),
    ] {
        assert_eq!(error.is_timeout(), timeout, "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_timeout_of_tower_below_is_one() {
    let (mock, _handle) = mock::pair::<Request<Payload>, Response<Events>>();
    let below = Timeout::new(mock, Duration::from_secs(1));
    let mut client = EnvelopeLayer::new(endpoint(), Session::new()).layer(below);
    let mut sent = call(&mut client, ping(1));
    assert_pending!(sent.poll());
    tokio::time::advance(Duration::from_secs(2)).await;
    let error = now(sent).unwrap_err();
    assert!(error.is_timeout() && error.may_have_run() && error.status().is_none());
}

#[test]
fn what_the_server_may_have_acted_on() {
    for (may, error) in [
        (false, Error::new(NotSent("refused".into()))),
        (false, Error::new(InvalidMessage::new("no"))),
        (false, Error::new(SessionExpired::new(None))),
        (false, Error::new(NotOffered::new(None))),
        (false, failed(answer(404, "", ""))),
        (false, failed(answer(400, "", ""))),
        (false, failed(answer(429, "", ""))),
        (false, failed(challenge(answer(401, "", "")))),
        (false, failed(answer(307, "", ""))),
        (true, failed(answer(500, "", ""))),
        (true, failed(answer(503, "", ""))),
        (true, failed(answer(202, "", ""))),
        (true, failed(json_answer("{nope}"))),
        (true, failed(answer(200, "text/event-stream", ""))),
        (true, Error::new(BrokenStream("reset".into()))),
        (true, Error::new(TimedOut::new("it", "knob", Duration::from_secs(1)))),
        (true, Error::new("something of the client's")),
    ] {
        assert_eq!(error.may_have_run(), may, "{error}");
    }
}

#[test]
fn a_server_of_the_old_transport_is_named_as_a_possible_reason() {
    for status in [400, 404, 405] {
        let error = failed_with(false, initialize(1), answer(status, "", ""));
        assert!(error.to_string().contains("2024-11-05"), "{error}");
        assert!(!failed(answer(status, "", "")).to_string().contains("2024-11-05"));
    }
    assert!(!failed_with(false, initialize(1), answer(500, "", "")).to_string().contains("2024-11-05"));
}

/// All that an error shows of itself.
fn shown(error: &Error) -> String {
    let json = error.to_json_rpc();
    let chain = std::iter::successors(std::error::Error::source(error), |error| error.source());
    let sources: Vec<_> = chain.map(|error| format!("{error} {error:?}")).collect();
    format!("{error} {error:?} {} {sources:?}", json.as_raw())
}

#[test]
fn the_sessions_id_is_not_shown_even_if_the_server_echoes_it() {
    let stream = |text: &str| answer(200, "text/event-stream", format!("data: {text}\n\n"));
    for answer in [
        answer(400, "text/plain", "unknown session s-1"),
        answer(500, "text/html", "<p>s-1</p>"),
        answer(200, "text/plain", "s-1"),
        json_answer(r#"{"session":"s-1"}"#),
        json_answer(r#"{"session":"s-1",}"#),
        json_answer(r#""unknown session s-1""#),
        json_answer(r#"[{"jsonrpc":"1.0","id":2,"error":"s-1"}]"#),
        stream(r#"{"jsonrpc":"2.0","id":2,"error":"s-1"}"#),
        stream(r#""unknown session s-1""#),
        stream("s-1 \u{0} {"),
    ] {
        let error = failed(answer);
        assert!(!shown(&error).contains("s-1"), "{}", shown(&error));
    }
}

#[test]
fn tokens_that_the_server_echoes_are_not_shown() {
    let token = "eyJhbGciOiJIUzI1NiJ9.e30.ZRrHA1JJJW8opsbCGfG";
    for answer in [
        answer(403, "text/plain", format!("bad token {token}")),
        answer(500, "application/json", format!(r#"{{"got":"Bearer {token}"}}"#)),
        json_answer(format!("\"{token}\"")),
        json_answer(format!("[\"{token}\"]")),
        json_answer(format!(r#"{{"jsonrpc":"2.0","id":2,"error":"{token}"}}"#)),
    ] {
        let error = failed(answer);
        assert!(!shown(&error).contains("ZRrHA1JJJW8opsbCGfG"), "{}", shown(&error));
    }
}

#[test]
fn challenges_are_given_and_not_shown() {
    let error = failed(challenge(answer(401, "", "")));
    assert_eq!(error.challenges(), ["Bearer realm=\"s3cret\""]);
    assert!(!format!("{} {:?}", shown(&error), error.challenges()).contains("s3cret"), "{}", shown(&error));
    assert!(error.to_string().contains("credentials"), "{error}");
}

#[test]
fn a_redirect_names_its_target_without_secrets() {
    for (location, target) in [
        ("https://user:s3cret@other.example/mcp?token=s3cret#s3cret", "https://other.example/mcp"),
        ("//s3cret@other.example/mcp", "//other.example/mcp"),
        ("/elsewhere?s3cret", "/elsewhere"),
    ] {
        let error = failed(with_header(answer(307, "", ""), "location", location.as_bytes()));
        assert!(error.to_string().contains(target) && !shown(&error).contains("s3cret"), "{}", shown(&error));
    }
    // On any other status it is not where the message would have to go.
    let created = failed(with_header(answer(500, "", ""), "location", b"/other"));
    assert!(!shown(&created).contains("/other"));
}

#[test]
fn an_error_is_short_whatever_the_server_sends() {
    let text = "word ".repeat(100_000);
    for answer in [
        answer(500, "text/plain", text.clone()),
        answer(200, &format!("text/{}", "x".repeat(5_000)), text.clone()),
        json_answer(text.clone()),
        json_answer(format!("\"{text}\"")),
        json_answer(format!(r#"{{"a":"{text}"}}"#)),
        json_answer(format!(r#"{{"jsonrpc":"2.0","id":"{text}"}}"#)),
    ] {
        let error = failed(answer);
        let found = error.find::<UnexpectedStatus>().is_some()
            || error.find::<UnexpectedContent>().is_some()
            || error.find::<Undecodable>().is_some();
        assert!(found && error.find::<TooLarge>().is_none());
        assert!(error.to_string().len() < 600 && shown(&error).len() < 3_000, "{}", shown(&error).len());
    }
}
