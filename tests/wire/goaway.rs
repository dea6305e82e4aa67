//! HTTP/2 servers that shut a connection down (GOAWAY).

use mcp_streamable_http::StreamableHttp;

use crate::common::*;
use crate::peer::{Peer, Play, Step};
use crate::support::Gate;

async fn peer(gate: &Gate) -> (Peer, StreamableHttp) {
    let gate = gate.clone();
    let peer = Peer::http2(move |call| match call.is("ping") {
        true => Play::Json,
        false => Play::Events(vec![Step::Progress, Step::Wait(gate.clone()), Step::Result]),
    })
    .await;
    let transport = transport(peer.url(), plain().http2_prior_knowledge());
    (peer, transport)
}

#[tokio::test]
async fn the_next_call_uses_another_connection() {
    let (peer, transport) = peer(&Gate::new()).await;
    for round in 0..20 {
        works(&transport, ping(1)).await;
        peer.retire_connections();
        peer.wait(|seen| seen.closed == round + 1).await;
    }
    assert_eq!(peer.connections_of_calls(), Vec::from_iter(0..20));
}

#[tokio::test]
async fn a_stream_that_is_open_goes_on() {
    let gate = Gate::new();
    let (peer, transport) = peer(&gate).await;
    let open = open(&transport, call(1)).await;
    peer.retire_connections();
    // Until the client has heard of it, calls may go either way.
    let mut calls = 1;
    while peer.connections() == 1 {
        assert!(calls < 1000, "the connection that was shut down is used on and on");
        works(&transport, ping(2)).await;
        calls += 1;
    }
    works(&transport, ping(3)).await;
    gate.open();
    soon(open.response()).await.unwrap();
    peer.wait(|seen| seen.closed == 1).await;
    assert_eq!((peer.connections(), peer.cancelled()), (2, vec![]));
    assert_eq!(peer.connections_of_calls().last(), Some(&1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_crosses_it_is_not_lost_silently() {
    let (peer, transport) = peer(&Gate::new()).await;
    let (mut answered, mut unknown) = (0, 0);
    for _ in 0..50 {
        peer.retire_connections();
        match ask(&transport, ping(1)).await {
            Ok(_) => answered += 1,
            Err(error) => {
                unknown += usize::from(error.may_have_run());
                assert!(error.may_have_run() || error.is_connect(), "{error:?}");
            }
        }
    }
    let arrived = peer.versions().len();
    // What did not arrive is known not to have: the server says what it has not looked at (RFC 9113 §6.8).
    assert_eq!((arrived, unknown), (answered, 0));
    // It is a race, but no call has to lose it.
    assert!(answered >= 25, "{answered}");
    works(&transport, ping(1)).await;
}
