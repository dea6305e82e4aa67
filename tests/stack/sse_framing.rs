//! Event streams that are cut anywhere, and everything that the format allows around the messages.

use mcp_streamable_http::{JsonRpcMessage, Reply};
use serde_json::{Value, json};

use crate::common::*;
use crate::support::mcp::result;
use crate::support::{Answer, Request};

/// A byte order mark, all three line endings, a comment, a message over several lines, text of two, three and four
/// bytes a character, among it what only other formats take for the end of a line.
const STREAM: &str = concat!(
    "\u{feff}id: ü-1\r\n",
    "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\r\n",
    "data: \"params\":{\"progress\":1,\r\n",
    "data:\"text\":\"Grüße \u{2028}\u{85}😀\"}}\r\n",
    "\r\n",
    ": hello\r\n",
    "retry: 10\r\n",
    "\r\n",
    "event: message\r",
    "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{\"progress\":2}}\r",
    "\r",
    ": still here\n",
    "\n",
    "data: {\"jsonrpc\":\"2.0\",\"id\":\"x\",\"result\":{\"text\":\"日本\"}}\n",
    "id: 2\n",
    "\n",
);

/// How a request asks for its answer to be cut.
fn pieces(request: &Request) -> Vec<&'static [u8]> {
    let params = &request.json()["params"];
    let bytes = STREAM.as_bytes();
    match params["cut"].as_u64() {
        Some(cut) => {
            let (start, end) = bytes.split_at(usize::try_from(cut).unwrap());
            vec![start, end]
        }
        None => bytes.chunks(1).collect(),
    }
}

fn cut(params: Value) -> JsonRpcMessage {
    JsonRpcMessage::request("x", "tools/call", params)
}

async fn check(reply: Reply, how: &str) {
    let mut reply = reply;
    let first = next_message(&mut reply).await;
    assert_eq!(step_of(&first), 1, "{how}");
    let params: Value = first.params().unwrap().to().unwrap();
    assert_eq!(params["text"], "Grüße \u{2028}\u{85}😀", "{how}");
    assert_eq!(reply.last_event_id(), Some("ü-1"), "{how}");
    assert_eq!(step_of(&next_message(&mut reply).await), 2, "{how}");
    let response = next_message(&mut reply).await;
    assert_eq!(response, JsonRpcMessage::response("x", json!({ "text": "日本" })), "{how}");
    assert_eq!(reply.last_event_id(), Some("2"), "{how}");
    assert!(next(&mut reply).await.is_none(), "{how}");
}

#[tokio::test]
async fn a_stream_can_be_cut_at_every_byte() {
    // Every piece is a chunk of its own, and the client sees it as one.
    let server = server(|request| pieces(request).into_iter().fold(Answer::sse(), Answer::raw)).await;
    let transport = transport(&server);
    for position in 0..=STREAM.len() {
        let reply = send(&transport, cut(json!({ "cut": position }))).await.unwrap();
        check(reply, &format!("cut at {position}")).await;
    }
    check(send(&transport, cut(json!({}))).await.unwrap(), "single bytes").await;
}

#[tokio::test]
async fn a_stream_can_be_cut_at_every_byte_of_its_chunks() {
    // Here it is the transfer coding itself that is cut, so the pieces are what the socket yields.
    let server = server(|request| {
        let cut = request.json()["params"]["cut"].as_u64().map(|cut| usize::try_from(cut).unwrap());
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
        let whole = format!("{head}{:x}\r\n{STREAM}\r\n0\r\n\r\n", STREAM.len());
        let (start, end) = whole.as_bytes().split_at(head.len() + cut.unwrap());
        Answer::raw_response(start).flush().raw(end)
    })
    .await;
    let transport = transport(&server);
    for position in (0..STREAM.len()).step_by(3) {
        let reply = send(&transport, cut(json!({ "cut": position }))).await.unwrap();
        check(reply, &format!("cut at {position}")).await;
    }
}

