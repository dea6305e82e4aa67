//! Between messages and the JSON that they travel as.

use std::fmt;

use bytes::Bytes;
use bytestring::ByteString;
use http::Extensions;
use serde::de::{Deserializer, Error as _, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::{JsonRpcError, JsonRpcMessage, JsonRpcNotification, JsonRpcRequest, JsonRpcResponse, RequestId};
use crate::RawJson;
use crate::error::Undecodable;
use crate::raw_json::{members, string, write_string};

/// What a JSON text from a server holds.
#[derive(Debug)]
pub(crate) enum Decoded {
    Message(JsonRpcMessage),
    /// A batch of revision 2025-03-26, in order.
    Batch(Batch),
    /// An object with none of `id`, `method`, `result` and `error`, or a notification with an odd id: nothing that
    /// anybody waits for.
    Nothing,
}

/// The messages of a batch, and what in it is none.
pub(crate) type Batch = Vec<Result<JsonRpcMessage, Undecodable>>;

impl Decoded {
    /// Reads the JSON text of an SSE event or of a body. A batch of more than `max_batch` messages is refused: a short
    /// text can hold a great many.
    pub(crate) fn read(text: &Bytes, max_batch: usize) -> Result<Self, Undecodable> {
        // RFC 8259 §8.1: a byte order mark is not allowed, and may be ignored.
        let json =
            text.strip_prefix(b"\xef\xbb\xbf").map_or_else(|| text.clone(), |json| text.slice_ref(json));
        // WHATWG HTML §9.2.6 decodes a stream with replacement characters; a JSON-RPC message so changed would be
        // delivered as if the server had sent it, so it is an error here.
        let json = match ByteString::try_from(json) {
            Ok(json) => json,
            Err(error) => return Err(Undecodable::new("it is not UTF-8", text).because(error)),
        };
        if json.trim_ascii_start().starts_with('[') { batch(&json, max_batch) } else { message(&json, &json) }
    }
}

pub(super) fn decode_one(text: Bytes) -> Result<JsonRpcMessage, Undecodable> {
    match Decoded::read(&text, 1) {
        Ok(Decoded::Message(message)) => Ok(message),
        Ok(Decoded::Batch(_)) => Err(Undecodable::new("it is a batch, not one message", &text)),
        Ok(Decoded::Nothing) => Err(Undecodable::new("it is no JSON-RPC message", &text)),
        Err(error) => Err(error),
    }
}

fn batch(text: &ByteString, max: usize) -> Result<Decoded, Undecodable> {
    let mut json = serde_json::Deserializer::from_str(text);
    let messages = json.deserialize_seq(Elements { text, max }).and_then(|batch| json.end().map(|()| batch));
    messages
        .map(Decoded::Batch)
        .map_err(|error| Undecodable::new("it is no batch that can be read", text.as_bytes()).because(error))
}

/// Reads the elements of a batch one by one: a list of all of them would take many times their text.
struct Elements<'t> {
    text: &'t ByteString,
    max: usize,
}

impl<'de> Visitor<'de> for Elements<'_> {
    type Value = Batch;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON array")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Batch, A::Error> {
        let mut batch = Vec::new();
        while let Some(element) = elements.next_element::<&RawValue>()? {
            match message(self.text, element.get()) {
                Ok(Decoded::Message(message)) => batch.push(Ok(message)),
                Ok(_) => {}
                Err(error) => batch.push(Err(error)),
            }
            if batch.len() > self.max {
                let max = self.max;
                return Err(A::Error::custom(format_args!(
                    "more than {max} messages (the limit is `max_batch_messages`)"
                )));
            }
        }
        Ok(batch)
    }
}

/// Reads the message that `json`, a part of `text`, is.
fn message(text: &ByteString, json: &str) -> Result<Decoded, Undecodable> {
    let wrong = |reason| Undecodable::new(reason, json.as_bytes());
    if !json.trim_ascii_start().starts_with('{') {
        // serde_json would say what it is instead, and quote the whole of a string.
        return Err(wrong("it is no JSON object"));
    }
    let (mut version, mut id, mut method, mut params, mut result, mut error) = Default::default();
    members(json, |member, value| {
        let slot = match member {
            "jsonrpc" => &mut version,
            "id" => &mut id,
            "method" => &mut method,
            "params" => &mut params,
            "result" => &mut result,
            "error" => &mut error,
            _ => return,
        };
        *slot = Some(value);
    })
    .map_err(|error| wrong("it is not a valid JSON object").because(error))?;

    if id.is_none() && method.is_none() && result.is_none() && error.is_none() {
        return Ok(Decoded::Nothing);
    }
    if version.is_none_or(|version: &str| version != r#""2.0""#) {
        return Err(wrong("its member \"jsonrpc\" is not \"2.0\""));
    }
    Ok(Decoded::Message(if let Some(method) = method {
        let method = string(text, method).ok_or_else(|| wrong("its method is no string"))?;
        let params = params.map(|raw| RawJson::slice(text, raw));
        // Some servers write `null` for none. Any other odd id: it wants an answer that cannot be given, but it is not
        // the answer that anybody waits for.
        match id.filter(|id| *id != "null").map(|id| RequestId::read(text, id)) {
            None => JsonRpcMessage::Notification(JsonRpcNotification {
                method,
                params,
                extensions: Extensions::new(),
            }),
            Some(None) => return Ok(Decoded::Nothing),
            Some(Some(id)) => JsonRpcMessage::Request(JsonRpcRequest::of(id, method, params)),
        }
    } else {
        // Some servers write both members and set the unused one to null.
        let outcome = match (result, error.filter(|error| *error != "null")) {
            (_, Some(error)) => Err(JsonRpcError::read(text, error)
                .ok_or_else(|| wrong("its error is no object with a code and a message"))?),
            (Some(result), None) => Ok(RawJson::slice(text, result)),
            (None, None) => return Err(wrong("it has neither a method nor a result nor an error")),
        };
        let id = id
            .filter(|id| *id != "null")
            .map(|id| RequestId::read(text, id).ok_or_else(|| wrong("its id is neither string nor number")));
        let id = id.transpose()?;
        JsonRpcMessage::Response(JsonRpcResponse::new(id, outcome))
    }))
}

pub(super) fn encode(message: &JsonRpcMessage) -> Bytes {
    /// Enough for the member names, an id and a method's name.
    const ENVELOPE: usize = 128;
    let payload = match message {
        JsonRpcMessage::Response(response) => Some(match response.outcome() {
            Ok(result) => ("result", result),
            Err(error) => ("error", error.as_raw()),
        }),
        _ => message.params().map(|params| ("params", params)),
    };
    let mut out = Vec::with_capacity(ENVELOPE + payload.map_or(0, |(_, raw)| raw.as_str().len()));
    out.extend_from_slice(br#"{"jsonrpc":"2.0""#);
    match (message.id(), message) {
        (Some(id), _) => {
            out.extend_from_slice(br#","id":"#);
            id.write(&mut out);
        }
        // JSON-RPC 2.0 §5: a response always has the member.
        (None, JsonRpcMessage::Response(_)) => out.extend_from_slice(br#","id":null"#),
        (None, _) => {}
    }
    if let Some(method) = message.method() {
        out.extend_from_slice(br#","method":"#);
        write_string(&mut out, method);
    }
    if let Some((member, raw)) = payload {
        out.extend_from_slice(b",\"");
        out.extend_from_slice(member.as_bytes());
        out.extend_from_slice(b"\":");
        out.extend_from_slice(raw.as_str().as_bytes());
    }
    out.push(b'}');
    Bytes::from(out)
}
