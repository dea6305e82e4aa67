//! What the GET says that goes on with a stream, and when there is none.

use futures_util::FutureExt as _;
use http::Method;
use mcp_streamable_http_layers::error::{BrokenStream, EndedStream, Undecodable};
use mcp_streamable_http_layers::options::FirstByte;
use mcp_streamable_http_layers::{Endpoint, EnvelopeLayer, JsonRpcMessage, ResumeLayer};
use serde_json::json;
use tower::{Layer, ServiceExt};

use super::*;

#[tokio::test(start_paused = true)]
async fn the_get_goes_on_after_the_last_id_in_the_session_and_with_the_version_of_the_request() {
    let mut client = Client::in_session().await;
    let (mut call, pen) = client.open(&(event("e1", "a") + &event("e2", "b"))).await;
    assert_eq!((call.method().await, call.method().await), ("a".into(), "b".into()));
    drop(pen);
    let get = client.inbox.get_after(secs(1)).await;
    assert_eq!(get.last_event_id(), Some("e2"));
    assert_eq!(get.header("mcp-session-id"), Some("one"));
    assert_eq!(get.header("mcp-protocol-version"), Some(LEGACY));
    assert_eq!(get.header("accept"), Some("text/event-stream"));
    assert_eq!((get.header("content-type"), get.message.is_null()), (None, true), "it has no body");
    let _pen = get.stream(done("7"));
    assert_eq!(*call.response().await.id().unwrap(), 7.into());
}

#[tokio::test(start_paused = true)]
async fn each_stream_goes_on_after_its_own_id() {
    let mut client = Client::in_session().await;
    let mut calls = Vec::new();
    let mut pens = Vec::new();
    for id in [1, 2, 3] {
        calls.push(client.call(tool(id)));
        pens.push(client.inbox.next().await.stream(format!("id: stream-{id}\ndata:\n\n")));
    }
    settle().await;
    // They end in another order than they began in.
    for id in [2, 3, 1] {
        let pen = std::mem::replace(&mut pens[id - 1], script().0);
        drop(pen);
        let get = client.inbox.get_after(secs(1)).await;
        assert_eq!(get.last_event_id(), Some(&*format!("stream-{id}")));
        let _pen = get.stream(done("\"any\""));
        assert_eq!(*calls[id - 1].response().await.id().unwrap(), i64::try_from(id).unwrap().into());
    }
}

#[tokio::test(start_paused = true)]
async fn every_get_names_the_last_id_of_all_connections_so_far() {
    let mut client = Client::in_session().await;
    let mut call = client.interrupted().await;
    for (sent, text) in [("e1", event("e2", "a")), ("e2", "id: e3\ndata:\n\n".into()), ("e3", done("7"))] {
        let get = client.inbox.get_after(secs(1)).await;
        assert_eq!(get.last_event_id(), Some(sent));
        drop(get.stream(text));
    }
    assert_eq!(call.method().await, "a");
    call.response().await;
}

#[tokio::test(start_paused = true)]
async fn the_get_has_the_headers_of_the_message_but_for_those_that_speak_of_its_body() {
    let mut client = Client::in_session().await;
    let endpoint = Endpoint::new(ENDPOINT.parse().unwrap()).unwrap();
    let endpoint = endpoint.with_headers(headers(&[("x-all", "every")])).unwrap();
    let resume = ResumeLayer::new(endpoint.clone(), client.session.clone(), plain());
    let layers = EnvelopeLayer::new(endpoint, client.session.clone());
    let service = layers.layer(resume.layer(client.floor.clone()));
    let extra = extra(&[
        ("x-tenant", "blue"),
        ("authorization", "Bearer t"),
        ("mcp-method", "tools/call"),
        ("mcp-name", "add"),
        ("mcp-param-region", "west"),
    ]);
    let message = tool(7).with(extra).with(FirstByte::within(secs(9)));
    let sent = service.oneshot(message).boxed();
    let _call = Reading::of(async { sent.await.unwrap() });

    let post = client.inbox.next().await;
    assert_eq!(post.header("mcp-name"), Some("add"));
    assert!(post.extensions.get::<FirstByte>().is_some());
    drop(post.stream("id: e1\ndata:\n\n"));
    let get = client.inbox.get_after(secs(1)).await;
    assert_eq!((get.header("x-all"), get.header("x-tenant")), (Some("every"), Some("blue")));
    assert_eq!(get.header("authorization"), Some("Bearer t"));
    for name in ["mcp-method", "mcp-name", "mcp-param-region", "content-type"] {
        assert_eq!(get.header(name), None, "{name}");
    }
    assert!(get.extensions.get::<FirstByte>().is_none(), "a server may send the head with the first event");
}

