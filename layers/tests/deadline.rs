//! The time at which a call must be over.

#![allow(clippy::unwrap_used)]

mod common;

use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use common::*;
use futures_util::StreamExt as _;
use futures_util::stream::{self, BoxStream};
use http::{Request, Response};
use mcp_streamable_http_layers::error::{BoxError, InvalidMessage, TimedOut};
use mcp_streamable_http_layers::options::Deadline;
use mcp_streamable_http_layers::{
    Envelope, EnvelopeLayer, Error, Event, Events, JsonRpcMessage, Payload, Reply, Session,
};
use serde_json::json;
use tokio::sync::mpsc;
use tokio::time::{Instant, advance};
use tokio_test::{assert_pending, task};
use tower::Layer;
use tower_test::mock;

type Item = Result<Event, BoxError>;
type Envelopes = mock::Mock<Request<Payload>, Response<Events>>;

const DAY: Duration = Duration::from_secs(86_400);

fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

fn envelope() -> (Envelope<Envelopes>, Server<Request<Payload>, Response<Events>>) {
    let (mock, handle) = mock::pair();
    (EnvelopeLayer::new(endpoint(), Session::new()).layer(mock), Server(handle))
}

fn pong() -> JsonRpcMessage {
    JsonRpcMessage::response(1, json!({}))
}

/// The reply to a ping that must be over within `within`, its head there at once.
fn reply(within: impl Into<Option<Duration>>, events: Events) -> Reply {
    let (mut service, mut server) = envelope();
    let ping = match within.into() {
        Some(within) => ping(1).with(Deadline::within(within)),
        None => ping(1),
    };
    let sent = call(&mut service, ping);
    server.received().1.send_response(Response::new(events));
    now(sent).unwrap()
}

/// What was dropped, in order.
type Log = Arc<Mutex<Vec<&'static str>>>;

struct Witness(Log, &'static str);

impl Drop for Witness {
    fn drop(&mut self) {
        self.0.lock().unwrap().push(self.1);
    }
}

/// Events that come when the test sends them, and say in `log` when they are dropped.
fn live(log: &Log) -> (mpsc::UnboundedSender<Item>, Events) {
    let (sender, mut receiver) = mpsc::unbounded_channel();
    let witness = Witness(Arc::clone(log), "stream");
    let stream = stream::poll_fn(move |cx| {
        let _ = &witness;
        receiver.poll_recv(cx)
    });
    (sender, Events::new(stream))
}

/// Only so that a broken deadline fails its test instead of hanging it.
async fn within_a_day<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(DAY, future).await.unwrap()
}

#[track_caller]
fn assert_missed(error: &Error, after: Duration) {
    let timed_out = error.find::<TimedOut>().unwrap();
    assert_eq!((timed_out.knob(), timed_out.after()), ("Deadline", after));
    let text = error.to_string();
    assert!(text.contains("`Deadline`") && text.contains(&format!("{after:?}")), "{text}");
    assert!(error.is_timeout() && error.may_have_run());
}

#[tokio::test(start_paused = true)]
async fn it_bounds_the_wait_for_the_head() {
    for message in [ping(1), notification()] {
        let (mut service, mut server) = envelope();
        let started = Instant::now();
        let sent = call(&mut service, message.with(Deadline::within(secs(5))));
        let _unanswered = server.received();
        assert_missed(&within_a_day(sent).await.unwrap_err(), secs(5));
        assert_eq!(started.elapsed(), secs(5));
    }
}

#[tokio::test(start_paused = true)]
async fn it_bounds_head_and_reply_together() {
    let (mut service, mut server) = envelope();
    let (_sender, events) = live(&Log::default());
    let started = Instant::now();
    let mut sent = call(&mut service, ping(1).with(Deadline::within(secs(5))));
    assert_pending!(sent.poll());
    advance(secs(3)).await;
    assert_pending!(sent.poll());
    server.received().1.send_response(Response::new(events));
    let reply = now(sent).unwrap();
    assert_missed(&within_a_day(reply.response()).await.unwrap_err(), secs(5));
    assert_eq!(started.elapsed(), secs(5));
}

#[tokio::test(start_paused = true)]
async fn it_counts_from_where_it_was_made() {
    let (mut service, _server) = envelope();
    let message = ping(1).with(Deadline::within(secs(5)));
    let started = Instant::now();
    advance(secs(2)).await;
    assert_missed(&within_a_day(call(&mut service, message.clone())).await.unwrap_err(), secs(5));
    assert_eq!(started.elapsed(), secs(5));
    // Sent once more, it is too late from the start.
    assert_missed(&now(call(&mut service, message)).unwrap_err(), secs(5));
}

#[tokio::test(start_paused = true)]
async fn it_fires_once_and_ends_the_reply() {
    let log = Log::default();
    let (sender, events) = live(&log);
    let seen = Log::default();
    let note = Arc::clone(&seen);
    let mut reply = reply(secs(5), events).guarded(Witness(Arc::clone(&log), "guard")).map(move |item| {
        note.lock().unwrap().push(if item.is_ok() { "message" } else { "error" });
        item
    });
    sender.send(Ok(notification().into())).unwrap();
    assert!(reply.next().await.unwrap().is_ok());
    assert!(log.lock().unwrap().is_empty());

    let started = Instant::now();
    assert_missed(&within_a_day(reply.next()).await.unwrap().unwrap_err(), secs(5));
    assert_eq!(started.elapsed(), secs(5));
    assert_eq!(*log.lock().unwrap(), ["stream", "guard"], "before the reply itself is dropped");
    assert!(sender.send(Ok(pong().into())).is_err(), "nobody listens");
    for _ in 0..3 {
        assert!(reply.next().await.is_none());
    }
    assert_eq!(*seen.lock().unwrap(), ["message", "error"], "a layer sees this end like any other");
}

