//! Bounds on the wait for the head of an answer, and for the bytes of a stream.

#![allow(clippy::unwrap_used)]

mod common;

use std::future::Future;
use std::time::Duration;

use common::bridge::*;
use common::*;
use futures_util::StreamExt as _;
use http::{Method, Request};
use http_body_util::Full;
use mcp_streamable_http_layers::error::{BoxError, TimedOut};
use mcp_streamable_http_layers::options::FirstByte;
use mcp_streamable_http_layers::sse::Limits;
use mcp_streamable_http_layers::{
    Error, Events, FirstByteTimeout, FirstByteTimeoutLayer, JsonRpcMessage, Payload, SseLayer,
};
use tokio::time::{Instant, advance};
use tokio_test::{assert_pending, task};
use tower::{Layer, ServiceBuilder};
use tower_test::mock;

const SSE: &str = "text/event-stream";

fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

fn request(method: Method) -> Query {
    Request::builder().method(method).uri(ENDPOINT).body(Full::default()).unwrap()
}

fn bound(
    layer: FirstByteTimeoutLayer,
) -> (FirstByteTimeout<mock::Mock<Query, Answer>>, Server<Query, Answer>) {
    let (mock, handle) = mock::pair();
    (layer.layer(mock), Server(handle))
}

/// What a call fails with, and after how long, if nothing happens; `None`: it still waits after a week.
async fn gives_up<T>(call: impl Future<Output = Result<T, BoxError>>) -> Option<(Duration, Error)> {
    let started = Instant::now();
    let outcome = tokio::time::timeout(secs(7 * 86_400), call).await.ok()?;
    Some((started.elapsed(), Error::new(outcome.err().unwrap())))
}

/// Checks that an error is the timeout that `knob` sets to `after`, and that its text says so.
#[track_caller]
fn assert_timed_out(error: &Error, knob: &str, after: Duration) {
    let timed_out = error.find::<TimedOut>().unwrap();
    assert_eq!((timed_out.knob(), timed_out.after()), (knob, after));
    let text = error.to_string();
    assert!(text.contains(&format!("`{knob}`")) && text.contains(&format!("{after:?}")), "{text}");
    assert!(error.is_timeout() && error.may_have_run() && !error.is_connect());
}

