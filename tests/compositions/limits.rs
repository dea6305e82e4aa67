//! How many calls there are at a time, and how many in a second.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use bytes::Bytes;
use futures_util::future::join_all;
use http::{Request, Response};
use http_body_util::Full;
use mcp_streamable_http::error::NotSent;
use mcp_streamable_http::layers::UnaryLayer;
use mcp_streamable_http::{JsonRpcMessage, StreamableHttp};
use tokio::time::Instant;
use tower::buffer::BufferLayer;
use tower::limit::{ConcurrencyLimitLayer, RateLimitLayer};
use tower::load_shed::LoadShedLayer;
use tower::load_shed::error::Overloaded;
use tower::{BoxError, Service, ServiceBuilder, ServiceExt, service_fn};

use crate::server::Server;
use crate::{SECOND, call, soon};

/// Makes so many calls side by side. All must be answered.
async fn answered<S>(calls: &S, ids: std::ops::Range<i64>)
where
    S: Service<JsonRpcMessage, Error: Into<BoxError>> + Clone,
{
    for outcome in soon(join_all(ids.map(|id| calls.clone().oneshot(call(id))))).await {
        assert!(outcome.map_err(Into::into).is_ok());
    }
}

#[tokio::test(start_paused = true)]
async fn a_concurrency_limit_over_unary_counts_calls_until_their_responses() {
    let server = Server::new(SECOND);
    let calls =
        ServiceBuilder::new().concurrency_limit(2).layer(UnaryLayer::new(drop)).service(server.transport());
    answered(&calls, 0..6).await;
    assert_eq!((server.most_open(), server.seconds()), (2, vec![0, 0, 1, 1, 2, 2]));
}

