//! What is sent again, how often, and after which waits.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "in a test a panic is how it fails, in its helpers too"
)]

mod common;

use std::io::{self, ErrorKind};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use common::*;
use http::{Request, Response};
use mcp_streamable_http_layers::error::{
    BoxError, BrokenStream, InvalidMessage, NotSent, SessionExpired, TimedOut,
};
use mcp_streamable_http_layers::options::{Idempotent, ResumeFrom};
use mcp_streamable_http_layers::{
    Backoff, Error, Events, JsonRpcMessage, Payload, RetryPolicy, SavedSession, Session,
};
use serde_json::{Value, json};
use tokio::time::Instant;
use tower::retry::RetryLayer;
use tower::retry::budget::TpsBudget;
use tower::{Layer, ServiceExt, service_fn};

type Outcome = Result<Response<Events>, BoxError>;

const MODERN: &str = "2026-07-28";
const REPEATABLE: [&str; 11] = [
    "ping",
    "server/discover",
    "tools/list",
    "prompts/list",
    "resources/list",
    "resources/templates/list",
    "resources/read",
    "prompts/get",
    "completion/complete",
    "tasks/get",
    "tasks/list",
];
/// Among the others those that look most like them.
const OTHERS: [&str; 8] = [
    "tools/call",
    "tasks/cancel",
    "tasks/update",
    "resources/subscribe",
    "logging/setLevel",
    "subscriptions/listen",
    "Ping",
    "x/list",
];

fn policy() -> RetryPolicy {
    // The waits of the default, without their random part.
    RetryPolicy::new().backoff(Backoff::default().base(Duration::from_millis(250)).jitter(0.0, 0.0))
}

/// What came of a request, and the waits in milliseconds between the times that it was sent.
struct Sent {
    outcome: Outcome,
    waits: Vec<u128>,
}

impl Sent {
    fn times(&self) -> usize {
        self.waits.len() + 1
    }
}

/// Sends `request` under `policy` to a server whose outcomes are told by the number of the attempt, from 0 on.
async fn send(
    policy: RetryPolicy,
    request: Request<Payload>,
    outcome: impl Fn(usize) -> Outcome + Send + Sync + Clone + 'static,
) -> Sent {
    let (message, headers) = (request.body().clone(), request.headers().clone());
    let times = Arc::new(Mutex::new(Vec::new()));
    let seen = times.clone();
    let server = service_fn(move |again: Request<Payload>| {
        assert_eq!((again.body(), again.headers()), (&message, &headers), "it is sent as it was");
        let mut times = seen.lock().unwrap();
        assert!(times.len() < 1000, "it does not end");
        times.push(Instant::now());
        std::future::ready(outcome(times.len() - 1))
    });
    let outcome = RetryLayer::new(policy).layer(server).oneshot(request).await;
    let times = times.lock().unwrap();
    let waits = times.windows(2).map(|pair| (pair[1] - pair[0]).as_millis()).collect();
    Sent { outcome, waits }
}

fn request(method: &str, params: Value) -> Request<Payload> {
    endpoint().post(JsonRpcMessage::request(1, method.to_owned(), params))
}

fn plain(method: &str) -> Request<Payload> {
    request(method, json!({}))
}

fn with<T: Clone + Send + Sync + 'static>(mut request: Request<Payload>, option: T) -> Request<Payload> {
    request.extensions_mut().insert(option);
    request
}

fn not_sent(kind: ErrorKind) -> Outcome {
    Err(NotSent(io::Error::from(kind).into()).into())
}

/// The connection broke before the head of the answer.
fn reset() -> Outcome {
    Err(io::Error::from(ErrorKind::ConnectionReset).into())
}

fn status(status: u16, retry_after: &str) -> Outcome {
    let mut response = Response::new(Events::EMPTY);
    *response.status_mut() = status.try_into().unwrap();
    if !retry_after.is_empty() {
        response.headers_mut().insert("retry-after", retry_after.parse().unwrap());
    }
    Ok(response)
}

