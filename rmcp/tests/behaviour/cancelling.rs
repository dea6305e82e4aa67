//! Calls that are given up.

use std::time::Duration;

use rmcp::RoleClient;
use rmcp::model::{CallToolRequest, CallToolRequestParams, ClientRequest};
use rmcp::service::{PeerRequestOptions, RequestHandle, ServiceError};

use crate::common::*;

async fn begin(client: &Client, options: PeerRequestOptions) -> RequestHandle<RoleClient> {
    let request = CallToolRequest::new(CallToolRequestParams::new("add"));
    let request = ClientRequest::CallToolRequest(request);
    client.send_cancellable_request(request, options).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_legacy_call_is_cancelled_by_a_notification() {
    let mut server = either();
    let client = connect(&server).await;
    for has_head in [false, true] {
        let handle = begin(&client, PeerRequestOptions::no_options()).await;
        let id = handle.id.clone();
        let tool = server.expect("tools/call").await;
        let (headless, open) = if has_head { (None, Some(tool.open())) } else { (Some(tool), None) };
        soon(handle.cancel(Some("enough".into()))).await.unwrap();
        let posted = server.expect("notifications/cancelled").await;
        assert_eq!(posted.seen.message["params"]["requestId"].to_string(), id.to_string());
        assert_eq!(posted.seen.message["params"]["reason"], "enough");
        assert_eq!(posted.seen.header("mcp-session-id"), Some(SESSION));
        posted.accept();
        settle().await;
        // It may still say how far it has come.
        assert!(headless.is_none_or(|tool| !tool.is_dropped()) && open.is_none_or(|tool| !tool.is_dropped()));
    }
}

#[tokio::test(start_paused = true)]
async fn its_caller_is_told() {
    let mut server = either();
    let client = connect(&server).await;
    let handle = begin(&client, PeerRequestOptions::no_options()).await;
    let (peer, id) = (handle.peer.clone(), handle.id.clone());
    let waiting = tokio::spawn(handle.await_response());
    let _open = server.expect("tools/call").await.open();
    let params = rmcp::model::CancelledNotificationParam::new(Some(id), None);
    let cancelling = tokio::spawn(async move { peer.notify_cancelled(params).await });
    server.expect("notifications/cancelled").await.accept();
    soon(cancelling).await.unwrap().unwrap();
    let error = soon(waiting).await.unwrap().unwrap_err();
    assert!(matches!(error, ServiceError::Cancelled { .. }), "{error:?}");
}

#[tokio::test(start_paused = true)]
async fn a_modern_call_is_cancelled_by_closing_its_stream() {
    let mut server = either();
    let client = connect_modern(&server).await;
    for has_head in [false, true] {
        let handle = begin(&client, PeerRequestOptions::no_options()).await;
        let tool = server.expect("tools/call").await;
        let (headless, open) = if has_head { (None, Some(tool.open())) } else { (Some(tool), None) };
        soon(handle.cancel(None)).await.unwrap();
        settle().await;
        assert!(headless.is_none_or(|tool| tool.is_dropped()) && open.is_none_or(|tool| tool.is_dropped()));
    }
    assert_eq!(server.outline(), ["server/discover", "tools/call", "tools/call"]);
}

#[tokio::test(start_paused = true)]
async fn a_call_whose_future_is_dropped_is_cancelled() {
    let mut server = either();
    let client = connect(&server).await;
    let calling = call(&client, "add");
    let _open = server.expect("tools/call").await.open();
    calling.abort();
    let posted = server.expect("notifications/cancelled").await;
    assert!(posted.seen.message["params"]["reason"].as_str().unwrap().contains("abandoned"));
    posted.accept();
    settle().await;
    assert_eq!(server.count("notifications/cancelled"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_takes_too_long_is_cancelled() {
    let mut server = either();
    let client = connect(&server).await;
    let mut options = PeerRequestOptions::no_options();
    options.timeout = Some(Duration::from_secs(3));
    let handle = begin(&client, options).await;
    let waiting = tokio::spawn(handle.await_response());
    let _open = server.expect("tools/call").await.open();
    tokio::time::sleep(Duration::from_secs(4)).await;
    server.expect("notifications/cancelled").await.accept();
    let error = soon(waiting).await.unwrap().unwrap_err();
    assert!(matches!(error, ServiceError::Timeout { .. }), "{error:?}");
}

#[tokio::test(start_paused = true)]
async fn nobody_waits_for_a_server_that_does_not_take_the_cancellation() {
    let mut server = either();
    let client = connect(&server).await;
    let mut waiting = Vec::new();
    let mut hanging = Vec::new();
    for _ in 0..10 {
        let mut options = PeerRequestOptions::no_options();
        options.timeout = Some(Duration::from_secs(3));
        waiting.push(tokio::spawn(begin(&client, options).await.await_response()));
        hanging.push(server.expect("tools/call").await);
    }
    tokio::time::sleep(Duration::from_secs(3)).await;
    for call in waiting {
        let error = soon(call).await.unwrap().unwrap_err();
        assert!(matches!(error, ServiceError::Timeout { .. }), "{error:?}");
    }
    server.expect("notifications/cancelled").await;
}
