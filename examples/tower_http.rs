//! Puts layers of tower-http under the transport: a header, and a log of HTTP requests that does not tell secrets.
//!
//! They live on the wire floor, as tower-http is about plain HTTP. The last one added is the outermost: the key is set first,
//! then it is marked as a secret, and so it is one when `TraceLayer` writes down what is sent.
//!
//! Answers that are compressed need nothing of one's own: `Builder::decompression` puts in tower-http's layer.
//!
//! ```text
//! cargo run --example tower_http
//! ```
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "printing is what an example is for")]

#[path = "support/mod.rs"]
mod support;

use std::error::Error;
use std::io;
use std::process::ExitCode;

use http::{HeaderName, HeaderValue};
use mcp_streamable_http::{JsonRpcMessage, StreamableHttp};
use serde_json::{Value, json};
use tower::ServiceExt;
use tower_http::sensitive_headers::SetSensitiveRequestHeadersLayer;
use tower_http::set_header::SetRequestHeaderLayer;
use tower_http::trace::{DefaultMakeSpan, DefaultOnResponse, TraceLayer};
use tracing::Level;
use tracing::level_filters::LevelFilter;

#[tokio::main]
async fn main() -> ExitCode {
    tracing_subscriber::fmt().with_max_level(LevelFilter::INFO).with_writer(io::stderr).without_time().init();
    match run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

async fn run() -> Result<(), Box<dyn Error>> {
    let server = support::Server::start().await?;
    let key = HeaderName::from_static("x-api-key");
    // With headers, to show that the key is not among them: it says `Sensitive` in its place.
    let span = DefaultMakeSpan::new().level(Level::INFO).include_headers(true);
    // To the head of the answer: a stream goes on after that.
    let head = DefaultOnResponse::new().level(Level::INFO);
    let transport = StreamableHttp::builder(server.url().parse()?)
        .http_layer(TraceLayer::new_for_http().make_span_with(span).on_response(head))
        .http_layer(SetSensitiveRequestHeadersLayer::new([key.clone()]))
        .http_layer(SetRequestHeaderLayer::overriding(key, HeaderValue::from_static("not-a-real-key")))
        .build()?;

    let client = json!({ "name": "tower-http", "version": env!("CARGO_PKG_VERSION") });
    let hello = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client });
    transport.clone().oneshot(JsonRpcMessage::request(1, "initialize", hello)).await?.response().await?;
    let initialized = JsonRpcMessage::notification("notifications/initialized", ());
    let _ = transport.clone().oneshot(initialized).await?;

    let add = json!({ "name": "add", "arguments": { "a": 1, "b": 2 } });
    let reply = transport.clone().oneshot(JsonRpcMessage::request(2, "tools/call", add)).await?;
    println!("The result: {}", reply.response().await?.result::<Value>()?["content"][0]["text"]);
    // The DELETE passes the layers of the wire floor too.
    Ok(transport.terminate().await?)
}
