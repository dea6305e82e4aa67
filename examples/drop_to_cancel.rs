//! Cancels a call by dropping its reply.
//!
//! Nothing else is needed: a server of the legacy era is sent `notifications/cancelled`, in the background; for one of the
//! modern era the end of the stream is the signal. A layer at the bottom prints what goes over the wire.
//!
//! ```text
//! cargo run --example drop_to_cancel
//! ```
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "printing is what an example is for")]

#[path = "support/mod.rs"]
mod support;

use std::error::Error;
use std::process::ExitCode;

use bytes::Bytes;
use futures_util::StreamExt;
use http::Request;
use http_body_util::{BodyExt, Full};
use mcp_streamable_http::{JsonRpcMessage, StreamableHttp};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tower::ServiceExt;
use tower::util::MapRequestLayer;

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
    let server = support::Server::start().await?;
    // The wire floor is the last to see a request: whatever is sent comes by here.
    let (seen, mut wire) = mpsc::unbounded_channel();
    let watch = MapRequestLayer::new(move |request: Request<Full<Bytes>>| {
        let _ = seen.send(request.body().clone());
        request
    });
    let transport = StreamableHttp::builder(server.url().parse()?).http_layer(watch).build()?;
    handshake(&transport).await?;

    let call = json!({ "name": "countdown", "arguments": { "from": 100 }, "_meta": { "progressToken": 1 } });
    let mut reply = transport.clone().oneshot(JsonRpcMessage::request(2, "tools/call", call)).await?;
    if let Some(progress) = reply.next().await.transpose()? {
        println!("The call has begun: {progress}");
    }
    println!("That will do.");
    drop(reply);

    while let Some(body) = wire.recv().await {
        let message: Value = serde_json::from_slice(&body.collect().await?.to_bytes())?;
        println!("Sent: {}", message["method"]);
        if message["method"] == "notifications/cancelled" {
            break;
        }
    }
    Ok(transport.terminate().await?)
}

async fn handshake(transport: &StreamableHttp) -> Result<(), Box<dyn Error>> {
    let client = json!({ "name": "drop_to_cancel", "version": env!("CARGO_PKG_VERSION") });
    let hello = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client });
    let hello = JsonRpcMessage::request(1, "initialize", hello);
    transport.clone().oneshot(hello).await?.response().await?.result::<Value>()?;
    let initialized = JsonRpcMessage::notification("notifications/initialized", ());
    let _ = transport.clone().oneshot(initialized).await?;
    Ok(())
}
