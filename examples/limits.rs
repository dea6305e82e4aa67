//! Limits what is sent to a server, with three layers of tower's.
//!
//! All three live on the message floor, as a limit is to count calls, not the attempts that it takes to make one. Where it is
//! HTTP requests that the server counts, `Builder::http_layer` takes the same layers.
//!
//! ```text
//! cargo run --example limits
//! ```
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "printing is what an example is for")]

#[path = "support/mod.rs"]
mod support;

use std::fmt;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use mcp_streamable_http::layers::UnaryLayer;
use mcp_streamable_http::{JsonRpcMessage, StreamableHttp};
use serde_json::json;
use tower::load_shed::error::Overloaded;
use tower::{BoxError, Service, ServiceBuilder, ServiceExt};

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

async fn run() -> Result<(), BoxError> {
    let server = support::Server::start().await?;
    let transport = StreamableHttp::new(server.url().parse()?)?;
    let client = json!({ "name": "limits", "version": env!("CARGO_PKG_VERSION") });
    let hello = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client });
    transport.clone().oneshot(JsonRpcMessage::request(0, "initialize", hello)).await?.response().await?;
    let initialized = JsonRpcMessage::notification("notifications/initialized", ());
    let _ = transport.clone().oneshot(initialized).await?;

    // Over `UnaryLayer`, as a permit is given back when the call's future is done: that must be at the response, not at the
    // head of the answer.
    let two_at_a_time =
        ServiceBuilder::new().concurrency_limit(2).layer(UnaryLayer::new(drop)).service(transport.clone());
    println!("Two at a time, of calls that take 0.3 s:");
    four_calls(two_at_a_time).await;

    // Behind `Buffer`, as `RateLimit` cannot be cloned, and all callers must share it. How long a call takes is nothing to
    // it, so it could do without `UnaryLayer`.
    let two_a_second = ServiceBuilder::new()
        .buffer(16)
        .rate_limit(2, Duration::from_secs(1))
        .layer(UnaryLayer::new(drop))
        .service(transport.clone());
    println!("Two in each second:");
    four_calls(two_a_second).await;

    // `LoadShed` is outside of the limit, as it refuses whatever the limit would let wait.
    let no_queue = ServiceBuilder::new()
        .load_shed()
        .concurrency_limit(2)
        .layer(UnaryLayer::new(drop))
        .service(transport.clone());
    println!("Two at a time, and nobody waits:");
    four_calls(no_queue).await;
    Ok(transport.terminate().await?)
}

/// Makes four calls side by side, and says when each is over.
async fn four_calls<S>(calls: S)
where
    S: Service<JsonRpcMessage, Response: fmt::Debug, Error: Into<BoxError>> + Clone,
{
    let start = Instant::now();
    let mut running: FuturesUnordered<_> = (1..=4)
        .map(|id| {
            let params = json!({ "name": "countdown", "arguments": { "from": 3 } });
            calls.clone().oneshot(JsonRpcMessage::request(id, "tools/call", params))
        })
        .collect();
    while let Some(outcome) = running.next().await {
        let outcome = match outcome.map_err(Into::into) {
            Ok(_) => "answered".to_owned(),
            Err(error) if error.is::<Overloaded>() => "refused, and not sent".to_owned(),
            Err(error) => error.to_string(),
        };
        println!("  after {:.1} s: {outcome}", start.elapsed().as_secs_f64());
    }
}
