//! Many calls at once.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Waker};

use mcp_streamable_http_rmcp::IntoRmcp;
use rmcp::RoleClient;
use rmcp::model::{ClientJsonRpcMessage, ClientRequest, PingRequest, RequestId, ServerJsonRpcMessage};
use rmcp::transport::Transport;
use serde_json::json;

use crate::common::*;
use crate::support::Server;

fn ping(id: i64) -> ClientJsonRpcMessage {
    ClientJsonRpcMessage::request(ClientRequest::PingRequest(PingRequest::default()), RequestId::Number(id))
}

#[tokio::test(start_paused = true)]
async fn a_message_is_on_its_way_before_the_future_of_its_sending_is_polled() {
    let mut server = Server::manual();
    let mut transport = server.transport().into_rmcp();
    let sending = Transport::<RoleClient>::send(&mut transport, ping(7));
    let ping = server.expect("ping").await;
    assert!(ping.seen.has_id(7));
    ping.result(json!({}));
    // It borrows nothing of the transport, and so can live anywhere.
    soon(tokio::spawn(sending)).await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn waiting_for_a_message_can_be_given_up_without_losing_one() {
    let mut server = Server::manual();
    let mut transport = server.transport().into_rmcp();
    for id in 1..20 {
        let _sending = Transport::<RoleClient>::send(&mut transport, ping(id));
        let ping = server.expect("ping").await;
        // As a lost branch of a `select!` does.
        assert!(pin!(transport.receive()).poll(&mut Context::from_waker(Waker::noop())).is_pending());
        ping.result(json!({}));
        let answer = soon(transport.receive()).await.unwrap();
        let ServerJsonRpcMessage::Response(answer) = answer else { panic!("{answer:?}") };
        assert_eq!(answer.id, RequestId::Number(id));
    }
}

#[tokio::test(start_paused = true)]
async fn calls_neither_wait_for_each_other_nor_get_each_others_answers() {
    const CALLS: usize = 100;
    let mut server = either();
    let client = connect(&server).await;
    let calls: Vec<_> = (0..CALLS).map(|_| call(&client, "add")).collect();
    let mut waiting = Vec::new();
    for _ in 0..CALLS {
        waiting.push(server.expect("tools/call").await);
    }
    // All are on their way, and are answered last first.
    for tool in waiting.into_iter().rev() {
        let id = tool.seen.message["id"].to_string();
        tool.result(said(&id));
    }
    let mut answers = Vec::new();
    for call in calls {
        answers.push(came_to(call).await.unwrap().parse::<u64>().unwrap());
    }
    // Their ids were given in the order of the calls.
    let first = answers[0];
    assert_eq!(answers, (first..first + CALLS as u64).collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn a_call_that_hangs_holds_up_no_other() {
    let mut server = either();
    let client = connect(&server).await;
    let hanging = call(&client, "add");
    let held = server.expect("tools/call").await;
    for _ in 0..10 {
        let calling = call(&client, "add");
        server.expect("tools/call").await.result(said("3"));
        assert_eq!(came_to(calling).await.unwrap(), "3");
    }
    held.result(said("late"));
    assert_eq!(came_to(hanging).await.unwrap(), "late");
}
