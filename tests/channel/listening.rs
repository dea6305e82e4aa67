//! The listening GET.

use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::StreamExt;
use mcp_streamable_http::StreamableHttp;
use mcp_streamable_http::channel::{Channel, ChannelOptions, Origin};
use mcp_streamable_http::error::Undecodable;
use serde_json::json;

use crate::common::*;
use crate::support::{Answer, Events, Server, legacy};

/// A channel that listens.
async fn listening() -> (Server, Channel, Events) {
    let mut server = Server::listening();
    let mut channel = server.transport().channel();
    handshake(&mut channel).await;
    let get = server.expect("GET").await;
    let events = get.open();
    (server, channel, events)
}

#[tokio::test(start_paused = true)]
async fn it_listens_once_initialized_was_accepted() {
    let mut server = Server::manual();
    let mut channel = server.transport().channel();
    send(&channel.sender(), [initialize(0)]);
    let first = server.expect("initialize").await;
    let answer = legacy(&first.seen).unwrap();
    first.answer(answer);
    assert_eq!(id(&next(&mut channel).await), 0);
    send(&channel.sender(), [initialized()]);
    let notified = server.expect("notifications/initialized").await;
    settle().await;
    assert_eq!(server.count("GET"), 0);
    notified.accept();
    let get = server.expect("GET").await;
    assert_eq!(get.seen.header("mcp-session-id"), Some(SESSION));
    assert_eq!(get.seen.header("mcp-protocol-version"), Some(VERSION));
    assert_eq!(get.seen.header("accept"), Some("text/event-stream"));
}

#[tokio::test(start_paused = true)]
async fn it_listens_when_initialized_is_accepted_late() {
    let mut server = Server::scripted(|seen| match seen.what() {
        "notifications/initialized" => None,
        _ => legacy(seen),
    });
    let mut channel = server.transport().channel();
    handshake(&mut channel).await;
    let notified = server.expect("notifications/initialized").await;
    pass(10).await;
    assert_eq!(server.count("GET"), 0);
    notified.accept();
    server.expect("GET").await;
}

/// How often a channel listens after a handshake with this acceptance and session id.
async fn gets(
    accepted: u16,
    session: bool,
    options: ChannelOptions,
    transport: fn(&Server) -> StreamableHttp,
) -> usize {
    let server = Server::scripted(move |seen| match seen.what() {
        "notifications/initialized" => Some(Answer::status(accepted)),
        "initialize" if !session => {
            Some(Answer::json(&seen.result(json!({ "protocolVersion": VERSION, "capabilities": {} }))))
        }
        _ => legacy(seen),
    });
    let mut channel = transport(&server).channel_with(options);
    handshake(&mut channel).await;
    silent(&mut channel).await;
    pass(60).await;
    server.count("GET")
}

#[tokio::test(start_paused = true)]
async fn it_listens_only_where_it_is_wanted_and_possible() {
    let on = ChannelOptions::default;
    assert_eq!(gets(202, true, on(), Server::transport).await, 1);
    assert_eq!(gets(200, true, on(), Server::transport).await, 1);
    assert_eq!(gets(202, true, on().listen(false), Server::transport).await, 0);
    assert_eq!(gets(500, true, on(), Server::transport).await, 0);
    assert_eq!(gets(202, false, on(), Server::transport).await, 0);
}

#[tokio::test(start_paused = true)]
async fn it_listens_without_a_session_if_that_is_asked_for() {
    let transport = |server: &Server| {
        let uri = "http://in.memory/mcp".parse().unwrap();
        StreamableHttp::with_client(uri, server.wire()).listen_without_session(true).build().unwrap()
    };
    let on = ChannelOptions::default;
    assert_eq!(gets(202, false, on(), transport).await, 1);
    assert_eq!(gets(202, false, on().listen(false), transport).await, 0);
}

#[tokio::test(start_paused = true)]
async fn a_get_without_an_answer_delays_nothing() {
    let mut server = Server::listening();
    let mut channel = server.transport().channel();
    handshake(&mut channel).await;
    let _unanswered = server.expect("GET").await;
    send(&channel.sender(), [request(1), notification("a"), notification("b")]);
    for what in ["ping", "a", "b"] {
        let next = server.expect(what).await;
        if what == "ping" { next.result(json!({})) } else { next.accept() }
    }
    assert_eq!(id(&next(&mut channel).await), 1);
}

