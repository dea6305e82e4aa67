//! What the server answers with. All but the ids is made beforehand.

use std::fmt::Write;

use bytes::{BufMut, Bytes, BytesMut};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::work::{Depth, Seen, Shape};

/// How many notifications the long stream has.
pub(crate) const EVENTS: usize = 1_000;
/// The size of each, with the field's name and the blank line.
const EVENT_BYTES: usize = 150;
const CALL_BYTES: usize = 200;
const LIST_BYTES: usize = 33_000;
const LARGE_BYTES: usize = 1 << 20;

const BEFORE_ID: &str = r#"{"jsonrpc":"2.0","id":"#;
const BEFORE_RESULT: &str = r#","result":"#;
const BEFORE_TOKEN: &str =
    r#"data: {"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"#;

/// The parts of a request that the answer depends on.
#[derive(Debug, Deserialize)]
pub(crate) struct Asked<'a> {
    #[serde(borrow)]
    pub(crate) id: Option<&'a RawValue>,
    pub(crate) method: &'a str,
    #[serde(borrow)]
    pub(crate) params: Option<AskedOf<'a>>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct AskedOf<'a> {
    pub(crate) name: Option<&'a str>,
    #[serde(borrow, rename = "_meta")]
    pub(crate) meta: Option<AskedWith<'a>>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct AskedWith<'a> {
    #[serde(borrow, rename = "progressToken")]
    pub(crate) progress_token: Option<&'a RawValue>,
}

/// The results, as JSON text.
#[derive(Debug)]
pub(crate) struct Answers {
    pub(crate) initialize: String,
    call: String,
    list: String,
    large: String,
    tools: usize,
}

impl Answers {
    pub(crate) fn new() -> Self {
        let (list, tools) = list();
        Self {
            initialize: json!({
                "protocolVersion": "2025-11-25",
                "capabilities": { "tools": {} },
                "serverInfo": { "name": "peers", "version": "1.0.0" },
            })
            .to_string(),
            call: tool_result(&lines(CALL_BYTES - frame_bytes())),
            list,
            large: tool_result(&lines(LARGE_BYTES)),
            tools,
        }
    }

    fn result(&self, shape: Shape) -> &str {
        match shape {
            Shape::Call | Shape::OneEvent | Shape::Events => &self.call,
            Shape::List => &self.list,
            Shape::Large => &self.large,
        }
    }

    /// The answer to a request of this shape, and where it is cut into the pieces that the server sends.
    pub(crate) fn body(&self, shape: Shape, id: &RawValue, token: Option<&RawValue>) -> (Bytes, usize) {
        let result = self.result(shape);
        let mut body = BytesMut::with_capacity(result.len() + 128);
        let piece = match shape {
            Shape::Events => {
                body.reserve(EVENTS * EVENT_BYTES);
                let token = token.map_or("0", RawValue::get);
                for number in 1..=EVENTS {
                    event(&mut body, token, number);
                }
                body.put_slice(b"data: ");
                EVENT_BYTES
            }
            Shape::OneEvent => {
                body.put_slice(b"data: ");
                usize::MAX
            }
            Shape::Call | Shape::List | Shape::Large => usize::MAX,
        };
        response(&mut body, id.get(), result);
        if matches!(shape, Shape::Events | Shape::OneEvent) {
            body.put_slice(b"\n\n");
        }
        (body.freeze(), piece)
    }

    /// What a client sees of such an answer, to a request whose id has one digit.
    pub(crate) fn seen(&self, shape: Shape, depth: Depth) -> Seen {
        let notifications = if shape == Shape::Events { EVENTS } else { 0 };
        let result = self.result(shape);
        match depth {
            Depth::Body => {
                let events =
                    if matches!(shape, Shape::Events | Shape::OneEvent) { "data: \n\n".len() } else { 0 };
                let response = BEFORE_ID.len() + 1 + BEFORE_RESULT.len() + result.len() + 1;
                Seen { notifications: 0, size: notifications * EVENT_BYTES + events + response }
            }
            Depth::Message => Seen { notifications, size: result.len() },
            Depth::Types if shape == Shape::List => Seen { notifications, size: self.tools },
            Depth::Types => {
                let result: Value = serde_json::from_str(result).unwrap_or_default();
                Seen { notifications, size: result["content"][0]["text"].as_str().unwrap_or_default().len() }
            }
        }
    }

    /// One of the events of the long stream, without its frame.
    pub(crate) fn notification(number: usize) -> Bytes {
        let mut body = BytesMut::new();
        event(&mut body, "1", number);
        body.freeze().slice("data: ".len()..EVENT_BYTES - "\n\n".len())
    }
}

pub(crate) fn response(body: &mut BytesMut, id: &str, result: &str) {
    for part in [BEFORE_ID, id, BEFORE_RESULT, result, "}"] {
        body.put_slice(part.as_bytes());
    }
}

/// A progress notification, filled up to its size.
fn event(body: &mut BytesMut, token: &str, number: usize) {
    let end = body.len() + EVENT_BYTES - "\"}}\n\n".len();
    body.put_slice(BEFORE_TOKEN.as_bytes());
    // Writing into memory does not fail.
    let _ = write!(body, r#"{token},"progress":{number},"total":{EVENTS},"message":"rows "#);
    body.resize(end.max(body.len()), b'.');
    body.put_slice(b"\"}}\n\n");
}

fn tool_result(text: &str) -> String {
    json!({ "content": [{ "type": "text", "text": text }], "isError": false }).to_string()
}

/// What a response with an empty text takes up.
fn frame_bytes() -> usize {
    BEFORE_ID.len() + 1 + BEFORE_RESULT.len() + tool_result("").len() + 1
}

/// Text as tools return it: lines, each of which has an escape in JSON.
fn lines(bytes: usize) -> String {
    let mut text = "The quick brown fox jumps over the lazy dog, and back again.\n".repeat(bytes / 61 + 1);
    text.truncate(bytes);
    text
}

fn list() -> (String, usize) {
    let mut tools = Vec::new();
    let mut size = 0;
    while size < LIST_BYTES {
        let number = tools.len() + 1;
        let tool = json!({
            "name": format!("query_table_{number}"),
            "title": format!("Query table {number}"),
            "description": "Runs a query against one table and returns the rows that match, as lines of text. \
                            Use it for questions about single records; for sums over many there are other tools.",
            "inputSchema": {
                "type": "object",
                "properties": {
                    "where": { "type": "string", "description": "The condition, in SQL." },
                    "columns": { "type": "array", "items": { "type": "string" }, "description": "What to return." },
                    "limit": { "type": "integer", "minimum": 1, "maximum": 1000, "default": 100 },
                    "order": { "type": "string", "enum": ["ascending", "descending"] },
                },
                "required": ["where"],
            },
            "annotations": { "readOnlyHint": true, "openWorldHint": false },
        });
        size += tool.to_string().len() + 1;
        tools.push(tool);
    }
    let count = tools.len();
    (json!({ "tools": tools }).to_string(), count)
}

#[cfg(test)]
mod tests {
    use serde_json::Value;
    use serde_json::value::RawValue;

    use super::{Answers, CALL_BYTES, EVENT_BYTES, EVENTS, LIST_BYTES};
    use crate::work::{Depth, Shape};

    #[test]
    fn answers_have_the_size_that_the_document_tells() {
        let answers = Answers::new();
        let id = RawValue::from_string("7".to_owned()).unwrap();
        let body = |shape| answers.body(shape, &id, None).0;
        assert!(body(Shape::Call).len().abs_diff(CALL_BYTES) < 10);
        assert!(body(Shape::List).len().abs_diff(LIST_BYTES) < 1_000);
        let events = body(Shape::Events);
        assert_eq!(events.windows(2).filter(|two| two == b"\n\n").count(), EVENTS + 1);
        assert!(events[..EVENTS * EVENT_BYTES].ends_with(b"\n\n"));
        for shape in [Shape::Call, Shape::OneEvent, Shape::Events, Shape::List, Shape::Large] {
            assert_eq!(answers.seen(shape, Depth::Body).size, body(shape).len());
        }
    }

    #[test]
    fn a_notification_is_json_of_its_own() {
        let notification: Value = serde_json::from_slice(&Answers::notification(1_000)).unwrap();
        assert_eq!(notification["params"]["progress"], 1_000);
    }
}
