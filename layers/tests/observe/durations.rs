//! The histogram of how long calls take.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use mcp_streamable_http_layers::error::Cancelled;
use mcp_streamable_http_layers::metrics::DURATION;
use mcp_streamable_http_layers::options::Deadline;
use mcp_streamable_http_layers::{Envelope, Error, JsonRpcMessage, Metrics, MetricsLayer};
use metrics::{
    Counter, Gauge, Histogram, HistogramFn, Key, KeyName, Recorder, SharedString, Unit, with_local_recorder,
};
use serde_json::json;
use tokio_test::{assert_pending, task};
use tower::Layer;

use crate::common::bridge::PONG;
use crate::common::client::{Client, Envelopes};
use crate::common::*;
use crate::{FAILURE, KINDS, failing, prompt, tool};

/// Collects what is recorded: the labels, as `key=value`, sorted.
#[derive(Default)]
struct Log {
    records: Arc<Mutex<Vec<Vec<String>>>>,
    units: Mutex<Vec<(String, Option<Unit>)>>,
}

struct Series {
    labels: Vec<String>,
    records: Arc<Mutex<Vec<Vec<String>>>>,
}

impl HistogramFn for Series {
    fn record(&self, value: f64) {
        assert!((0.0..10.0).contains(&value), "{value} s");
        self.records.lock().unwrap().push(self.labels.clone());
    }
}

impl Recorder for Log {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_histogram(&self, key: KeyName, unit: Option<Unit>, _: SharedString) {
        self.units.lock().unwrap().push((key.as_str().to_owned(), unit));
    }

    fn register_counter(&self, _: &Key, _: &metrics::Metadata<'_>) -> Counter {
        Counter::noop()
    }

    fn register_gauge(&self, _: &Key, _: &metrics::Metadata<'_>) -> Gauge {
        Gauge::noop()
    }

    fn register_histogram(&self, key: &Key, _: &metrics::Metadata<'_>) -> Histogram {
        assert_eq!(key.name(), "mcp.client.operation.duration");
        let mut labels: Vec<_> =
            key.labels().map(|label| format!("{}={}", label.key(), label.value())).collect();
        labels.sort_unstable();
        Histogram::from_arc(Arc::new(Series { labels, records: self.records.clone() }))
    }
}

impl Log {
    /// What was recorded since the last time.
    fn take(&self) -> Vec<Vec<String>> {
        std::mem::take(&mut self.records.lock().unwrap())
    }

    /// The only record is of `method`, and has the labels `more` besides.
    #[track_caller]
    fn assert_one(&self, method: &str, more: &[&str]) {
        let mut labels: Vec<_> = more.iter().map(|label| (*label).to_owned()).collect();
        labels.push(format!("mcp.method.name={method}"));
        labels.extend(["network.protocol.name=http".to_owned(), "network.transport=tcp".to_owned()]);
        labels.sort_unstable();
        assert_eq!(self.take(), [labels]);
    }
}

type Measured = Metrics<Envelope<Envelopes>>;

fn client() -> (Client, Measured) {
    let client = Client::in_session("s-1");
    let measured = MetricsLayer::new().layer(client.messages.clone());
    (client, measured)
}

fn measured(test: impl FnOnce(&Log)) {
    let log = Log::default();
    with_local_recorder(&log, || test(&log));
}

#[test]
fn the_unit_is_seconds() {
    measured(|log| {
        let _ = MetricsLayer::default();
        assert_eq!(*log.units.lock().unwrap(), [(DURATION.to_owned(), Some(Unit::Seconds))]);
    });
}

#[test]
fn a_call_is_recorded_once_when_its_response_is_there() {
    measured(|log| {
        let (mut client, mut measured) = client();
        for (message, labels) in [
            (tool(1), vec!["gen_ai.tool.name=add"]),
            (prompt(1), vec!["gen_ai.prompt.name=greet"]),
            (ping(1), vec![]),
        ] {
            let method = message.method().unwrap().to_owned();
            let progress = r#"{"jsonrpc":"2.0","method":"notifications/progress"}"#;
            let sent = call(&mut measured, message);
            let stream = format!("data: {progress}\n\ndata: {PONG}\n\n");
            client.server.received().1.send_response(answer(200, "text/event-stream", stream));
            let mut reply = task::spawn(now(sent).unwrap());
            tokio_test::assert_ready!(reply.poll_next()).unwrap().unwrap();
            assert_eq!(log.take(), [[""; 0]; 0], "it goes on");
            tokio_test::assert_ready!(reply.poll_next()).unwrap().unwrap();
            log.assert_one(&method, &labels);
            drop(reply);
            assert_eq!(log.take(), [[""; 0]; 0]);
        }
    });
}

