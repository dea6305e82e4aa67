//! Which request a response belongs to.

use crate::options::WireId;
use crate::{JsonRpcMessage, JsonRpcResponse, RequestId};

/// Gives a response that came as the answer to the request `id` that very id.
///
/// The HTTP exchange says whose answer it is; the id in the body only repeats it, and servers get it wrong: the number
/// as a string, `1.0`, `null` for a request that they refused unread, `"server-error"`. The id that was on the wire is
/// kept in the extensions.
pub(crate) fn correlate(response: &mut JsonRpcResponse, id: &RequestId) {
    if response.id() != Some(id) {
        let wire = response.set_id(id.clone());
        tracing::warn!(request.id = %id, wire.id = wire.as_ref().map(tracing::field::display), "response under another id");
        response.extensions_mut().insert(WireId(wire));
    }
}

/// The same for the messages of a batch, which may answer other requests too: if one of its responses has the very
/// id, the others are not this request's. Whatever follows the response is dropped, as it would be on a stream.
///
/// Returns whether there is a response.
pub(crate) fn correlate_batch(messages: &mut Vec<JsonRpcMessage>, id: &RequestId) -> bool {
    let exact = messages.iter().any(|message| message.as_response().is_some() && message.id() == Some(id));
    messages.retain(|message| !exact || message.as_response().is_none() || message.id() == Some(id));
    let Some(answer) = messages.iter().position(|message| message.as_response().is_some()) else {
        return false;
    };
    messages.truncate(answer + 1);
    if let Some(JsonRpcMessage::Response(response)) = messages.last_mut() {
        correlate(response, id);
    }
    true
}
