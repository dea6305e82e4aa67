//! Layers of the caller's that panic: in the middle of a call, before it has begun, or when they are asked whether they are
//! ready.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use mcp_streamable_http::channel::{Channel, ChannelOptions};
use mcp_streamable_http::{Error, JsonRpcMessage, Reply, StreamableHttp};
use serde_json::json;
use tower::Service;
use tower::layer::layer_fn;
use tower::util::BoxCloneSyncService;

use crate::common::*;
use crate::support::{Answer, Server, legacy};

type Messages = BoxCloneSyncService<JsonRpcMessage, Reply, Error>;

/// What is the matter with a layer.
#[derive(Clone, Default)]
struct Fault {
    /// It panics when it is asked whether it is ready.
    unready: Arc<AtomicBool>,
    /// It says first that it is not.
    hesitates: bool,
}

/// It panics when it is called with a message of this method, and with its fault.
#[derive(Clone)]
struct Faulty {
    inner: Messages,
    method: &'static str,
    fault: Fault,
    has_hesitated: bool,
}

impl Service<JsonRpcMessage> for Faulty {
    type Response = Reply;
    type Error = Error;
    type Future = Pin<Box<dyn Future<Output = Result<Reply, Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        if self.fault.hesitates && !std::mem::replace(&mut self.has_hesitated, true) {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        assert!(!self.fault.unready.load(Ordering::Relaxed), "the readiness of a test");
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, message: JsonRpcMessage) -> Self::Future {
        assert!(message.method() != Some(self.method), "the call of a test");
        self.inner.call(message)
    }
}

fn with_fault(transport: StreamableHttp, method: &'static str, fault: Fault) -> StreamableHttp {
    transport.layer(layer_fn(move |inner: Messages| Faulty {
        inner,
        method,
        fault: fault.clone(),
        has_hesitated: false,
    }))
}

/// That nothing else was harmed: a request and a notification get through.
async fn goes_on(server: &mut Server, channel: &mut Channel) {
    send(&channel.sender(), [request(100), notification("good")]);
    for _ in 0..2 {
        let arrived = server.next().await;
        if arrived.seen.what() == "ping" { arrived.result(json!({})) } else { arrived.accept() }
    }
    assert_eq!((id(&next(channel).await), server.count("good")), (100, 1));
    silent(channel).await;
    assert!(!channel.sender().is_closed());
}

#[tokio::test(start_paused = true)]
async fn a_panic_before_a_call_has_begun_is_the_answer_to_that_request_only() {
    let mut server = Server::manual();
    let (options, told) = with_hook(ChannelOptions::default());
    let transport = with_fault(server.transport(), "bad", Fault::default());
    let mut channel = transport.channel_with(options);
    send(&channel.sender(), [request(1)]);
    let other = server.expect("ping").await;
    send(&channel.sender(), [JsonRpcMessage::request(2, "bad", ()), notification("bad")]);
    let item = next(&mut channel).await;
    assert_eq!((id(&item), failure(&item)), (2, -32000));
    settle().await;
    assert_eq!(told_of(&told), ["bad"]);
    goes_on(&mut server, &mut channel).await;
    other.result(json!({}));
    assert_eq!(result(&next(&mut channel).await), json!({}));
}

#[tokio::test(start_paused = true)]
async fn a_panic_when_asked_for_readiness_is_the_answer_to_that_request_only() {
    for hesitates in [false, true] {
        let mut server = Server::manual();
        let (options, told) = with_hook(ChannelOptions::default());
        let fault = Fault { hesitates, ..Fault::default() };
        let mut channel = with_fault(server.transport(), "", fault.clone()).channel_with(options);
        send(&channel.sender(), [request(1)]);
        let other = server.expect("ping").await;
        fault.unready.store(true, Ordering::Relaxed);
        send(&channel.sender(), [request(2), notification("bad"), response(3), cancelled(99)]);
        let item = next(&mut channel).await;
        assert_eq!((id(&item), failure(&item)), (2, -32000));
        settle().await;
        assert_eq!(told_of(&told), ["bad", "=", "notifications/cancelled"]);
        fault.unready.store(false, Ordering::Relaxed);
        goes_on(&mut server, &mut channel).await;
        other.result(json!({}));
        assert_eq!(result(&next(&mut channel).await), json!({}));
    }
}

#[tokio::test(start_paused = true)]
async fn an_initialize_that_panics_holds_nothing_up() {
    let mut server = Server::manual();
    let mut channel = with_fault(server.transport(), "initialize", Fault::default()).channel();
    send(&channel.sender(), [initialize(0)]);
    assert_eq!(failure(&next(&mut channel).await), -32000);
    goes_on(&mut server, &mut channel).await;
}

#[tokio::test(start_paused = true)]
async fn an_initialized_that_panics_holds_nothing_up_and_nobody_listens() {
    let mut server = Server::scripted(|seen| (seen.what() == "initialize").then(|| legacy(seen)).flatten());
    let transport = with_fault(server.transport(), "notifications/initialized", Fault::default());
    let mut channel = transport.channel();
    handshake(&mut channel).await;
    goes_on(&mut server, &mut channel).await;
    assert_eq!(server.count("GET"), 0);
}

#[tokio::test(start_paused = true)]
async fn a_layer_that_panics_does_not_keep_a_channel_from_closing() {
    let mut server = Server::scripted(|seen| match seen.what() {
        "GET" => Some(Answer::status(405)),
        "notifications/initialized" => None,
        _ => legacy(seen),
    });
    let (options, told) = with_hook(ChannelOptions::default());
    let mut channel = with_fault(server.transport(), "bad", Fault::default()).channel_with(options);
    handshake(&mut channel).await;
    send(&channel.sender(), [notification("bad"), notification("good")]);
    let notified = server.expect("notifications/initialized").await;
    let closing = tokio::spawn(channel.close());
    settle().await;
    notified.accept();
    server.expect("good").await.accept();
    soon(closing).await.unwrap();
    assert_eq!((told_of(&told), server.count("DELETE")), (vec!["bad".to_owned()], 1));
}
