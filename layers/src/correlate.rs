//! Which request a response belongs to.

use crate::message::Batch;
use crate::options::WireId;
use crate::{JsonRpcMessage, JsonRpcResponse, RequestId};

/// Gives a response that came as the answer to the request `id` that very id.
///
/// The HTTP exchange says whose answer it is; the id in the body only repeats it, and servers get it wrong: the number
/// as a string, `1.0`, `null` for a request that they refused unread, `"server-error"`. The id that was on the wire is
/// kept in the extensions.
pub(crate) fn correlate(response: &mut JsonRpcResponse, id: &RequestId) {
    if adopt(response, id) {
        tracing::warn!(request.id = %id, "a response came under another id");
    }
}

/// The same for an error beside an error status, which servers often write without having read the request. Returns
/// whether it had another id.
pub(crate) fn adopt(response: &mut JsonRpcResponse, id: &RequestId) -> bool {
    let is_other = response.id() != Some(id);
    if is_other {
        let wire = response.set_id(id.clone());
        response.extensions_mut().insert(WireId(wire));
    }
    is_other
}

/// The same for the messages of a batch, which may answer other requests too: if one of its responses has the very
/// id, the others are not this request's. Whatever follows the response is dropped, as it would be on a stream.
///
/// Returns whether there is a response.
pub(crate) fn correlate_batch(batch: &mut Batch, id: &RequestId) -> bool {
    let before = batch.len();
    if batch.iter().any(|item| response(item) == Some(Some(id))) {
        batch.retain(|item| response(item).is_none_or(|found| found == Some(id)));
    }
    let answer = batch.iter().position(|item| response(item).is_some());
    if let Some(answer) = answer {
        batch.truncate(answer + 1);
    }
    if batch.len() < before {
        tracing::warn!(request.id = %id, dropped = before - batch.len(), "a batch held more than the answer");
    }
    if let Some(Ok(JsonRpcMessage::Response(answer))) = batch.last_mut().filter(|_| answer.is_some()) {
        correlate(answer, id);
    }
    answer.is_some()
}

/// The id of an element that is a response.
fn response<E>(item: &Result<JsonRpcMessage, E>) -> Option<Option<&RequestId>> {
    item.as_ref().ok()?.as_response().map(JsonRpcResponse::id)
}
