//! Each request is answered, whatever happens to it.

use std::future::Future;
use std::pin::Pin;

use mcp_streamable_http::channel::Origin;
use mcp_streamable_http::{Error, JsonRpcMessage, Reply, StreamableHttp};
use serde_json::json;
use tower::layer::layer_fn;
use tower::limit::ConcurrencyLimitLayer;
use tower::util::BoxCloneSyncService;
use tower::{Service, service_fn};

use crate::common::*;
use crate::support::{Answer, Server};

#[tokio::test(start_paused = true)]
async fn a_request_that_fails_is_answered_with_an_error_under_its_id() {
    let foreign = json!({ "jsonrpc": "2.0", "id": 1, "result": {} });
    let failures = [
        (Answer::broken(), -32000),
        (Answer::status(500), -32603),
        (Answer::status(404), -32601),
        (Answer::status(202), -32600),
        (Answer::text("text/html", "<html>"), -32600),
        (Answer::text("application/json", "{no json"), -32700),
        (Answer::events(&[progress(1)]), -32000),
        (Answer::text("text/event-stream", "data: {no json\n\n"), -32700),
        // The first of these requests is in flight.
        (Answer::json(&foreign), -32700),
    ];
    let mut server = Server::manual();
    let mut channel = server.transport().channel();
    // Which is not sent again, whatever happens.
    let call = |id| JsonRpcMessage::request(id, "call", ());
    send(&channel.sender(), [call(1)]);
    let first = server.expect("call").await;
    for (number, (answer, code)) in (2..).zip(failures) {
        send(&channel.sender(), [call(number)]);
        server.expect("call").await.answer(answer);
        let mut item = next(&mut channel).await;
        if item.message.method().is_some() {
            assert_eq!((step(&item), &item.origin), (1, &Origin::Request(number.into())));
            item = next(&mut channel).await;
        }
        assert_eq!((id(&item), failure(&item)), (number, code), "{item:?}");
        assert_eq!(item.origin, Origin::Request(number.into()));
    }
    first.result(json!({}));
    let item = next(&mut channel).await;
    assert_eq!((id(&item), result(&item)), (1, json!({})));
    silent(&mut channel).await;
}

#[tokio::test(start_paused = true)]
async fn an_error_of_the_server_is_an_answer_like_another() {
    let mut server = Server::manual();
    let mut channel = server.transport().channel();
    send(&channel.sender(), [request(1)]);
    let refusal = json!({ "jsonrpc": "2.0", "id": 1, "error": { "code": 7, "message": "no" } });
    server.expect("ping").await.answer(Answer::json(&refusal));
    let item = next(&mut channel).await;
    assert!(item.failure.is_none());
    assert_eq!(item.message.as_response().unwrap().outcome().unwrap_err().code(), 7);
}

#[tokio::test(start_paused = true)]
async fn a_request_that_cannot_be_sent_is_answered_too() {
    let server = Server::manual();
    let mut channel = server.transport().channel();
    let headers = [("mcp-session-id".parse().unwrap(), "mine".parse().unwrap())];
    let headers = mcp_streamable_http::options::ExtraHeaders(http::HeaderMap::from_iter(headers));
    send(&channel.sender(), [request(1).with(headers)]);
    let item = next(&mut channel).await;
    assert_eq!((id(&item), failure(&item)), (1, -32600));
    assert!(server.outline().is_empty());
}

/// The transport with a layer that deals with one method itself.
fn with_layer<F>(transport: StreamableHttp, method: &'static str, f: F) -> StreamableHttp
where
    F: Fn() -> Result<Reply, Error> + Clone + Send + Sync + 'static,
{
    type Messages = BoxCloneSyncService<JsonRpcMessage, Reply, Error>;
    type Call = Pin<Box<dyn Future<Output = Result<Reply, Error>> + Send>>;
    transport.layer(layer_fn(move |messages: Messages| {
        let f = f.clone();
        service_fn(move |message: JsonRpcMessage| -> Call {
            if message.method() == Some(method) {
                let f = f.clone();
                return Box::pin(async move { f() });
            }
            messages.clone().call(message)
        })
    }))
}

#[tokio::test(start_paused = true)]
async fn a_layer_that_panics_takes_down_its_own_request_only() {
    let mut server = Server::manual();
    let mut channel = with_layer(server.transport(), "bad", || panic!("the layer of a test")).channel();
    let bad = |id| JsonRpcMessage::request(id, "bad", ());
    send(&channel.sender(), [request(1), bad(2), request(3), notification("bad"), notification("a")]);
    let item = next(&mut channel).await;
    assert_eq!((id(&item), failure(&item)), (2, -32000));
    for _ in 0..3 {
        let arrived = server.next().await;
        if arrived.seen.what() == "ping" { arrived.result(json!({})) } else { arrived.accept() }
    }
    for expected in [1, 3] {
        let item = next(&mut channel).await;
        assert_eq!((id(&item), result(&item)), (expected, json!({})));
    }
    // The id is free again.
    send(&channel.sender(), [request(2)]);
    server.expect("ping").await.result(json!({}));
    assert_eq!(result(&next(&mut channel).await), json!({}));
}

#[tokio::test(start_paused = true)]
async fn a_layer_that_is_not_ready_delays_and_loses_nothing() {
    let mut server = Server::manual();
    let transport = server.transport().layer(ConcurrencyLimitLayer::new(1));
    let mut channel = transport.channel();
    send(&channel.sender(), [request(1), request(2), notification("a")]);
    let first = server.next().await;
    assert!(first.seen.has_id(1));
    settle().await;
    assert_eq!(server.seen().len(), 1);
    first.result(json!({}));
    assert_eq!(id(&next(&mut channel).await), 1);
    for _ in 0..2 {
        let arrived = server.next().await;
        if arrived.seen.what() == "ping" { arrived.result(json!({})) } else { arrived.accept() }
    }
    assert_eq!(id(&next(&mut channel).await), 2);
}

#[tokio::test(start_paused = true)]
async fn a_layer_that_fails_answers_the_request() {
    let server = Server::manual();
    let refuse = || Err(Error::new("this layer says no"));
    let mut channel = with_layer(server.transport(), "ping", refuse).channel();
    send(&channel.sender(), [request(1)]);
    let item = next(&mut channel).await;
    assert_eq!((id(&item), failure(&item)), (1, -32000));
    assert!(item.failure.unwrap().to_string().contains("this layer says no"));
    assert!(server.outline().is_empty());
}
