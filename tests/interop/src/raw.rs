//! HTTP without the transport, to meddle with its sessions.

use bytes::Bytes;
use http::{HeaderValue, Method, Request, StatusCode, Uri};
use http_body_util::Full;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;

/// Sends `body` in the session with the id `session`, and returns the status of the answer.
pub async fn send(method: Method, uri: Uri, session: HeaderValue, body: &'static str) -> StatusCode {
    let request = Request::builder()
        .method(method)
        .uri(uri)
        .header("accept", "application/json, text/event-stream")
        .header("content-type", "application/json")
        .header("mcp-protocol-version", "2025-11-25")
        .header("mcp-session-id", session)
        .body(Full::<Bytes>::from(body))
        .unwrap();
    Client::builder(TokioExecutor::new()).build_http().request(request).await.unwrap().status()
}
