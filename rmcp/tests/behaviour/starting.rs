//! The handshake of each lifecycle mode.

use mcp_streamable_http_rmcp::IntoRmcp;
use rmcp::ServiceExt;
use rmcp::service::ClientInitializeError;
use serde_json::json;

use crate::common::*;
use crate::support::{Answer, Server};

#[tokio::test(start_paused = true)]
async fn initialize_starts_a_session() {
    let mut server = either();
    let client = connect(&server).await;
    assert_eq!(client.peer_info().unwrap().protocol_version.as_str(), VERSION);
    settle().await;
    assert_eq!(server.outline(), ["initialize", "notifications/initialized", "GET"]);
    let calling = call(&client, "add");
    let seen = server.seen();
    assert_eq!((seen[0].header("mcp-session-id"), seen[0].header("mcp-protocol-version")), (None, None));
    let tool = server.expect("tools/call").await;
    for seen in [&seen[1], &seen[2], &tool.seen] {
        assert_eq!(seen.header("mcp-session-id"), Some(SESSION));
        assert_eq!(seen.header("mcp-protocol-version"), Some(VERSION));
    }
    assert_eq!(tool.seen.message["params"]["name"], "add");
    tool.result(said("3"));
    assert_eq!(came_to(calling).await.unwrap(), "3");
}

#[tokio::test(start_paused = true)]
async fn what_the_server_asks_before_it_answers_is_answered() {
    let mut server = Server::manual();
    let transport = server.transport().into_rmcp();
    let starting = tokio::spawn(().serve(transport));
    let initialize = server.expect("initialize").await.open();
    initialize.send(&json!({ "jsonrpc": "2.0", "id": "p", "method": "ping" }));
    let pong = server.expect("=").await;
    assert_eq!(pong.seen.message["id"], "p");
    pong.accept();
    initialize.result(json!({
        "protocolVersion": VERSION,
        "capabilities": {},
        "serverInfo": { "name": "s", "version": "1" },
    }));
    server.expect("notifications/initialized").await.accept();
    soon(starting).await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_refused_handshake_is_the_servers_error() {
    for is_left_open in [false, true] {
        let mut server = Server::manual();
        let starting = tokio::spawn(().serve(server.transport().into_rmcp()));
        let initialize = server.expect("initialize").await.open();
        initialize.send(&refusal(&initialize.seen, -32602, json!({ "why": "because" })));
        let held = is_left_open.then_some(initialize);
        let error = soon(starting).await.unwrap().unwrap_err();
        let ClientInitializeError::JsonRpcError(error) = error else { panic!("{error:?}") };
        assert_eq!((error.code.0, &*error.message), (-32602, "no"));
        assert_eq!(error.data.unwrap(), json!({ "why": "because" }));
        drop(held);
    }
}

#[tokio::test(start_paused = true)]
async fn an_initialized_that_is_refused_fails_it() {
    let server = Server::scripted(|seen| match seen.what() {
        "notifications/initialized" => Some(Answer::status(400)),
        _ => crate::support::legacy(seen),
    });
    let error = soon(().serve(server.transport().into_rmcp())).await.unwrap_err();
    let cause = mcp_streamable_http_rmcp::TransportError::of_startup(&error).unwrap();
    assert_eq!(cause.error().status().unwrap().as_u16(), 400);
    // The session that was begun is ended.
    settle().await;
    assert_eq!(server.outline(), ["initialize", "notifications/initialized", "DELETE"]);
}

#[tokio::test(start_paused = true)]
async fn discover_needs_no_handshake() {
    let mut server = either();
    let client = connect_modern(&server).await;
    let calling = call(&client, "add");
    let tool = server.expect("tools/call").await;
    assert_eq!(server.outline(), ["server/discover", "tools/call"]);
    for (seen, method) in server.seen().iter().zip(["server/discover", "tools/call"]) {
        assert_eq!(seen.header("mcp-method"), Some(method));
        assert_eq!(seen.header("mcp-protocol-version"), Some(MODERN));
        assert_eq!(seen.header("mcp-session-id"), None);
        assert_eq!(seen.message["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"], MODERN);
    }
    assert_eq!(tool.seen.header("mcp-name"), Some("add"));
    tool.result(said("3"));
    assert_eq!(came_to(calling).await.unwrap(), "3");
    client.cancel().await.unwrap();
    assert_eq!(server.count("DELETE"), 0);
}

#[tokio::test(start_paused = true)]
async fn a_ping_that_comes_before_the_discovery_is_not_answered() {
    let mut server = Server::manual();
    let transport = server.transport();
    let starting = tokio::spawn(async move {
        rmcp::service::ClientServiceExt::serve_with_lifecycle((), transport.into_rmcp(), discover()).await
    });
    let asked = server.expect("server/discover").await.open();
    asked.send(&json!({ "jsonrpc": "2.0", "id": "p", "method": "ping" }));
    asked.send(&discovered(&asked.seen));
    soon(starting).await.unwrap().unwrap();
    assert_eq!(server.outline(), ["server/discover"]);
}
