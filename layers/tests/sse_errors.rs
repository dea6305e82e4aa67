//! The bridge to HTTP: answers whose status is no success, and GETs that get no stream.

#![allow(clippy::unwrap_used)]

mod common;

use std::time::Duration;

use common::bridge::*;
use common::*;
use http::Request;
use mcp_streamable_http_layers::Payload;
use mcp_streamable_http_layers::error::{NotOffered, UnexpectedStatus};
use mcp_streamable_http_layers::options::WireId;
use mcp_streamable_http_layers::sse::Limits;

#[test]
fn a_json_rpc_error_on_an_error_status_is_the_answer() {
    for status in [400, 403, 404, 405, 409, 418, 429, 500, 503] {
        for content_type in [JSON, "application/json; charset=utf-8", ""] {
            for id in [r#""id":1,"#, r#""id":null,"#, "", r#""id":"server-error","#] {
                let body =
                    format!(r#"{{"jsonrpc":"2.0",{id}"error":{{"code":-32001,"message":"m","x":1.0}}}}"#);
                let response = pong(answer(status, content_type, body));
                assert_eq!(response.id(), Some(&1.into()));
                assert_eq!(response.extensions().get::<WireId>().is_some(), id != r#""id":1,"#, "{id}");
                assert_eq!(
                    response.outcome().unwrap_err().as_raw().as_str(),
                    r#"{"code":-32001,"message":"m","x":1.0}"#
                );
            }
        }
    }
}

#[test]
fn other_bodies_on_an_error_status_are_not() {
    let error = r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32001,"message":"m"}}"#;
    for (content_type, body) in [
        ("text/plain", error.to_owned()),
        ("application/jsonfoo", error.to_owned()),
        (JSON, format!("[{error}]")),
        (JSON, PONG.to_owned()),
        ("", PONG.to_owned()),
        (JSON, r#"{"error":"m"}"#.to_owned()),
        (JSON, r#"{"jsonrpc":"2.0","id":1,"error":{"code":"x"}}"#.to_owned()),
        ("text/event-stream", format!("data: {error}\n\n")),
        ("", String::new()),
    ] {
        let failed = ping_failure(answer(500, content_type, body.clone()));
        let status = failed.find::<UnexpectedStatus>().unwrap();
        assert_eq!((status.status().as_u16(), status.had_session()), (500, false), "{content_type} {body}");
    }
}

#[test]
fn a_404_tells_whether_the_request_named_a_session() {
    for (session, code, message) in [(true, -32600, "Session terminated"), (false, -32601, "Not Found")] {
        let mut request = endpoint().post(ping(1));
        if session {
            request.headers_mut().extend(headers(&[("mcp-session-id", "abc")]));
        }
        let error = failure(answered(request, answer(404, "", "")).into_body());
        assert_eq!(error.find::<UnexpectedStatus>().map(UnexpectedStatus::had_session), Some(session));
        assert_eq!((error.to_json_rpc().code(), error.to_json_rpc().message()), (code, message));
    }
}

#[test]
fn a_challenge_is_an_error_whatever_the_body() {
    let error = r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32001,"message":"m"}}"#;
    for status in [401, 403] {
        for (content_type, body, inner) in
            [(JSON, error, true), (JSON, PONG, false), ("text/html", "<p>", false)]
        {
            let answer =
                with_header(answer(status, content_type, body), "www-authenticate", b"Bearer realm=\"a\"");
            let failed = ping_failure(with_header(answer, "www-authenticate", b"Basic"));
            assert_eq!(failed.challenges(), ["Bearer realm=\"a\"", "Basic"], "{status} {body}");
            assert_eq!(failed.find::<UnexpectedStatus>().unwrap().json_rpc().is_some(), inner);
        }
        // Without a challenge there is nothing to be done about it but to read the error.
        assert!(pong(answer(status, JSON, error)).outcome().is_err());
    }
}

#[test]
fn an_error_status_tells_how_long_to_wait() {
    let error = ping_failure(with_header(answer(503, "", ""), "retry-after", b"7"));
    assert_eq!(error.retry_after(), Some(Duration::from_secs(7)));
    assert_eq!(ping_failure(with_header(answer(503, "", ""), "retry-after", b"soon")).retry_after(), None);
}

#[test]
fn a_get_without_a_stream_is_not_offered() {
    let get = |answer| failure(answered(endpoint().get(), answer).into_body());
    for answer in [
        answer(405, "", ""),
        answer(404, JSON, "{}"),
        answer(400, "", ""),
        answer(401, "", ""),
        answer(406, "", ""),
        answer(200, "text/plain", "hello"),
        answer(200, JSON, PONG),
        answer(204, "", ""),
        answer(202, "", ""),
    ] {
        let status = answer.status();
        assert_eq!(get(answer).find::<NotOffered>().and_then(NotOffered::status), Some(status));
    }
    for status in [301, 408, 409, 429, 500, 503] {
        let error = get(answer(status, "", ""));
        assert_eq!(error.find::<UnexpectedStatus>().map(|error| error.status().as_u16()), Some(status));
    }
    let challenged = get(with_header(answer(401, "", ""), "www-authenticate", b"Bearer"));
    assert_eq!(challenged.challenges(), ["Bearer"]);
    assert!(answered(endpoint().get(), answer(200, "text/event-stream", "")).body().is_stream());
}

#[test]
fn a_failure_of_the_client_is_passed_on_as_it_is() {
    let (mut bridge, mut server) = bridge(Limits::default());
    let sent = call(&mut bridge, endpoint().post(ping(1)));
    server.received().1.send_error("connection reset");
    assert_eq!(now(sent).unwrap_err().to_string(), "connection reset");
    assert_ready_passes_through::<_, Request<Payload>, _, _>(bridge, &mut server);
}