#[tokio::test(start_paused = true)]
async fn what_was_never_sent_is_sent_up_to_five_times_whatever_it_is() {
    let versioned = |method, version| endpoint().post(versioned(method, version));
    for request in [
        plain("tools/call"),
        plain("ping"),
        endpoint().post(initialize(1)),
        endpoint().post(notification()),
        endpoint().post(JsonRpcMessage::response("s", json!({}))),
        versioned("tools/call", MODERN),
        request("tools/call", json!({ "requestState": "s" })),
    ] {
        let sent = send(policy(), request, |_| not_sent(ErrorKind::ConnectionRefused)).await;
        assert_eq!(sent.waits, [250, 500, 1000, 2000]);
        assert!(sent.outcome.unwrap_err().is::<NotSent>());
    }
}

#[tokio::test(start_paused = true)]
async fn it_is_sent_no_more_than_it_takes() {
    for failures in 0..5 {
        let outcome =
            move |n| if n < failures { not_sent(ErrorKind::ConnectionRefused) } else { status(200, "") };
        let sent = send(policy(), plain("tools/call"), outcome).await;
        assert!(sent.outcome.is_ok());
        assert_eq!(sent.times(), failures + 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_no_time_makes_is_tried_once() {
    for kind in [ErrorKind::TimedOut, ErrorKind::InvalidData, ErrorKind::PermissionDenied, ErrorKind::Other] {
        let sent = send(policy(), plain("ping"), move |_| not_sent(kind)).await;
        assert_eq!(sent.times(), 1, "{kind:?}");
        assert!(sent.outcome.unwrap_err().is::<NotSent>());
    }
    let timed_out = |_| Err(NotSent(TimedOut::new("it", "connect_timeout", HOUR).into()).into());
    assert_eq!(send(policy(), plain("ping"), timed_out).await.times(), 1);
    // As HTTP clients do, they hide it in an error of their own.
    let wrapped = |_| Err(NotSent(io::Error::other(io::Error::from(ErrorKind::InvalidData)).into()).into());
    assert_eq!(send(policy(), plain("ping"), wrapped).await.times(), 1);
}

const HOUR: Duration = Duration::from_secs(3600);

#[tokio::test(start_paused = true)]
async fn a_connection_that_may_be_made_a_moment_later_is_tried_again() {
    use ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, NotConnected, UnexpectedEof};
    for kind in [BrokenPipe, ConnectionAborted, ConnectionReset, NotConnected, UnexpectedEof] {
        let sent = send(policy(), plain("tools/call"), move |_| not_sent(kind)).await;
        assert_eq!(sent.times(), 5, "{kind:?}");
    }
    // A server says that it has not looked at the request, say: there is no I/O error in that.
    let refused = |_| Err(NotSent("refused stream".into()).into());
    assert_eq!(send(policy(), plain("tools/call"), refused).await.times(), 5);
}

#[tokio::test(start_paused = true)]
async fn after_a_break_before_the_head_what_is_repeatable_is_sent_once_more() {
    for method in REPEATABLE {
        let sent = send(policy(), plain(method), |_| reset()).await;
        assert_eq!(sent.waits, [250], "{method}");
        assert!(sent.outcome.is_err(), "{method}");
    }
    for method in OTHERS {
        assert_eq!(send(policy(), plain(method), |_| reset()).await.times(), 1, "{method}");
        let marked = with(plain(method), Idempotent);
        assert_eq!(send(policy(), marked, |_| reset()).await.times(), 2, "{method}, marked");
    }
}

#[tokio::test(start_paused = true)]
async fn a_break_is_made_up_for_once_even_between_other_failures() {
    let outcome = |n| match n {
        1 | 3 => reset(),
        _ => not_sent(ErrorKind::ConnectionRefused),
    };
    let sent = send(policy(), plain("ping"), outcome).await;
    assert_eq!(sent.times(), 4, "the second break is the end");
    assert!(!sent.outcome.unwrap_err().is::<NotSent>());
}

#[tokio::test(start_paused = true)]
async fn what_the_server_may_take_only_once_is_not_repeatable() {
    for member in ["requestState", "inputResponses"] {
        for marked in [true, false] {
            let request = request("prompts/get", json!({ "name": "p", member: {} }));
            let request = if marked { with(request, Idempotent) } else { request };
            let sent = send(policy(), request.clone(), |_| reset()).await;
            assert_eq!(sent.times(), 1, "{member}, marked: {marked}");
            let sent = send(policy(), request, |_| status(503, "1")).await;
            assert_eq!(sent.times(), 1, "{member}, marked: {marked}");
        }
        // Elsewhere the name means nothing.
        let request = request("prompts/get", json!({ "arguments": { member: "x" } }));
        assert_eq!(send(policy(), request, |_| reset()).await.times(), 2, "{member}");
    }
}

fn speaking(version: &str) -> SavedSession {
    serde_json::from_value(json!({ "id": null, "protocolVersion": version, "initialize": null })).unwrap()
}

#[tokio::test(start_paused = true)]
async fn after_a_break_in_the_modern_era_nothing_is_sent_again() {
    let stamped = endpoint().post(versioned("ping", MODERN));
    assert_eq!(send(policy(), stamped.clone(), |_| reset()).await.times(), 1);
    assert_eq!(send(policy(), with(stamped, Idempotent), |_| reset()).await.times(), 1);

    // The connection speaks it, and the request says nothing.
    let session = Session::new();
    session.restore(speaking(MODERN));
    let sent = send(policy().for_session(session.clone()), plain("ping"), |_| reset()).await;
    assert_eq!(sent.times(), 1);
    // It is pinned to an earlier session, which was legacy.
    let earlier = Session::new();
    earlier.restore(speaking("2025-11-25"));
    let pinned = with(plain("ping"), earlier.pin());
    assert_eq!(send(policy().for_session(session), pinned, |_| reset()).await.times(), 2);
}

#[tokio::test(start_paused = true)]
async fn notifications_and_responses_that_were_written_are_not_sent_again() {
    for message in [notification(), JsonRpcMessage::response("s", json!({}))] {
        for outcome in [|_| reset(), |_| status(503, "1"), |_| status(429, "1")] {
            let request = with(endpoint().post(message.clone()), Idempotent);
            assert_eq!(send(policy(), request, outcome).await.times(), 1);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn who_has_waited_enough_or_was_refused_here_is_not_made_to_wait_again() {
    let timed_out = |_| Err(TimedOut::new("the head", "first_byte_timeout", HOUR).into());
    let invalid = |_| Err(InvalidMessage::new("no").into());
    let expired = |_| Err(SessionExpired::new(None).into());
    for outcome in [timed_out as fn(usize) -> Outcome, invalid, expired] {
        assert_eq!(send(policy(), plain("ping"), outcome).await.times(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_busy_server_gets_what_is_repeatable_again_when_it_says_when() {
    for code in [429, 503] {
        for method in REPEATABLE.into_iter().chain(["initialize"]) {
            let sent = send(policy(), plain(method), move |_| status(code, "7")).await;
            assert_eq!(sent.waits, [7000; 4], "{method}");
            assert_eq!(sent.outcome.unwrap().status(), code, "the last answer is handed on");
        }
        for method in OTHERS {
            let sent = send(policy(), plain(method), move |_| status(code, "7")).await;
            assert_eq!(sent.times(), 1, "{method}");
        }
        let marked = with(plain("tools/call"), Idempotent);
        assert_eq!(send(policy(), marked, move |_| status(code, "7")).await.times(), 5);
        let modern = endpoint().post(versioned("tools/list", MODERN));
        assert_eq!(send(policy(), modern, move |_| status(code, "7")).await.times(), 5);
    }
}

#[tokio::test(start_paused = true)]
async fn the_longer_of_the_two_waits_counts() {
    for (asked, waits) in
        [("0", [250, 500, 1000, 2000]), ("1", [1000, 1000, 1000, 2000]), ("300", [300_000; 4])]
    {
        let sent = send(policy(), plain("ping"), move |_| status(503, asked)).await;
        assert_eq!(sent.waits, waits, "{asked}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_time_can_be_a_date() {
    let date = httpdate::fmt_http_date(SystemTime::now() + Duration::from_secs(100));
    let outcome = move |n| if n == 0 { status(503, &date) } else { status(200, "") };
    let sent = send(policy(), plain("ping"), outcome).await;
    // A date has no fractions of a second, and the real clock goes on.
    assert!(sent.times() == 2 && (90_000..=100_000).contains(&sent.waits[0]), "{:?}", sent.waits);
}

#[tokio::test(start_paused = true)]
async fn a_busy_server_that_does_not_say_when_or_says_too_late_is_the_caller_s_to_judge() {
    let later = httpdate::fmt_http_date(SystemTime::now() + Duration::from_secs(7200));
    for asked in ["", "soon", "-1", "301", "99999999999999999999999", &later] {
        let asked = asked.to_owned();
        let sent = send(policy(), plain("ping"), move |_| status(503, &asked)).await;
        assert_eq!((sent.times(), sent.outcome.unwrap().status().as_u16()), (1, 503));
    }
    let patient = policy().backoff(Backoff::default().max_retry(HOUR).jitter(0.0, 0.0));
    assert_eq!(send(patient, plain("ping"), |_| status(503, "301")).await.waits, [301_000; 4]);
}

#[tokio::test(start_paused = true)]
async fn no_other_answer_is_a_reason_to_send_it_again() {
    for code in [200, 202, 400, 401, 404, 408, 409, 425, 500, 502, 504] {
        let sent = send(policy(), plain("ping"), move |_| status(code, "1")).await;
        assert_eq!((sent.times(), sent.outcome.unwrap().status().as_u16()), (1, code));
    }
    // Nor is a stream that breaks after its head.
    let broken = |_| Ok(Response::new(Events::error(BrokenStream("reset".into()))));
    assert_eq!(send(policy(), plain("ping"), broken).await.times(), 1);
}

#[tokio::test(start_paused = true)]
async fn gets_deletes_and_what_begins_with_a_get_are_not_sent_again() {
    let resumed = with(plain("ping"), ResumeFrom("e1".into()));
    for request in [endpoint().get(), endpoint().delete(), resumed] {
        for outcome in [|_| not_sent(ErrorKind::ConnectionRefused), |_| reset(), |_| status(503, "1")] {
            let sent = send(policy(), request.clone(), outcome).await;
            assert_eq!(sent.times(), 1, "{}", request.method());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_number_of_attempts_can_be_set_and_all_reasons_share_it() {
    for (attempts, times) in [(0, 1), (1, 1), (2, 2), (8, 8)] {
        let policy = policy().backoff(Backoff::default().attempts(attempts));
        let sent = send(policy, plain("ping"), |_| not_sent(ErrorKind::ConnectionRefused)).await;
        assert_eq!(sent.times(), times);
    }
    let outcome = |n| match n {
        0 => reset(),
        1 | 2 => status(429, "0"),
        _ => not_sent(ErrorKind::ConnectionRefused),
    };
    assert_eq!(send(policy(), plain("ping"), outcome).await.waits, [250, 500, 1000, 2000]);
}

#[tokio::test(start_paused = true)]
async fn a_budget_that_is_used_up_allows_nothing_more() {
    let none = Arc::new(TpsBudget::new(Duration::from_secs(10), 0, 0.0));
    let sent = send(policy().budget(none), plain("ping"), |_| not_sent(ErrorKind::ConnectionRefused)).await;
    assert_eq!(sent.times(), 1);

    // One a second at any rate, which is ten in the ten seconds that it looks back on, for all requests together.
    let budget = Arc::new(TpsBudget::new(Duration::from_secs(10), 1, 0.0));
    let policy = policy().budget(budget);
    let mut again = 0;
    for _ in 0..100 {
        let fails = |n| if n == 0 { not_sent(ErrorKind::ConnectionRefused) } else { status(500, "") };
        let policy =
            policy.clone().backoff(Backoff::default().base(Duration::from_millis(1)).jitter(0.0, 0.0));
        again += send(policy, plain("ping"), fails).await.waits.len();
    }
    assert_eq!(again, 10);
}

#[test]
fn without_a_runtime_nothing_is_sent_again() {
    let sent = now(send(policy(), plain("ping"), |_| not_sent(ErrorKind::ConnectionRefused)));
    assert_eq!(sent.times(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_error_means_the_same_if_a_layer_of_the_user_s_has_wrapped_it() {
    let refused = || NotSent(io::Error::from(ErrorKind::ConnectionRefused).into());
    let not_sent = move |_| Err(Error::new(refused()).into());
    assert_eq!(send(policy(), plain("tools/call"), not_sent).await.times(), 5);
    let timed_out = |_| Err(io::Error::other(TimedOut::new("it", "first_byte_timeout", HOUR)).into());
    assert_eq!(send(policy(), plain("ping"), timed_out).await.times(), 1);
    let elapsed = |_| Err(tower::timeout::error::Elapsed::new().into());
    assert_eq!(send(policy(), plain("ping"), elapsed).await.times(), 1);
    let invalid = |_| Err(Error::new(InvalidMessage::new("no")).into());
    assert_eq!(send(policy(), plain("ping"), invalid).await.times(), 1);
}
