//! Hand a trace on to the server, in the message itself.
//!
//! # Example
//!
//! ```
//! use mcp_streamable_http_layers::error::Error;
//! use mcp_streamable_http_layers::trace_context::TraceContext;
//! use mcp_streamable_http_layers::{Events, Expects, JsonRpcMessage, Reply, TraceContextLayer};
//! use serde_json::json;
//! use tower::{ServiceBuilder, ServiceExt, service_fn};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let server = service_fn(|message: JsonRpcMessage| async move {
//!     assert_eq!(
//!         message.params().map(|params| params.as_str()),
//!         Some(r#"{"_meta":{"traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"},"name":"add"}"#)
//!     );
//!     Ok::<_, Error>(Reply::new(Expects::Response(1.into()), Events::from(JsonRpcMessage::response(1, json!({})))))
//! });
//! // From OpenTelemetry's current context, say.
//! let provider = || TraceContext::new("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", None);
//! let service = ServiceBuilder::new().layer(TraceContextLayer::new(provider)).service(server);
//! service.oneshot(JsonRpcMessage::request(1, "tools/call", json!({ "name": "add" }))).await?.response().await?;
//! # Ok(())
//! # }
//! ```

use std::fmt;
use std::task::{Context, Poll};

use tower_layer::Layer;
use tower_service::Service;

use crate::raw_json::{members, write_string};
use crate::{JsonRpcMessage, JsonRpcNotification, JsonRpcRequest, RawJson};

/// The trace that a message is part of (W3C Trace Context).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceContext {
    traceparent: String,
    tracestate: Option<String>,
}

impl TraceContext {
    /// A context, as the two headers of W3C Trace Context would say it. `None`: `traceparent` is none of version `00`, or says
    /// that there is no trace.
    pub fn new(traceparent: &str, tracestate: Option<&str>) -> Option<Self> {
        let mut parts = traceparent.split('-');
        let mut part = |length: usize| {
            let is_hex = |text: &&str| text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
            parts.next().filter(|text| text.len() == length).filter(is_hex)
        };
        let (version, trace, parent, _flags) = (part(2)?, part(32)?, part(16)?, part(2)?);
        let is_null = |id: &str| id.bytes().all(|byte| byte == b'0');
        let is_valid = version == "00" && parts.next().is_none() && !is_null(trace) && !is_null(parent);
        let tracestate = tracestate.filter(|state| !state.is_empty()).map(str::to_owned);
        is_valid.then(|| Self { traceparent: traceparent.to_owned(), tracestate })
    }
}

/// Applies [`WithTraceContext`]: see the [module's documentation](self).
#[derive(Clone)]
pub struct TraceContextLayer<F> {
    provider: F,
}

impl<F> TraceContextLayer<F>
where
    F: Fn() -> Option<TraceContext> + Clone,
{
    /// Asks `provider` for the context of each message, when it is sent; `None`: there is no trace.
    pub fn new(provider: F) -> Self {
        Self { provider }
    }
}

impl<S, F: Clone> Layer<S> for TraceContextLayer<F> {
    type Service = WithTraceContext<S, F>;

    fn layer(&self, inner: S) -> Self::Service {
        WithTraceContext { inner, provider: self.provider.clone() }
    }
}

/// Puts `traceparent` and `tracestate` into the `_meta` of requests and notifications (SEP-414).
///
/// Everything else in the message stays as it is written. A message that has a `traceparent` already stays too, and so does one
/// whose `params` or `_meta` are no objects. It lives on the message floor, outside of whatever sends a message again, so that
/// each attempt is of one trace.
#[derive(Clone)]
pub struct WithTraceContext<S, F> {
    inner: S,
    provider: F,
}

impl<S, F> Service<JsonRpcMessage> for WithTraceContext<S, F>
where
    S: Service<JsonRpcMessage>,
    F: Fn() -> Option<TraceContext>,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, message: JsonRpcMessage) -> Self::Future {
        let context = message.method().and_then(|_| (self.provider)());
        self.inner.call(match context {
            Some(context) => add(message, &context),
            None => message,
        })
    }
}