#[tokio::test(start_paused = true)]
async fn a_concurrency_limit_without_unary_counts_calls_until_their_heads() {
    let server = Server::new(SECOND);
    let transport = server.transport().layer(ConcurrencyLimitLayer::new(2));
    let replies = soon(join_all((0..6).map(|id| transport.clone().oneshot(call(id))))).await;
    assert_eq!((server.most_open(), server.seconds()), (6, vec![0; 6]));
    for reply in replies {
        soon(reply.unwrap().response()).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_dropped_while_it_waits_in_a_limit_is_never_sent() {
    let server = Server::new(SECOND);
    let calls =
        ServiceBuilder::new().concurrency_limit(1).layer(UnaryLayer::new(drop)).service(server.transport());
    let first = tokio::spawn(calls.clone().oneshot(call(1)));
    server.works_on(1).await;
    let gave_up = tokio::time::timeout(SECOND / 2, calls.clone().oneshot(call(2))).await;
    assert!(gave_up.is_err());
    soon(first).await.unwrap().unwrap();
    answered(&calls, 3..4).await;
    assert_eq!(server.seconds(), [0, 1]);
}

#[tokio::test(start_paused = true)]
async fn a_rate_limit_behind_a_buffer_is_shared_by_all_callers() {
    let server = Server::new(10 * SECOND);
    let calls = ServiceBuilder::new()
        .buffer(16)
        .rate_limit(2, SECOND)
        .layer(UnaryLayer::new(drop))
        .service(server.transport());
    answered(&calls, 0..5).await;
    // It is no limit of how many there are at a time.
    assert_eq!((server.seconds(), server.most_open()), (vec![0, 0, 1, 1, 2], 5));
}

#[tokio::test(start_paused = true)]
async fn a_rate_limit_goes_around_the_messages_of_a_transport() {
    let server = Server::new(SECOND);
    // Together, as one of them alone would leave a service that cannot be cloned.
    let limit = ServiceBuilder::new().buffer(16).rate_limit(2, SECOND);
    let transport = server.transport().layer(limit);
    let replies = soon(join_all((0..4).map(|id| transport.clone().oneshot(call(id))))).await;
    for reply in replies {
        soon(reply.unwrap().response()).await.unwrap();
    }
    assert_eq!(server.seconds(), [0, 0, 1, 1]);
}

/// A client that cannot reach the server at first, and notes when it was asked to.
fn out_of_reach(failures: u32, log: Arc<std::sync::Mutex<Vec<u64>>>) -> impl HttpClient {
    let (start, tries) = (Instant::now(), Arc::new(AtomicU32::new(0)));
    service_fn(move |_: Request<Full<Bytes>>| {
        log.lock().unwrap().push(start.elapsed().as_secs());
        let fails = tries.fetch_add(1, Ordering::Relaxed) < failures;
        async move {
            if fails {
                return Err(BoxError::from(NotSent(
                    std::io::Error::from(std::io::ErrorKind::ConnectionRefused).into(),
                )));
            }
            let body = Full::<Bytes>::from(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#);
            Ok(Response::builder().header("content-type", "application/json").body(body)?)
        }
    })
}

trait HttpClient:
    Service<Request<Full<Bytes>>, Response = Response<Full<Bytes>>, Error = BoxError, Future: Send + 'static>
    + Clone
    + Send
    + Sync
    + 'static
{
}

impl<T> HttpClient for T where
    T: Service<
            Request<Full<Bytes>>,
            Response = Response<Full<Bytes>>,
            Error = BoxError,
            Future: Send + 'static,
        > + Clone
        + Send
        + Sync
        + 'static
{
}

#[tokio::test(start_paused = true)]
async fn a_rate_limit_counts_attempts_under_the_transport_and_calls_over_it() {
    for (is_under, expected) in [(true, vec![0, 60, 120]), (false, vec![0, 0, 0])] {
        let log = Arc::default();
        let client = out_of_reach(2, Arc::clone(&log));
        let uri = "http://in.memory/mcp".parse().unwrap();
        let builder = StreamableHttp::with_client(uri, client);
        let limit = RateLimitLayer::new(1, 60 * SECOND);
        let transport = if is_under {
            builder
                .http_layer(limit)
                .http_layer(BufferLayer::<Request<Full<Bytes>>>::new(16))
                .build()
                .unwrap()
        } else {
            builder.build().unwrap().layer(ServiceBuilder::new().buffer(16).layer(limit))
        };
        let reply = soon(transport.oneshot(JsonRpcMessage::request(1, "ping", ()))).await.unwrap();
        soon(reply.response()).await.unwrap();
        let minutes: Vec<_> = log.lock().unwrap().iter().map(|seconds| seconds / 60 * 60).collect();
        assert_eq!(minutes, expected, "under: {is_under}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_shed_is_refused_at_once_and_never_sent() {
    let server = Server::new(SECOND);
    let calls = ServiceBuilder::new()
        .load_shed()
        .concurrency_limit(1)
        .layer(UnaryLayer::new(drop))
        .service(server.transport());
    let first = tokio::spawn(calls.clone().oneshot(call(1)));
    server.works_on(1).await;

    let start = Instant::now();
    let error = soon(calls.clone().oneshot(call(2))).await.unwrap_err();
    assert!(error.is::<Overloaded>(), "{error:?}");
    assert!(start.elapsed().is_zero());

    soon(first).await.unwrap().unwrap();
    answered(&calls, 3..4).await;
    assert_eq!(server.seconds(), [0, 1]);
}

#[tokio::test(start_paused = true)]
async fn what_is_shed_around_a_transport_can_be_told_from_other_failures() {
    let never = service_fn(|_: Request<Full<Bytes>>| {
        std::future::pending::<Result<Response<Full<Bytes>>, Infallible>>()
    });
    let uri = "http://in.memory/mcp".parse().unwrap();
    let transport = StreamableHttp::with_client(uri, never)
        .build()
        .unwrap()
        .layer(ConcurrencyLimitLayer::new(1))
        .layer(LoadShedLayer::new());
    let mut first = transport.clone();
    let waiting = first.ready().await.unwrap().call(call(1));
    let error = soon(transport.oneshot(call(2))).await.unwrap_err();
    assert!(error.find::<Overloaded>().is_some(), "{error:?}");
    drop(waiting);
}
