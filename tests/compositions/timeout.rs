//! Time bounds for calls.

use futures_util::StreamExt;
use mcp_streamable_http::layers::UnaryLayer;
use tokio::time::Instant;
use tower::timeout::TimeoutLayer;
use tower::timeout::error::Elapsed;
use tower::{ServiceBuilder, ServiceExt};

use crate::server::Server;
use crate::{SECOND, call, handshake, soon};

#[tokio::test(start_paused = true)]
async fn a_timeout_over_unary_bounds_the_whole_call_and_cancels_it() {
    let server = Server::new(60 * SECOND);
    let transport = server.transport();
    handshake(&transport).await;
    let calls =
        ServiceBuilder::new().timeout(5 * SECOND).layer(UnaryLayer::new(drop)).service(transport.clone());
    let start = Instant::now();
    let error = soon(calls.oneshot(call(7))).await.unwrap_err();
    assert!(error.is::<Elapsed>(), "{error:?}");
    assert_eq!(start.elapsed().as_secs(), 5);
    // Its stream is closed, and the server is told.
    server.works_on(0).await;
    server.has_seen(1, "notifications/cancelled").await;
}

#[tokio::test(start_paused = true)]
async fn a_timeout_over_unary_leaves_calls_alone_that_are_in_time() {
    let server = Server::new(4 * SECOND);
    let calls =
        ServiceBuilder::new().timeout(5 * SECOND).layer(UnaryLayer::new(drop)).service(server.transport());
    assert!(soon(calls.oneshot(call(1))).await.unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn a_timeout_without_unary_ends_with_the_head() {
    let server = Server::new(60 * SECOND);
    let transport = server.transport().layer(TimeoutLayer::new(5 * SECOND));
    let start = Instant::now();
    let mut reply = soon(transport.oneshot(call(1))).await.unwrap();
    soon(reply.next()).await.unwrap().unwrap();
    soon(reply.response()).await.unwrap();
    assert_eq!(start.elapsed().as_secs(), 60);
}

#[tokio::test(start_paused = true)]
async fn a_timeout_around_a_limit_counts_the_wait_for_a_place() {
    let server = Server::new(4 * SECOND);
    // A call waits for its place before `Timeout` gets it, unless the limit is behind a buffer.
    let calls = ServiceBuilder::new()
        .timeout(5 * SECOND)
        .buffer(16)
        .concurrency_limit(1)
        .layer(UnaryLayer::new(drop))
        .service(server.transport());
    let (first, second) =
        soon(async { tokio::join!(calls.clone().oneshot(call(1)), calls.clone().oneshot(call(2))) }).await;
    assert!(first.is_ok());
    assert!(second.unwrap_err().is::<Elapsed>());
}
