//! Keeps talking to a server that is restarted.
//!
//! Ten calls are at work when the server goes away. The transport tries to take up their streams again; the new server knows
//! nothing of them, so each call ends with an error that says that it may have run. The next call finds that the session is
//! gone too: the transport starts another, and sends the call in it. The log on the standard error shows the steps.
//!
//! ```text
//! cargo run --example resilient
//! ```
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "printing is what an example is for")]

#[path = "support/mod.rs"]
mod support;

use std::error::Error;
use std::io;
use std::process::ExitCode;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::join_all;
use mcp_streamable_http::{Backoff, JsonRpcMessage, StreamableHttp};
use serde_json::{Value, json};
use tower::ServiceExt;
use tracing::level_filters::LevelFilter;

#[tokio::main]
async fn main() -> ExitCode {
    tracing_subscriber::fmt()
        .with_max_level(LevelFilter::DEBUG)
        .with_writer(io::stderr)
        .without_time()
        .init();
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
    // Short waits, as nobody wants to wait for an example.
    let backoff = Backoff::default().base(Duration::from_millis(200));
    let transport = StreamableHttp::builder(server.url().parse()?).backoff(backoff).build()?;

    let client = json!({ "name": "resilient", "version": env!("CARGO_PKG_VERSION") });
    let hello = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client });
    transport.clone().oneshot(JsonRpcMessage::request(0, "initialize", hello)).await?.response().await?;
    let initialized = JsonRpcMessage::notification("notifications/initialized", ());
    let _ = transport.clone().oneshot(initialized).await?;
    // What the application has told the server in a session is gone with it, so it may want to know.
    let mut sessions = transport.session().watch();

    let mut calls = Vec::new();
    for id in 1..=10 {
        let params =
            json!({ "name": "countdown", "arguments": { "from": 100 }, "_meta": { "progressToken": id } });
        let mut reply = transport.clone().oneshot(JsonRpcMessage::request(id, "tools/call", params)).await?;
        // It is at work when it has reported progress.
        reply.next().await.transpose()?;
        calls.push(reply.response());
    }

    println!("Ten calls are at work, and the server is restarted.");
    let _server = server.restart().await?;
    for outcome in join_all(calls).await {
        match outcome {
            Ok(response) => println!("  answered: {}", response.result::<Value>()?),
            Err(error) => println!("  it may have run: {}; {error}", error.may_have_run()),
        }
    }

    println!("The next call:");
    let add = json!({ "name": "add", "arguments": { "a": 1, "b": 2 } });
    let reply = transport.clone().oneshot(JsonRpcMessage::request(11, "tools/call", add)).await?;
    println!("  answered: {}", reply.response().await?.result::<Value>()?);
    println!("The session is now {:?}.", sessions.changed().await);
    Ok(transport.terminate().await?)
}
