//! Many calls on one HTTP/2 connection: what befalls one is nothing to the others.

use futures_util::FutureExt;
use futures_util::future::join_all;
use mcp_streamable_http::error::NotSent;
use mcp_streamable_http::{Reply, StreamableHttp};
use tower::ServiceExt;

use crate::common::*;
use crate::peer::{Call, Peer, Play, Step};
use crate::support::Gate;

fn http2(peer: &Peer) -> StreamableHttp {
    transport(peer.url(), plain().http2_prior_knowledge())
}

/// Answers `ping` at once, and other calls with an open stream that waits for the gate before its result.
fn held(gate: &Gate) -> impl Fn(&Call) -> Play + Send + Sync + use<> {
    let gate = gate.clone();
    move |call| match call.is("ping") {
        true => Play::Json,
        false => Play::Events(vec![Step::Progress, Step::Wait(gate.clone()), Step::Result]),
    }
}

async fn finish(replies: impl IntoIterator<Item = Reply>) {
    for reply in replies {
        soon(reply.response()).await.unwrap();
    }
}

#[tokio::test]
async fn a_hundred_calls_at_once_use_one_connection() {
    let gate = Gate::new();
    let held = gate.clone();
    let peer = Peer::http2(move |_| Play::JsonAfter(held.clone())).await;
    let transport = http2(&peer);
    let calls = join_all((0..100).map(|id| works(&transport, ping(id))));
    let together = async {
        peer.wait(|seen| seen.calls.len() == 100).await;
        gate.open();
    };
    tokio::join!(calls, together);
    assert_eq!((peer.connections(), peer.cancelled()), (1, vec![]));
}

#[tokio::test]
async fn calls_beyond_the_servers_limit_wait_for_their_turn() {
    let peer = Peer::http2_with_max_streams(4, |_| Play::Json).await;
    let transport = http2(&peer);
    // From here on the client knows the limit.
    works(&transport, ping(0)).await;
    join_all((1..=60).map(|id| works(&transport, ping(id)))).await;
    assert_eq!(peer.connections(), 1);
}

#[tokio::test]
async fn a_dropped_reply_resets_its_own_stream_only() {
    let gate = Gate::new();
    let peer = Peer::http2(held(&gate)).await;
    let transport = http2(&peer);
    let first = open(&transport, call(1)).await;
    let dropped = open(&transport, call(2)).await;
    let last = open(&transport, call(3)).await;
    drop(dropped);
    peer.wait(|seen| seen.cancelled == [2]).await;
    works(&transport, ping(4)).await;
    gate.open();
    finish([first, last]).await;
    assert_eq!((peer.connections(), peer.cancelled()), (1, vec![2]));
}

#[tokio::test]
async fn a_call_dropped_before_its_head_resets_its_own_stream_only() {
    let gate = Gate::new();
    let held = gate.clone();
    let peer = Peer::http2(move |_| Play::JsonAfter(held.clone())).await;
    let transport = http2(&peer);
    let mut calls: Vec<_> = (1..=3).map(|id| tokio::spawn(transport.clone().oneshot(ping(id)))).collect();
    peer.wait(|seen| seen.calls.len() == 3).await;
    calls.remove(1).abort();
    peer.wait(|seen| seen.cancelled.len() == 1).await;
    gate.open();
    let mut answered = Vec::new();
    for call in calls {
        let reply = soon(call).await.unwrap().unwrap();
        answered.push(soon(reply.response()).await.unwrap());
    }
    assert_eq!((answered.len(), peer.connections(), peer.cancelled()), (2, 1, vec![2]));
}

#[tokio::test]
async fn a_thousand_dropped_replies_leave_the_connection_in_use() {
    let peer = Peer::http2(held(&Gate::new())).await;
    let transport = http2(&peer);
    for id in 0..1000 {
        drop(open(&transport, call(id)).await);
    }
    peer.wait(|seen| seen.cancelled.len() == 1000).await;
    works(&transport, ping(1000)).await;
    assert_eq!(peer.connections(), 1);
}

