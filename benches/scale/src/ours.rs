//! The transport, and the calls on it that every measurement begins with.

use futures_util::stream::TryStreamExt;
use http::Uri;
use mcp_streamable_http::{Client, JsonRpcMessage, JsonRpcResponse, StreamableHttp};
use serde_json::json;
use tower::{Service, ServiceExt};

use crate::BoxError;
use crate::server::Protocol;

/// The transport over its own client, with default options but for the version of HTTP.
pub(crate) fn transport(uri: Uri, protocol: Protocol) -> Result<StreamableHttp, BoxError> {
    let client = match protocol {
        Protocol::Http1 => Client::new()?,
        Protocol::Http2 => Client::builder().http2_prior_knowledge().build()?,
    };
    Ok(StreamableHttp::with_client(uri, client).build()?)
}

/// Starts a session of the legacy era.
pub(crate) async fn initialize(transport: &mut StreamableHttp) -> Result<(), BoxError> {
    let initialize =
        JsonRpcMessage::request("first", "initialize", json!({ "protocolVersion": "2025-11-25" }));
    call(transport, initialize).await?;
    let initialized = JsonRpcMessage::notification("notifications/initialized", ());
    let reply = transport.ready().await?.call(initialized).await?;
    Ok(reply.try_for_each(|_| std::future::ready(Ok(()))).await?)
}

pub(crate) async fn call(
    transport: &mut StreamableHttp,
    message: JsonRpcMessage,
) -> Result<JsonRpcResponse, BoxError> {
    let response = transport.ready().await?.call(message).await?.response().await?;
    response.outcome().map_err(Clone::clone)?;
    Ok(response)
}
