//! How often the transport allocates, beyond the HTTP client below it.
//!
//! The counts are those of the whole process, so this file has one test only, and the client is in memory.
#![allow(clippy::unwrap_used, reason = "helpers of a test")]

use std::alloc::System;
use std::convert::Infallible;

use bytes::Bytes;
use futures_util::StreamExt;
use http::{HeaderValue, Request, Response, header};
use http_body_util::{BodyExt, Full};
use mcp_streamable_http::{JsonRpcMessage, StreamableHttp};
use serde_json::json;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use tower::util::BoxCloneSyncService;
use tower::{Service, ServiceExt};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// What a call may cost beyond the same exchange without the transport.
const PER_JSON_CALL: usize = 5;
const PER_EVENT: usize = 1;

type Client = BoxCloneSyncService<Request<Full<Bytes>>, Response<Full<Bytes>>, Infallible>;

/// Answers everything with `body`.
fn client(content_type: &'static str, body: Bytes) -> Client {
    BoxCloneSyncService::new(tower::service_fn(move |_: Request<Full<Bytes>>| {
        let mut response = Response::new(Full::new(body.clone()));
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
        std::future::ready(Ok(response))
    }))
}

async fn counted<T>(work: impl Future<Output = T>) -> (usize, T) {
    let region = Region::new(ALLOCATOR);
    let output = work.await;
    let change = region.change();
    (change.allocations + change.reallocations, output)
}

/// The same exchange as a careful user of the bare client would write it.
async fn bare_call(client: &mut Client, body: Bytes) -> Bytes {
    let mut request = Request::post("http://in.memory/mcp").body(Full::new(body)).unwrap();
    let headers = request.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(header::ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
    let response = client.ready().await.unwrap().call(request).await.unwrap();
    response.into_body().collect().await.unwrap().to_bytes()
}

async fn call(transport: &mut StreamableHttp, message: JsonRpcMessage) -> usize {
    let reply = transport.ready().await.unwrap().call(message).await.unwrap();
    reply.count().await
}

#[tokio::test(flavor = "current_thread")]
async fn few_allocations_per_call_and_at_most_one_per_event() {
    let message =
        JsonRpcMessage::request(1, "tools/call", json!({ "name": "add", "arguments": { "a": 1, "b": 2 } }));

    let mut bare =
        client("application/json", Bytes::from_static(br#"{"jsonrpc":"2.0","id":1,"result":{"sum":3}}"#));
    let uri: http::Uri = "http://in.memory/mcp".parse().unwrap();
    let mut transport = StreamableHttp::with_client(uri.clone(), bare.clone()).build().unwrap();
    let encoded = message.encode();
    // The first call of each may set something up.
    call(&mut transport, message.clone()).await;
    bare_call(&mut bare, encoded.clone()).await;

    let (theirs, _) = counted(bare_call(&mut bare, encoded)).await;
    let (ours, items) = counted(call(&mut transport, message.clone())).await;
    assert_eq!(items, 1);
    assert!(ours <= theirs + PER_JSON_CALL, "{ours} allocations a call; without the transport {theirs}");

    let sse_call = async |events: usize| {
        let event = format!(
            "data: {}\n\n",
            json!({ "jsonrpc": "2.0", "method": "notifications/message", "params": {} })
        );
        let body = event.repeat(events) + "data: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n\n";
        let client = client("text/event-stream", body.into());
        let mut transport = StreamableHttp::with_client(uri.clone(), client).build().unwrap();
        let (count, items) = counted(call(&mut transport, message.clone())).await;
        assert_eq!(items, events + 1);
        count
    };
    let (few, many) = (sse_call(10).await, sse_call(1_010).await);
    assert!(many <= few + 1_000 * PER_EVENT, "{} allocations for 1,000 events more", many - few);
    eprintln!("json: {ours} with, {theirs} without; sse: {few} for 10 events, {many} for 1,010");
}
