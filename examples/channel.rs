//! Talks to an MCP server over a channel: messages in, messages out, as over a pipe.
//!
//! That is the shape that an SDK or a proxy wants, which has its own table of requests. The channel keeps the order of what
//! must be in order, listens to the server, and answers every request, with an error if need be.
//!
//! ```text
//! cargo run --example channel          # starts a small server of its own
//! cargo run --example channel -- URL
//! ```
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "printing is what an example is for")]

#[path = "support/mod.rs"]
mod support;

use std::error::Error;
use std::process::ExitCode;

use futures_util::StreamExt;
use mcp_streamable_http::channel::Origin;
use mcp_streamable_http::{JsonRpcError, JsonRpcMessage, StreamableHttp};
use serde_json::json;

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
    // Lives to the end of this function, and stops then.
    let (url, _server) = match std::env::args().nth(1) {
        Some(url) => (url, None),
        None => {
            let server = support::Server::start().await?;
            (server.url(), Some(server))
        }
    };
    let mut channel = StreamableHttp::new(url.parse()?)?.channel();
    let sender = channel.sender();

    // All of it can be sent at once. The channel holds back what must wait for the handshake.
    let client = json!({ "name": "channel", "version": env!("CARGO_PKG_VERSION") });
    let hello = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client });
    sender.send(JsonRpcMessage::request("hello", "initialize", hello))?;
    sender.send(JsonRpcMessage::notification("notifications/initialized", ()))?;
    let mut waiting = 1;
    for (id, method) in [("tools", "tools/list"), ("ping", "ping"), ("odd", "no/such/method")] {
        sender.send(JsonRpcMessage::request(id, method, json!({})))?;
        waiting += 1;
    }

    while waiting > 0 {
        let incoming = channel.next().await.ok_or("the channel is closed")??;
        let from = match &incoming.origin {
            Origin::Request(id) => format!("to the request {id}"),
            Origin::Listening => "of its own accord".to_owned(),
        };
        match incoming.message {
            JsonRpcMessage::Response(response) => {
                waiting -= 1;
                match response.into_outcome() {
                    Ok(result) => println!("{from}: {:.60}", result.to_string()),
                    Err(error) => println!("{from}: {error}"),
                }
            }
            JsonRpcMessage::Notification(notification) => println!("{from}: {}", notification.method()),
            // The server may not answer before it is answered.
            JsonRpcMessage::Request(request) => {
                println!("{from}: it asks for {}", request.method());
                let no = JsonRpcError::new(JsonRpcError::METHOD_NOT_FOUND, "not in this example");
                sender.send(JsonRpcMessage::error(request.id().clone(), no))?;
            }
        }
    }

    // Ends the session.
    channel.close().await;
    Ok(())
}
