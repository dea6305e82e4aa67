//! Measures how long calls take, by method, tool and outcome.
//!
//! `MetricsLayer` lives on the message floor, as only there a call is seen to its end, and outermost, so that what is sent
//! again below counts as one call.
//!
//! ```text
//! cargo run --example metrics --features metrics
//! ```
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "printing is what an example is for")]

#[path = "support/mod.rs"]
mod support;

use std::error::Error;
use std::process::ExitCode;
use std::sync::Arc;

use futures_util::StreamExt;
use mcp_streamable_http::layers::MetricsLayer;
use mcp_streamable_http::{JsonRpcMessage, StreamableHttp};
use metrics::{
    Counter, Gauge, Histogram, HistogramFn, Key, KeyName, Label, Metadata, Recorder, SharedString, Unit,
};
use serde_json::{Value, json};
use tower::ServiceExt;

#[tokio::main]
async fn main() -> ExitCode {
    match run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

async fn run() -> Result<(), Box<dyn Error>> {
    // In an application this is an exporter: for Prometheus, say, with the buckets of `layers::metrics::BUCKETS`.
    metrics::set_global_recorder(Printer)?;
    let server = support::Server::start().await?;
    let transport = StreamableHttp::new(server.url().parse()?)?.layer(MetricsLayer::new());

    let client = json!({ "name": "metrics", "version": env!("CARGO_PKG_VERSION") });
    let hello = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client });
    ask(&transport, 1, "initialize", hello).await?;
    let initialized = JsonRpcMessage::notification("notifications/initialized", ());
    let _ = transport.clone().oneshot(initialized).await?;

    let add = json!({ "name": "add", "arguments": { "a": 1, "b": 2 } });
    ask(&transport, 2, "tools/call", add).await?;
    // It takes a third of a second, most of it after the head of the answer.
    let countdown = json!({
        "name": "countdown",
        "arguments": { "from": 3 },
        "_meta": { "progressToken": 1 },
    });
    ask(&transport, 3, "tools/call", countdown.clone()).await?;
    // The server's error is an outcome.
    let _ = ask(&transport, 4, "no/such/method", json!({})).await;
    // And so is giving up, here at the first word of progress.
    let mut reply = transport.clone().oneshot(JsonRpcMessage::request(5, "tools/call", countdown)).await?;
    reply.next().await;
    drop(reply);
    // This one passes no layer of the message floor.
    Ok(transport.terminate().await?)
}

async fn ask(
    transport: &StreamableHttp,
    id: i64,
    method: &'static str,
    params: Value,
) -> Result<Value, Box<dyn Error>> {
    let reply = transport.clone().oneshot(JsonRpcMessage::request(id, method, params)).await?;
    Ok(reply.response().await?.result()?)
}

/// Prints every value as it is recorded.
struct Printer;

impl Recorder for Printer {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_histogram(&self, name: KeyName, unit: Option<Unit>, description: SharedString) {
        let unit = unit.as_ref().map_or("no unit", Unit::as_str);
        println!("{} ({unit}): {description}", name.as_str());
    }

    fn register_counter(&self, _: &Key, _: &Metadata<'_>) -> Counter {
        Counter::noop()
    }

    fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::noop()
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::from_arc(Arc::new(Line(key.clone())))
    }
}

struct Line(Key);

impl HistogramFn for Line {
    fn record(&self, seconds: f64) {
        // Two labels are the same everywhere.
        let labels = self.0.labels().filter(|label| !label.key().starts_with("network."));
        let labels: Vec<_> =
            labels.map(|label: &Label| format!("{}={}", label.key(), label.value())).collect();
        println!("  {seconds:.3} s  {}", labels.join(" "));
    }
}
