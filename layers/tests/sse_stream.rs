//! Bodies that arrive in pieces, break, or never end.

#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use std::time::Duration;

use common::bridge::*;
use common::*;
use futures_util::StreamExt as _;
use http::Request;
use http_body_util::{BodyExt as _, StreamBody};
use mcp_streamable_http_layers::error::{BoxError, BrokenStream, TooLarge, Undecodable};
use mcp_streamable_http_layers::sse::Limits;
use mcp_streamable_http_layers::{Error, Event, Events, JsonRpcMessage, Payload, SseLayer};
use tokio_test::{assert_pending, task};
use tower::{Layer, ServiceExt as _, service_fn};

const NOTE: &str = r#"{"jsonrpc":"2.0","method":"notifications/message"}"#;

fn stream_of(request: Request<Payload>, body: Script) -> task::Spawn<Events> {
    let answer = now(opened(Limits::default(), request, 200, "text/event-stream", body)).unwrap();
    task::spawn(answer.into_body())
}

fn ping_stream(body: Script) -> task::Spawn<Events> {
    stream_of(endpoint().post(ping(1)), body)
}

#[track_caller]
fn next(events: &mut task::Spawn<Events>) -> Option<Result<Event, BoxError>> {
    now(events.next())
}

#[track_caller]
fn next_message(events: &mut task::Spawn<Events>) -> JsonRpcMessage {
    next(events).unwrap().unwrap().message.unwrap()
}

#[track_caller]
fn next_error(events: &mut task::Spawn<Events>) -> Error {
    Error::new(next(events).unwrap().unwrap_err())
}

fn data(json: &str) -> String {
    format!("data: {json}\n\n")
}

#[test]
fn events_are_delivered_as_they_come() {
    let (pen, body) = script();
    let mut events = ping_stream(body);
    assert_pending!(events.poll_next());
    pen.write(data(NOTE));
    assert!(events.is_woken());
    assert_eq!(next_message(&mut events).method(), Some("notifications/message"));
    assert_pending!(events.poll_next());

    pen.write("data: {\"jsonrpc\":\"2.0\",");
    assert_pending!(events.poll_next());
    pen.write(format!("\"method\":\"a\"}}\n\n: comment\n\n{}{}", data(NOTE), data(PONG)));
    let methods = [(); 3].map(|()| next_message(&mut events).method().map(str::to_owned));
    assert_eq!(methods, [Some("a".into()), Some("notifications/message".into()), None]);
}

#[test]
fn the_response_ends_the_stream_while_the_body_is_open() {
    let (pen, body) = script();
    let mut events = ping_stream(body);
    pen.write(format!("{}{}{}", data(PONG), data(NOTE), data(PONG)));
    assert!(next_message(&mut events).as_response().is_some());
    assert!(next(&mut events).is_none(), "what follows the response is nobody's");
    assert!(next(&mut events).is_none());
}

#[test]
fn every_cut_of_a_stream_gives_the_same_messages() {
    let text = format!(
        "\u{feff}id: ü\r\ndata: {NOTE}\r\n\r\n: …\ndata: {{\"jsonrpc\":\"2.0\",\ndata: \"method\":\"é\"}}\n\n{}",
        data(PONG)
    );
    let pieces = |chunks: Vec<&[u8]>| {
        let (pen, body) = script();
        chunks.into_iter().for_each(|chunk| pen.write(chunk.to_vec()));
        drop(pen);
        all(ping_stream(body)).into_iter().map(Result::unwrap).collect::<Vec<_>>()
    };
    let whole = pieces(vec![text.as_bytes()]);
    assert_eq!((whole.len(), whole[0].id.as_deref()), (3, Some("ü")));
    for cut in 0..text.len() {
        let (head, tail) = text.as_bytes().split_at(cut);
        assert_eq!(pieces(vec![head, tail]), whole, "cut at {cut}");
    }
    assert_eq!(pieces(text.as_bytes().chunks(1).collect()), whole);
}

