//! Spreads calls over several endpoints of one server that keeps no state, with tower's balancer.
//!
//! It lives on the message floor, over one transport for each endpoint: so the load is that of calls from message to response,
//! and what belongs to a call, which is its cancellation, goes where the call went. On the wire floor the load would be that of
//! heads of answers, and each request would go its own way.
//!
//! ```text
//! cargo run --example balance
//! ```
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "printing is what an example is for")]

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;
use http::{Request, Response, Uri};
use http_body_util::{BodyExt, Full};
use mcp_streamable_http::layers::UnaryLayer;
use mcp_streamable_http::{JsonRpcMessage, StreamableHttp};
use serde_json::{Value, json};
use tower::balance::p2c::Balance;
use tower::buffer::Buffer;
use tower::discover::ServiceList;
use tower::load::{CompleteOnResponse, PeakEwmaDiscover};
use tower::{BoxError, ServiceBuilder, ServiceExt, service_fn};

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

async fn run() -> Result<(), BoxError> {
    let mut endpoints = Vec::new();
    for (host, delay) in [("a.in.memory", 10), ("b.in.memory", 10), ("slow.in.memory", 200)] {
        let uri = Uri::try_from(format!("http://{host}/mcp"))?;
        let client = service_fn(move |request| server(request, Duration::from_millis(delay)));
        let transport = StreamableHttp::with_client(uri, client).build()?;
        // A call is over with its response, which is what is to be timed.
        let calls = ServiceBuilder::new().layer(UnaryLayer::new(drop)).service(transport);
        endpoints.push(calls);
    }
    // Endpoints of which nothing is known yet count as that slow; what was measured is forgotten within some tens of seconds.
    let (first_guess, memory) = (Duration::from_millis(50), Duration::from_secs(10));
    // A list never changes; any other `Discover` will do in its place.
    let endpoints = ServiceList::new(endpoints);
    let endpoints = PeakEwmaDiscover::new(endpoints, first_guess, memory, CompleteOnResponse::default());
    // Of two endpoints drawn at random the one with less load gets the call. The balancer cannot be cloned, and `Buffer` lets
    // all callers share it.
    let calls = Buffer::new(Balance::new(endpoints), 64);

    let mut answers = BTreeMap::new();
    for round in 0..10 {
        let round = join_all((0..6).map(|n| calls.clone().oneshot(request(10 * round + n))));
        for answer in round.await {
            let response = answer?.ok_or("a request has a response")?;
            let host = response.result::<Value>()?["host"].to_string();
            *answers.entry(host).or_insert(0) += 1;
        }
    }
    for (host, count) in answers {
        println!("{host} has answered {count} of 60 calls.");
    }
    Ok(())
}

/// In the modern era there is neither handshake nor session: each request says by itself all that a server must know.
fn request(id: i64) -> JsonRpcMessage {
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": { "name": "balance", "version": env!("CARGO_PKG_VERSION") },
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    JsonRpcMessage::request(id, "tools/call", json!({ "name": "whoami", "arguments": {}, "_meta": meta }))
}

/// One endpoint of the server, in the shape of an HTTP client.
async fn server(request: Request<Full<Bytes>>, delay: Duration) -> Result<Response<Full<Bytes>>, BoxError> {
    let host = request.uri().host().unwrap_or_default().to_owned();
    let message: Value = serde_json::from_slice(&request.into_body().collect().await?.to_bytes())?;
    tokio::time::sleep(delay).await;
    let response = json!({ "jsonrpc": "2.0", "id": message["id"], "result": { "host": host } });
    Ok(Response::builder().header("content-type", "application/json").body(response.to_string().into())?)
}