#[tokio::test(start_paused = true)]
async fn a_response_in_time_ends_it() {
    let (sender, events) = live(&Log::default());
    let mut reply = task::spawn(reply(secs(5), events));
    assert_pending!(reply.poll_next());
    advance(secs(4)).await;
    sender.send(Ok(pong().into())).unwrap();
    assert!(now(reply.next()).unwrap().is_ok());
    advance(DAY).await;
    assert!(now(reply.next()).is_none());
}

#[tokio::test(start_paused = true)]
async fn a_response_that_is_there_wins_over_the_clock() {
    let (sender, events) = live(&Log::default());
    let mut late = task::spawn(reply(secs(5), events));
    assert_pending!(late.poll_next());
    sender.send(Ok(pong().into())).unwrap();
    // The caller is busy, and comes back too late to cancel anything.
    advance(DAY).await;
    assert!(now(late.next()).unwrap().is_ok());

    let (mut service, mut server) = envelope();
    let mut sent = call(&mut service, ping(1).with(Deadline::within(secs(5))));
    assert_pending!(sent.poll());
    advance(DAY).await;
    server.received().1.send_response(Response::new(pong().into()));
    assert!(response(now(sent)).is_ok());
}

fn bare_id() -> Event {
    let mut event = Event::default();
    event.id = Some("1".into());
    event
}

#[tokio::test(start_paused = true)]
async fn a_flood_does_not_hold_it_up() {
    let floods: [fn() -> BoxStream<'static, Item>; 2] = [
        // Messages, each of which the caller takes; and events that it never gets to see.
        || stream::repeat_with(|| Ok(notification().into())).boxed(),
        || stream::repeat_with(|| Ok(bare_id())).boxed(),
    ];
    for flood in floods {
        let mut reply = reply(secs(5), Events::new(flood()));
        // The clock of the test stands still while there is something to do.
        let mut turns = 0;
        let error = loop {
            match task::spawn(&mut reply).poll_next() {
                Poll::Ready(Some(Ok(_))) => {}
                Poll::Ready(Some(Err(error))) => break error,
                Poll::Ready(None) => panic!("it just ended"),
                Poll::Pending => {}
            }
            turns += 1;
            assert!(turns < 100, "it goes on for ever");
            advance(secs(1)).await;
        };
        assert_missed(&error, secs(5));
        assert!((5..=6).contains(&turns), "{turns}");
        assert!(now(reply.next()).is_none());
    }
}

#[tokio::test]
async fn a_flood_that_a_task_never_comes_up_from_ends_too() {
    // On the real clock, as no other has a turn: the caller takes one message after the other without waiting.
    let started = std::time::Instant::now();
    let flood = stream::repeat_with(|| Ok(notification().into()))
        // Only so that a broken reply fails the test instead of hanging it.
        .take_while(move |_| std::future::ready(started.elapsed() < secs(10)));
    let reply = reply(Duration::from_millis(50), Events::new(flood));
    assert_missed(&reply.response().await.unwrap_err(), Duration::from_millis(50));
}

#[tokio::test(start_paused = true)]
async fn without_one_nothing_ends() {
    for within in [None, Some(Duration::MAX)] {
        let (sender, events) = live(&Log::default());
        let mut reply = task::spawn(reply(within, events));
        for _ in 0..3 {
            assert_pending!(reply.poll_next());
            advance(DAY).await;
            assert_pending!(reply.poll_next());
            sender.send(Ok(notification().into())).unwrap();
            assert!(now(reply.next()).unwrap().is_ok());
        }
        sender.send(Ok(pong().into())).unwrap();
        assert!(now(reply.next()).unwrap().is_ok());
    }
    let (mut service, _server) = envelope();
    for message in [ping(1), ping(1).with(Deadline::within(Duration::MAX))] {
        assert!(tokio::time::timeout(DAY, call(&mut service, message)).await.is_err());
    }
}

#[tokio::test(start_paused = true)]
async fn a_deadline_of_no_time_is_missed_at_once() {
    let (mut service, mut server) = envelope();
    let late = || ping(1).with(Deadline::within(Duration::ZERO));
    assert_missed(&now(call(&mut service, late())).unwrap_err(), Duration::ZERO);
    drop(server.received());
    // But a response that needed none is in time.
    let sent = call(&mut service, late());
    server.received().1.send_response(Response::new(pong().into()));
    assert!(response(now(sent)).is_ok());
}

#[test]
fn without_a_runtime_it_is_refused() {
    for message in [ping(1), notification(), initialize(1)] {
        for within in [secs(5), Duration::MAX] {
            let (mut service, mut server) = envelope();
            let sent = call(&mut service, message.clone().with(Deadline::within(within)));
            server.assert_nothing_received();
            let error = now(sent).unwrap_err();
            assert!(
                error.find::<InvalidMessage>().is_some() && error.to_string().contains("runtime"),
                "{error}"
            );
            assert!(!error.may_have_run() && !error.is_timeout());
        }
    }
}
