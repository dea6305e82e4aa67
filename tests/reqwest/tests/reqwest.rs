//! The transport over `reqwest::Client`, to a server on the loopback interface.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "in a test a panic is how it fails")]

use std::convert::Infallible;
use std::future::Future;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use http::{Request, Response, Uri};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use mcp_streamable_http::error::NotSent;
use mcp_streamable_http::{Backoff, JsonRpcMessage, RetryPolicy, StreamableHttp};
use mcp_streamable_http_reqwest_example::over;
use reqwest::redirect;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tower::ServiceExt;

/// Only so that a broken test fails instead of hanging.
async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(20), future).await.expect("it takes too long")
}

fn transport(uri: Uri) -> StreamableHttp {
    let client = reqwest::Client::builder().redirect(redirect::Policy::none()).no_proxy().build().unwrap();
    let never_again = RetryPolicy::new().backoff(Backoff::default().attempts(0));
    StreamableHttp::with_client(uri, over(client)).retry(never_again).build().unwrap()
}

/// Starts a server. It says on the channel when an answer that has no end is dropped.
async fn server() -> (Uri, mpsc::UnboundedReceiver<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let uri = format!("http://{}/mcp?key=s3cret", listener.local_addr().unwrap()).parse().unwrap();
    let (dropped, closed) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            let dropped = dropped.clone();
            let service = service_fn(move |request| answer(request, dropped.clone()));
            tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(socket), service));
        }
    });
    (uri, closed)
}

/// Tells when it is dropped.
struct Guard(mpsc::UnboundedSender<()>);

impl Drop for Guard {
    fn drop(&mut self) {
        let _ = self.0.send(());
    }
}

async fn answer(
    request: Request<Incoming>,
    dropped: mpsc::UnboundedSender<()>,
) -> Result<Response<UnsyncBoxBody<Bytes, Infallible>>, Infallible> {
    let length = request.headers().get("content-length").cloned();
    let body = request.into_body().collect().await.unwrap().to_bytes();
    let message: Value = serde_json::from_slice(&body).unwrap();
    let id = &message["id"];
    let progress = json!({ "jsonrpc": "2.0", "method": "notifications/progress", "params": {} });
    let result =
        json!({ "length": length.and_then(|length| length.to_str().unwrap().parse::<usize>().ok()) });
    let response = json!({ "jsonrpc": "2.0", "id": id, "result": result });
    let event = |message: &Value| Ok(Frame::data(Bytes::from(format!("data: {message}\n\n"))));
    let (kind, body) = match message["method"].as_str() {
        Some("json") => ("application/json", Full::from(response.to_string()).boxed_unsync()),
        Some("events") => {
            let events = [event(&progress), event(&response)];
            ("text/event-stream", StreamBody::new(stream::iter(events)).boxed_unsync())
        }
        Some("for/ever") => {
            let guard = Guard(dropped);
            let rest = stream::pending().map(move |frame| {
                let _kept = &guard;
                frame
            });
            let events = stream::iter([event(&progress)]).chain(rest);
            ("text/event-stream", StreamBody::new(events).boxed_unsync())
        }
        Some("elsewhere") => {
            let moved = Response::builder().status(307).header("location", "http://elsewhere.invalid/mcp");
            return Ok(moved.body(Full::default().boxed_unsync()).unwrap());
        }
        _ => {
            let accepted = Response::builder().status(202);
            return Ok(accepted.body(Full::default().boxed_unsync()).unwrap());
        }
    };
    Ok(Response::builder().header("content-type", kind).body(body).unwrap())
}

#[tokio::test]
async fn a_request_is_answered_with_json() {
    let (uri, _closed) = server().await;
    let request = JsonRpcMessage::request(1, "json", json!({ "a": "b" }));
    let reply = soon(transport(uri).oneshot(request)).await.unwrap();
    let result: Value = soon(reply.response()).await.unwrap().result().unwrap();
    // Its length is known, so it is not sent in chunks.
    assert!(result["length"].is_u64(), "{result}");
}

#[tokio::test]
async fn a_request_is_answered_with_a_stream() {
    let (uri, _closed) = server().await;
    let reply = soon(transport(uri).oneshot(JsonRpcMessage::request(1, "events", ()))).await.unwrap();
    let messages: Vec<_> = soon(reply.collect()).await;
    let messages: Vec<_> = messages.into_iter().map(Result::unwrap).collect();
    assert_eq!(messages.len(), 2);
    assert_eq!(messages[0].method(), Some("notifications/progress"));
    assert!(messages[1].as_response().is_some());
}

#[tokio::test]
async fn a_notification_is_accepted() {
    let (uri, _closed) = server().await;
    let message = JsonRpcMessage::notification("notifications/initialized", ());
    let reply = soon(transport(uri).oneshot(message)).await.unwrap();
    assert_eq!(soon(reply.collect::<Vec<_>>()).await.len(), 0);
}

#[tokio::test]
async fn a_dropped_reply_closes_its_connection() {
    let (uri, mut closed) = server().await;
    let mut reply = soon(transport(uri).oneshot(JsonRpcMessage::request(1, "for/ever", ()))).await.unwrap();
    let first = soon(reply.next()).await.unwrap().unwrap();
    assert_eq!(first.method(), Some("notifications/progress"));
    assert!(closed.try_recv().is_err(), "the server still sends it");
    drop(reply);
    assert_eq!(soon(closed.recv()).await, Some(()));
}

#[tokio::test]
async fn a_redirect_to_another_origin_is_not_followed() {
    let (uri, _closed) = server().await;
    let error = soon(transport(uri).oneshot(JsonRpcMessage::request(1, "elsewhere", ()))).await.unwrap_err();
    assert_eq!(error.status().map(|status| status.as_u16()), Some(307), "{error:?}");
}

#[tokio::test]
async fn a_refused_connection_is_told_from_a_broken_one_and_tells_no_secret() {
    // A port that was free a moment ago.
    let address = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let uri = format!("http://{address}/mcp?key=s3cret").parse().unwrap();
    let error = soon(transport(uri).oneshot(JsonRpcMessage::request(1, "json", ()))).await.unwrap_err();
    assert!(error.find::<NotSent>().is_some() && !error.may_have_run(), "{error:?}");
    assert!(!format!("{error} {error:?}").contains("s3cret"), "{error:?}");
}