/// What a client makes of `stream` before the response.
async fn outline_of(stream: impl Into<Vec<u8>>) -> (Vec<String>, Option<String>) {
    let stream = stream.into();
    let server = server(move |request| {
        Answer::sse().raw(&stream).wait(&crate::support::Gate::new()).event(result(request, json!({})))
    });
    let server = server.await;
    let mut reply = send(&transport(&server), call(1)).await.unwrap();
    let mut steps = Vec::new();
    // The last message of each stream says that there are no more.
    while steps.last().is_none_or(|step| step != "99") {
        steps.push(step_of(&next_message(&mut reply).await).to_string());
    }
    (steps, reply.last_event_id().map(str::to_owned))
}

fn event(fields: &str, step: i64) -> String {
    format!("{fields}data: {}\n\n", progress(step))
}

#[tokio::test]
async fn events_in_one_chunk_all_arrive() {
    let stream: String = (0..50).map(|step| event("", step)).collect::<String>() + &event("", 99);
    let (steps, _) = outline_of(stream).await;
    assert_eq!(steps.len(), 51);
    assert!(steps.iter().take(50).enumerate().all(|(at, step)| *step == at.to_string()), "{steps:?}");
}

#[tokio::test]
async fn what_carries_no_message_is_no_item() {
    for block in [
        "id: p\ndata:\n\n",
        "id: p\ndata\n\n",
        "retry: 100\n\n",
        "id: p\n\n",
        ": keep-alive\n\n",
        ":\n:\n\n",
        "\n\n\n",
        "event: ping\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/never\"}\n\n",
        "event: endpoint\ndata: /messages?x=1\n\n",
        "data: {}\n\n",
        "data: {\"type\":\"ping\"}\n\n",
        "data: []\n\n",
        "unknown: field\n\n",
        "unknown\n\n",
    ] {
        let (steps, _) = outline_of(format!("{block}{}", event("", 99))).await;
        assert_eq!(steps, ["99"], "{block:?}");
    }
}

#[tokio::test]
async fn ids_are_kept_as_the_format_says() {
    for (stream, id) in [
        (event("id: 1\n", 1) + "id: primed\n\n" + &event("", 99), Some("primed")),
        (event("id: 1\n", 1) + &event("id\n", 99), None),
        (event("id: 1\n", 1) + &event("id: 2\0\n", 99), Some("1")),
        (event("id:  two\n", 99), Some(" two")),
        (event("id: 1\nid: 2\n", 99), Some("2")),
        (event("retry: 5\n", 99), None),
        // An id counts with its event, and this one has no end.
        (event("id: 1\n", 99) + "id: 2\n", Some("1")),
    ] {
        let (_, last) = outline_of(stream.clone()).await;
        assert_eq!(last.as_deref(), id, "{stream:?}");
    }
}

#[tokio::test]
async fn fields_are_read_as_the_format_says() {
    let data = progress(99).to_string();
    for stream in [
        format!("data:{data}\n\n"),
        format!("data: {data}\ndata\n\n"),
        format!("event: other\nevent: message\ndata: {data}\n\n"),
        format!("event:\ndata: {data}\n\n"),
        format!("DATA: x\nData: y\ndata : z\n data: w\ndata: {data}\n\n"),
        format!("data: {data}\r\n\n"),
    ] {
        assert_eq!(outline_of(stream.clone()).await.0, ["99"], "{stream:?}");
    }
}

#[tokio::test]
async fn an_event_ends_with_its_last_carriage_return() {
    // Nothing follows, so whether an LF would is never known.
    let stream = format!("data: {}\r\r", progress(99));
    assert_eq!(outline_of(stream).await.0, ["99"]);
}

#[tokio::test]
async fn a_hundred_thousand_priming_events_in_one_chunk_are_passed_over() {
    let stream = "id: 1\ndata:\n\n".repeat(100_000) + &event("id: 2\n", 99);
    assert_eq!(outline_of(stream).await, (vec!["99".to_owned()], Some("2".to_owned())));
}
