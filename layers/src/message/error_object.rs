//! The JSON-RPC error object.

use std::fmt;

use bytestring::ByteString;

use crate::RawJson;
use crate::raw_json::{members, string, write_string};

/// Why a request failed, in the words of who answered it (JSON-RPC 2.0 §5.1).
///
/// ```
/// use mcp_streamable_http_layers::JsonRpcError;
/// use serde_json::json;
///
/// let error = JsonRpcError::new(-32602, "Unknown tool: x").with_data(json!({ "tool": "x" }));
/// assert_eq!(error.to_string(), "Unknown tool: x (JSON-RPC error -32602)");
/// assert_eq!(error.as_raw().as_str(), r#"{"code":-32602,"message":"Unknown tool: x","data":{"tool":"x"}}"#);
/// ```
#[derive(Clone, PartialEq)]
pub struct JsonRpcError {
    code: i64,
    message: ByteString,
    data: Option<RawJson>,
    /// As it travels: members that JSON-RPC does not define stay.
    raw: RawJson,
}

impl JsonRpcError {
    /// -32700: what arrived was not JSON.
    pub const PARSE_ERROR: i64 = -32700;
    /// -32600: what was sent was not a valid request.
    pub const INVALID_REQUEST: i64 = -32600;
    /// -32601: the method does not exist.
    pub const METHOD_NOT_FOUND: i64 = -32601;
    /// -32602: the parameters were wrong.
    pub const INVALID_PARAMS: i64 = -32602;
    /// -32603: the receiver failed.
    pub const INTERNAL_ERROR: i64 = -32603;
    /// -32000: the connection ended before the answer; the first of the codes that JSON-RPC leaves to servers.
    pub const CONNECTION_CLOSED: i64 = -32000;

    /// An error without data.
    pub fn new(code: i64, message: impl Into<String>) -> Self {
        Self::assemble(code, message.into().into(), None)
    }

    /// The same error with `data`.
    #[must_use]
    pub fn with_data(self, data: impl Into<RawJson>) -> Self {
        Self::assemble(self.code, self.message, Some(data.into()))
    }

    fn assemble(code: i64, message: ByteString, data: Option<RawJson>) -> Self {
        let mut json = format!(r#"{{"code":{code},"message":"#).into_bytes();
        write_string(&mut json, &message);
        if let Some(data) = &data {
            json.extend_from_slice(br#","data":"#);
            json.extend_from_slice(data.as_str().as_bytes());
        }
        json.push(b'}');
        // Always UTF-8: it was put together from nothing else.
        let raw = RawJson::from_text(ByteString::try_from(json).unwrap_or_default());
        Self { code, message, data, raw }
    }

    /// Reads an error object out of `text`. `None`: it lacks a code or a message, which JSON-RPC 2.0 §5.1 requires.
    pub(crate) fn read(text: &ByteString, raw: &str) -> Option<Self> {
        let (mut code, mut message, mut data) = (None, None, None);
        members(raw, |member, value| match member {
            "code" => code = integer(value),
            "message" => message = string(text, value),
            "data" => data = Some(RawJson::slice(text, value)),
            _ => {}
        })
        .ok()?;
        Some(Self { code: code?, message: message?, data, raw: RawJson::slice(text, raw) })
    }

    /// What kind of failure it is.
    pub fn code(&self) -> i64 {
        self.code
    }

    /// What happened, in a sentence.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// More about it, if there is more.
    pub fn data(&self) -> Option<&RawJson> {
        self.data.as_ref()
    }

    /// The whole error object as it travels.
    pub fn as_raw(&self) -> &RawJson {
        &self.raw
    }
}

/// Some languages have one kind of number only, and write `-32602.0`.
fn integer(json: &str) -> Option<i64> {
    // Beyond 2⁵³ a float does not tell one integer from the next.
    let whole = |number: &f64| number.fract() == 0.0 && number.abs() < 9_007_199_254_740_992.0;
    json.parse().ok().or_else(|| json.parse().ok().filter(whole).map(|number| number as i64))
}

impl fmt::Debug for JsonRpcError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.raw.fmt(f)
    }
}

impl fmt::Display for JsonRpcError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (JSON-RPC error {})", self.message, self.code)
    }
}

impl std::error::Error for JsonRpcError {}
