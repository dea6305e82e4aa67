//! Sessions that replace each other while other threads send.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use mcp_streamable_http::StreamableHttp;
use mcp_streamable_http::error::SessionExpired;
use serde_json::{Value, json};

use crate::common::*;

const TASKS: i64 = 8;
const ROUNDS: i64 = 2000;

/// The session with the number `n` has the id `n`, and the version at `n` modulo their number.
const VERSIONS: [&str; 3] = ["2025-03-26", "2025-06-18", "2025-11-25"];

/// A server in memory, so that no socket puts the threads in turn.
#[derive(Default)]
struct Sessions {
    begun: AtomicUsize,
    /// How many requests were in a session.
    inside: AtomicUsize,
    /// How many of them had the version of another.
    mixed: AtomicUsize,
}

impl Sessions {
    async fn answer(&self, request: Request<Full<Bytes>>) -> Response<Full<Bytes>> {
        let (head, body) = request.into_parts();
        let message: Value = serde_json::from_slice(&body.collect().await.unwrap().to_bytes()).unwrap();
        let header = |name| head.headers.get(name).map(|value| value.to_str().unwrap());
        if let Some(id) = header("mcp-session-id") {
            let number: usize = id.parse().unwrap();
            let is_its_own = header("mcp-protocol-version") == Some(VERSIONS[number % VERSIONS.len()]);
            self.inside.fetch_add(1, Ordering::Relaxed);
            self.mixed.fetch_add(usize::from(!is_its_own), Ordering::Relaxed);
        }
        let mut response = Response::builder().header("content-type", "application/json");
        let mut result = json!({});
        if message["method"] == "initialize" {
            let number = self.begun.fetch_add(1, Ordering::Relaxed);
            response = response.header("mcp-session-id", number.to_string());
            result["protocolVersion"] = VERSIONS[number % VERSIONS.len()].into();
        }
        let body = json!({ "jsonrpc": "2.0", "id": message["id"], "result": result });
        response.body(body.to_string().into()).unwrap()
    }
}

/// Calls, with an `initialize` now and then.
async fn play(transport: StreamableHttp, task: i64) {
    for round in 0..ROUNDS {
        // No two requests at a time may have the same.
        let id = task * ROUNDS + round;
        if (round + task) % 4 == 0 {
            ask_for_result(&transport, initialize(id)).await;
        } else if let Err(error) = ask(&transport, call(id)).await {
            // The session changed while the call was made ready.
            assert!(error.find::<SessionExpired>().is_some() && !error.may_have_run(), "{error:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_request_carries_the_id_of_one_session_and_the_version_of_another() {
    let sessions = Arc::new(Sessions::default());
    let server = Arc::clone(&sessions);
    let client = tower::service_fn(move |request| {
        let server = Arc::clone(&server);
        async move { Ok::<_, Infallible>(server.answer(request).await) }
    });
    let uri = "http://in.memory/mcp".parse().unwrap();
    let transport = StreamableHttp::with_client(uri, client).build().unwrap();
    let tasks: Vec<_> = (0..TASKS).map(|task| tokio::spawn(play(transport.clone(), task))).collect();
    for task in tasks {
        soon(task).await.unwrap();
    }
    let (inside, mixed) = (sessions.inside.load(Ordering::Relaxed), sessions.mixed.load(Ordering::Relaxed));
    assert_eq!(mixed, 0, "of {inside} requests in a session");
    assert!(inside > 1000, "{inside}: this tests nothing");
}
