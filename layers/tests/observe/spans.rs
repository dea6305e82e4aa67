//! The span around a call.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};

use mcp_streamable_http_layers::error::Cancelled;
use mcp_streamable_http_layers::{Error, Events, Expects, JsonRpcMessage, Reply, TraceLayer};
use serde_json::json;
use tokio_test::assert_pending;
use tower::{Layer, service_fn};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event as LogEvent, Level, Metadata, Subscriber};

use crate::common::bridge::PONG;
use crate::common::client::Client;
use crate::common::*;
use crate::{FAILURE, KINDS, failing, prompt, tool};

#[derive(Clone, Debug, Default)]
struct Seen {
    name: &'static str,
    fields: BTreeMap<&'static str, String>,
    is_closed: bool,
}

/// Collects spans, and counts who holds them.
#[derive(Clone, Default)]
struct Collector(Arc<Mutex<Collected>>);

#[derive(Default)]
struct Collected {
    spans: Vec<Seen>,
    handles: Vec<usize>,
    entered: Vec<u64>,
}

impl Collector {
    fn lock(&self) -> MutexGuard<'_, Collected> {
        self.0.lock().unwrap()
    }

    /// The spans of calls.
    fn calls(&self) -> Vec<Seen> {
        self.lock().spans.iter().filter(|seen| seen.name == "mcp.client").cloned().collect()
    }

    /// The only one.
    #[track_caller]
    fn only(&self) -> Seen {
        let [seen] = <[Seen; 1]>::try_from(self.calls()).unwrap();
        seen
    }
}

struct Fields<'a>(&'a mut BTreeMap<&'static str, String>);

impl Visit for Fields<'_> {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name(), value.to_owned());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.insert(field.name(), format!("{value:?}"));
    }
}

fn index(id: &Id) -> usize {
    usize::try_from(id.into_u64()).unwrap() - 1
}

impl Subscriber for Collector {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_span() && *metadata.level() <= Level::INFO
    }

    fn new_span(&self, attributes: &Attributes<'_>) -> Id {
        let mut collected = self.lock();
        let mut seen = Seen { name: attributes.metadata().name(), ..Seen::default() };
        attributes.record(&mut Fields(&mut seen.fields));
        collected.spans.push(seen);
        collected.handles.push(1);
        Id::from_u64(collected.spans.len() as u64)
    }

    fn record(&self, id: &Id, values: &Record<'_>) {
        values.record(&mut Fields(&mut self.lock().spans[index(id)].fields));
    }

    fn clone_span(&self, id: &Id) -> Id {
        self.lock().handles[index(id)] += 1;
        id.clone()
    }

    fn try_close(&self, id: Id) -> bool {
        let mut collected = self.lock();
        collected.handles[index(&id)] -= 1;
        let is_closed = collected.handles[index(&id)] == 0;
        collected.spans[index(&id)].is_closed = is_closed;
        is_closed
    }

    fn enter(&self, id: &Id) {
        self.lock().entered.push(id.into_u64());
    }

    fn exit(&self, _: &Id) {
        self.lock().entered.pop();
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, _: &LogEvent<'_>) {}
}

fn observed<T>(test: impl FnOnce(&Collector) -> T) -> T {
    let collector = Collector::default();
    tracing::subscriber::with_default(collector.clone(), || test(&collector))
}