#[tokio::test(start_paused = true)]
async fn the_wait_for_a_head_is_bounded() {
    let default = FirstByteTimeoutLayer::new;
    for (layer, method, own, expected) in [
        (default(), Method::POST, None, Some((300, "first_byte_timeout"))),
        (FirstByteTimeoutLayer::default(), Method::POST, None, Some((300, "first_byte_timeout"))),
        (default(), Method::DELETE, None, Some((300, "first_byte_timeout"))),
        // A server may send the head of a listening stream with its first event.
        (default(), Method::GET, None, None),
        (default().timeout(secs(60)), Method::POST, None, Some((60, "first_byte_timeout"))),
        (default().timeout(secs(60)), Method::GET, None, None),
        (default().timeout(None), Method::POST, None, None),
        // The message's own wins, shorter or longer.
        (default(), Method::POST, Some(7), Some((7, "FirstByte"))),
        (default(), Method::POST, Some(900), Some((900, "FirstByte"))),
        (default(), Method::GET, Some(7), Some((7, "FirstByte"))),
        (default().timeout(None), Method::POST, Some(7), Some((7, "FirstByte"))),
    ] {
        let (mut service, _server) = bound(layer);
        let mut request = request(method.clone());
        if let Some(own) = own {
            request.extensions_mut().insert(FirstByte::within(secs(own)));
        }
        let gave_up = gives_up(call(&mut service, request)).await;
        match (gave_up, expected) {
            (Some((waited, error)), Some((after, knob))) => {
                assert_eq!(waited, secs(after), "{layer:?} {method} {own:?}");
                assert_timed_out(&error, knob, secs(after));
            }
            (None, None) => {}
            (other, _) => panic!("{layer:?} {method} {own:?}: {other:?}"),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_bound_longer_than_time_itself_is_none() {
    let (mut service, _server) = bound(FirstByteTimeoutLayer::new().timeout(Duration::MAX));
    assert!(gives_up(call(&mut service, request(Method::POST))).await.is_none());
    let mut own = request(Method::POST);
    own.extensions_mut().insert(FirstByte::within(Duration::MAX));
    assert!(gives_up(call(&mut service, own)).await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_head_that_is_there_wins_over_the_clock() {
    let (mut service, mut server) = bound(FirstByteTimeoutLayer::new());
    let mut sent = call(&mut service, request(Method::POST));
    assert_pending!(sent.poll());
    advance(secs(299)).await;
    assert_pending!(sent.poll());
    // The caller is busy while the time runs out.
    advance(secs(3600)).await;
    server.received().1.send_response(json_answer("{}"));
    assert_eq!(now(sent).unwrap().status(), 200);
}

#[tokio::test(start_paused = true)]
async fn the_clock_starts_when_the_call_is_first_polled() {
    let (mut service, _server) = bound(FirstByteTimeoutLayer::new().timeout(secs(10)));
    let mut sent = call(&mut service, request(Method::POST));
    advance(secs(60)).await;
    assert_pending!(sent.poll());
    advance(secs(9)).await;
    assert_pending!(sent.poll());
    advance(secs(2)).await;
    assert!(now(sent).is_err());
}

#[test]
fn outside_of_a_runtime_there_is_no_bound() {
    let (mut service, mut server) = bound(FirstByteTimeoutLayer::new().timeout(Duration::ZERO));
    let mut sent = call(&mut service, request(Method::POST));
    assert_pending!(sent.poll());
    server.received().1.send_response(json_answer("{}"));
    assert_eq!(now(sent).unwrap().status(), 200);
}

#[test]
fn the_bound_passes_readiness_and_errors_on() {
    let (service, mut server) = bound(FirstByteTimeoutLayer::new());
    assert_ready_passes_through(service, &mut server);
    let (mut service, mut server) = bound(FirstByteTimeoutLayer::new());
    let sent = call(&mut service, request(Method::POST));
    server.received().1.send_error("reset");
    assert_eq!(now(sent).unwrap_err().to_string(), "reset");
}

fn kinds() -> [(&'static str, Request<Payload>, bool); 5] {
    [
        ("a request", endpoint().post(ping(1)), false),
        ("a notification", endpoint().post(notification()), true),
        ("a response", endpoint().post(JsonRpcMessage::response(1, serde_json::json!({}))), true),
        ("the end of a session", endpoint().delete(), false),
        ("a listening stream", endpoint().get(), false),
    ]
}

#[test]
fn what_is_only_accepted_gets_a_bound_of_its_own() {
    for (limits, bound) in [(Limits::default(), 30), (Limits::default().acceptance_timeout(secs(3)), 3)] {
        for (name, request, is_accepted) in kinds() {
            let (mut bridge, mut server) = bridge(limits);
            let _sent = call(&mut bridge, request);
            let own = server.received().0.extensions().get().map(FirstByte::bound);
            assert_eq!(own, is_accepted.then_some(secs(bound)), "{name}");
        }
    }
    for (name, mut request, _) in kinds() {
        request.extensions_mut().insert(FirstByte::within(secs(1)));
        let (mut bridge, mut server) = bridge(Limits::default());
        let _sent = call(&mut bridge, request);
        assert_eq!(server.received().0.extensions().get(), Some(&FirstByte::within(secs(1))), "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_error_names_the_bound_that_passed() {
    let limits = Limits::default().acceptance_timeout(secs(3));
    let layer = ServiceBuilder::new().layer(SseLayer::new(limits)).layer(FirstByteTimeoutLayer::new());
    for (name, request, is_accepted) in kinds() {
        if request.method() == Method::GET {
            continue;
        }
        for own in [None, Some(9)] {
            let mut request = request.clone();
            if let Some(own) = own {
                request.extensions_mut().insert(FirstByte::within(secs(own)));
            }
            let (mock, _handle) = mock::pair::<Query, Answer>();
            let (waited, error) = gives_up(call(&mut layer.service(mock), request)).await.unwrap();
            let (after, knob) = match (own, is_accepted) {
                (Some(own), _) => (own, "FirstByte"),
                (None, true) => (3, "acceptance_timeout"),
                (None, false) => (300, "first_byte_timeout"),
            };
            assert_eq!(waited, secs(after), "{name}");
            assert_timed_out(&error, knob, secs(after));
        }
    }
}

fn idle(timeout: Duration) -> Limits {
    Limits::default().idle_timeout(timeout)
}

/// An open stream: the answer to a request, or a listening one.
fn stream(limits: Limits, listening: bool) -> (Pen, task::Spawn<Events>) {
    let (pen, body) = script();
    let request = if listening { endpoint().get() } else { endpoint().post(ping(1)) };
    let answer = now(opened(limits, request, 200, SSE, body)).unwrap();
    (pen, task::spawn(answer.into_body()))
}

const NOTE: &str = "data: {\"jsonrpc\":\"2.0\",\"method\":\"note\"}\n\n";

#[tokio::test(start_paused = true)]
async fn a_silent_stream_fails_once_and_is_closed() {
    for listening in [false, true] {
        let (pen, mut events) = stream(idle(secs(10)), listening);
        let started = Instant::now();
        pen.write(NOTE);
        assert!(events.next().await.unwrap().unwrap().message.is_some());
        let error = Error::new(events.next().await.unwrap().unwrap_err());
        assert_eq!(started.elapsed(), secs(10));
        assert_timed_out(&error, "idle_timeout", secs(10));
        assert!(pen.watch().is_dropped());
        pen.write(NOTE);
        assert!(events.next().await.is_none());
    }
}

#[tokio::test(start_paused = true)]
async fn any_byte_shows_that_a_stream_is_alive() {
    for bytes in
        [": ping\n\n", ":", "\n", "data: half of an ev", "id: 1\n\n", "event: other\ndata: x\n\n", NOTE]
    {
        for listening in [false, true] {
            let (pen, mut events) = stream(idle(secs(10)), listening);
            for _ in 0..5 {
                while let std::task::Poll::Ready(item) = events.poll_next() {
                    assert!(item.unwrap().is_ok(), "{bytes:?}");
                }
                advance(secs(9)).await;
                assert_pending!(events.poll_next());
                pen.write(bytes);
            }
            // And then none.
            while let std::task::Poll::Ready(item) = events.poll_next() {
                assert!(item.unwrap().is_ok());
            }
            advance(secs(9)).await;
            assert_pending!(events.poll_next());
            advance(secs(1)).await;
            assert!(events.is_woken());
            assert!(now(events.next()).unwrap().is_err(), "{bytes:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_there_wins_over_a_clock_that_ran_out() {
    for listening in [false, true] {
        let (pen, mut events) = stream(idle(secs(10)), listening);
        assert_pending!(events.poll_next());
        // Nobody looks for an hour, and the server does what it should.
        advance(secs(3600)).await;
        pen.write(": ping\n\n");
        pen.write(NOTE);
        assert!(now(events.next()).unwrap().unwrap().message.is_some());
        // The wait begins anew.
        assert_pending!(events.poll_next());
        advance(secs(9)).await;
        assert_pending!(events.poll_next());
        advance(secs(3600)).await;
        pen.write(": ping\n\n");
        assert_pending!(events.poll_next());
        advance(secs(3600)).await;
        pen.write(format!("data: {PONG}\n\n"));
        assert!(now(events.next()).unwrap().unwrap().message.is_some());
        if !listening {
            assert!(now(events.next()).is_none());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_stream_may_be_silent_by_default() {
    for limits in [Limits::default(), idle(secs(10)).idle_timeout(None), idle(Duration::MAX)] {
        for listening in [false, true] {
            let (pen, mut events) = stream(limits, listening);
            for _ in 0..3 {
                assert_pending!(events.poll_next());
                advance(secs(3600)).await;
                assert_pending!(events.poll_next());
                pen.write(": ping\n\n");
            }
            pen.write(format!("data: {PONG}\n\n"));
            assert!(now(events.next()).unwrap().is_ok());
        }
    }
}

#[test]
fn outside_of_a_runtime_a_stream_may_be_silent() {
    let (pen, mut events) = stream(idle(Duration::ZERO), false);
    assert_pending!(events.poll_next());
    pen.write(format!("data: {PONG}\n\n"));
    assert!(now(events.next()).unwrap().is_ok());
}
