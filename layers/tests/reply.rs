//! Replies: how they end, who sees it, and what they remember.

#![allow(clippy::unwrap_used)]

mod common;

use std::sync::{Arc, Mutex};
use std::task::Poll;

use common::*;
use futures_util::StreamExt as _;
use mcp_streamable_http_layers::error::{BoxError, EndedStream, NoResponseDue};
use mcp_streamable_http_layers::{Error, Event, Events, Expects, JsonRpcMessage, Reply};
use serde_json::json;
use tokio::sync::mpsc;
use tokio_test::{assert_pending, task};

type Item = Result<Event, BoxError>;

fn pong() -> JsonRpcMessage {
    JsonRpcMessage::response(1, json!({}))
}

fn item(message: JsonRpcMessage) -> Item {
    Ok(message.into())
}

fn at(id: &str) -> Item {
    let mut event = Event::default();
    event.id = Some(id.into());
    Ok(event)
}

fn to_request() -> Expects {
    Expects::Response(1.into())
}

fn reply(expects: Expects, items: Vec<Item>) -> Reply {
    Reply::new(expects, Events::all(items))
}

/// Events that come when the test sends them, and say in `log` when they are dropped.
fn live(log: &Log) -> (mpsc::UnboundedSender<Item>, Events) {
    let (sender, mut receiver) = mpsc::unbounded_channel();
    let witness = log.witness("stream");
    let stream = futures_util::stream::poll_fn(move |cx| {
        let _ = &witness;
        receiver.poll_recv(cx)
    });
    (sender, Events::new(stream))
}

/// What was dropped, in order.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<&'static str>>>);

