//! Checks of servers that are killed, and started again where they were.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use futures_util::{FutureExt, StreamExt};
use http::Uri;
use mcp_streamable_http::error::BoxError;
use mcp_streamable_http::{Backoff, ReinitializePolicy, RetryPolicy, SessionStatus, StreamableHttp};
use mcp_streamable_http_interop::{Client, OwnServer};
use serde_json::json;
use tokio::sync::mpsc;
use tower::util::MapErrLayer;

use crate::resuming::{Trip, backoff, listen, speak_until_heard};

/// Between two calls: the second is made in a new session.
pub(crate) async fn between_calls_nobody_notices(mode: &'static str) {
    let mut server = OwnServer::start(mode).await;
    let client = connect(server.uri(), ReinitializePolicy::default()).await;
    let session = client.transport().session();
    let mut watch = session.watch();
    let before = session.id().unwrap();
    echoes(&client).await;
    assert!(watch.changed().now_or_never().is_none());

    server.kill();
    server.start_again().await;
    echoes(&client).await;
    assert_eq!(watch.changed().now_or_never(), Some(SessionStatus::Live));
    assert!(session.id().is_some_and(|id| id != before));
}

/// The same for an application that wants to begin anew itself.
pub(crate) async fn between_calls_it_is_an_error_if_so_wanted(mode: &'static str) {
    let mut server = OwnServer::start(mode).await;
    let client = connect(server.uri(), ReinitializePolicy::Fail).await;
    let mut watch = client.transport().session().watch();
    echoes(&client).await;

    server.kill();
    server.start_again().await;
    let error = client.try_call("ping", json!({})).await.unwrap_err();
    assert!(error.is_session_expired() && !error.may_have_run(), "{error:?}");
    assert!(error.to_string().contains("session"), "{error}");
    assert_eq!(watch.changed().now_or_never(), Some(SessionStatus::Expired));

    client.handshake("2025-11-25", json!({})).await;
    echoes(&client).await;
}

/// While it is down a call fails soon, and was not sent. One that waits until it is up again succeeds.
pub(crate) async fn a_call_waits_until_it_is_up_again(mode: &'static str) {
    let mut server = OwnServer::start(mode).await;
    let hasty = RetryPolicy::new().backoff(Backoff::default().base(Duration::from_millis(20)).attempts(3));
    let hasty = Client::over(StreamableHttp::builder(server.uri()).retry(hasty).build().unwrap());
    hasty.handshake("2025-11-25", json!({})).await;
    // Tells of every attempt that fails.
    let (sender, mut failures) = mpsc::unbounded_channel();
    let tell = MapErrLayer::new(move |error: BoxError| {
        let _ = sender.send(());
        error
    });
    let patient = StreamableHttp::builder(server.uri())
        .retry(RetryPolicy::new().backoff(backoff()))
        .http_layer(tell)
        .build();
    let patient = Client::over(patient.unwrap());
    patient.handshake("2025-11-25", json!({})).await;

    server.kill();
    // Meanwhile both take note of the connections that have broken: what was written to one of them may have been read.
    hasty.try_call("ping", json!({})).await.unwrap_err();
    let begin = Instant::now();
    let call = json!({ "name": "echo", "arguments": { "text": "hello" } });
    let error = hasty.try_call("tools/call", call).await.unwrap_err();
    assert!(error.is_connect() && !error.may_have_run(), "{error:?}");
    assert!(begin.elapsed() < Duration::from_secs(5), "{:?}", begin.elapsed());
    assert!(failures.try_recv().is_err());

    let starting = async {
        failures.recv().await.unwrap();
        failures.recv().await.unwrap();
        server.start_again().await;
    };
    futures_util::future::join(echoes(&patient), starting).await;
    echoes(&hasty).await;
}

/// While calls are under way: all of them end, and both directions work again.
pub(crate) async fn during_calls_every_call_ends(mode: &'static str) {
    let mut server = OwnServer::start(mode).await;
    let client = connect(server.uri(), ReinitializePolicy::default()).await;
    let before = client.transport().session().id().unwrap();
    let mut heard = listen(&client);
    speak_until_heard(&client, &mut heard).await;
    let trips = join_all((0..10).map(|_| async {
        let mut trip = Trip::begin(&client, false).await;
        trip.reports_of(0).await;
        trip
    }))
    .await;

    let ending = join_all(trips.into_iter().map(|mut trip| async move {
        let error = trip.reply.next().await.unwrap().unwrap_err();
        assert!(error.may_have_run(), "{error:?}");
        assert!(trip.reply.next().await.is_none());
    }));
    let restarting = async {
        server.kill();
        server.start_again().await;
    };
    futures_util::future::join(ending, restarting).await;

    join_all((0..10).map(|_| echoes(&client))).await;
    assert!(client.transport().session().id().is_some_and(|id| id != before));
    while heard.try_recv().is_ok() {}
    speak_until_heard(&client, &mut heard).await;
}

/// The same where the server has not begun to answer.
pub(crate) async fn during_calls_without_a_head_every_call_ends(mode: &'static str) {
    let mut server = OwnServer::start(mode).await;
    let client = connect(server.uri(), ReinitializePolicy::default()).await;
    let calls = join_all((0..10).map(|number| {
        let call = json!({ "name": "linger", "arguments": { "name": number.to_string() } });
        client.try_call("tools/call", call)
    }));
    let restarting = async {
        for number in 0..10 {
            while client.tool("fate", json!({ "name": number.to_string() })).await.text != "running" {}
        }
        server.kill();
        server.start_again().await;
    };
    let (ended, ()) = futures_util::future::join(calls, restarting).await;
    for outcome in ended {
        let error = outcome.unwrap_err();
        assert!(error.may_have_run(), "{error:?}");
    }
    join_all((0..10).map(|_| echoes(&client))).await;
}

async fn connect(uri: Uri, policy: ReinitializePolicy) -> Client {
    let builder = StreamableHttp::builder(uri)
        .backoff(backoff())
        .retry(RetryPolicy::new().backoff(backoff()))
        .reinitialize(policy);
    let client = Client::over(builder.build().unwrap());
    client.handshake("2025-11-25", json!({})).await;
    client
}

async fn echoes(client: &Client) {
    assert_eq!(client.tool("echo", json!({ "text": "hello" })).await.text, "hello");
}