#[tokio::test(start_paused = true)]
async fn the_get_has_the_version_of_its_request_whatever_the_connection_speaks_by_then() {
    for later in ["2025-03-26", MODERN] {
        let mut client = Client::in_session().await;
        let (mut call, pen) = client.open("id: e1\ndata:\n\n").await;
        let mut other = client.call(versioned("ping", later));
        let post = client.inbox.next().await;
        assert_eq!(post.header("mcp-protocol-version"), Some(later));
        post.answer(json_answer(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#)).await;
        other.response().await;

        drop(pen);
        let get = client.inbox.get_after(secs(1)).await;
        assert_eq!(get.header("mcp-protocol-version"), Some(LEGACY), "{later}");
        assert_eq!(get.header("mcp-session-id"), Some("one"), "{later}");
        let _pen = get.stream(done("7"));
        call.response().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_version_that_the_request_named_itself_is_that_of_the_get() {
    for by_header in [true, false] {
        let mut client = Client::in_session().await;
        let message = match by_header {
            true => tool(1).with(extra(&[("mcp-protocol-version", "2025-03-26")])),
            false => versioned("tools/call", "2025-03-26"),
        };
        let _call = client.call(message);
        let post = client.inbox.next().await;
        assert_eq!(post.header("mcp-protocol-version"), Some("2025-03-26"));
        client.call(versioned("ping", "2025-06-18"));
        drop(client.inbox.next().await);
        drop(post.stream("id: e1\ndata:\n\n"));
        let get = client.inbox.get_after(secs(1)).await;
        assert_eq!(get.header("mcp-protocol-version"), Some("2025-03-26"), "by header: {by_header}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_id_is_sent_as_the_bytes_that_it_has() {
    for id in ["é☃", "two words", "=?base64?eA==?=", "0"] {
        let mut client = Client::in_session().await;
        let (_call, _) = client.open(&format!("id: {id}\ndata:\n\n")).await;
        let get = client.inbox.get_after(secs(1)).await;
        assert_eq!(get.headers["last-event-id"].as_bytes(), id.as_bytes());
    }
}

#[tokio::test(start_paused = true)]
async fn without_an_id_that_can_be_sent_the_request_fails_at_once() {
    let long = "x".repeat(8193);
    for (what, text) in [
        ("none", "data:\n\nretry: 10\n\n".to_owned()),
        ("a message without one", event("", "a")),
        ("taken back", "id: e1\ndata:\n\nid:\ndata:\n\n".to_owned()),
        ("taken back without a colon", "id: e1\ndata:\n\nid\n\n".to_owned()),
        ("with a control character", "id: e1\ndata:\n\nid: e\u{1}2\ndata:\n\n".to_owned()),
        ("too long for a header", format!("id: e1\ndata:\n\nid: {long}\ndata:\n\n")),
        ("of an event that is not complete", "id: e1\ndata:".to_owned()),
    ] {
        let mut client = Client::in_session().await;
        for breaks in [true, false] {
            let (mut call, pen) = client.open(&text).await;
            if text.contains("method") {
                assert_eq!(call.method().await, "a");
            }
            if breaks {
                pen.fail("reset");
            }
            drop(pen);
            let error = call.fails_now().await;
            assert_eq!(error.find::<BrokenStream>().is_some(), breaks, "{what}: {error}");
            assert_eq!(error.find::<EndedStream>().is_some(), !breaks, "{what}: {error}");
            assert!(error.may_have_run() && error.to_json_rpc().code() == -32000, "{what}");
            client.inbox.assert_silent(what).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_id_of_an_event_that_is_no_message_counts() {
    for (what, text) in [
        ("another type", "event: progress\nid: e9\ndata: 50\n\n"),
        ("an object that says nothing", "id: e9\ndata: {}\n\n"),
        ("no data", "id: e9\n\n"),
        ("a later event has none", "id: e9\ndata:\n\ndata:\n\nretry: 1000\n\n"),
    ] {
        let mut client = Client::in_session().await;
        let (_call, _) = client.open(&format!("id: e1\ndata:\n\n{text}")).await;
        assert_eq!(client.inbox.get_after(secs(1)).await.last_event_id(), Some("e9"), "{what}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_may_have_been_the_response_and_cannot_be_read_ends_the_request_without_a_get() {
    let mut client = Client::in_session().await;
    let (mut call, _pen) = client.open("id: e1\ndata:\n\nid: e2\ndata: {\"jsonrpc\":\n\n").await;
    let error = call.fails_now().await;
    assert!(error.find::<Undecodable>().is_some(), "{error}");
    assert_eq!(error.to_json_rpc().code(), -32700);
    client.inbox.assert_silent("it would bring the same again").await;
}

#[tokio::test(start_paused = true)]
async fn an_initialize_and_an_answer_that_is_no_stream_are_not_resumed() {
    let mut client = Client::new();
    let mut call = client.call(JsonRpcMessage::request(1, "initialize", json!({})));
    drop(client.inbox.next().await.stream("id: e1\ndata:\n\n"));
    assert!(call.fails_now().await.find::<EndedStream>().is_some());
    client.inbox.assert_silent("there is no session yet").await;

    let mut client = Client::in_session().await;
    let mut call = client.call(tool(7));
    client.inbox.next().await.status(202).await;
    assert_eq!(call.fails_now().await.status().map(|status| status.as_u16()), Some(202));
    client.inbox.assert_silent("it was accepted").await;
}

#[tokio::test(start_paused = true)]
async fn a_stream_of_the_modern_era_is_not_resumed() {
    for ends_cleanly in [true, false] {
        let mut client = Client::new();
        let mut call = client.call(versioned("tools/list", MODERN));
        let pen = client.inbox.next().await.stream("id: e1\nretry: 10\ndata:\n\n");
        if !ends_cleanly {
            pen.fail("reset");
        }
        drop(pen);
        let error = call.fails_now().await;
        assert_eq!(error.find::<EndedStream>().is_some(), ends_cleanly, "{error}");
        assert_eq!(error.to_json_rpc().code(), -32000);
        client.inbox.assert_silent("the modern era has no GET").await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_stream_without_a_session_is_resumed_too() {
    let mut client = Client::new();
    let mut call = client.interrupted().await;
    let get = client.inbox.get_after(secs(1)).await;
    assert_eq!((&get.method, get.header("mcp-session-id")), (&Method::GET, None));
    let _pen = get.stream(done("7"));
    call.response().await;
}

#[tokio::test(start_paused = true)]
async fn the_version_in_the_request_s_meta_is_that_of_the_get_even_if_the_connection_changed_before_it_was_sent()
 {
    for later in ["2025-06-18", MODERN] {
        let mut client = Client::in_session().await;
        // What was waiting to be sent (again) while another request changed what the connection speaks.
        let request = endpoint().post(versioned("tools/call", "2025-03-26"));
        let _other = client.call(versioned("ping", later));
        drop(client.inbox.next().await);
        let posted = tokio::spawn(client.envelopes.clone().oneshot(request));
        let post = client.inbox.next().await;
        assert_eq!(post.header("mcp-protocol-version"), Some("2025-03-26"));
        assert_eq!(post.header("mcp-session-id"), Some("one"));
        drop(post.stream("id: e1\ndata:\n\n"));
        let events = posted.await.unwrap().unwrap().into_body();
        let _reading = Reading::of(async { events });
        let get = client.inbox.get_after(secs(1)).await;
        assert_eq!(get.header("mcp-protocol-version"), Some("2025-03-26"), "{later}");
        assert_eq!(get.header("mcp-session-id"), Some("one"), "{later}");
    }
}