struct Witness(Log, &'static str);

impl Log {
    fn witness(&self, name: &'static str) -> Witness {
        Witness(self.clone(), name)
    }

    fn note(&self, name: &'static str) {
        self.0.lock().unwrap().push(name);
    }

    fn take(&self) -> Vec<&'static str> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

impl Drop for Witness {
    fn drop(&mut self) {
        self.0.note(self.1);
    }
}

fn kinds(items: Vec<Result<JsonRpcMessage, Error>>) -> Vec<&'static str> {
    let kind = |item: &Result<JsonRpcMessage, Error>| match item {
        Ok(JsonRpcMessage::Response(_)) => "response",
        Ok(_) => "message",
        Err(error) if error.find::<EndedStream>().is_some() => "ended",
        Err(_) => "error",
    };
    items.iter().map(kind).collect()
}

#[test]
fn a_reply_to_a_request_ends_in_exactly_one_response_or_error() {
    for (items, expected) in [
        (vec![item(pong())], vec!["response"]),
        (vec![item(notification()), item(ping(9)), item(pong())], vec!["message", "message", "response"]),
        (vec![item(pong()), item(notification()), item(pong())], vec!["response"]),
        (vec![Err("broken".into()), item(pong())], vec!["error"]),
        (vec![item(notification()), Err("broken".into()), Err("broken".into())], vec!["message", "error"]),
        (vec![], vec!["ended"]),
        (vec![item(notification()), at("1")], vec!["message", "ended"]),
    ] {
        let mut reply = task::spawn(reply(to_request(), items));
        let mut seen = Vec::new();
        while let Poll::Ready(Some(item)) = reply.poll_next() {
            seen.push(item);
            assert!(seen.len() < 10, "it does not end");
        }
        assert_eq!(kinds(seen), expected);
        assert!(matches!(reply.poll_next(), Poll::Ready(None)), "and it stays at its end");
    }
}

#[test]
fn a_reply_to_a_notification_is_nothing_or_one_error() {
    assert!(all(reply(Expects::Acceptance, vec![])).is_empty());
    assert_eq!(kinds(all(reply(Expects::Acceptance, vec![Err("no".into()), Err("no".into())]))), ["error"]);
}

#[test]
fn a_listening_reply_goes_on_after_responses_and_errors() {
    let items = vec![item(pong()), Err("broken".into()), item(notification()), Err("broken".into())];
    let listening = reply(Expects::Messages, items);
    assert_eq!(kinds(all(listening)), ["response", "error", "message", "error"]);
}

#[test]
fn response_waits_for_the_response() {
    let (sender, events) = live(&Log::default());
    let mut response = task::spawn(Reply::new(to_request(), events).response());
    assert_pending!(response.poll());
    sender.send(item(notification())).unwrap();
    assert_pending!(response.poll());
    sender.send(item(pong())).unwrap();
    assert!(response.is_woken());
    assert_eq!(JsonRpcMessage::from(now(response).unwrap()), pong());

    let failed = now(reply(to_request(), vec![item(notification()), Err("broken".into())]).response());
    assert_eq!(failed.unwrap_err().to_string(), "broken");
    assert!(now(reply(to_request(), vec![]).response()).unwrap_err().find::<EndedStream>().is_some());
}

#[test]
fn response_is_an_error_where_none_will_come() {
    let accepted = now(reply(Expects::Acceptance, vec![]).response());
    assert!(accepted.unwrap_err().find::<NoResponseDue>().is_some());
    let refused = now(reply(Expects::Acceptance, vec![Err("refused".into())]).response());
    assert_eq!(refused.unwrap_err().to_string(), "refused");

    // A listening stream can stay open for ever, so nothing is waited for.
    let (_sender, events) = live(&Log::default());
    let listening = now(Reply::new(Expects::Messages, events).response());
    assert!(listening.unwrap_err().find::<NoResponseDue>().is_some());
}

#[test]
fn map_sees_every_item_and_the_inner_one_first() {
    let log = Log::default();
    let (first, second) = (log.clone(), log.clone());
    let items = vec![at("1"), item(notification()), item(pong())];
    let mapped = reply(to_request(), items)
        .map(move |item| {
            first.note(if item.is_ok_and(|m| m.as_response().is_some()) { "end" } else { "item" });
            Err(Error::new("changed"))
        })
        .map(move |item| {
            second.note("second");
            assert_eq!(item.as_ref().unwrap_err().to_string(), "changed");
            item
        });
    assert_eq!(kinds(all(mapped)), ["error", "error"], "its end is decided before it is changed");
    assert_eq!(log.take(), ["item", "second", "end", "second"]);
}

#[test]
fn map_sees_the_end_that_the_reply_adds() {
    let log = Log::default();
    let seen = log.clone();
    let mapped = reply(to_request(), vec![]).map(move |item| {
        seen.note(if item.is_err() { "error" } else { "ok" });
        Ok(pong())
    });
    assert_eq!(kinds(all(mapped)), ["response"]);
    assert_eq!(log.take(), ["error"]);
}

#[test]
fn what_map_makes_of_a_message_does_not_end_the_reply() {
    let mapped = reply(to_request(), vec![item(notification()), item(notification()), item(pong())])
        .map(|_| Ok(pong()));
    assert_eq!(all(mapped).len(), 3);
}

#[test]
fn the_guard_goes_at_the_end_and_after_the_stream() {
    for last in [Some(item(pong())), Some(Err("broken".into())), None] {
        let log = Log::default();
        let (sender, events) = live(&log);
        let guarded =
            Reply::new(to_request(), events).guarded(log.witness("inner")).guarded(log.witness("outer"));
        let mut guarded = task::spawn(guarded);
        sender.send(item(notification())).unwrap();
        assert!(now(guarded.next()).is_some());
        assert_pending!(guarded.poll_next());
        assert!(log.take().is_empty());

        match last {
            Some(last) => sender.send(last).unwrap(),
            None => drop(sender),
        }
        assert!(now(guarded.next()).is_some());
        assert_eq!(log.take(), ["stream", "inner", "outer"], "before the reply itself is dropped");
        drop(guarded);
        assert!(log.take().is_empty());
    }
}

#[test]
fn the_guard_goes_when_the_reply_is_dropped_and_after_the_stream() {
    let log = Log::default();
    let (_sender, events) = live(&log);
    let witness = log.witness("map");
    let reply = Reply::new(to_request(), events)
        .map(move |item| {
            let _ = &witness;
            item
        })
        .guarded(log.witness("inner"))
        .guarded(log.witness("outer"));
    drop(reply);
    assert_eq!(log.take(), ["stream", "inner", "outer", "map"]);
}

#[test]
fn the_guard_of_other_replies_goes_when_the_stream_ends() {
    for expects in [Expects::Acceptance, Expects::Messages] {
        let log = Log::default();
        let (sender, events) = live(&log);
        let mut guarded = task::spawn(Reply::new(expects, events).guarded(log.witness("guard")));
        assert_pending!(guarded.poll_next());
        drop(sender);
        assert!(now(guarded.next()).is_none());
        assert_eq!(log.take(), ["stream", "guard"]);
    }
}

#[test]
fn the_last_id_is_that_of_the_last_event_that_had_one() {
    let (sender, events) = live(&Log::default());
    let mut reply = task::spawn(Reply::new(to_request(), events));
    assert_eq!(reply.last_event_id(), None);
    let mut with_id = Event::from(notification());
    with_id.id = Some("2".into());
    for (event, last) in [
        (at("1"), Some("1")),
        (item(notification()), Some("1")),
        (Ok(with_id), Some("2")),
        (at("ü 3"), Some("ü 3")),
        (at(""), None),
        (item(notification()), None),
        (at("4"), Some("4")),
    ] {
        sender.send(event).unwrap();
        let _ = reply.poll_next();
        assert_eq!(reply.last_event_id(), last);
    }
    sender.send(item(pong())).unwrap();
    assert!(now(reply.next()).is_some());
    assert_eq!(reply.last_event_id(), Some("4"), "after the end too");
}

#[test]
fn a_hundred_thousand_ids_neither_recurse_nor_keep_others_waiting() {
    for stream in [false, true] {
        let items = (0..100_000).map(|id: u32| at(&id.to_string())).chain([item(pong())]);
        let events = if stream {
            Events::new(futures_util::stream::iter(items))
        } else {
            Events::all(items.collect())
        };
        let mut reply = task::spawn(Reply::new(to_request(), events));
        let mut pauses = 0;
        while reply.poll_next().is_pending() {
            assert!(reply.is_woken(), "it must ask for its next turn itself");
            pauses += 1;
        }
        assert!(pauses >= 1_000, "only {pauses} pauses");
        assert_eq!(reply.last_event_id(), Some("99999"));
    }
}

#[tokio::test]
async fn other_tasks_run_while_ids_pass() {
    let ids = futures_util::stream::repeat_with(|| at("1"));
    let endless = Reply::new(to_request(), Events::new(ids));
    tokio::select! {
        biased;
        _ = endless.response() => unreachable!("there is none"),
        () = tokio::task::yield_now() => {}
    }
}

#[test]
fn its_head_and_debug_output_are_those_of_the_answer() {
    let without = reply(to_request(), vec![]);
    assert!(without.head().is_none());
    let (head, ()) = with_header(http::Response::new(()), "x-token", b"s3cret").into_parts();
    let reply = without.with_head(head);
    assert_eq!(reply.head().unwrap().headers["x-token"], "s3cret");
    assert!(format!("{reply:?}").contains("200") && !format!("{reply:?}").contains("s3cret"));
}
