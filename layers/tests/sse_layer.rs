//! The bridge to HTTP: what is sent, and what successful answers mean by their content type and body.

#![allow(clippy::unwrap_used)]

mod common;

use common::bridge::*;
use common::*;
use http_body_util::BodyExt as _;
use mcp_streamable_http_layers::error::{
    ContentProblem, TooLarge, Undecodable, UnexpectedContent, UnexpectedStatus,
};
use mcp_streamable_http_layers::options::WireId;
use mcp_streamable_http_layers::sse::Limits;
use mcp_streamable_http_layers::{Error, JsonRpcMessage, RawJson, RequestId};
use serde_json::json;

#[test]
fn a_message_is_sent_as_it_is_written_under_our_types() {
    let params = RawJson::parse(r#"{"z":12345678901234567890,"a":1.10,"_x":[{}]}"#).unwrap();
    for message in [
        JsonRpcMessage::request("1", "tools/call", params.clone()),
        JsonRpcMessage::notification("notifications/progress", params),
        JsonRpcMessage::response(7, json!({})),
    ] {
        let (mut bridge, mut server) = bridge(Limits::default());
        let mut request = endpoint().post(message.clone());
        request.headers_mut().extend(headers(&[
            ("accept", "*/*"),
            ("content-type", "text/plain"),
            ("x-a", "1"),
        ]));
        let _sent = call(&mut bridge, request);
        let (head, body) = server.received().0.into_parts();
        let ours = [("accept", "application/json, text/event-stream"), ("content-type", JSON), ("x-a", "1")];
        assert_eq!((head.method.as_str(), head.uri.to_string()), ("POST", ENDPOINT.to_owned()));
        assert_eq!(head.headers, headers(&ours));
        assert_eq!(now(body.collect()).unwrap().to_bytes(), message.encode());
    }
}

#[test]
fn a_get_and_a_delete_have_no_body() {
    for (request, ours) in
        [(endpoint().get(), &[("accept", "text/event-stream")][..]), (endpoint().delete(), &[])]
    {
        let (mut bridge, mut server) = bridge(Limits::default());
        let _sent = call(&mut bridge, request);
        let (head, body) = server.received().0.into_parts();
        assert_eq!(head.headers, headers(ours));
        assert!(http_body::Body::is_end_stream(&body));
    }
}

#[test]
fn any_success_accepts_a_notification_a_response_or_a_delete() {
    let requests = || {
        [
            endpoint().post(notification()),
            endpoint().post(JsonRpcMessage::response(1, json!({}))),
            endpoint().delete(),
        ]
    };
    for (status, content_type, body) in [
        (202, "", ""),
        (204, "", ""),
        (200, JSON, "{}"),
        (200, JSON, r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"m"}}"#),
        (200, JSON, "not json"),
        (200, "text/plain", "Accepted"),
        (201, "text/event-stream", "data: {\"jsonrpc\":\"2.0\",\"method\":\"m\"}\n\n"),
        (299, "", "?"),
    ] {
        for request in requests() {
            let answered = answered(request, answer(status, content_type, body));
            assert_eq!(answered.status().as_u16(), status);
            assert_eq!(answered.body().ready().map(<[_]>::len), Some(0), "{status} {content_type} {body}");
        }
    }
    for status in [301, 400, 401, 404, 500, 503] {
        for request in requests() {
            let error = failure(answered(request, answer(status, JSON, "{}")).into_body());
            assert_eq!(error.find::<UnexpectedStatus>().map(|error| error.status().as_u16()), Some(status));
        }
    }
}

#[test]
fn types_are_compared_without_parameters_and_case() {
    let stream = format!("data: {PONG}\n\n");
    for content_type in
        [JSON, "Application/JSON", "application/json; charset=utf-8", " application/json ;a=b"]
    {
        assert_eq!(pong(answer(200, content_type, PONG)).id(), Some(&1.into()), "{content_type}");
    }
    for content_type in ["text/event-stream", "TEXT/Event-Stream;charset=UTF-8", "text/event-stream ; x"] {
        assert_eq!(pong(answer(200, content_type, stream.clone())).id(), Some(&1.into()), "{content_type}");
    }
    for content_type in [
        "application/jsonfoo",
        "application/json-rpc",
        "text/json",
        "text/event-streams",
        "x, application/json",
    ] {
        let error = ping_failure(answer(200, content_type, PONG));
        let problem = error.find::<UnexpectedContent>().map(UnexpectedContent::problem);
        assert_eq!(problem, Some(&ContentProblem::ContentType(Some(content_type.into()))));
    }
}

