//! Talks to an MCP server: the handshake, the list of tools, a call with its progress, an error, the end.
//!
//! ```text
//! cargo run --example quickstart                 # starts a small server of its own
//! cargo run --example quickstart -- URL [TOOL]   # drives the server at URL
//! ```
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "printing is what an example is for")]

#[path = "support/mod.rs"]
mod support;

use std::error::Error;
use std::process::ExitCode;

use futures_util::StreamExt;
use mcp_streamable_http::{JsonRpcMessage, RawJson, Reply, ResultError, StreamableHttp};
use serde_json::{Map, Value, json};
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
    let mut arguments = std::env::args().skip(1);
    // Lives to the end of this function, and stops then.
    let (url, _server) = match arguments.next() {
        Some(url) => (url, None),
        None => {
            let server = support::Server::start().await?;
            (server.url(), Some(server))
        }
    };
    let transport = StreamableHttp::new(url.parse()?)?;

    // The handshake. From here on the transport sends the session and the negotiated version by itself.
    let initialize = json!({
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": { "name": "quickstart", "version": env!("CARGO_PKG_VERSION") },
    });
    let server: Value = request(&transport, 1, "initialize", initialize).await?.response().await?.result()?;
    let version = transport.session().version().ok_or("the server negotiated no protocol version")?;
    println!("Connected to {}, protocol version {version}.", server["serverInfo"]["name"]);
    let _ = transport.clone().oneshot(JsonRpcMessage::notification("notifications/initialized", ())).await?;

    // A call with one answer.
    let list: Value = request(&transport, 2, "tools/list", json!({})).await?.response().await?.result()?;
    let tools = list["tools"].as_array().map(Vec::as_slice).unwrap_or_default();
    println!("\nIt has {} tools:", tools.len());
    for tool in tools {
        println!(
            "  {:<32} {}",
            text(&tool["name"]),
            text(&tool["description"]).lines().next().unwrap_or_default()
        );
    }

    // A call whose progress arrives before its answer.
    let tool = choose(tools, arguments.next()).ok_or("the server has no such tool")?;
    let call = json!({
        "name": tool["name"],
        "arguments": sample_arguments(&tool["inputSchema"]),
        "_meta": { "progressToken": "quickstart" },
    });
    println!("\nCalling {} with {}:", tool["name"], call["arguments"]);
    let mut reply = request(&transport, 3, "tools/call", call).await?;
    while let Some(message) = reply.next().await {
        match message? {
            JsonRpcMessage::Response(response) => {
                let result: Value = response.result()?;
                println!("  result: {}", text(&result["content"][0]["text"]));
            }
            JsonRpcMessage::Notification(notification) => {
                let params: Value = notification.params().map(RawJson::to).transpose()?.unwrap_or_default();
                println!("  {}: {} of {}", notification.method(), params["progress"], params["total"]);
            }
            JsonRpcMessage::Request(request) => println!("  the server asks for {}", request.method()),
        }
    }

    // An error of the server's is an answer too, not a failure of the transport.
    println!("\nCalling a method that does not exist:");
    let response = request(&transport, 4, "no/such/method", json!({})).await?.response().await?;
    match response.result::<Value>() {
        Err(ResultError::Server(error)) => println!("  {error}"),
        other => println!("  unexpectedly: {other:?}"),
    }

    transport.terminate().await?;
    println!("\nThe session has ended.");
    Ok(())
}

async fn request(
    transport: &StreamableHttp,
    id: i64,
    method: &'static str,
    params: Value,
) -> Result<Reply, mcp_streamable_http::Error> {
    // A clone is a handle to the same connection; `oneshot` waits until it is ready and calls it.
    transport.clone().oneshot(JsonRpcMessage::request(id, method, params)).await
}

/// The tool of this name, else one that is known to take its time, else any.
fn choose(tools: &[Value], name: Option<String>) -> Option<&Value> {
    let named = |name: &str| tools.iter().find(|tool| tool["name"] == name);
    match name {
        Some(name) => named(&name),
        None => ["countdown", "slow", "trigger-long-running-operation"]
            .into_iter()
            .find_map(named)
            .or_else(|| tools.first()),
    }
}

/// Something of the right type for every argument that a tool takes.
fn sample_arguments(schema: &Value) -> Map<String, Value> {
    let properties = schema["properties"].as_object().into_iter().flatten();
    properties
        .map(|(name, property)| {
            let value = match property["type"].as_str() {
                Some("integer" | "number") => json!(3),
                Some("boolean") => json!(true),
                Some("array") => json!([]),
                Some("object") => json!({}),
                _ => property["enum"][0].as_str().map_or(json!("hello"), |first| json!(first)),
            };
            (name.clone(), value)
        })
        .collect()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
