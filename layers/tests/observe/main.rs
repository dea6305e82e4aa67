//! What is told of calls to those who observe them: metrics, spans, and the trace in the message.

#![allow(clippy::unwrap_used)]

#[path = "../common/mod.rs"]
mod common;
#[cfg(feature = "metrics")]
mod durations;
mod spans;
mod traces;

use std::time::Duration;

use mcp_streamable_http_layers::error::{Cancelled, NotSent, SessionExpired, Superseded, TimedOut};
use mcp_streamable_http_layers::{Error, JsonRpcMessage, Reply};
use serde_json::json;
use tower::{Service, service_fn};

/// Calls a tool, with something secret.
fn tool(id: i64) -> JsonRpcMessage {
    JsonRpcMessage::request(id, "tools/call", json!({ "name": "add", "arguments": { "key": "s3cret" } }))
}

fn prompt(id: i64) -> JsonRpcMessage {
    JsonRpcMessage::request(id, "prompts/get", json!({ "name": "greet" }))
}

const FAILURE: &str = r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"s3cret"}}"#;

/// A service that fails each call with `error`.
fn failing(
    error: impl Fn() -> Error + Clone + Send + 'static,
) -> impl Service<JsonRpcMessage, Response = Reply, Error = Error, Future: Send> + Clone {
    service_fn(move |_: JsonRpcMessage| std::future::ready(Err(error())))
}

type Make = fn() -> Error;

/// Errors, and what they are called.
const KINDS: [(&str, Make); 6] = [
    ("timeout", || Error::new(TimedOut::new("it", "knob", Duration::from_secs(1)))),
    ("cancelled", || Error::new(Cancelled)),
    ("superseded", || Error::new(Superseded)),
    ("session_expired", || Error::new(SessionExpired::new(None))),
    ("connect", || Error::new(NotSent("refused".into()))),
    ("_OTHER", || Error::new("something else")),
];
