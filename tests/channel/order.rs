//! The order of what is sent.

use std::sync::{Arc, Mutex};

use http::HeaderMap;
use mcp_streamable_http::JsonRpcMessage;
use mcp_streamable_http::options::ExtraHeaders;
use serde_json::json;
use tower::util::MapRequestLayer;

use crate::common::*;
use crate::support::{Answer, Server};

#[tokio::test(start_paused = true)]
async fn requests_are_called_in_their_order_and_what_goes_one_at_a_time_in_its_own() {
    let server = Server::scripted(|seen| match seen.what() {
        "ping" => Some(Answer::json(&seen.result(json!({})))),
        _ => Some(Answer::status(202)),
    });
    let log = Arc::new(Mutex::new(Vec::new()));
    let noted = log.clone();
    let transport = server.transport().layer(MapRequestLayer::new(move |message: JsonRpcMessage| {
        noted.lock().unwrap().push(message.clone());
        message
    }));
    let channel = transport.channel();
    let senders = [channel.sender(), channel.sender()];
    let messages = (0..200_i64).map(|number| match number % 3 {
        0 => JsonRpcMessage::notification("note", json!({ "number": number })),
        1 => response(number),
        _ => request(number),
    });
    let messages: Vec<JsonRpcMessage> = messages.collect();
    for (message, sender) in messages.iter().zip(senders.iter().cycle()) {
        sender.send(message.clone()).unwrap();
    }
    settle().await;
    let called = std::mem::take(&mut *log.lock().unwrap());
    let split = |messages: Vec<JsonRpcMessage>| -> (Vec<JsonRpcMessage>, Vec<JsonRpcMessage>) {
        messages.into_iter().partition(|message| message.as_request().is_some())
    };
    let ((requests, others), (given_requests, given_others)) = (split(called), split(messages));
    assert!(requests == given_requests, "the requests are out of order");
    assert!(others == given_others, "the others are out of order");
}

/// Requests pass notifications that wait, but not what those were given to the channel with.
async fn a_stamp_counts_for_what_is_sent_after_it(stamped: JsonRpcMessage, version: &str) {
    let mut server = Server::legacy();
    let mut channel = server.transport().channel();
    handshake(&mut channel).await;
    send(
        &channel.sender(),
        [
            notification("first"),
            notification("waiting"),
            request(1),
            stamped,
            notification("later"),
            request(3),
        ],
    );
    let first = server.expect("first").await;
    let mut requests = Vec::new();
    for _ in 0..3 {
        requests.push(server.expect("ping").await);
    }
    settle().await;
    assert_eq!(server.count("waiting"), 0);
    first.accept();
    let waiting = server.expect("waiting").await;
    assert_eq!(waiting.seen.header("mcp-protocol-version"), Some(VERSION));
    waiting.accept();
    let later = server.expect("later").await;
    assert_eq!(later.seen.header("mcp-protocol-version"), Some(version));
    for request in requests {
        let expected = if request.seen.has_id(1) { VERSION } else { version };
        assert_eq!(request.seen.header("mcp-protocol-version"), Some(expected));
    }
}

#[tokio::test(start_paused = true)]
async fn a_version_in_a_header_counts_for_later_messages_only() {
    let mut headers = HeaderMap::new();
    headers.insert("mcp-protocol-version", "2025-06-18".parse().unwrap());
    a_stamp_counts_for_what_is_sent_after_it(request(2).with(ExtraHeaders(headers)), "2025-06-18").await;
}

#[tokio::test(start_paused = true)]
async fn a_version_in_meta_counts_for_later_messages_only() {
    a_stamp_counts_for_what_is_sent_after_it(modern(2), "2026-07-28").await;
}
