//! Many calls at once.

use mcp_streamable_http::JsonRpcMessage;
use serde_json::json;
use tower::ServiceExt;

use crate::common::*;
use crate::support::mcp::result;
use crate::support::{Answer, Gate};

const CALLS: usize = 40;

#[tokio::test]
async fn answers_in_reverse_order_reach_their_own_calls() {
    let gates: Vec<_> = (0..CALLS).map(|_| Gate::new()).collect();
    let answer = gates.clone();
    let server = server(move |request| {
        let id = usize::try_from(request.rpc_id().as_u64().unwrap()).unwrap();
        let response = result(request, json!({ "echo": id }));
        match id % 2 {
            0 => Answer::json(200, response).head_after(&answer[id]),
            _ => Answer::sse().wait(&answer[id]).event(response),
        }
    })
    .await;
    let transport = transport(&server);
    let calls: Vec<_> = (0..CALLS)
        .map(|id| {
            let transport = transport.clone();
            tokio::spawn(async move { ask(&transport, call(i64::try_from(id).unwrap())).await.unwrap() })
        })
        .collect();
    server.wait_for(CALLS).await;
    for (id, call) in calls.into_iter().enumerate().rev() {
        gates[id].open();
        let response = soon(call).await.unwrap();
        assert_eq!(response.id(), Some(&i64::try_from(id).unwrap().into()));
        assert_eq!(response.result::<serde_json::Value>().unwrap(), json!({ "echo": id }));
    }
}

#[tokio::test]
async fn a_slow_stream_blocks_nobody() {
    let gate = Gate::new();
    let answer = gate.clone();
    let server = server(move |request| match request.nth {
        0 => Answer::sse().event(progress(1)).wait(&answer).event(result(request, json!({}))),
        _ => Answer::sse().event(result(request, json!({}))),
    })
    .await;
    let transport = transport(&server);
    let mut slow = send(&transport, call(1)).await.unwrap();
    next_message(&mut slow).await;
    for id in 2..10 {
        ask(&transport, call(id)).await.unwrap();
        ping_works(&transport).await;
    }
    gate.open();
    soon(slow.response()).await.unwrap();
}

#[tokio::test]
async fn a_reply_that_nobody_reads_blocks_nobody() {
    let server = server(|request| {
        let events = (0..2000).fold(Answer::sse(), |answer, step| answer.event(progress(step)));
        events.raw(format!(": {}\n", "x".repeat(4 << 20))).event(result(request, json!({})))
    })
    .await;
    let transport = transport(&server);
    let unread = send(&transport, call(1)).await.unwrap();
    for _ in 0..10 {
        ping_works(&transport).await;
    }
    assert_eq!(rest(unread).await.len(), 2001);
}

#[tokio::test]
async fn one_service_can_be_called_again_before_the_first_call_is_done() {
    let gate = Gate::new();
    let answer = gate.clone();
    let server = server(move |request| match request.nth {
        0 => Answer::json(200, result(request, json!(1))).head_after(&answer),
        _ => Answer::json(200, result(request, json!(2))),
    })
    .await;
    let mut transport = transport(&server);
    let first = tower::Service::call(transport.ready().await.unwrap(), call(1));
    let first = tokio::spawn(first);
    server.wait_for(1).await;
    let second = tower::Service::call(transport.ready().await.unwrap(), call(2));
    let second = soon(second).await.unwrap();
    assert_eq!(soon(second.response()).await.unwrap().result::<i64>().unwrap(), 2);
    gate.open();
    let first = soon(first).await.unwrap().unwrap();
    assert_eq!(soon(first.response()).await.unwrap().result::<i64>().unwrap(), 1);
}

#[tokio::test]
async fn dropping_a_call_before_its_head_closes_the_exchange() {
    let server = server(|_| Answer::raw_response("").hang()).await;
    let transport = transport(&server);
    let call = transport.clone().oneshot(call(1));
    tokio::select! {
        _ = call => panic!("there is no answer"),
        _ = server.wait_for(1) => {}
    }
    server.gone().await;
    ping_works(&transport).await;
}

#[tokio::test]
async fn dropping_a_reply_closes_the_exchange() {
    let server = server(|_| Answer::sse().event(progress(1)).hang()).await;
    let transport = transport(&server);
    let mut read = send(&transport, call(1)).await.unwrap();
    next_message(&mut read).await;
    let unread = send(&transport, call(2)).await.unwrap();
    assert_eq!(server.gone_count(), 0);
    drop(read);
    server.wait_gone(1).await;
    drop(unread);
    server.wait_gone(2).await;
    ping_works(&transport).await;
}

#[tokio::test]
async fn a_call_that_is_never_polled_sends_nothing() {
    let server = server(|request| Answer::json(200, result(request, json!({})))).await;
    let mut transport = transport(&server);
    let unpolled = tower::Service::call(transport.ready().await.unwrap(), call(1));
    drop(unpolled);
    ping_works(&transport).await;
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clones_share_session_and_connections_over_threads() {
    let (server, transport) = session(|request| Answer::sse().event(result(request, json!({})))).await;
    let calls: Vec<_> = (0..4i64)
        .map(|task| {
            let transport = transport.clone();
            tokio::spawn(async move {
                for id in 0..25 {
                    let id = task * 100 + id;
                    let response = ask(&transport, call(id)).await.unwrap();
                    assert_eq!(JsonRpcMessage::from(response), JsonRpcMessage::response(id, json!({})));
                }
            })
        })
        .collect();
    for call in calls {
        soon(call).await.unwrap();
    }
    let requests = server.requests();
    assert_eq!(requests.len(), 102);
    assert!(requests[1..].iter().all(|request| request.headers.contains_key("mcp-session-id")));
}
