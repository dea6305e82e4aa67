//! The id of a JSON-RPC request.

use std::fmt;
use std::sync::Arc;

use bytestring::ByteString;

use crate::RawJson;
use crate::raw_json::{string, write_string};

/// The id that ties a response to its request (JSON-RPC 2.0 §4), verbatim: `"1"` is not `1`.
///
/// ```
/// use mcp_streamable_http_layers::RequestId;
///
/// assert_ne!(RequestId::from(1), RequestId::from("1"));
/// assert_eq!(RequestId::from("a").to_string(), r#""a""#);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum RequestId {
    /// An integer.
    Number(i64),
    /// A string.
    String(Arc<str>),
    /// Any other number, as its text: a server's request may have one, and its answer echoes it. In a request of
    /// the caller's it is refused before anything is sent, since MCP allows strings and integers only.
    Other(RawJson),
}

impl RequestId {
    /// Reads an id out of the `text` that `raw` was read from. `None`: it is no id at all.
    pub(crate) fn read(text: &ByteString, raw: &str) -> Option<Self> {
        match raw.as_bytes().first()? {
            b'"' => string(text, raw).map(|id| Self::String(Arc::from(&*id))),
            b'-' | b'0'..=b'9' => Some(match raw.parse() {
                // JSON allows neither `+1` nor `01`, so "-0" is the only integer that would print otherwise.
                Ok(number) if raw != "-0" => Self::Number(number),
                _ => Self::Other(RawJson::slice(text, raw)),
            }),
            _ => None,
        }
    }

    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Number(number) => {
                // Cannot fail: a `Vec` takes whatever is written. Faster than by way of `fmt`.
                let _ = serde_json::to_writer(out, number);
            }
            Self::String(text) => write_string(out, text),
            Self::Other(raw) => out.extend_from_slice(raw.as_str().as_bytes()),
        }
    }
}

/// The id as JSON.
impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut json = Vec::new();
        self.write(&mut json);
        f.write_str(&String::from_utf8_lossy(&json))
    }
}

macro_rules! number {
    ($($integer:ty)*) => {$(
        impl From<$integer> for RequestId {
            fn from(number: $integer) -> Self {
                Self::Number(number.into())
            }
        }
    )*};
}

number!(i64 i32 u32);

impl From<&str> for RequestId {
    fn from(text: &str) -> Self {
        Self::String(text.into())
    }
}

impl From<String> for RequestId {
    fn from(text: String) -> Self {
        Self::String(text.into())
    }
}
