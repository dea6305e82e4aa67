//! Bounds whole calls with tower's `Timeout`.
//!
//! A call of the transport is done when the *head* of the answer is there, and `Timeout` around it would time no more than
//! that. Over `UnaryLayer` a call is done with its response. When the time is up, `Timeout` drops the call, and that cancels
//! it on the server.
//!
//! ```text
//! cargo run --example timeout
//! ```
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "printing is what an example is for")]

#[path = "support/mod.rs"]
mod support;

use std::process::ExitCode;
use std::time::Duration;

use mcp_streamable_http::layers::UnaryLayer;
use mcp_streamable_http::{JsonRpcMessage, StreamableHttp};
use serde_json::{Value, json};
use tower::timeout::error::Elapsed;
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

    let mut calls = ServiceBuilder::new()
        // Outermost, so that it covers the messages before the response, and the response.
        .timeout(Duration::from_millis(500))
        // What comes before the response is handed to this function.
        .layer(UnaryLayer::new(|message| println!("  on the way: {message}")))
        .service(transport.clone());

    let client = json!({ "name": "timeout", "version": env!("CARGO_PKG_VERSION") });
    let hello = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client });
    calls.ready().await?.call(JsonRpcMessage::request(1, "initialize", hello)).await?;
    calls.ready().await?.call(JsonRpcMessage::notification("notifications/initialized", ())).await?;

    for (id, from) in [(2, 2), (3, 100)] {
        println!("Counting down from {from}:");
        let call = json!({
            "name": "countdown",
            "arguments": { "from": from },
            "_meta": { "progressToken": id },
        });
        match calls.ready().await?.call(JsonRpcMessage::request(id, "tools/call", call)).await {
            Ok(Some(response)) => println!("  done: {}", response.result::<Value>()?),
            Ok(None) => println!("  only a request has a response"),
            Err(error) if error.is::<Elapsed>() => println!("  it takes too long, and was cancelled"),
            Err(error) => return Err(error),
        }
    }
    Ok(transport.terminate().await?)
}