#[tokio::test(start_paused = true)]
async fn messages_say_on_which_stream_they_came() {
    let (mut server, mut channel, events) = listening().await;
    send(&channel.sender(), [request(1)]);
    let call = server.expect("ping").await.open();
    call.send(&progress(1));
    let item = next(&mut channel).await;
    assert_eq!((step(&item), item.origin), (1, Origin::Request(1.into())));
    events.send(&progress(2));
    let item = next(&mut channel).await;
    assert_eq!((step(&item), item.origin), (2, Origin::Listening));
    events.send(&json!({ "jsonrpc": "2.0", "id": 7, "method": "roots/list" }));
    let item = next(&mut channel).await;
    assert_eq!((item.message.method(), item.origin), (Some("roots/list"), Origin::Listening));
    call.result(json!({}));
    let item = next(&mut channel).await;
    assert_eq!((id(&item), item.origin), (1, Origin::Request(1.into())));
}

#[tokio::test(start_paused = true)]
async fn an_event_that_cannot_be_read_is_an_error_and_the_stream_goes_on() {
    let (_server, mut channel, events) = listening().await;
    events.send(&progress(1));
    events.send_text("data: {no json\n\n");
    events.send(&progress(2));
    assert_eq!(step(&next(&mut channel).await), 1);
    let error = soon(channel.next()).await.unwrap().unwrap_err();
    assert!(error.find::<Undecodable>().is_some());
    assert_eq!(step(&next(&mut channel).await), 2);
    assert!(!events.is_dropped());
}

#[tokio::test(start_paused = true)]
async fn a_response_to_nobody_is_dropped() {
    let (mut server, mut channel, events) = listening().await;
    send(&channel.sender(), [request(1)]);
    server.expect("ping").await.result(json!({ "first": true }));
    settle().await;
    // One that is answered and not read, one that nobody has sent, and one that cannot be told.
    for id in [json!(1), json!(99), json!(null)] {
        events.send(&json!({ "jsonrpc": "2.0", "id": id, "result": {} }));
    }
    settle().await;
    let item = next(&mut channel).await;
    assert_eq!((result(&item), item.origin), (json!({ "first": true }), Origin::Request(1.into())));
    events.send(&json!({ "jsonrpc": "2.0", "id": 1, "result": {} }));
    silent(&mut channel).await;
    events.send(&progress(1));
    assert_eq!(step(&next(&mut channel).await), 1);
}

