//! The MCP methods and the three tools.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::{Stream, StreamExt, stream};
use http::{Response, StatusCode};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::sleep;

use super::response::{self, Body, comment, event};

// Error codes of JSON-RPC 2.0.
pub(super) const PARSE_ERROR: i64 = -32700;
pub(super) const INVALID_REQUEST: i64 = -32600;
const METHOD_NOT_FOUND: i64 = -32601;
const INVALID_PARAMS: i64 = -32602;

const TICK: Duration = Duration::from_millis(100);
const KEEP_ALIVE: Duration = Duration::from_secs(15);
const LONGEST_COUNTDOWN: u64 = 1000;

/// The levels of log messages, least severe first.
const LEVELS: [&str; 8] = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];

/// What the server remembers between the requests of one client.
#[derive(Debug, Default)]
pub(super) struct Session {
    ended: watch::Sender<bool>,
    /// How many streams with event ids were opened.
    streams: AtomicU64,
    /// Index in [`LEVELS`] of the least severe messages the client wants.
    log_level: AtomicUsize,
}

impl Session {
    pub(super) fn end(&self) {
        self.ended.send_replace(true);
    }

    pub(super) fn has_ended(&self) -> bool {
        *self.ended.borrow()
    }

    /// Resolves once the session has ended.
    pub(super) fn ended(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut ended = self.ended.subscribe();
        async move {
            // The error means that the session itself is gone, which is an end too.
            let _ = ended.wait_for(|ended| *ended).await;
        }
    }
}

/// Answers one request. The answer is an HTTP success even where it holds an error: the transport has
/// delivered the request, it is the method that failed.
pub(super) fn answer(session: &Session, method: &str, id: &Value, params: &Value) -> Response<Body> {
    match method {
        "ping" => result(id, &json!({})),
        "logging/setLevel" => set_log_level(session, id, params),
        "tools/list" => result(id, &list_tools()),
        "tools/call" => call_tool(session, id, params),
        _ => error(id, METHOD_NOT_FOUND, &format!("Unknown method: {method}")),
    }
}

pub(super) fn result(id: &Value, result: &Value) -> Response<Body> {
    response::json(StatusCode::OK, &json!({"jsonrpc": "2.0", "id": id, "result": result}))
}

fn error(id: &Value, code: i64, message: &str) -> Response<Body> {
    response::json(
        StatusCode::OK,
        &json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}}),
    )
}

fn set_log_level(session: &Session, id: &Value, params: &Value) -> Response<Body> {
    match LEVELS.iter().position(|level| params["level"] == *level) {
        Some(level) => {
            session.log_level.store(level, Ordering::Relaxed);
            result(id, &json!({}))
        }
        None => error(id, INVALID_PARAMS, "Unknown log level"),
    }
}

/// What a client that listens gets to hear: one log message, then nothing but signs of life.
pub(super) fn listen(session: &Session) -> impl Stream<Item = String> + Send + use<> {
    let level = "info";
    let wanted = LEVELS[session.log_level.load(Ordering::Relaxed)..].contains(&level);
    let params = json!({"level": level, "logger": "example-server", "data": "hello from the server"});
    let hello = wanted.then(|| event(None, &notification("notifications/message", &params)));
    let comments = stream::repeat(()).then(|()| async {
        sleep(KEEP_ALIVE).await;
        comment("keep-alive")
    });
    stream::iter(hello).chain(comments)
}

fn list_tools() -> Value {
    json!({"tools": [
        {
            "name": "add",
            "description": "Adds two numbers",
            "inputSchema": {
                "type": "object",
                "properties": {"a": {"type": "number"}, "b": {"type": "number"}},
                "required": ["a", "b"],
            },
        },
        {
            "name": "countdown",
            "description": "Counts down to zero and reports progress on the way",
            "inputSchema": {
                "type": "object",
                "properties": {"from": {"type": "integer", "minimum": 0, "maximum": LONGEST_COUNTDOWN}},
                "required": ["from"],
            },
        },
        {
            "name": "fail",
            "description": "Always fails, to show how a tool reports an error",
            "inputSchema": {"type": "object", "additionalProperties": false},
        },
    ]})
}

/// Wrong arguments give a failed tool result, which a model can read and correct. A call of something that
/// is not there gives a JSON-RPC error.
fn call_tool(session: &Session, id: &Value, params: &Value) -> Response<Body> {
    let arguments = &params["arguments"];
    match params["name"].as_str() {
        Some("add") => match (arguments["a"].as_f64(), arguments["b"].as_f64()) {
            (Some(a), Some(b)) => result(id, &tool_output(&(a + b).to_string())),
            _ => result(id, &tool_failure("add needs the numbers a and b")),
        },
        Some("countdown") => match arguments["from"].as_u64() {
            Some(from @ ..=LONGEST_COUNTDOWN) => {
                let events = countdown(session, id, from, params["_meta"].get("progressToken"));
                response::events(events.take_until(session.ended()))
            }
            _ => {
                let reason = format!("countdown needs from, an integer from 0 to {LONGEST_COUNTDOWN}");
                result(id, &tool_failure(&reason))
            }
        },
        Some("fail") => result(id, &tool_failure("fail always fails")),
        Some(name) => error(id, INVALID_PARAMS, &format!("Unknown tool: {name}")),
        None => error(id, INVALID_PARAMS, "tools/call needs the name of a tool"),
    }
}

fn tool_output(text: &str) -> Value {
    json!({"content": [{"type": "text", "text": text}], "isError": false})
}

fn tool_failure(text: &str) -> Value {
    json!({"content": [{"type": "text", "text": text}], "isError": true})
}

/// A progress notification per tick, then the result. The stream is the work: if the client goes away,
/// hyper drops the stream and the counting stops.
fn countdown(
    session: &Session,
    id: &Value,
    from: u64,
    progress_token: Option<&Value>,
) -> impl Stream<Item = String> + Send + use<> {
    // Event ids must be unique in the whole session, so each starts with the number of its stream.
    let stream_number = session.streams.fetch_add(1, Ordering::Relaxed);
    let progress_token = progress_token.cloned();
    let ticks = stream::iter(1..=from).then(move |tick| {
        // Progress may only be reported to a client that gave a token to report it under. For another one
        // the stream still must not look dead.
        let text = match &progress_token {
            Some(token) => {
                let message = format!("{}...", from - tick + 1);
                let params =
                    json!({"progressToken": token, "progress": tick, "total": from, "message": message});
                let id = format!("{stream_number}-{tick}");
                event(Some(&id), &notification("notifications/progress", &params))
            }
            None => comment("counting"),
        };
        async move {
            sleep(TICK).await;
            text
        }
    });
    let response = json!({"jsonrpc": "2.0", "id": id, "result": tool_output("Lift-off!")});
    let last = event(Some(&format!("{stream_number}-{}", from + 1)), &response);
    ticks.chain(stream::iter([last]))
}

fn notification(method: &str, params: &Value) -> Value {
    json!({"jsonrpc": "2.0", "method": method, "params": params})
}
