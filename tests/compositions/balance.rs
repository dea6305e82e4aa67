//! Several endpoints of one server, with a transport for each.

use std::time::Duration;

use futures_util::future::join_all;
use mcp_streamable_http::layers::UnaryLayer;
use mcp_streamable_http::{JsonRpcMessage, StreamableHttp};
use tower::balance::p2c::Balance;
use tower::buffer::Buffer;
use tower::discover::ServiceList;
use tower::load::{CompleteOnResponse, Constant, PeakEwmaDiscover};
use tower::{BoxError, Service, ServiceBuilder, ServiceExt};

use crate::server::Server;
use crate::{SECOND, call, handshake, soon};

fn servers(work: [Duration; 3]) -> [Server; 3] {
    work.map(Server::new)
}

/// How many calls each has got.
fn counts(servers: &[Server; 3]) -> [usize; 3] {
    servers.each_ref().map(|server| server.seconds().len())
}

/// Makes calls, so many at a time.
async fn call_all<S>(calls: &S, rounds: i64, at_a_time: i64)
where
    S: Service<JsonRpcMessage, Error: Into<BoxError>> + Clone,
{
    for round in 0..rounds {
        let ids = (0..at_a_time).map(|n| round * at_a_time + n);
        for outcome in soon(join_all(ids.map(|id| calls.clone().oneshot(call(id))))).await {
            assert!(outcome.map_err(Into::into).is_ok());
        }
    }
}

/// Any `Load`, here one that never changes.
fn constant(
    servers: &[Server; 3],
    loads: [u32; 3],
) -> impl Service<JsonRpcMessage, Error = BoxError> + Clone + use<> {
    let endpoints = servers.iter().zip(loads).map(|(server, load)| {
        let calls = ServiceBuilder::new().layer(UnaryLayer::new(drop)).service(server.transport());
        Constant::new(calls, load)
    });
    Buffer::new(Balance::new(ServiceList::new(endpoints.collect::<Vec<_>>())), 64)
}

#[tokio::test(start_paused = true)]
async fn endpoints_of_the_same_load_share_the_calls() {
    let servers = servers([SECOND; 3]);
    call_all(&constant(&servers, [1, 1, 1]), 30, 10).await;
    let counts = counts(&servers);
    assert_eq!(counts.iter().sum::<usize>(), 300);
    // It is a matter of chance, of which this is more than six standard deviations.
    assert!(counts.iter().all(|count| (50..=150).contains(count)), "{counts:?}");
}

#[tokio::test(start_paused = true)]
async fn the_endpoint_of_the_greatest_load_is_left_alone() {
    let servers = servers([SECOND; 3]);
    call_all(&constant(&servers, [1, 1, 2]), 30, 10).await;
    let counts = counts(&servers);
    assert_eq!((counts[0] + counts[1], counts[2]), (300, 0));
}

#[tokio::test(start_paused = true)]
async fn an_endpoint_that_is_slow_with_its_responses_gets_fewer_calls() {
    // All are as fast with the heads of their answers.
    let servers = servers([SECOND / 10, SECOND / 10, 20 * SECOND]);
    let transports = servers
        .iter()
        .map(|server| ServiceBuilder::new().layer(UnaryLayer::new(drop)).service(server.transport()));
    let endpoints = PeakEwmaDiscover::new(
        ServiceList::new(transports.collect::<Vec<_>>()),
        SECOND / 2,
        10 * SECOND,
        CompleteOnResponse::default(),
    );
    let calls = Buffer::new(Balance::new(endpoints), 64);
    call_all(&calls, 20, 6).await;
    let [one, other, slow] = counts(&servers);
    assert_eq!(one + other + slow, 120);
    assert!(slow > 0 && 4 * slow < one && 4 * slow < other, "{one}, {other}, {slow}");
}

#[tokio::test(start_paused = true)]
async fn a_cancellation_goes_where_its_call_went() {
    let servers = servers([60 * SECOND; 3]);
    let mut endpoints = Vec::new();
    for server in &servers {
        let transport: StreamableHttp = server.transport();
        handshake(&transport).await;
        endpoints
            .push(Constant::new(ServiceBuilder::new().layer(UnaryLayer::new(drop)).service(transport), 1));
    }
    let calls = Buffer::new(Balance::new(ServiceList::new(endpoints)), 64);
    for id in 0..20 {
        // Each is given up after a second.
        let outcome = tokio::time::timeout(SECOND, calls.clone().oneshot(call(id))).await;
        assert!(outcome.is_err());
    }
    assert_eq!(counts(&servers).iter().sum::<usize>(), 20);
    for server in &servers {
        server.has_seen(server.seconds().len(), "notifications/cancelled").await;
    }
    // And none got the news of another's call.
    tokio::time::sleep(SECOND).await;
    let told = |server: &Server| server.seen_of("notifications/cancelled").len();
    assert_eq!(servers.each_ref().map(told), counts(&servers));
}