#[test]
fn an_event_that_cannot_be_the_answer_is_skipped() {
    let (pen, body) = script();
    let events = ping_stream(body);
    for skipped in [
        "data:\n\n",
        "data: {}\n\n",
        "data: {\"ping\":1}\n\n",
        "event: ping\ndata: nonsense\n\n",
        ": hi\n\n",
        "data: []\n\n",
    ] {
        pen.write(skipped);
    }
    pen.write(format!("event: message\n{}", data(PONG)));
    drop(pen);
    let messages: Vec<_> = all(events).into_iter().filter_map(|item| item.unwrap().message).collect();
    assert!(matches!(&messages[..], [JsonRpcMessage::Response(_)]), "{messages:?}");
}

#[test]
fn one_that_may_be_the_answer_and_cannot_be_read_fails_the_request_at_once() {
    for unreadable in [
        &b"data: {nope}\n\n"[..],
        b"data: \"\xff\"\n\n",
        b"data: {\"id\":1}\n\n",
        b"data: null\n\n",
        b"data: hello\n\n",
    ] {
        let (pen, body) = script();
        let (mut events, watch) = (ping_stream(body), pen.watch());
        pen.write(unreadable);
        pen.write(data(PONG));
        assert!(next_error(&mut events).find::<Undecodable>().is_some(), "{}", unreadable.escape_ascii());
        assert!(next(&mut events).is_none() && watch.is_dropped());
    }
}

#[test]
fn a_listening_stream_goes_on_after_what_cannot_be_read() {
    let (pen, body) = script();
    let mut events = stream_of(endpoint().get(), body);
    pen.write("id: 7\ndata: {nope}\n\ndata: \u{fffd}x\n\n");
    assert!(next_error(&mut events).find::<Undecodable>().is_some());
    assert_eq!(next(&mut events).unwrap().unwrap().id.as_deref(), Some("7"), "it need not come again");
    assert!(next_error(&mut events).find::<Undecodable>().is_some());
    let _ = next(&mut events);

    pen.write(data(PONG) + &data(NOTE));
    assert_eq!(next_message(&mut events).id(), Some(&1.into()), "a response does not end it");
    assert_eq!(next_message(&mut events).method(), Some("notifications/message"));
    assert_pending!(events.poll_next());
    drop(pen);
    assert!(next(&mut events).is_none());
}

#[test]
fn the_position_of_a_batch_counts_after_its_last_message() {
    for (request, last) in [(endpoint().get(), 3), (endpoint().post(ping(1)), 2)] {
        let (pen, body) = script();
        let events = stream_of(request, body);
        pen.write(format!("id: 9\nretry: 50\ndata: [{NOTE},{PONG},\ndata: {NOTE}]\n\n"));
        drop(pen);
        let items: Vec<_> = all(events).into_iter().map(Result::unwrap).collect();
        assert_eq!(items.iter().filter(|event| event.message.is_some()).count(), last);
        let (end, before) = items.split_last().unwrap();
        assert_eq!((end.id.as_deref(), end.retry), (Some("9"), Some(Duration::from_millis(50))));
        assert!(before.iter().all(|event| event.id.is_none() && event.retry.is_none()));
    }
}

#[test]
fn priming_events_carry_a_position_and_no_message() {
    let (pen, body) = script();
    let mut events = ping_stream(body);
    pen.write("id: 1\ndata:\n\n:\n\nretry: 20\n\nid\n\nevent: x\nid: 2\ndata: {}\n\n");
    let positions = [(); 4].map(|()| next(&mut events).unwrap().unwrap());
    assert!(positions.iter().all(|event| event.message.is_none()));
    assert_eq!(positions.each_ref().map(|event| event.id.as_deref()), [Some("1"), None, Some(""), Some("2")]);
    assert_eq!(positions[1].retry, Some(Duration::from_millis(20)));
    assert_pending!(events.poll_next());
}

