//! Puts the transport together by hand, layer by layer, with one layer of its own on each of the three floors.
//!
//! `StreamableHttp` is such a stack behind one type. Build your own to leave a layer out, to put yours in between, or to
//! fit the transport into a tower stack that you have.
//!
//! ```text
//! cargo run --example by_hand                 # starts a small server of its own
//! cargo run --example by_hand -- URL          # talks to the server at URL
//! ```
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "printing is what an example is for")]

#[path = "support/mod.rs"]
mod support;

use std::process::ExitCode;

use bytes::Bytes;
use http::{HeaderValue, Request};
use http_body_util::Full;
use mcp_streamable_http::layers::{
    Endpoint, EnvelopeLayer, FirstByteTimeoutLayer, JsonRpcMessage, MirrorHeadersLayer, Payload,
    RedirectLayer, Reply, Session, SetSessionIdLayer, SseLayer, StampVersionLayer, TranslateCancelLayer,
};
use mcp_streamable_http::{Client, Limits};
use serde_json::{Value, json};
use tower::util::{MapRequestLayer, MapResponseLayer};
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
    // Lives to the end of this function, and stops then.
    let (url, _server) = match std::env::args().nth(1) {
        Some(url) => (url, None),
        None => {
            let server = support::Server::start().await?;
            (server.url(), Some(server))
        }
    };
    let endpoint = Endpoint::new(url.parse()?)?;
    // What the connection has agreed on with the server; the layers share it.
    let session = Session::new();

    let envelopes = ServiceBuilder::new()
        // Envelopes: HTTP heads with parsed messages, both ways.
        .layer(SetSessionIdLayer::new(session.clone()))
        .layer(StampVersionLayer::new(session.clone()))
        .layer(MirrorHeadersLayer::new())
        // On this floor, as only here a request is its message and its headers at once, and nothing need be parsed.
        .layer(MapRequestLayer::new(show_envelope))
        .layer(SseLayer::new(Limits::default()))
        // Bytes: plain HTTP, both ways.
        // On this floor, as a token belongs on every request, whatever is in it; and above `Redirect`, so that it is
        // added for the server that it is meant for, and for no other.
        .layer(MapRequestLayer::new(authorize))
        .layer(RedirectLayer::new())
        .layer(FirstByteTimeoutLayer::new())
        .service(Client::new()?);
    let mut messages = ServiceBuilder::new()
        // On this floor, as only here one sees a call to its end: the last message of its reply.
        .layer(MapResponseLayer::new(show_end))
        // Gives a call up on the server too, when its reply is dropped.
        .layer(TranslateCancelLayer::new(session.clone()))
        // The bridge from messages to envelopes.
        .layer(EnvelopeLayer::new(endpoint.clone(), session.clone()))
        .service(envelopes.clone());

    println!("The stack is put together; nothing has been sent.\n");
    let initialize = json!({
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": { "name": "by-hand", "version": env!("CARGO_PKG_VERSION") },
    });
    let server: Value = ask(&mut messages, 1, "initialize", initialize).await?;
    println!("Connected to {}.\n", server["serverInfo"]["name"]);
    let initialized = JsonRpcMessage::notification("notifications/initialized", ());
    let _ = messages.ready().await?.call(initialized).await?;

    let list = ask(&mut messages, 2, "tools/list", json!({})).await?;
    println!("It has {} tools.\n", list["tools"].as_array().map_or(0, Vec::len));

    // A GET or DELETE has no message, so it starts one floor below.
    envelopes.oneshot(endpoint.delete()).await?;
    println!("The session has ended.");
    Ok(())
}

/// The stack is a `Service` like any other; this works with every one that answers messages.
async fn ask<S>(service: &mut S, id: i64, method: &'static str, params: Value) -> Result<Value, BoxError>
where
    S: Service<JsonRpcMessage, Response = Reply, Error: Into<BoxError>>,
{
    let request = JsonRpcMessage::request(id, method, params);
    let reply = service.ready().await.map_err(Into::into)?.call(request).await.map_err(Into::into)?;
    Ok(reply.response().await?.result()?)
}

/// The user's layer for messages.
fn show_end(reply: Reply) -> Reply {
    let mut count = 0;
    reply.map(move |item| {
        count += 1;
        match &item {
            Ok(message) if message.as_response().is_some() => println!("  messages: {count}, and done"),
            Ok(_) => {}
            Err(error) => println!("  messages: {count}, and failed: {error}"),
        }
        item
    })
}

/// The user's layer for envelopes.
fn show_envelope(request: Request<Payload>) -> Request<Payload> {
    let method = request.body().message().and_then(JsonRpcMessage::method).unwrap_or("no message");
    let version = request.headers().get("mcp-protocol-version").and_then(|value| value.to_str().ok());
    println!(
        "  envelope: {} of {method}, version {}",
        request.method(),
        version.unwrap_or("not agreed on yet")
    );
    request
}

/// The user's layer for bytes.
fn authorize(mut request: Request<Full<Bytes>>) -> Request<Full<Bytes>> {
    let mut token = HeaderValue::from_static("Bearer not-a-real-token");
    token.set_sensitive(true);
    request.headers_mut().insert(http::header::AUTHORIZATION, token);
    request
}
