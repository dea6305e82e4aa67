//! The bridge to HTTP and time: how long a body is read on, and what happens without a runtime.

#![allow(clippy::unwrap_used)]

mod common;

use std::time::Duration;

use common::bridge::*;
use common::*;
use futures_util::StreamExt as _;
use mcp_streamable_http_layers::error::{BoxError, NotOffered, UnexpectedStatus};
use mcp_streamable_http_layers::sse::Limits;
use mcp_streamable_http_layers::{Error, Events, JsonRpcMessage};
use tokio::task::yield_now;
use tokio::time::{Instant, advance};
use tokio_test::{assert_pending, task};

const SSE: &str = "text/event-stream";

fn data(json: &str) -> String {
    format!("data: {json}\n\n")
}

fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Reads the response off a stream whose body stays open.
fn answer_on(limits: Limits, pen: &Pen, body: Script) -> task::Spawn<Events> {
    let answer = now(opened(limits, endpoint().post(ping(1)), 200, SSE, body)).unwrap();
    let mut events = task::spawn(answer.into_body());
    pen.write(data(PONG));
    assert!(now(events.next()).unwrap().unwrap().message.is_some());
    events
}

/// Lets the tasks of the runtime run until they wait.
async fn settle() {
    for _ in 0..10 {
        yield_now().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_body_that_stays_open_is_dropped_when_the_time_to_read_on_has_passed() {
    for (limits, bound) in [(Limits::default(), 50), (Limits::default().drain_timeout(millis(700)), 700)] {
        let (pen, body) = script();
        let watch = pen.watch();
        // The caller is done with it: that must not cut the reading short.
        drop(answer_on(limits, &pen, body));
        settle().await;
        advance(millis(bound - 1)).await;
        settle().await;
        assert!(!watch.is_dropped(), "after {} ms", bound - 1);
        advance(millis(2)).await;
        settle().await;
        assert!(watch.is_dropped() && !watch.is_read(), "after {} ms", bound + 1);
    }
}

#[tokio::test(start_paused = true)]
async fn bytes_that_keep_coming_do_not_prolong_it() {
    let (pen, body) = script();
    let watch = pen.watch();
    let _events = answer_on(Limits::default(), &pen, body);
    for _ in 0..6 {
        settle().await;
        assert!(!watch.is_dropped());
        pen.write(": keep-alive\n\n");
        advance(millis(9)).await;
    }
    settle().await;
    assert!(watch.is_dropped());
}

#[tokio::test(start_paused = true)]
async fn a_body_that_ends_in_time_is_read_to_its_end() {
    let (pen, body) = script();
    let watch = pen.watch();
    let _events = answer_on(Limits::default(), &pen, body);
    settle().await;
    advance(millis(30)).await;
    pen.write(": bye\n\n");
    drop(pen);
    settle().await;
    assert!(watch.is_read() && watch.is_dropped(), "or the connection could not be used again");
}

#[tokio::test(start_paused = true)]
async fn what_is_there_already_is_read_without_a_task() {
    let (pen, body) = script();
    let watch = pen.watch();
    pen.write(data(PONG));
    pen.write(": bye\n\n");
    drop(pen);
    let answer = now(opened(Limits::default(), endpoint().post(ping(1)), 200, SSE, body)).unwrap();
    let mut events = task::spawn(answer.into_body());
    assert!(now(events.next()).unwrap().is_ok());
    assert!(watch.is_read() && watch.is_dropped());
}

#[tokio::test(start_paused = true)]
async fn more_than_the_limit_is_not_read_on() {
    let (pen, body) = script();
    let watch = pen.watch();
    let _events = answer_on(Limits::default().max_error_bytes(100), &pen, body);
    pen.write(vec![b':'; 100]);
    settle().await;
    assert!(!watch.is_dropped());
    pen.write(":");
    settle().await;
    assert!(watch.is_dropped());
}

#[tokio::test(start_paused = true)]
async fn a_zero_timeout_drops_the_rest_at_once() {
    let (pen, body) = script();
    let watch = pen.watch();
    let _events = answer_on(Limits::default().drain_timeout(Duration::ZERO), &pen, body);
    assert!(watch.is_dropped());
}

#[tokio::test(start_paused = true)]
async fn an_acceptance_does_not_wait_for_its_body() {
    for request in [endpoint().post(notification()), endpoint().delete(), endpoint().get()] {
        let offered = request.method() == http::Method::GET;
        let (pen, body) = script();
        let watch = pen.watch();
        // To a GET the very same answer says that no stream is offered.
        let answer = now(opened(Limits::default(), request, 200, "text/plain", body)).unwrap();
        let items = all(answer.into_body());
        assert_eq!(items.len(), usize::from(offered));
        assert!(items.into_iter().all(|item| item.unwrap_err().downcast_ref::<NotOffered>().is_some()));
        settle().await;
        assert!(!watch.is_dropped());
        advance(millis(51)).await;
        settle().await;
        assert!(watch.is_dropped() && !watch.is_read());
        drop(pen);
    }
}

#[tokio::test(start_paused = true)]
async fn a_status_is_reported_even_if_its_body_never_ends() {
    let short = Limits::default().error_body_timeout(millis(20)).drain_timeout(millis(7));
    for (limits, beside_error, beside_success) in [(Limits::default(), 5_000, 50), (short, 20, 7)] {
        for (status, content_type, bound) in
            [(500, "text/plain", beside_error), (202, "", beside_success), (200, "text/html", beside_success)]
        {
            let (pen, body) = script();
            let watch = pen.watch();
            pen.write("as far as it came");
            let mut answer = opened(limits, endpoint().post(ping(1)), status, content_type, body);
            assert_pending!(answer.poll());
            advance(millis(bound - 1)).await;
            assert_pending!(answer.poll());
            advance(millis(2)).await;
            assert!(answer.is_woken());
            let error = Error::new(all(now(&mut answer).unwrap().into_body()).pop().unwrap().unwrap_err());
            assert_eq!(error.status().map(|status| status.as_u16()), Some(status));
            assert!(error.to_string().contains("as far as it came") && !error.is_timeout(), "{error}");
            drop(answer);
            assert!(watch.is_dropped());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_json_rpc_error_that_came_in_time_is_the_answer() {
    let (pen, body) = script();
    pen.write(r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"m"}}"#);
    let answer = opened(Limits::default(), endpoint().post(ping(1)), 400, "application/json", body);
    let message = all(answer.await.unwrap().into_body()).pop().unwrap().unwrap().message.unwrap();
    assert!(message.as_response().unwrap().outcome().is_err());
}

#[tokio::test(start_paused = true)]
async fn an_answer_itself_has_no_bound() {
    let day = Duration::from_secs(86_400);
    let (pen, body) = script();
    let mut answer = opened(Limits::default(), endpoint().post(ping(1)), 200, "application/json", body);
    assert_pending!(answer.poll());
    advance(day).await;
    assert_pending!(answer.poll());
    pen.write(PONG);
    drop(pen);
    assert!(all(now(answer).unwrap().into_body())[0].is_ok());

    let (pen, body) = script();
    let started = Instant::now();
    let answer = now(opened(Limits::default(), endpoint().get(), 200, SSE, body)).unwrap();
    let mut events = task::spawn(answer.into_body());
    assert_pending!(events.poll_next());
    advance(day).await;
    assert_pending!(events.poll_next());
    pen.write(data(PONG));
    assert!(now(events.next()).unwrap().is_ok());
    assert!(started.elapsed() >= day);
}

/// Every kind of answer, polled here.
fn poll_answers() {
    let (pen, body) = script();
    let watch = pen.watch();
    let _events = answer_on(Limits::default(), &pen, body);
    assert!(watch.is_dropped(), "nothing could read it on");

    let (_pen, body) = script();
    let accepted = now(opened(Limits::default(), endpoint().post(notification()), 202, "", body)).unwrap();
    assert!(all(accepted.into_body()).is_empty());

    let (pen, body) = script();
    let mut refused = opened(Limits::default(), endpoint().post(ping(1)), 500, "text/plain", body);
    assert_pending!(refused.poll());
    drop(pen);
    let error: BoxError = all(now(refused).unwrap().into_body()).pop().unwrap().unwrap_err();
    assert!(error.downcast_ref::<UnexpectedStatus>().is_some());
}

#[test]
fn no_runtime_is_needed() {
    poll_answers();
}

#[test]
fn a_call_made_in_a_runtime_may_be_answered_outside() {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    let (pen, body) = script();
    let watch = pen.watch();
    let ((_head, refused), (open, events)) = runtime.block_on(async {
        let (head, never) = script();
        let refused = opened(Limits::default(), endpoint().post(ping(1)), 500, "", never);
        ((head, refused), (pen, opened(Limits::default(), endpoint().post(ping(1)), 200, SSE, body)))
    });

    // Out here there is no clock and nowhere to spawn: that of the call has to do.
    let mut refused = refused;
    let mut events = task::spawn(now(events).unwrap().into_body());
    open.write(data(PONG));
    let message = now(events.next()).unwrap().unwrap().message;
    assert!(message.as_ref().and_then(JsonRpcMessage::as_response).is_some());
    assert_pending!(refused.poll());
    assert!(!watch.is_dropped());

    runtime.block_on(async {
        settle().await;
        advance(Duration::from_secs(6)).await;
        settle().await;
    });
    assert!(watch.is_dropped());
    assert!(all(now(refused).unwrap().into_body())[0].is_err());
}

#[tokio::test(start_paused = true)]
async fn a_json_body_may_be_slow_but_not_silent_where_that_is_bounded() {
    for (limits, is_bounded) in
        [(Limits::default(), false), (Limits::default().idle_timeout(millis(100)), true)]
    {
        let (pen, body) = script();
        let mut answer = opened(limits, endpoint().post(ping(1)), 200, JSON, body);
        for _ in 0..10 {
            pen.write(" ");
            assert_pending!(answer.poll());
            advance(millis(90)).await;
            assert_pending!(answer.poll());
        }
        advance(millis(101)).await;
        if is_bounded {
            let error = Error::new(all(now(&mut answer).unwrap().into_body()).pop().unwrap().unwrap_err());
            assert!(error.is_timeout() && error.to_string().contains("idle_timeout"), "{error}");
        } else {
            advance(Duration::from_secs(3600)).await;
            assert_pending!(answer.poll());
        }
    }
}