#[test]
fn names_can_be_left_out() {
    measured(|log| {
        for message in [tool(1), prompt(1)] {
            let method = message.method().unwrap().to_owned();
            let layer = MetricsLayer::new().names(false);
            now(call(&mut layer.layer(failing(|| Error::new(Cancelled))), message)).unwrap_err();
            log.assert_one(&method, &["error.type=cancelled"]);
        }
    });
}

#[test]
fn failures_say_what_kind_they_are() {
    measured(|log| {
        for (kind, error) in KINDS {
            now(call(&mut MetricsLayer::new().layer(failing(error)), ping(1))).unwrap_err();
            log.assert_one("ping", &[&format!("error.type={kind}")]);
        }
        let rpc = ["error.type=-32602", "rpc.response.status_code=-32602"];
        let stream = |text: String| answer(200, "text/event-stream", text);
        for (labels, answer) in [
            (&rpc[..], json_answer(FAILURE)),
            (&rpc[..], stream(format!("data: {FAILURE}\n\n"))),
            (&["error.type=503"], answer(503, "", "")),
            (&["error.type=401"], answer(401, "", "")),
            (&["error.type=session_expired"], answer(404, "", "")),
            (&["error.type=_OTHER"], stream(String::new())),
        ] {
            let (mut client, mut measured) = client();
            let sent = call(&mut measured, ping(1));
            client.server.received().1.send_response(answer);
            let _ = response(now(sent));
            log.assert_one("ping", labels);
        }
    });
}

#[test]
fn codes_of_the_servers_choosing_make_no_series_of_their_own() {
    measured(|log| {
        for code in [1, -1, 42, 100_000, -100_000, i64::MAX] {
            let (mut client, mut measured) = client();
            let sent = call(&mut measured, ping(1));
            let error = json!({ "jsonrpc": "2.0", "id": 1, "error": { "code": code, "message": "m" } });
            client.server.received().1.send_response(json_answer(error.to_string()));
            response(now(sent)).unwrap().outcome().unwrap_err();
            log.assert_one("ping", &["error.type=_OTHER", "rpc.response.status_code=_OTHER"]);
        }
    });
}

#[test]
fn a_notification_is_recorded_when_it_is_accepted_or_refused() {
    measured(|log| {
        for (status, labels) in
            [(202, &[][..]), (200, &[]), (400, &["error.type=400"]), (500, &["error.type=500"])]
        {
            let (mut client, mut measured) = client();
            let sent = call(&mut measured, notification());
            client.server.received().1.send_response(answer(status, "", ""));
            let reply = now(sent);
            log.assert_one("notifications/initialized", labels);
            drop(reply);
            assert_eq!(log.take(), [[""; 0]; 0]);
        }
    });
}

#[test]
fn a_call_that_is_dropped_is_cancelled() {
    measured(|log| {
        let (mut client, mut measured) = client();
        let mut sent = call(&mut measured, tool(1));
        assert_pending!(sent.poll());
        drop(sent);
        log.assert_one("tools/call", &["error.type=cancelled", "gen_ai.tool.name=add"]);

        // Before its response, and after the head.
        client.server.received();
        let sent = call(&mut measured, ping(1));
        client.server.received().1.send_response(answer(200, "text/event-stream", ":\n\n"));
        let reply = now(sent).unwrap();
        assert_eq!(log.take(), [[""; 0]; 0]);
        drop(reply);
        log.assert_one("ping", &["error.type=cancelled"]);
    });
}

#[test]
fn a_response_of_the_clients_is_not_measured() {
    measured(|log| {
        let (mut client, mut measured) = client();
        let sent = call(&mut measured, JsonRpcMessage::response(1, json!({})));
        client.server.received().1.send_response(answer(202, "", ""));
        drop(now(sent).unwrap());
        assert_eq!(log.take(), [[""; 0]; 0]);
    });
}

#[tokio::test(start_paused = true)]
async fn a_deadline_that_passes_is_a_timeout() {
    let log = Log::default();
    let _guard = metrics::set_default_local_recorder(&log);
    let (_client, mut measured) = client();
    let mut message = ping(1);
    message.extensions_mut().insert(Deadline::within(Duration::from_secs(5)));
    let mut sent = call(&mut measured, message);
    assert_pending!(sent.poll());
    tokio::time::advance(Duration::from_secs(6)).await;
    assert!(now(sent).unwrap_err().is_timeout());
    log.assert_one("ping", &["error.type=timeout"]);
}
