//! Sessions: which answers end them, and what then happens.

mod common;

use common::client::Client;
use common::*;
use http::Response;
use mcp_streamable_http_layers::error::{BoxError, NotOffered, SessionExpired, UnexpectedStatus};
use mcp_streamable_http_layers::headers::MCP_SESSION_ID;
use mcp_streamable_http_layers::{Events, JsonRpcMessage};
use serde_json::json;

#[test]
fn which_404_is_the_end_of_the_session_and_which_the_answer() {
    let error =
        |id: &str, code: i64| format!(r#"{{"jsonrpc":"2.0",{id}"error":{{"code":{code},"message":"m"}}}}"#);
    const OWN: &str = r#""id":2,"#;
    for (expires, content_type, body) in [
        (false, "application/json", error(OWN, -32601)),
        (false, "application/json; charset=utf-8", error(OWN, -32602)),
        (false, "", error(OWN, 404)),
        (true, "application/json", error(OWN, -32000)),
        (true, "application/json", error(OWN, -32001)),
        (true, "application/json", error(OWN, -32600)),
        (true, "application/json", error(r#""id":null,"#, -32601)),
        (true, "application/json", error("", -32601)),
        (true, "application/json", error(r#""id":"server-error","#, -32601)),
        (true, "application/json", error(r#""id":"2","#, -32601)),
        (true, "text/plain", error(OWN, -32601)),
        (true, "application/json", r#"{"jsonrpc":"2.0","id":2,"result":{}}"#.into()),
        (true, "application/json", r#"{"error":"session not found"}"#.into()),
        (true, "text/html", "<h1>Not Found</h1>".into()),
        (true, "", String::new()),
    ] {
        let mut client = Client::in_session("one");
        let reply = response(client.exchange(ping(2), answer(404, content_type, body.clone())));
        assert_eq!(client.session.is_expired(), expires, "{content_type} {body}");
        match reply {
            Err(error) => {
                assert!(expires && error.is_session_expired(), "{content_type} {body}: {error}");
                assert_eq!(error.status().map(|status| status.as_u16()), Some(404));
            }
            Ok(response) => assert!(!expires && response.outcome().is_err(), "{content_type} {body}"),
        }
    }
}

#[test]
fn a_404_to_a_notification_or_a_response_ends_the_session() {
    for message in [notification(), JsonRpcMessage::response("s", json!({}))] {
        let mut client = Client::in_session("one");
        let error = client.exchange(message, answer(404, "", "")).unwrap_err();
        assert!(error.is_session_expired() && client.session.is_expired());
    }
}

#[test]
fn a_404_without_a_session_ends_none() {
    let mut client = Client::new();
    let error = client.exchange(ping(1), answer(404, "text/plain", "no such page")).unwrap_err();
    assert!(!error.is_session_expired() && !client.session.is_expired());
    assert_eq!(error.find::<UnexpectedStatus>().map(UnexpectedStatus::had_session), Some(false));
    client.headers_of(ping(2));
}

#[test]
fn other_statuses_do_not_end_the_session() {
    let mut client = Client::in_session("one");
    for status in [400, 401, 403, 405, 408, 410, 429, 500, 502, 503] {
        let error = client.exchange(ping(2), answer(status, "", "")).unwrap_err();
        assert!(!error.is_session_expired() && !error.is_timeout(), "{status}");
        assert_eq!(error.status().map(|status| status.as_u16()), Some(status));
        assert_eq!(client.session.id().unwrap(), "one", "{status}");
    }
}

#[test]
fn after_the_end_nothing_is_sent_until_an_initialize() {
    let mut client = Client::in_session("one");
    client.exchange(ping(2), answer(404, "", "")).unwrap_err();

    for message in [ping(3), notification(), JsonRpcMessage::response("s", json!({}))] {
        let error = now(client.send(message)).unwrap_err();
        assert!(error.is_session_expired() && error.status().is_none() && !error.may_have_run(), "{error}");
    }
    for request in [endpoint().get(), endpoint().delete()] {
        let error = now(call(&mut client.envelopes, request)).unwrap_err();
        assert!(error.downcast_ref::<SessionExpired>().is_some(), "{error}");
    }
    client.server.assert_nothing_received();

    client.begin("two");
    assert_eq!(client.headers_of(ping(4))[MCP_SESSION_ID], "two");
}

#[test]
fn a_late_404_in_the_old_session_does_not_end_the_new_one() {
    let mut client = Client::in_session("old");
    let slow = client.send(ping(2));
    let (_, reply) = client.server.received();
    client.begin("new");

    reply.send_response(answer(404, "", ""));
    assert!(now(slow).unwrap_err().is_session_expired(), "that session is gone nonetheless");
    assert!(!client.session.is_expired());
    assert_eq!(client.session.id().unwrap(), "new");
}

#[test]
fn a_late_answer_to_a_delete_of_the_old_session_does_not_end_the_new_one() {
    let mut client = Client::in_session("old");
    let slow = call(&mut client.envelopes, endpoint().delete());
    let (_, reply) = client.server.received();
    client.begin("new");
    reply.send_response(answer(200, "", ""));
    let _ = now(slow).unwrap();
    assert_eq!(client.session.id().unwrap(), "new");
}

#[test]
fn a_404_to_a_get_means_no_stream_unless_this_session_had_one() {
    let mut client = Client::in_session("one");
    let not_found = |client: &mut Client| client.exchange_empty(endpoint().get(), answer(404, "", "")).1;
    let accept = |client: &mut Client| {
        let _ = client.exchange_empty(endpoint().get(), answer(200, "text/event-stream", "")).1.unwrap();
    };
    let assert_not_offered = |answered: Result<Response<Events>, BoxError>| {
        let item = all(answered.unwrap().into_body()).pop().unwrap();
        assert!(item.unwrap_err().downcast_ref::<NotOffered>().is_some());
    };

    assert_not_offered(not_found(&mut client));
    // A page is no stream, so this GET was not accepted.
    let _ = client.exchange_empty(endpoint().get(), answer(200, "text/html", "<p>")).1.unwrap();
    assert_not_offered(not_found(&mut client));
    assert_eq!(client.session.id().unwrap(), "one");

    accept(&mut client);
    assert!(not_found(&mut client).unwrap_err().downcast_ref::<SessionExpired>().is_some());
    assert!(client.session.is_expired());

    client.begin("two");
    assert_not_offered(not_found(&mut client));
    assert_eq!(client.session.id().unwrap(), "two", "the GET of the old session says nothing about this one");
}

#[test]
fn a_late_404_to_a_get_of_the_old_session_is_not_judged_by_the_new_one() {
    let mut client = Client::in_session("old");
    let slow = call(&mut client.envelopes, endpoint().get());
    let (_, reply) = client.server.received();
    client.begin("new");
    let _ = client.exchange_empty(endpoint().get(), answer(200, "text/event-stream", "")).1.unwrap();

    reply.send_response(answer(404, "", ""));
    let item = all(now(slow).unwrap().into_body()).pop().unwrap();
    assert!(item.unwrap_err().downcast_ref::<NotOffered>().is_some());
    assert_eq!(client.session.id().unwrap(), "new");
}

#[test]
fn any_answer_to_a_delete_ends_the_session() {
    for status in [200, 202, 204, 404, 405, 500] {
        let mut client = Client::in_session("one");
        let (headers, ended) = client.exchange_empty(endpoint().delete(), answer(status, "", ""));
        let _ = ended.unwrap();
        assert_eq!(headers[MCP_SESSION_ID], "one");
        assert!(client.session.id().is_none() && !client.session.is_expired(), "{status}");
        assert!(!client.headers_of(ping(2)).contains_key(MCP_SESSION_ID), "{status}");
    }
}

#[test]
fn a_request_without_an_answer_leaves_the_session_alone() {
    let mut client = Client::in_session("one");
    for request in [endpoint().post(ping(2)), endpoint().get(), endpoint().delete()] {
        let sent = call(&mut client.envelopes, request);
        client.server.received().1.send_error("connection reset");
        assert_eq!(now(sent).unwrap_err().to_string(), "connection reset");
        assert_eq!(client.session.id().unwrap(), "one");
    }
}