#[test]
fn a_success_without_a_response_fails_a_request_at_once() {
    for status in [202, 204, 205] {
        let error = ping_failure(answer(status, JSON, PONG));
        assert_eq!(error.find::<UnexpectedStatus>().map(|error| error.status().as_u16()), Some(status));
    }
    let content_type = |text: &str| ContentProblem::ContentType(Some(text.into()));
    for (answer, problem) in [
        (answer(200, "", ""), ContentProblem::Empty),
        (json_answer(""), ContentProblem::Empty),
        (json_answer(" \r\n"), ContentProblem::Empty),
        (answer(200, "text/html", "<p>login"), content_type("text/html")),
        (answer(200, "", PONG), ContentProblem::ContentType(None)),
        (json_answer("{}"), ContentProblem::NoResponse),
        (json_answer(r#"{"ok":true}"#), ContentProblem::NoResponse),
        (json_answer(r#"{"jsonrpc":"2.0","method":"notifications/message"}"#), ContentProblem::NoResponse),
        (json_answer(r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#), ContentProblem::NoResponse),
    ] {
        let error = ping_failure(answer);
        assert_eq!(
            error.find::<UnexpectedContent>().map(UnexpectedContent::problem),
            Some(&problem),
            "{error}"
        );
        assert_eq!(error.status().map(|status| status.as_u16()), Some(200));
    }
    for body in ["{", "null", "1", "\"text\"", r#"{"id":1}"#, "\u{feff}nope", "{} {}"] {
        let error = ping_failure(json_answer(body));
        assert_eq!(
            error.find::<Undecodable>().and_then(Undecodable::status).map(|s| s.as_u16()),
            Some(200),
            "{body}"
        );
    }
}

#[test]
fn a_response_gets_the_id_of_its_request() {
    for content_type in [JSON, "text/event-stream"] {
        let wrap = |text: String| if content_type == JSON { text } else { format!("data: {text}\n\n") };
        for (wire, noted) in [
            (r#""id":1,"#, None),
            (r#""id":"1","#, Some(Some(RequestId::from("1")))),
            (r#""id":1.0,"#, Some(Some(RequestId::Other(RawJson::parse("1.0").unwrap())))),
            (r#""id":2,"#, Some(Some(RequestId::from(2)))),
            (r#""id":null,"#, Some(None)),
            ("", Some(None)),
        ] {
            for outcome in [r#""result":{}"#, r#""error":{"code":-32601,"message":"m"}"#] {
                let body = wrap(format!(r#"{{"jsonrpc":"2.0",{wire}{outcome}}}"#));
                let response = pong(answer(200, content_type, body));
                assert_eq!(response.id(), Some(&RequestId::from(1)), "{wire}");
                assert_eq!(
                    response.extensions().get::<WireId>().cloned(),
                    noted.clone().map(WireId),
                    "{wire}"
                );
            }
        }
    }
}

#[test]
fn a_batch_is_its_messages_in_order_to_the_response() {
    let note = r#"{"jsonrpc":"2.0","method":"notifications/message"}"#;
    let other = r#"{"jsonrpc":"2.0","id":2,"result":{}}"#;
    let passed = |body: String| {
        let kinds = items(json_answer(body)).into_iter().map(|item| match item {
            Ok(event) => match event.message.unwrap() {
                JsonRpcMessage::Response(response) => format!("response {}", response.id().unwrap()),
                message => message.method().unwrap().to_owned(),
            },
            Err(error) => {
                assert!(error.downcast_ref::<UnexpectedContent>().is_some(), "{error}");
                "no response".to_owned()
            }
        });
        kinds.collect::<Vec<_>>().join(", ")
    };
    assert_eq!(passed(format!("[{note},{PONG}]")), "notifications/message, response 1");
    assert_eq!(
        passed(format!(" [ {PONG} , {note} ]")),
        "response 1",
        "what follows the response is nobody's"
    );
    assert_eq!(passed(format!("[{other},{note},{PONG}]")), "notifications/message, response 1");
    assert_eq!(
        passed(format!("[{note},{other}]")),
        "notifications/message, response 1",
        "none has the very id"
    );
    assert_eq!(passed(format!("[{note}]")), "notifications/message, no response");
    assert_eq!(passed("[]".into()), "no response");
}

#[test]
fn a_bad_element_of_a_batch_is_one_error_in_its_place() {
    let bad = r#"{"jsonrpc":"1.0","method":"m"}"#;
    let batch = items(json_answer(format!("[{PONG},{bad}]")));
    assert!(matches!(&batch[..], [Ok(_)]), "what follows the response is nobody's: {batch:?}");
    let mut batch = items(json_answer(format!("[{bad},{PONG}]")));
    assert_eq!(batch.len(), 2);
    let error = Error::new(batch.remove(0).unwrap_err());
    assert!(
        error.find::<Undecodable>().is_some() && error.status().is_some_and(|status| status == 200),
        "{error}"
    );
}

#[test]
fn a_batch_is_read_within_its_limit() {
    let limits = Limits::default().max_batch_messages(2);
    let ping = |answer| answered_within(limits, endpoint().post(ping(1)), answer).into_body();
    let nothing = "{},".repeat(100);
    let note = r#"{"jsonrpc":"2.0","method":"m"}"#;
    let read = all(ping(json_answer(format!("[{nothing}{note},{PONG}]"))));
    assert!(matches!(&read[..], [Ok(_), Ok(_)]), "what is no message does not count: {read:?}");
    let error = failure(ping(json_answer(format!("[{note},{note},{PONG}]"))));
    assert!(
        error.find::<Undecodable>().is_some() && error.to_string().contains("max_batch_messages"),
        "{error}"
    );
}

#[test]
fn a_byte_order_mark_is_passed_over() {
    assert!(pong(json_answer(format!("\u{feff}{PONG}"))).outcome().is_ok());
    let refused = "\u{feff}{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":-32602,\"message\":\"no\"}}";
    assert_eq!(pong(answer(400, JSON, refused)).outcome().unwrap_err().code(), -32602);
}

#[test]
fn bodies_are_read_within_their_limits() {
    let padded = format!("{PONG}{}", " ".repeat(100));
    let limits = Limits::default().max_json_bytes(padded.len()).max_error_bytes(10);
    let ping = |answer| answered_within(limits, endpoint().post(ping(1)), answer).into_body();
    assert!(all(ping(json_answer(padded.clone())))[0].is_ok(), "as much as the limit is not too much");

    let error = failure(ping(json_answer(format!("{padded} "))));
    assert_eq!(error.find::<TooLarge>().map(TooLarge::limit), Some(padded.len()));
    assert!(error.to_string().contains("max_json_bytes"), "{error}");

    let error = failure(ping(answer(500, "text/plain", "0123456789abc")));
    assert_eq!(error.find::<UnexpectedStatus>().unwrap().preview().as_str(), "0123456789");
}

#[test]
fn a_server_of_the_modern_era_has_no_requests() {
    let request = r#"{"jsonrpc":"2.0","id":"s","method":"sampling/createMessage"}"#;
    let note = r#"{"jsonrpc":"2.0","method":"notifications/message"}"#;
    let stream = format!("data: {request}\n\ndata: {note}\n\ndata: {PONG}\n\n");
    for (version, messages) in [("2026-07-28", 2), ("2025-11-25", 3)] {
        for reply in [
            json_answer(format!("[{request},{note},{PONG}]")),
            answer(200, "text/event-stream", stream.clone()),
        ] {
            let mut post = endpoint().post(ping(1));
            post.headers_mut().extend(headers(&[("mcp-protocol-version", version)]));
            assert_eq!(all(answered(post, reply).into_body()).len(), messages, "{version}");
        }
    }
}
