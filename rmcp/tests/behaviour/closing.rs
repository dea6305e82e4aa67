//! The end.

use rmcp::service::QuitReason;

use crate::common::*;
use crate::support::{Answer, Server, legacy};

#[tokio::test(start_paused = true)]
async fn closing_drops_what_is_open_and_ends_the_session() {
    let mut server = either();
    let mut client = connect(&server).await;
    let calling = call(&client, "add");
    let open = server.expect("tools/call").await.open();
    assert!(matches!(soon(client.close()).await.unwrap(), QuitReason::Cancelled));
    came_to(calling).await.unwrap_err();
    assert!(open.is_dropped());
    assert_eq!(server.outline().last().unwrap(), "DELETE");
    assert_eq!(server.count("DELETE"), 1);
    assert_eq!(server.seen().last().unwrap().header("mcp-session-id"), Some(SESSION));
    // Nobody is told that a call is over which the session's end has ended.
    assert_eq!(server.count("notifications/cancelled"), 0);
}

#[tokio::test(start_paused = true)]
async fn dropping_does_the_same_in_the_background() {
    let server = either();
    let client = connect(&server).await;
    drop(client);
    settle().await;
    assert_eq!(server.outline().last().unwrap(), "DELETE");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_does_not_answer_the_end_is_not_waited_for_for_long() {
    let mut server = Server::scripted(|seen| match seen.what() {
        "DELETE" => None,
        "GET" => Some(Answer::status(405)),
        _ => legacy(seen),
    });
    let client = connect(&server).await;
    let closing = tokio::spawn(client.cancel());
    let _hanging = server.expect("DELETE").await;
    tokio::time::sleep(std::time::Duration::from_secs(6)).await;
    soon(closing).await.unwrap().unwrap();
}