#[tokio::test]
async fn streams_that_stay_open_after_their_answer_are_reset() {
    let never = Gate::new();
    let peer = Peer::http2(move |_| Play::Events(vec![Step::Result, Step::Wait(never.clone())])).await;
    let transport = http2(&peer);
    join_all((0..20).map(|id| works(&transport, call(id)))).await;
    peer.wait(|seen| seen.cancelled.len() == 20).await;
    assert_eq!(peer.connections(), 1);
}

#[tokio::test]
async fn a_stream_that_the_server_stalls_holds_up_no_other() {
    let gate = Gate::new();
    let peer = Peer::http2(held(&gate)).await;
    let transport = http2(&peer);
    let mut stalled = Vec::new();
    for id in 0..10 {
        stalled.push(open(&transport, call(id)).await);
    }
    join_all((10..60).map(|id| works(&transport, ping(id)))).await;
    // Nothing has come of them meanwhile.
    let mut first = stalled.remove(0);
    assert!(futures_util::StreamExt::next(&mut first).now_or_never().is_none());
    gate.open();
    stalled.push(first);
    finish(stalled).await;
    assert_eq!((peer.connections(), peer.cancelled()), (1, vec![]));
}

#[tokio::test]
async fn replies_that_are_not_read_hold_up_no_other() {
    let peer = Peer::http2(|call| match call.is("ping") {
        true => Play::Json,
        false => Play::Events(vec![Step::Progress, Step::Comments(4 << 10), Step::Result]),
    })
    .await;
    let transport = http2(&peer);
    let mut unread = Vec::new();
    for id in 0..10 {
        unread.push(open(&transport, call(id)).await);
    }
    join_all((10..30).map(|id| works(&transport, ping(id)))).await;
    finish(unread).await;
}

#[tokio::test]
async fn a_stream_reset_before_its_head_fails_its_own_call_only() {
    let gate = Gate::new();
    let others = held(&gate);
    let peer =
        Peer::http2(
            move |call| if call.id() == 2 { Play::Reset(h2::Reason::INTERNAL_ERROR) } else { others(call) },
        )
        .await;
    let transport = http2(&peer);
    let other = open(&transport, call(1)).await;
    let error = fails(&transport, call(2)).await;
    assert_may_have_run(&error);
    assert_says(&error, &["stream error received"]);
    assert!(!error.is_timeout(), "{error:?}");
    works(&transport, ping(3)).await;
    gate.open();
    finish([other]).await;
    assert_eq!(peer.connections(), 1);
}

#[tokio::test]
async fn a_stream_that_the_server_refuses_was_not_acted_on() {
    let peer = Peer::http2(|call| match call.id() {
        2 => Play::Reset(h2::Reason::REFUSED_STREAM),
        _ => Play::Json,
    })
    .await;
    let transport = http2(&peer);
    let error = fails(&transport, ping(2)).await;
    assert!(error.find::<NotSent>().is_some() && !error.may_have_run(), "{error:?}");
    works(&transport, ping(3)).await;
    assert_eq!(peer.connections(), 1);
}

#[tokio::test]
async fn a_stream_reset_in_its_middle_fails_its_own_call_only() {
    let gate = Gate::new();
    let others = held(&gate);
    let reset = [Step::Progress, Step::Wait(gate.clone()), Step::Reset];
    let peer = Peer::http2(move |call| match call.id() {
        2 => Play::Events(reset.to_vec()),
        _ => others(call),
    })
    .await;
    let transport = http2(&peer);
    let other = open(&transport, call(1)).await;
    let broken = open(&transport, call(2)).await;
    gate.open();
    let error = soon(broken.response()).await.unwrap_err();
    assert_may_have_run(&error);
    assert_says(&error, &["stream error received"]);
    finish([other]).await;
    works(&transport, ping(3)).await;
    assert_eq!(peer.connections(), 1);
}