fn fields(pairs: &[(&'static str, &str)]) -> BTreeMap<&'static str, String> {
    pairs.iter().map(|(name, value)| (*name, (*value).to_owned())).collect()
}

#[test]
fn a_call_is_one_span_until_its_response() {
    observed(|spans| {
        let mut client = Client::in_session("s-1");
        let mut traced = TraceLayer::new().layer(client.messages.clone());
        let sent = call(&mut traced, tool(1));
        assert!(!spans.only().is_closed);
        client.server.received().1.send_response(json_answer(PONG));
        let reply = now(sent).unwrap();
        assert!(!spans.only().is_closed, "the reply has not been read");
        now(reply.response()).unwrap();
        let seen = spans.only();
        assert!(seen.is_closed && spans.lock().entered.is_empty());
        assert_eq!(
            seen.fields,
            fields(&[
                ("otel.name", "tools/call add"),
                ("otel.kind", "client"),
                ("mcp.method.name", "tools/call"),
                ("gen_ai.tool.name", "add"),
                ("jsonrpc.request.id", "1"),
            ])
        );
    });
}

#[test]
fn prompts_notifications_and_requests_without_a_name_are_told_apart() {
    for (message, expected) in [
        (prompt(7), vec![("otel.name", "prompts/get greet"), ("gen_ai.prompt.name", "greet")]),
        (ping(7), vec![("otel.name", "ping")]),
        (notification(), vec![("otel.name", "notifications/initialized")]),
    ] {
        observed(|spans| {
            let method = message.method().unwrap().to_owned();
            let is_request = message.as_request().is_some();
            let _ = now(call(&mut TraceLayer::new().layer(failing(|| Error::new(Cancelled))), message));
            let mut expected = fields(&expected);
            expected.extend(fields(&[
                ("otel.kind", "client"),
                ("mcp.method.name", &method),
                ("error.type", "cancelled"),
                ("otel.status_code", "ERROR"),
            ]));
            if is_request {
                expected.insert("jsonrpc.request.id", "7".into());
            }
            assert_eq!(spans.only().fields, expected);
            assert!(spans.only().is_closed);
        });
    }
}

#[test]
fn a_response_of_the_clients_has_no_span() {
    observed(|spans| {
        let mut traced = TraceLayer::new().layer(failing(|| Error::new(Cancelled)));
        now(call(&mut traced, JsonRpcMessage::response(1, json!({})))).unwrap_err();
        assert!(spans.calls().is_empty());
    });
}

#[test]
fn what_failed_says_how() {
    let failure = |seen: Seen| {
        assert_eq!(seen.fields["otel.status_code"], "ERROR");
        assert!(seen.is_closed);
        seen.fields["error.type"].clone()
    };
    for (kind, error) in KINDS {
        observed(|spans| {
            now(call(&mut TraceLayer::new().layer(failing(error)), ping(1))).unwrap_err();
            assert_eq!(failure(spans.only()), kind);
        });
    }
    let stream = || answer(200, "text/event-stream", format!("data: {FAILURE}\n\n"));
    let cut = answer(200, "text/event-stream", "");
    for (kind, answer) in [
        ("-32602", json_answer(FAILURE)),
        ("-32602", stream()),
        ("503", answer(503, "", "s3cret")),
        ("401", answer(401, "", "")),
        ("session_expired", answer(404, "", "")),
        ("_OTHER", cut),
    ] {
        observed(|spans| {
            let mut client = Client::in_session("s-1");
            let mut traced = TraceLayer::new().layer(client.messages.clone());
            let sent = call(&mut traced, ping(1));
            client.server.received().1.send_response(answer);
            let _ = response(now(sent)).map(|response| response.outcome().unwrap_err().code());
            assert_eq!(failure(spans.only()), kind);
        });
    }
}

#[test]
fn the_call_is_made_and_its_head_waited_for_in_the_span() {
    observed(|spans| {
        let depth = |spans: &Collector| spans.lock().entered.len();
        let (one, other) = (spans.clone(), spans.clone());
        let below = service_fn(move |_: JsonRpcMessage| {
            assert_eq!(depth(&one), 1);
            let other = other.clone();
            async move {
                for _ in 0..2 {
                    assert_eq!(depth(&other), 1);
                    tokio::task::yield_now().await;
                }
                Ok::<_, Error>(Reply::new(Expects::Acceptance, Events::EMPTY))
            }
        });
        let mut sent = call(&mut TraceLayer::new().layer(below), notification());
        assert_pending!(sent.poll());
        assert_eq!(depth(spans), 0, "others are not in it");
        drop(sent);
        assert!(spans.only().is_closed, "a call that is dropped is over");
    });
}

#[test]
fn a_span_has_nothing_secret() {
    observed(|spans| {
        let mut client = Client::in_session("s3cret-session");
        let mut traced = TraceLayer::new().layer(client.messages.clone());
        let mut message = tool(1);
        message.extensions_mut().insert(extra(&[("authorization", "Bearer s3cret")]));
        let sent = call(&mut traced, message);
        client.server.received().1.send_response(json_answer(FAILURE));
        now(now(sent).unwrap().response()).unwrap();
        assert_eq!(spans.calls().len(), 1);
        assert!(!format!("{:?}", spans.calls()).contains("s3cret"), "{:?}", spans.calls());
    });
}

#[test]
fn a_span_ends_with_the_reply_even_if_that_is_kept() {
    observed(|spans| {
        let mut client = Client::in_session("s-1");
        let mut traced = TraceLayer::new().layer(client.messages.clone());
        let sent = call(&mut traced, tool(1));
        let stream = format!("data: {PONG}\n\n");
        client.server.received().1.send_response(answer(200, "text/event-stream", stream));
        let mut reply = now(sent).unwrap();
        assert_eq!(all(&mut reply).len(), 1);
        assert!(spans.only().is_closed, "the reply has ended");
        drop(reply);
    });
}
