//! HTTP/2 connections that silently go away.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use mcp_streamable_http::StreamableHttp;

use crate::common::*;
use crate::peer::{Peer, Play, Step};
use crate::proxy::Proxy;
use crate::support::Gate;

const INTERVAL: Duration = Duration::from_millis(100);
const TIMEOUT: Duration = Duration::from_millis(200);

async fn start() -> (Peer, Proxy, StreamableHttp) {
    let peer = Peer::http2(|call| match call.is("ping") {
        true => Play::Json,
        false => Play::Events(vec![Step::Progress, Step::Wait(Gate::new()), Step::Result]),
    })
    .await;
    let proxy = Proxy::start(peer.address()).await;
    let client = plain().http2_prior_knowledge().http2_ping_interval(INTERVAL).http2_ping_timeout(TIMEOUT);
    // So that it is the pings that find out.
    let client = client.pool_idle_timeout(None);
    let transport = transport(proxy.url(), client);
    works(&transport, ping(1)).await;
    (peer, proxy, transport)
}

#[tokio::test]
async fn a_black_hole_costs_the_calls_in_it_one_ping_timeout() {
    let (_peer, proxy, transport) = start().await;
    let open = open(&transport, call(1)).await;
    proxy.cut();
    let start = Instant::now();
    let (errors, broken) =
        tokio::join!(join_all((2..=9).map(|id| fails(&transport, ping(id)))), soon(open.response()));
    let took = start.elapsed();
    assert!(took < Duration::from_secs(4), "{took:?}");
    for error in errors {
        assert_may_have_run(&error);
        assert!(error.is_timeout(), "{error:?}");
        assert_says(&error, &["PING", "200ms", "http2_ping_timeout"]);
    }
    // hyper tells the bodies only that the connection is gone.
    assert_may_have_run(&broken.unwrap_err());
    works(&transport, ping(10)).await;
    assert_eq!(proxy.connections(), 2);
}

#[tokio::test]
async fn a_black_hole_that_nobody_uses_costs_no_call() {
    let (_peer, proxy, transport) = start().await;
    proxy.cut();
    proxy.given_up().await;
    works(&transport, ping(2)).await;
    assert_eq!(proxy.connections(), 2);
}

#[tokio::test]
async fn a_server_that_answers_pings_may_take_its_time() {
    let gate = Gate::new();
    let held = gate.clone();
    let peer = Peer::http2(move |_| Play::JsonAfter(held.clone())).await;
    let client = plain().http2_prior_knowledge();
    let client =
        client.http2_ping_interval(Duration::from_millis(20)).http2_ping_timeout(Duration::from_secs(2));
    let transport = transport(peer.url(), client);
    // Many intervals long.
    let late = async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        gate.open();
    };
    tokio::join!(works(&transport, ping(1)), late);
    assert_eq!(peer.connections(), 1);
}