#[test]
fn a_hundred_thousand_blocks_in_one_chunk_let_other_tasks_run() {
    let (pen, body) = script();
    let mut events = ping_stream(body);
    // Blocks of no consequence at all: nothing of them reaches the layers above.
    pen.write("data: {}\n\n".repeat(100_000) + &data(PONG));
    for pauses in 0.. {
        if let std::task::Poll::Ready(item) = events.poll_next() {
            assert!(item.unwrap().unwrap().message.is_some());
            assert!(pauses >= 1_000, "only {pauses} pauses");
            return;
        }
        assert!(events.is_woken(), "it must ask for its next turn itself");
    }
}

#[test]
fn an_unfinished_event_at_the_end_is_discarded() {
    for rest in [format!("data: {PONG}"), format!("data: {PONG}\n"), format!("id: 5\ndata: {PONG}\r\n")] {
        let (pen, body) = script();
        let events = ping_stream(body);
        pen.write(data(NOTE) + &rest);
        drop(pen);
        assert_eq!(all(events).len(), 1, "{rest}");
    }
}

#[test]
fn a_body_that_breaks_is_an_error_after_what_came_before() {
    for request in [endpoint().get(), endpoint().post(ping(1))] {
        let (pen, body) = script();
        let mut events = stream_of(request, body);
        pen.write(data(NOTE) + "data: {");
        pen.fail("reset by peer");
        assert!(next(&mut events).unwrap().is_ok());
        assert!(
            next_error(&mut events).find::<BrokenStream>().unwrap().to_string().contains("reset by peer")
        );
        assert!(next(&mut events).is_none());
    }
}

#[test]
fn a_json_body_in_pieces_is_put_together_and_one_that_breaks_is_an_error() {
    let (pen, body) = script();
    let mut answer = opened(Limits::default(), endpoint().post(ping(1)), 200, "application/json", body);
    PONG.as_bytes().chunks(3).for_each(|chunk| {
        pen.write(chunk.to_vec());
        assert_pending!(answer.poll());
    });
    drop(pen);
    assert!(all(now(answer).unwrap().into_body())[0].is_ok());

    let (pen, body) = script();
    let answer = opened(Limits::default(), endpoint().post(ping(1)), 200, "application/json", body);
    pen.write(PONG);
    pen.fail("reset by peer");
    let error = all(now(answer).unwrap().into_body()).pop().unwrap().unwrap_err();
    assert!(error.downcast_ref::<BrokenStream>().is_some(), "{error}");
}

#[test]
fn an_event_over_the_limit_is_an_error_that_names_it() {
    let limits = Limits::default().max_event_bytes(100);
    for request in [endpoint().get(), endpoint().post(ping(1))] {
        let (pen, body) = script();
        let watch = pen.watch();
        let mut events =
            task::spawn(now(opened(limits, request, 200, "text/event-stream", body)).unwrap().into_body());
        pen.write(data(NOTE) + &data(NOTE) + "data: " + &"x".repeat(100));
        assert!(next(&mut events).unwrap().is_ok() && next(&mut events).unwrap().is_ok());
        let error = next_error(&mut events);
        assert_eq!(error.find::<TooLarge>().map(TooLarge::limit), Some(100));
        assert!(error.to_string().contains("max_event_bytes"), "{error}");
        assert!(next(&mut events).is_none() && watch.is_dropped());
    }
}

#[test]
fn dropping_the_events_drops_the_body() {
    let (pen, body) = script();
    let watch = pen.watch();
    let events = ping_stream(body);
    assert!(!watch.is_dropped());
    drop(events);
    assert!(watch.is_dropped());
}

#[test]
fn any_body_will_do() {
    let chunks = futures_util::stream::iter([Ok::<_, std::io::Error>(http_body::Frame::data(
        bytes::Bytes::from(data(PONG)),
    ))]);
    let body = std::cell::Cell::new(Some(StreamBody::new(chunks).boxed_unsync()));
    let http = service_fn(|_| {
        let answer = answer(200, "text/event-stream", "").map(|_| body.take().unwrap());
        std::future::ready(Ok::<_, BoxError>(answer))
    });
    let service = SseLayer::new(Limits::default()).layer(http);
    let answer = now(service.oneshot(endpoint().post(ping(1)))).unwrap();
    assert_eq!(all(answer.into_body()).len(), 1);
}
