//! The names of the headers that the transport sends and reads.

use bytes::BytesMut;
use http::{HeaderMap, HeaderName, HeaderValue, header};

/// `Mcp-Session-Id` (MCP 2025-11-25 §Session Management).
pub const MCP_SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");
/// `MCP-Protocol-Version` (MCP 2025-06-18 and later).
pub const MCP_PROTOCOL_VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
/// `Mcp-Method` (MCP 2026-07-28 §Standard Request Headers).
pub const MCP_METHOD: HeaderName = HeaderName::from_static("mcp-method");
/// `Mcp-Name` (MCP 2026-07-28 §Standard Request Headers).
pub const MCP_NAME: HeaderName = HeaderName::from_static("mcp-name");
/// `Last-Event-ID` (WHATWG HTML §9.2.4).
pub const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// The value of a header of a request. It has few headers, among which a search by comparison is faster than one by hash.
pub(crate) fn value_of<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Option<&'h HeaderValue> {
    const FEW: usize = 8;
    if headers.len() > FEW {
        return headers.get(name);
    }
    headers.iter().find_map(|(found, value)| (found == name).then_some(value))
}

/// Whether a caller may not set the header: the transport's state depends on it, or it belongs to one connection or
/// to the framing of the message (RFC 9110 §7.6.1, RFC 9112 §6).
pub(crate) fn is_reserved(name: &HeaderName) -> bool {
    *name == MCP_SESSION_ID
        || *name == LAST_EVENT_ID
        || [
            header::CONNECTION,
            header::CONTENT_LENGTH,
            header::TE,
            header::TRAILER,
            header::TRANSFER_ENCODING,
            header::UPGRADE,
        ]
        .contains(name)
        || ["keep-alive", "proxy-connection"].contains(&name.as_str())
}

/// Whether the header says what the body of a POST says too.
pub(crate) fn is_mirrored(name: &HeaderName) -> bool {
    *name == MCP_METHOD || *name == MCP_NAME || name.as_str().starts_with("mcp-param-")
}

/// Keeps values that the caller set, tokens perhaps, out of every `Debug` output of the map.
pub(crate) fn mark_sensitive(headers: &mut HeaderMap) {
    headers.values_mut().for_each(|value| value.set_sensitive(true));
}

/// The same headers, as small as they can be, and with nothing that is shared.
pub(crate) fn detached(headers: &HeaderMap) -> HeaderMap {
    let mut values = BytesMut::with_capacity(headers.values().map(HeaderValue::len).sum());
    // By names: a map has no bound on the values of one, but panics if it is to have room for too many names.
    let mut detached = HeaderMap::with_capacity(headers.keys_len());
    for (name, value) in headers {
        values.extend_from_slice(value.as_bytes());
        if let Ok(mut copy) = HeaderValue::from_maybe_shared(values.split().freeze()) {
            copy.set_sensitive(value.is_sensitive());
            detached.append(name, copy);
        }
    }
    detached
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn detached_headers_are_the_same_however_many_there_are() {
        let mut headers = HeaderMap::new();
        headers.insert("a", HeaderValue::from_static("1"));
        for _ in 0..40_000 {
            headers.append(header::SET_COOKIE, HeaderValue::from_static("b=c"));
        }
        mark_sensitive(&mut headers);
        let detached = detached(&headers);
        assert_eq!(detached, headers);
        assert!(detached.values().all(HeaderValue::is_sensitive));
    }
}
