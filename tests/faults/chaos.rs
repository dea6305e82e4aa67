//! Ten thousand calls for which everything that can go wrong does.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::StreamExt;
use mcp_streamable_http::error::SessionExpired;
use mcp_streamable_http::layers::{Backoff, RetryPolicy, SessionStatus};
use mcp_streamable_http::{Error, JsonRpcMessage, StreamableHttp};
use serde_json::{Value, json};
use tokio::sync::Mutex;
use tokio::time::Instant;
use tower::ServiceExt;

use crate::common::{alive_tasks, initialize, initialized};
use crate::faults::FaultyServer;
use crate::record::{Numbers, Record, State};

const CALLERS: usize = 32;
const CALLS: u64 = 10_000;
const SEEDS: [u64; 3] = [1, 0xdead_beef, 20_260_728];
/// What the default policy allows.
const ATTEMPTS: u32 = 5;

/// How a call ended.
struct Outcome {
    nonce: u64,
    method: &'static str,
    ended: Result<(), Error>,
}

fn method(nonce: u64) -> &'static str {
    match Numbers::of(7, nonce, 0).below(10) {
        0..=4 => "tools/call",
        5 | 6 => "tools/list",
        7 => "ping",
        _ => "notifications/x",
    }
}

fn message(nonce: u64) -> JsonRpcMessage {
    let (method, params) = (method(nonce), json!({ "name": "echo", "nonce": nonce }));
    match method {
        "notifications/x" => JsonRpcMessage::notification(method, params),
        _ => JsonRpcMessage::request(i64::try_from(nonce).unwrap(), method, params),
    }
}

/// Makes one call and reads its reply, which must be its own, whole, in order, and end once.
async fn call(transport: &StreamableHttp, nonce: u64) -> Result<(), Error> {
    let is_request = message(nonce).as_request().is_some();
    let mut reply = transport.clone().oneshot(message(nonce)).await?;
    let mut steps = (0, 0);
    let mut last = None;
    while let Some(item) = reply.next().await {
        assert!(last.is_none(), "call {nonce} went on after its end");
        match item {
            Ok(JsonRpcMessage::Response(response)) => {
                let result: Value = response.result().unwrap();
                assert_eq!(result["nonce"], nonce, "the answer to another call");
                assert_eq!(response.id().unwrap().to_string(), nonce.to_string());
                assert_eq!(steps.0, steps.1, "call {nonce} has missed some of its progress");
                last = Some(Ok(()));
            }
            Ok(message) => {
                let params: Value = message.params().unwrap().to().unwrap();
                assert_eq!(params["nonce"], nonce, "the progress of another call");
                assert_eq!(params["progress"], steps.0 + 1, "call {nonce}: progress twice, or not at all");
                steps = (steps.0 + 1, params["total"].as_u64().unwrap());
            }
            Err(error) => last = Some(Err(error)),
        }
    }
    assert_eq!(last.is_some(), is_request || matches!(last, Some(Err(_))), "call {nonce} just ended");
    last.unwrap_or(Ok(()))
}

/// Whether the transport has not found a session for the call: it could not begin one, or the application is at it.
fn has_no_session(error: &Error) -> bool {
    let expired = error.find::<SessionExpired>().is_some_and(|expired| !expired.was_in_flight());
    expired || error.status().is_some_and(|status| status == 400)
}