fn add(message: JsonRpcMessage, context: &TraceContext) -> JsonRpcMessage {
    let Some(params) = params(message.params(), context) else { return message };
    match message {
        JsonRpcMessage::Request(request) => {
            let mut traced = JsonRpcRequest::new(request.id().clone(), request.method().to_owned(), params);
            *traced.extensions_mut() = request.extensions().clone();
            traced.into()
        }
        JsonRpcMessage::Notification(notification) => {
            let mut traced = JsonRpcNotification::new(notification.method().to_owned(), params);
            *traced.extensions_mut() = notification.extensions().clone();
            traced.into()
        }
        response => response,
    }
}

/// The `params` with the context in their `_meta`. `None`: they stay as they are.
fn params(params: Option<&RawJson>, context: &TraceContext) -> Option<RawJson> {
    let mut keys = Vec::new();
    write_string(&mut keys, "traceparent");
    keys.push(b':');
    write_string(&mut keys, &context.traceparent);
    if let Some(state) = &context.tracestate {
        keys.extend_from_slice(br#","tracestate":"#);
        write_string(&mut keys, state);
    }
    let keys = String::from_utf8(keys).ok()?;
    let Some(params) = params else { return RawJson::parse(format!(r#"{{"_meta":{{{keys}}}}}"#)).ok() };
    let text = params.as_str();
    let mut meta = None;
    members(text, |name, value| {
        if name == "_meta" {
            meta = Some(value);
        }
    })
    .ok()?;
    let Some(meta) = meta else { return insert(text, 0, &format!(r#""_meta":{{{keys}}}"#)) };
    let mut is_traced = false;
    members(meta, |name, _| is_traced |= name == "traceparent").ok()?;
    let start = (meta.as_ptr() as usize).checked_sub(text.as_ptr() as usize)?;
    if is_traced { None } else { insert(text, start, &keys) }
}

/// Inserts members at the beginning of the object that starts at `start`.
fn insert(text: &str, start: usize, added: &str) -> Option<RawJson> {
    let (before, rest) = (text.get(..=start)?, text.get(start + 1..)?);
    let is_empty = rest.trim_start().starts_with('}');
    let comma = if is_empty { "" } else { "," };
    RawJson::parse(format!("{before}{added}{comma}{rest}")).ok()
}

impl<F> fmt::Debug for TraceContextLayer<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TraceContextLayer").finish_non_exhaustive()
    }
}

impl<S: fmt::Debug, F> fmt::Debug for WithTraceContext<S, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WithTraceContext").field("inner", &self.inner).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    fn with(json: Option<&'static str>) -> Option<String> {
        let context = TraceContext::new(PARENT, Some("a=1")).unwrap();
        let given = json.map(|json| RawJson::parse(json).unwrap());
        params(given.as_ref(), &context).map(|params| params.as_str().to_owned())
    }

    #[test]
    fn only_the_two_keys_are_added() {
        let keys = format!(r#""traceparent":"{PARENT}","tracestate":"a=1""#);
        for (before, after) in [
            (None, Some(format!(r#"{{"_meta":{{{keys}}}}}"#))),
            (Some("{}"), Some(format!(r#"{{"_meta":{{{keys}}}}}"#))),
            (Some(r#"{ "a" : 1.0 }"#), Some(format!(r#"{{"_meta":{{{keys}}}, "a" : 1.0 }}"#))),
            (Some(r#"{"a":1,"_meta":{ }}"#), Some(format!(r#"{{"a":1,"_meta":{{{keys} }}}}"#))),
            (
                Some(r#"{"_meta":{"progressToken": 1},"a":[1, 2]}"#),
                Some(format!(r#"{{"_meta":{{{keys},"progressToken": 1}},"a":[1, 2]}}"#)),
            ),
            (Some(r#"{"_meta":{"traceparent":"x"}}"#), None),
            (Some(r#"{"_meta":null}"#), None),
            (Some("[1]"), None),
        ] {
            assert_eq!(with(before), after, "{before:?}");
        }
    }

    #[test]
    fn what_is_no_trace_is_none() {
        for bad in [
            "",
            "00",
            "01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-x",
        ] {
            assert_eq!(TraceContext::new(bad, None), None, "{bad}");
        }
    }
}
