//! What layers of tower's and tower-http's do around the transport and under it, on a clock that does not run by itself.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "in a test a panic is how it fails"
)]

mod balance;
mod limits;
mod server;
mod timeout;
mod wire;

use std::future::Future;
use std::time::Duration;

use mcp_streamable_http::{JsonRpcMessage, StreamableHttp};
use serde_json::json;
use tower::ServiceExt;

/// Only so that a broken test fails instead of hanging. The clock jumps there when nothing else is left to do.
async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(3600), future).await.expect("it takes too long")
}

const SECOND: Duration = Duration::from_secs(1);

fn call(id: i64) -> JsonRpcMessage {
    JsonRpcMessage::request(id, "tools/call", json!({ "name": "add" }))
}

async fn handshake(transport: &StreamableHttp) {
    let client = json!({ "name": "test", "version": "1" });
    let hello = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client });
    let hello = JsonRpcMessage::request(0, "initialize", hello);
    let reply = soon(transport.clone().oneshot(hello)).await.unwrap();
    soon(reply.response()).await.unwrap();
    let initialized = JsonRpcMessage::notification("notifications/initialized", ());
    let _ = soon(transport.clone().oneshot(initialized)).await.unwrap();
}
