//! rmcp's clients, and waits that cannot hang.

use std::future::Future;
use std::time::Duration;

use mcp_streamable_http_rmcp::{IntoRmcp, TransportError};
use rmcp::RoleClient;
use rmcp::model::{CallToolRequestParams, ErrorData, ProtocolVersion};
use rmcp::service::{
    ClientInitializeError, ClientLifecycleMode, ClientServiceExt, RunningService, Service, ServiceError,
    ServiceExt,
};
use serde_json::{Value, json};

use crate::support::{Answer, Seen, Server, legacy};

pub(crate) const SESSION: &str = "s-1";
pub(crate) const VERSION: &str = "2025-11-25";
pub(crate) const MODERN: &str = "2026-07-28";

pub(crate) type Client<S = ()> = RunningService<RoleClient, S>;

/// What needs no clock to happen. Time stands still as long as any task has something to do, so this is no race.
pub(crate) async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(1), future).await.expect("it does not happen")
}

/// What happens after some time.
pub(crate) async fn in_time<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(600), future).await.expect("it does not happen")
}

/// Waits until no task has anything to do: only then time passes.
pub(crate) async fn settle() {
    tokio::time::sleep(Duration::from_millis(1)).await;
}

/// A client of the legacy era.
pub(crate) async fn connect(server: &Server) -> Client {
    connect_as((), server).await
}

pub(crate) async fn connect_as<S: Service<RoleClient>>(handler: S, server: &Server) -> Client<S> {
    soon(handler.serve(server.transport().into_rmcp())).await.unwrap()
}

/// A client of the modern era.
pub(crate) async fn connect_modern(server: &Server) -> Client {
    soon(discovering(server, discover())).await.unwrap()
}

pub(crate) async fn discovering(
    server: &Server,
    lifecycle: ClientLifecycleMode,
) -> Result<Client, ClientInitializeError> {
    ().serve_with_lifecycle(server.transport().into_rmcp(), lifecycle).await
}

pub(crate) fn discover() -> ClientLifecycleMode {
    ClientLifecycleMode::Discover { preferred_versions: vec![ProtocolVersion::V_2026_07_28] }
}

pub(crate) fn auto() -> ClientLifecycleMode {
    ClientLifecycleMode::Auto {
        preferred_versions: vec![ProtocolVersion::V_2026_07_28],
        legacy_version: Some(ProtocolVersion::V_2025_11_25),
    }
}

/// What a modern server answers to `server/discover`.
pub(crate) fn modern(seen: &Seen) -> Option<Answer> {
    (seen.what() == "server/discover").then(|| Answer::json(&discovered(seen)))
}

pub(crate) fn discovered(seen: &Seen) -> Value {
    seen.result(json!({
        "resultType": "complete",
        "supportedVersions": [MODERN],
        "capabilities": {},
        "ttlMs": 0,
        "cacheScope": "private",
    }))
}

/// A server that answers what starts a client of either era, and the end of a session. It does not offer to listen.
pub(crate) fn either() -> Server {
    Server::scripted(|seen| match seen.what() {
        "GET" => Some(Answer::status(405)),
        _ => modern(seen).or_else(|| legacy(seen)),
    })
}

/// The JSON-RPC error under the id of a request.
pub(crate) fn refusal(seen: &Seen, code: i64, data: Value) -> Value {
    json!({
        "jsonrpc": "2.0",
        "id": seen.message["id"],
        "error": { "code": code, "message": "no", "data": data },
    })
}

/// A result of `tools/call`.
pub(crate) fn said(text: &str) -> Value {
    json!({ "resultType": "complete", "content": [{ "type": "text", "text": text }] })
}

/// A call, on a task of its own.
pub(crate) fn call<S: Service<RoleClient>>(
    client: &Client<S>,
    tool: &'static str,
) -> tokio::task::JoinHandle<Result<String, ServiceError>> {
    let peer = client.peer().clone();
    tokio::spawn(async move {
        let result = peer.call_tool(CallToolRequestParams::new(tool)).await?;
        Ok(result.content[0].as_text().expect("no text").text.clone())
    })
}

/// What the call came to.
pub(crate) async fn came_to(
    call: tokio::task::JoinHandle<Result<String, ServiceError>>,
) -> Result<String, ServiceError> {
    soon(call).await.unwrap()
}

/// The transport's own error that a call failed with.
pub(crate) fn cause(error: &ServiceError) -> &mcp_streamable_http::Error {
    TransportError::of_call(error).unwrap_or_else(|| panic!("{error:?}")).error()
}

/// The server's error that a call failed with.
pub(crate) fn server_error(error: ServiceError) -> ErrorData {
    match error {
        ServiceError::McpError(error) => error,
        other => panic!("{other:?}"),
    }
}

/// A notification that belongs to nothing.
pub(crate) fn log() -> Value {
    json!({ "jsonrpc": "2.0", "method": "notifications/message", "params": { "level": "info", "data": 1 } })
}