/// What an application does when a session cannot be renewed. Counts how often it has sent `initialize`.
async fn begin(transport: &StreamableHttp, lock: &Mutex<u32>) {
    let mut count = lock.lock().await;
    for _ in 0..50 {
        if transport.session().status() == SessionStatus::Live {
            return;
        }
        *count += 1;
        let sent = transport.clone().oneshot(initialize(0)).await;
        let answered = match sent {
            Ok(reply) => reply.response().await.is_ok(),
            Err(_) => false,
        };
        if answered && transport.clone().oneshot(initialized()).await.is_ok() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    panic!("no session could be begun");
}

/// The calls of all callers, and how often the application has sent `initialize`.
async fn run(transport: &StreamableHttp) -> (Vec<Outcome>, u32) {
    let (next, lock) = (Arc::new(AtomicU64::new(1)), Arc::new(Mutex::new(0)));
    begin(transport, &lock).await;
    let callers: Vec<_> = (0..CALLERS)
        .map(|_| {
            let (transport, next, lock) = (transport.clone(), next.clone(), lock.clone());
            tokio::spawn(async move {
                let mut outcomes = Vec::new();
                loop {
                    let nonce = next.fetch_add(1, Ordering::Relaxed);
                    if nonce > CALLS {
                        return outcomes;
                    }
                    let ended = call(&transport, nonce).await;
                    let is_lost = ended.as_ref().is_err_and(has_no_session);
                    let is_down = ended.as_ref().is_err_and(Error::is_connect);
                    outcomes.push(Outcome { nonce, method: method(nonce), ended });
                    if is_lost {
                        begin(&transport, &lock).await;
                    }
                    if is_down {
                        tokio::time::sleep(Duration::from_secs(1)).await;
                    }
                }
            })
        })
        .collect();
    let mut outcomes = Vec::new();
    for caller in callers {
        outcomes.extend(caller.await.unwrap());
    }
    let begun = *lock.lock().await;
    (outcomes, begun)
}

/// What the server may have seen of one call.
fn check(outcome: &Outcome, record: &Record) {
    let Outcome { nonce, method, ended } = outcome;
    let what = || format!("{method} {nonce} ended as {ended:?}: {record:?}");
    let taken = record.posts - record.expired;
    let is_repeatable = ["tools/list", "ping"].contains(method);
    // A request whose session was not known is sent in another, once; all else is another attempt.
    let replays = if *method == "notifications/x" { 0 } else { 1 };
    assert!(record.posts + record.unreachable <= ATTEMPTS * (1 + replays), "too often: {}", what());
    if is_repeatable {
        assert!(taken <= 1 + record.broken.min(1) + record.busy, "without a reason: {}", what());
    } else {
        assert!(taken <= 1, "sent again: {}", what());
        assert!(record.executed <= 1, "done twice: {}", what());
    }
    assert!(record.gets <= record.cuts, "taken up again though it was open: {}", what());
    match ended {
        Ok(()) => {
            assert!(record.executed >= 1 && record.answered, "not by the server: {}", what());
        }
        Err(error) => {
            assert!(!record.answered, "the answer was lost: {}", what());
            if !error.may_have_run() && !is_repeatable {
                assert_eq!(record.executed, 0, "it has run: {}", what());
            }
        }
    }
}

/// What the server may have seen altogether.
fn check_all(state: &State, outcomes: &[Outcome], begun: u32, elapsed: Duration) {
    assert!(state.violations.is_empty(), "{:?}", &state.violations[..state.violations.len().min(3)]);
    let restarts = u32::try_from(state.epoch).unwrap();
    // One each time that the application sends it, and one after each restart; what failed was tried again.
    let allowed = begun + restarts + state.failed_initializes;
    assert!(state.initializes <= allowed, "{} handshakes, not {allowed}", state.initializes);

    let calls: Vec<_> = (1..=CALLS).filter_map(|nonce| state.records.get(&nonce)).collect();
    let again: u32 = calls
        .iter()
        .map(|record| (record.posts + record.unreachable - record.expired).saturating_sub(1))
        .sum();
    // One in five, and ten a second; and what has gathered in the ten seconds before.
    let budget = 0.2 * CALLS as f64 + 10.0 * (elapsed.as_secs_f64() + 10.0);
    assert!(f64::from(again) <= budget, "{again} were sent again, not {budget}");

    let answered = outcomes.iter().filter(|outcome| outcome.ended.is_ok()).count();
    assert!(answered * 10 > outcomes.len() * 6, "only {answered} were answered");
    let sum = |field: fn(&Record) -> u32| calls.iter().map(|record| field(record)).sum::<u32>();
    // The test is worth nothing if these did not happen.
    for (what, count) in [
        ("restarts", restarts),
        ("refused connections", sum(|record| record.unreachable)),
        ("unknown sessions", sum(|record| record.expired)),
        ("busy answers", sum(|record| record.busy)),
        ("broken connections", sum(|record| record.broken)),
        ("cut streams", sum(|record| record.cuts)),
        ("resumed streams", sum(|record| record.gets)),
    ] {
        assert!(count >= 5, "there were only {count} {what}");
    }
}

async fn survive(seed: u64) {
    let server = FaultyServer::new(seed);
    let transport = StreamableHttp::with_client("http://in.memory/mcp".parse().unwrap(), server.clone())
        .backoff(Backoff::default().seed(seed))
        .retry(RetryPolicy::new().backoff(Backoff::default().base(Duration::from_millis(250)).seed(seed)))
        .build()
        .unwrap();
    let began = Instant::now();
    let run = tokio::time::timeout(Duration::from_secs(24 * 3600), run(&transport)).await;
    let (outcomes, begun) = run.expect("a call does not end");
    let elapsed = began.elapsed();

    let mut nonces: Vec<_> = outcomes.iter().map(|outcome| outcome.nonce).collect();
    nonces.sort_unstable();
    assert!(nonces.iter().copied().eq(1..=CALLS), "not every call has ended once");
    // Bodies are read on for 50 ms.
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(alive_tasks(), 0, "tasks are left");
    let state = server.shared.lock();
    assert_eq!(state.open, 0, "answers are still being read");
    let nothing = Record::default();
    for outcome in &outcomes {
        check(outcome, state.records.get(&outcome.nonce).unwrap_or(&nothing));
    }
    check_all(&state, &outcomes, begun, elapsed);
}

#[tokio::test(start_paused = true)]
async fn every_call_ends_once_with_its_own_answer_and_nothing_is_done_twice() {
    for seed in SEEDS {
        survive(seed).await;
    }
}
