//! The messages of both crates.

use mcp_streamable_http::channel::{Incoming, Origin};
use mcp_streamable_http::error::BoxError;
use mcp_streamable_http::{JsonRpcError, JsonRpcMessage, JsonRpcResponse, RequestId};
use rmcp::model::{
    ClientJsonRpcMessage, ErrorCode, ErrorData, GetExtensions, NumberOrString, ServerJsonRpcMessage,
};
use rmcp::service::InboundStreamOrigin;

/// A message of the server's that rmcp has no type for.
pub(crate) struct Unreadable {
    /// Of a request, which wants an answer all the same.
    pub(crate) id: Option<RequestId>,
    pub(crate) reason: serde_json::Error,
}

pub(crate) fn outbound(message: &ClientJsonRpcMessage) -> Result<JsonRpcMessage, BoxError> {
    Ok(JsonRpcMessage::decode(serde_json::to_string(message)?)?)
}

pub(crate) fn inbound(incoming: Incoming) -> Result<ServerJsonRpcMessage, Unreadable> {
    let Incoming { message, origin, .. } = incoming;
    if let JsonRpcMessage::Response(response) = message {
        return Ok(answer(response, &origin));
    }
    let unreadable = |reason| Unreadable { id: message.id().cloned(), reason };
    let mut inbound: ServerJsonRpcMessage = serde_json::from_str(&message.to_string()).map_err(unreadable)?;
    if let ServerJsonRpcMessage::Request(request) = &mut inbound {
        // MCP 2026-07-28 §Server Requests: rmcp refuses those that came with no request of its own.
        request.request.extensions_mut().insert(match &origin {
            Origin::Request(id) => InboundStreamOrigin::OutboundRequest(id_of(id)),
            Origin::Listening => InboundStreamOrigin::Unassociated,
        });
    }
    Ok(inbound)
}

fn answer(response: JsonRpcResponse, origin: &Origin) -> ServerJsonRpcMessage {
    // rmcp finds no request for an error without an id, so that one would never end.
    let id = match origin {
        Origin::Request(id) => Some(id_of(id)),
        Origin::Listening => response.id().map(id_of),
    };
    match (response.into_outcome(), id) {
        (Ok(result), Some(id)) => match serde_json::from_str(result.as_str()) {
            Ok(result) => ServerJsonRpcMessage::response(result, id),
            Err(reason) => {
                let message = format!("the result is not what rmcp can read: {reason}");
                ServerJsonRpcMessage::error(ErrorData::parse_error(message, None), Some(id))
            }
        },
        (Ok(_), None) => {
            ServerJsonRpcMessage::error(ErrorData::invalid_request("a result without an id", None), None)
        }
        (Err(error), id) => ServerJsonRpcMessage::error(error_data(&error), id),
    }
}

pub(crate) fn error_data(error: &JsonRpcError) -> ErrorData {
    let code = i32::try_from(error.code()).map_or(ErrorCode::INTERNAL_ERROR, ErrorCode);
    let data = error.data().and_then(|data| serde_json::from_str(data.as_str()).ok());
    ErrorData::new(code, error.message().to_owned(), data)
}

pub(crate) fn id_of(id: &RequestId) -> NumberOrString {
    match id {
        RequestId::Number(number) => NumberOrString::Number(*number),
        RequestId::String(text) => NumberOrString::String(text.clone()),
        RequestId::Other(raw) => NumberOrString::String(raw.as_str().into()),
    }
}
