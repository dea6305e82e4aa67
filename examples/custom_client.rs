//! Brings its own HTTP client, and that has no network: the MCP server is a function in this process.
//!
//! Any `Service<http::Request<Full<Bytes>>>` will do as the client: one over another HTTP library, a
//! proxy that is a tower service already, or, as here and in tests, the server itself.
//!
//! ```text
//! cargo run --example custom_client
//! cargo run --example custom_client --no-default-features   # needs no HTTP client to compile either
//! ```
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "printing is what an example is for")]

use std::convert::Infallible;
use std::error::Error;
use std::process::ExitCode;

use bytes::Bytes;
use futures_util::StreamExt;
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use mcp_streamable_http::{JsonRpcMessage, RawJson, Reply, StreamableHttp};
use serde_json::{Value, json};
use tower::{ServiceExt, service_fn};

const SESSION_ID: &str = "in-memory-1";

#[tokio::main(flavor = "current_thread")]
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
    // Nothing looks this name up: it is only what the server gets to see.
    let transport =
        StreamableHttp::with_client("http://in.memory/mcp".parse()?, service_fn(server)).build()?;

    let initialize = json!({
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": { "name": "custom-client", "version": env!("CARGO_PKG_VERSION") },
    });
    let server: Value = request(&transport, 1, "initialize", initialize).await?.response().await?.result()?;
    println!("Connected to {}, without a network.", server["serverInfo"]["name"]);
    let _ = transport.clone().oneshot(JsonRpcMessage::notification("notifications/initialized", ())).await?;

    let list: Value = request(&transport, 2, "tools/list", json!({})).await?.response().await?.result()?;
    println!("Its first tool: {}", list["tools"][0]["name"]);

    let call = json!({ "name": "shout", "arguments": { "text": "hello" }, "_meta": { "progressToken": 1 } });
    let mut reply = request(&transport, 3, "tools/call", call).await?;
    while let Some(message) = reply.next().await {
        match message? {
            JsonRpcMessage::Response(response) => {
                let result: Value = response.result()?;
                println!("The result: {}", result["content"][0]["text"]);
            }
            other => {
                let params: Value = other.params().map(RawJson::to).transpose()?.unwrap_or_default();
                println!("On the way: {}", params["message"]);
            }
        }
    }

    transport.terminate().await?;
    println!("The session has ended.");
    Ok(())
}

async fn request(
    transport: &StreamableHttp,
    id: i64,
    method: &'static str,
    params: Value,
) -> Result<Reply, mcp_streamable_http::Error> {
    transport.clone().oneshot(JsonRpcMessage::request(id, method, params)).await
}

/// The MCP server, in the shape of an HTTP client.
async fn server(request: Request<Full<Bytes>>) -> Result<Response<Full<Bytes>>, Infallible> {
    let (head, body) = request.into_parts();
    let message: Value = serde_json::from_slice(&body.collect().await?.to_bytes()).unwrap_or_default();
    Ok(answer(&head.method, &head.headers, &message))
}

fn answer(method: &Method, headers: &HeaderMap, message: &Value) -> Response<Full<Bytes>> {
    let (rpc_method, id) = (message["method"].as_str().unwrap_or_default(), &message["id"]);
    // Every message but the first names the session.
    if rpc_method != "initialize" && headers.get("mcp-session-id").is_none_or(|id| id != SESSION_ID) {
        return empty(StatusCode::NOT_FOUND);
    }
    match (method.as_str(), rpc_method) {
        ("DELETE", _) => empty(StatusCode::NO_CONTENT),
        ("POST", "initialize") => {
            let result = json!({
                "protocolVersion": message["params"]["protocolVersion"],
                "capabilities": { "tools": {} },
                "serverInfo": { "name": "in-memory-server", "version": env!("CARGO_PKG_VERSION") },
            });
            let mut response = body("application/json", response(id, &result).to_string());
            response.headers_mut().insert("mcp-session-id", http::HeaderValue::from_static(SESSION_ID));
            response
        }
        ("POST", "tools/list") => {
            let result = json!({ "tools": [{ "name": "shout", "inputSchema": { "type": "object" } }] });
            body("application/json", response(id, &result).to_string())
        }
        ("POST", "tools/call") => {
            let text = message["params"]["arguments"]["text"].as_str().unwrap_or_default().to_uppercase();
            let result = json!({ "content": [{ "type": "text", "text": text }] });
            let params = json!({ "progressToken": 1, "progress": 1, "message": "taking a breath" });
            let progress = json!({ "jsonrpc": "2.0", "method": "notifications/progress", "params": params });
            // Server-Sent Events: a stream of messages, the response last.
            body("text/event-stream", format!("data: {progress}\n\ndata: {}\n\n", response(id, &result)))
        }
        ("POST", _) if id.is_null() => empty(StatusCode::ACCEPTED),
        ("POST", _) => {
            let error = json!({ "code": -32601, "message": "There is no such method" });
            body("application/json", json!({ "jsonrpc": "2.0", "id": id, "error": error }).to_string())
        }
        _ => empty(StatusCode::METHOD_NOT_ALLOWED),
    }
}

fn response(id: &Value, result: &Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "result": result })
}

fn empty(status: StatusCode) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::default());
    *response.status_mut() = status;
    response
}

fn body(content_type: &'static str, text: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::from(text));
    response.headers_mut().insert("content-type", http::HeaderValue::from_static(content_type));
    response
}