#[tokio::test(start_paused = true)]
async fn a_response_to_a_request_in_flight_is_its_answer() {
    let (mut server, mut channel, events) = listening().await;
    send(&channel.sender(), [request(1), request(2)]);
    let headless = server.expect("ping").await;
    let open = server.expect("ping").await.open();
    for id in [1, 2] {
        let answer = json!({ "jsonrpc": "2.0", "id": id, "result": { "heard": id } });
        events.send(&answer);
        events.send(&answer);
    }
    for expected in [1, 2] {
        let item = next(&mut channel).await;
        assert_eq!((id(&item), result(&item)), (expected, json!({ "heard": expected })));
        assert_eq!(item.origin, Origin::Listening);
    }
    silent(&mut channel).await;
    assert!(headless.is_dropped() && open.is_dropped());
    pass(60).await;
    assert_eq!(server.count("notifications/cancelled"), 0);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_offers_no_stream_is_no_failure() {
    for status in [405, 400, 401, 403, 202] {
        let mut server = Server::listening();
        let mut channel = server.transport().channel();
        handshake(&mut channel).await;
        server.expect("GET").await.answer(Answer::status(status));
        pass(60).await;
        silent(&mut channel).await;
        assert_eq!(server.count("GET"), 1);
        send(&channel.sender(), [request(1)]);
        server.expect("ping").await.result(json!({}));
        assert_eq!(result(&next(&mut channel).await), json!({}));
    }
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_cannot_be_opened_is_no_failure() {
    let server = Server::scripted(|seen| match seen.what() {
        "GET" => Some(Answer::status(500)),
        _ => legacy(seen),
    });
    let mut channel = server.transport().channel();
    handshake(&mut channel).await;
    pass(600).await;
    silent(&mut channel).await;
    assert!(!channel.sender().is_closed());
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_ends_is_no_failure_and_is_opened_again() {
    let (mut server, mut channel, events) = listening().await;
    events.send(&progress(1));
    drop(events);
    assert_eq!(step(&next(&mut channel).await), 1);
    silent(&mut channel).await;
    send(&channel.sender(), [request(1)]);
    server.expect("ping").await.result(json!({}));
    assert_eq!(id(&next(&mut channel).await), 1);

    let again = server.next_in_time().await;
    assert_eq!(again.seen.what(), "GET");
    let again = again.open();
    again.send(&progress(2));
    let item = next(&mut channel).await;
    assert_eq!((step(&item), item.origin), (2, Origin::Listening));
}

/// A server each of whose sessions has an id of its own: `s-0`, `s-1`, and so on.
fn many_sessions() -> Server {
    let sessions = AtomicUsize::new(0);
    Server::scripted(move |seen| match seen.what() {
        "initialize" => {
            let session = format!("s-{}", sessions.fetch_add(1, Ordering::Relaxed));
            legacy(seen).map(|answer| answer.header("mcp-session-id", &session))
        }
        _ => legacy(seen),
    })
}

#[tokio::test(start_paused = true)]
async fn after_another_handshake_it_listens_in_the_new_session() {
    let mut server = many_sessions();
    let mut channel = server.transport().channel();
    handshake(&mut channel).await;
    let first = server.expect("GET").await;
    assert_eq!(first.seen.header("mcp-session-id"), Some("s-0"));
    let first = first.open();
    first.send(&progress(1));
    assert_eq!(step(&next(&mut channel).await), 1);

    handshake(&mut channel).await;
    assert!(first.is_dropped());
    let mut second = server.expect("GET").await;
    while second.is_dropped() {
        second = server.expect("GET").await;
    }
    assert_eq!(second.seen.header("mcp-session-id"), Some("s-1"));
    let second = second.open();
    second.send(&progress(2));
    assert_eq!(step(&next(&mut channel).await), 2);
    silent(&mut channel).await;
}

#[tokio::test(start_paused = true)]
async fn another_handshake_opens_one_stream_and_not_before_it_is_over() {
    let sessions = AtomicUsize::new(0);
    let mut server = Server::scripted(move |seen| match seen.what() {
        "initialize" => {
            let session = format!("s-{}", sessions.fetch_add(1, Ordering::Relaxed));
            legacy(seen).map(|answer| answer.header("mcp-session-id", &session))
        }
        "notifications/initialized" => None,
        _ => legacy(seen),
    });
    let mut channel = server.transport().channel();
    handshake(&mut channel).await;
    server.expect("notifications/initialized").await.accept();
    let first = server.expect("GET").await.open();
    handshake(&mut channel).await;
    let notified = server.expect("notifications/initialized").await;
    settle().await;
    assert!(first.is_dropped());
    assert_eq!(server.count("GET"), 1, "before initialized was accepted");
    notified.accept();
    settle().await;
    assert_eq!(server.count("GET"), 2);
    assert_eq!(server.expect("GET").await.seen.header("mcp-session-id"), Some("s-1"));
}

#[tokio::test(start_paused = true)]
async fn it_stops_listening_when_another_handshake_begins() {
    let mut server = Server::scripted(|seen| match seen.what() {
        "initialize" if seen.has_id(10) => None,
        _ => legacy(seen),
    });
    let mut channel = server.transport().channel();
    handshake(&mut channel).await;
    let events = server.expect("GET").await.open();
    send(&channel.sender(), [initialize(10)]);
    let _unanswered = server.expect("initialize").await;
    settle().await;
    assert!(events.is_dropped());
    pass(60).await;
    assert_eq!(server.count("GET"), 1, "nor does it try again");
}

#[tokio::test(start_paused = true)]
async fn a_late_acceptance_of_an_earlier_handshake_opens_no_stream() {
    let mut server = Server::scripted(|seen| match seen.what() {
        "notifications/initialized" => None,
        _ => legacy(seen),
    });
    let mut channel = server.transport().channel();
    handshake(&mut channel).await;
    let earlier = server.expect("notifications/initialized").await;
    // It is overtaken by then.
    pass(6).await;
    handshake(&mut channel).await;
    let later = server.expect("notifications/initialized").await;
    earlier.accept();
    settle().await;
    assert_eq!(server.count("GET"), 0);
    later.accept();
    server.expect("GET").await;
    settle().await;
    assert_eq!(server.count("GET"), 1);
}

#[tokio::test(start_paused = true)]
async fn messages_say_where_their_stream_would_be_resumed() {
    let (mut server, mut channel, events) = listening().await;
    let with_id = |id: &str, message: &serde_json::Value| format!("id: {id}\ndata: {message}\n\n");
    send(&channel.sender(), [request(1)]);
    let call = server.expect("ping").await.open();
    call.send(&progress(1));
    let answer = call.seen.result(json!({}));
    call.send_text(with_id("c-2", &progress(2)));
    call.send(&progress(3));
    call.send_text(with_id("c-4", &answer));
    for expected in [None, Some("c-2"), Some("c-2"), Some("c-4")] {
        assert_eq!(next(&mut channel).await.last_event_id.as_deref(), expected);
    }
    // Each stream has its own.
    events.send(&progress(1));
    events.send_text(with_id("e-2", &progress(2)));
    for expected in [None, Some("e-2")] {
        assert_eq!(next(&mut channel).await.last_event_id.as_deref(), expected);
    }
    // There is none in an answer that is no stream, nor in one that failed before it was.
    send(&channel.sender(), [request(2), numbered(3, 3)]);
    server.expect("ping").await.result(json!({}));
    assert_eq!(next(&mut channel).await.last_event_id, None);
    server.expect("call").await.answer(Answer::status(500));
    assert_eq!(next(&mut channel).await.last_event_id, None);
}
