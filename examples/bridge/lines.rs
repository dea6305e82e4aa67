//! Messages as lines.

use std::fmt;
use std::io;

use bytes::{Bytes, BytesMut};
use mcp_streamable_http::{JsonRpcMessage, RequestId};
use serde::Deserializer as _;
use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde_json::Value;
use tokio::io::{AsyncBufRead, AsyncBufReadExt};

/// Reads lines up to a length. What a longer one has beyond it is dropped, so it is no message any more.
pub(crate) struct Lines<R> {
    input: R,
    max_bytes: usize,
}

impl<R: AsyncBufRead + Unpin> Lines<R> {
    pub(crate) fn new(input: R, max_bytes: usize) -> Self {
        Self { input, max_bytes }
    }

    /// The next line, without its end. `None`: there are no more.
    pub(crate) async fn next(&mut self) -> io::Result<Option<Bytes>> {
        let mut line = BytesMut::new();
        let mut is_empty = true;
        loop {
            let chunk = self.input.fill_buf().await?;
            if chunk.is_empty() {
                return Ok((!is_empty).then(|| line.freeze()));
            }
            is_empty = false;
            let end = chunk.iter().position(|byte| *byte == b'\n');
            let text = &chunk[..end.unwrap_or(chunk.len())];
            line.extend_from_slice(&text[..text.len().min(self.max_bytes - line.len())]);
            let used = end.map_or(chunk.len(), |end| end + 1);
            self.input.consume(used);
            if end.is_some() {
                return Ok(Some(line.freeze()));
            }
        }
    }
}

/// A message on a line of its own. The transport leaves payloads as they are, and a server may have broken one into lines;
/// within a JSON string a line break is always escaped, so it can be replaced wherever it stands.
pub(crate) fn line_of(message: &JsonRpcMessage) -> Vec<u8> {
    let mut line = message.encode().to_vec();
    for byte in &mut line {
        if matches!(byte, b'\n' | b'\r') {
            *byte = b' ';
        }
    }
    line.push(b'\n');
    line
}

/// The id of the request that a line was meant to be, as far as it can be read. A response that cannot be sent has one
/// too, but that is the server's.
pub(crate) fn id_of(line: &[u8]) -> Option<RequestId> {
    let mut found = Found::default();
    // The error has been told already; what was found before it counts.
    let _ = serde_json::Deserializer::from_slice(line).deserialize_map(&mut found);
    found.id.filter(|_| !found.is_response)
}

#[derive(Default)]
struct Found {
    id: Option<RequestId>,
    is_response: bool,
}

impl<'de> Visitor<'de> for &mut Found {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON-RPC message")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(name) = map.next_key::<String>()? {
            match name.as_str() {
                "id" => {
                    self.id = match map.next_value()? {
                        Value::String(id) => Some(id.into()),
                        Value::Number(id) => id.as_i64().map(RequestId::from),
                        _ => None,
                    }
                }
                "result" | "error" => {
                    self.is_response = true;
                    map.next_value::<IgnoredAny>()?;
                }
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(())
    }
}
