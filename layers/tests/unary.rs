//! Whole calls as one future, and tower's middleware over them.

#![allow(clippy::unwrap_used)]

mod common;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use common::*;
use mcp_streamable_http_layers::error::{BoxError, EndedStream};
use mcp_streamable_http_layers::{
    Error, Event, Events, Expects, JsonRpcMessage, Reply, Session, TranslateCancelLayer, UnaryLayer,
};
use serde_json::json;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tower::limit::ConcurrencyLimitLayer;
use tower::timeout::TimeoutLayer;
use tower::{Service, ServiceBuilder, ServiceExt, service_fn};

type Sender = mpsc::UnboundedSender<Result<Event, BoxError>>;

/// What was sent, and where to write what it is answered with.
type Calls = mpsc::UnboundedReceiver<(JsonRpcMessage, Sender)>;

fn server()
-> (impl Service<JsonRpcMessage, Response = Reply, Error = Error, Future: Send> + Clone + Send + Sync, Calls)
{
    let (sent, calls) = mpsc::unbounded_channel();
    let server = service_fn(move |message: JsonRpcMessage| {
        let (sender, mut receiver) = mpsc::unbounded_channel();
        let expects = match &message {
            JsonRpcMessage::Request(request) => Expects::Response(request.id().clone()),
            _ => Expects::Acceptance,
        };
        let _ = sent.send((message, sender));
        let events = futures_util::stream::poll_fn(move |cx| receiver.poll_recv(cx));
        std::future::ready(Ok(Reply::new(expects, Events::new(events))))
    });
    (server, calls)
}

fn pong() -> JsonRpcMessage {
    JsonRpcMessage::response(1, json!({ "pong": true }))
}

#[tokio::test]
async fn it_is_ready_with_the_response_and_hands_over_what_comes_before() {
    let (server, mut calls) = server();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let sink = {
        let seen = seen.clone();
        move |message: JsonRpcMessage| seen.lock().unwrap().push(message)
    };
    let service = ServiceBuilder::new().layer(UnaryLayer::new(sink)).service(server);

    let call = tokio::spawn(service.oneshot(ping(1)));
    let (_, answer) = calls.recv().await.unwrap();
    for message in [notification(), ping(7), pong(), notification()] {
        let _ = answer.send(Ok(message.into()));
    }
    assert_eq!(call.await.unwrap().unwrap().map(JsonRpcMessage::from), Some(pong()));
    assert_eq!(*seen.lock().unwrap(), [notification(), ping(7)]);
}

#[tokio::test]
async fn what_needs_no_response_has_none_and_what_fails_fails() {
    let (server, mut calls) = server();
    let service = ServiceBuilder::new().layer(UnaryLayer::new(drop)).service(server);
    let accepted = tokio::spawn(service.clone().oneshot(notification()));
    drop(calls.recv().await.unwrap().1);
    assert_eq!(accepted.await.unwrap().unwrap(), None);

    let ended = tokio::spawn(service.clone().oneshot(ping(1)));
    drop(calls.recv().await.unwrap().1);
    assert!(ended.await.unwrap().unwrap_err().find::<EndedStream>().is_some());

    let broken = tokio::spawn(service.oneshot(ping(2)));
    let _ = calls.recv().await.unwrap().1.send(Err("broken".into()));
    assert_eq!(broken.await.unwrap().unwrap_err().to_string(), "broken");
}

#[tokio::test(start_paused = true)]
async fn a_timeout_covers_the_whole_call_and_cancels_it_on_the_server() {
    let (server, mut calls) = server();
    let mut service = ServiceBuilder::new()
        .layer(TimeoutLayer::new(Duration::from_secs(5)))
        .layer(UnaryLayer::new(drop))
        .layer(TranslateCancelLayer::new(Session::new()))
        .service(server);
    let start = Instant::now();
    let call = service.ready().await.unwrap().call(ping(1));
    let call = tokio::spawn(call);
    let (_, answer) = calls.recv().await.unwrap();
    let _ = answer.send(Ok(notification().into()));
    let error = Error::new(call.await.unwrap().unwrap_err());
    assert!(error.is_timeout(), "{error}");
    assert_eq!(start.elapsed(), Duration::from_secs(5));
    assert!(answer.is_closed(), "the stream is closed");
    let (notice, _) = calls.recv().await.unwrap();
    assert_eq!(notice.method(), Some("notifications/cancelled"));
}

#[tokio::test]
async fn a_limit_covers_the_whole_call() {
    let (server, mut calls) = server();
    let service = ServiceBuilder::new()
        .layer(ConcurrencyLimitLayer::new(1))
        .layer(UnaryLayer::new(drop))
        .service(server);
    let first = tokio::spawn(service.clone().oneshot(ping(1)));
    let (_, answer) = calls.recv().await.unwrap();
    let mut second = service;
    {
        let mut ready = tokio_test::task::spawn(second.ready());
        assert!(ready.poll().is_pending(), "the head of an answer does not free the place");
    }
    let _ = answer.send(Ok(pong().into()));
    first.await.unwrap().unwrap();
    let second = tokio::spawn(second.oneshot(ping(1)));
    let _ = calls.recv().await.unwrap().1.send(Ok(pong().into()));
    assert!(second.await.unwrap().unwrap().is_some());
}

/// Measures calls, as a layer of anyone's does: from the call to its end.
#[derive(Clone)]
struct Metered<S>(S, Arc<Mutex<Vec<(Duration, bool)>>>);

impl<S> Service<JsonRpcMessage> for Metered<S>
where
    S: Service<JsonRpcMessage, Error = Error, Future: Send + 'static>,
{
    type Response = S::Response;
    type Error = Error;
    type Future = std::pin::Pin<Box<dyn Future<Output = Result<S::Response, Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut std::task::Context<'_>) -> std::task::Poll<Result<(), Error>> {
        self.0.poll_ready(cx)
    }

    fn call(&mut self, message: JsonRpcMessage) -> Self::Future {
        let (call, calls, start) = (self.0.call(message), self.1.clone(), Instant::now());
        Box::pin(async move {
            let outcome = call.await;
            calls.lock().unwrap().push((start.elapsed(), outcome.is_ok()));
            outcome
        })
    }
}

#[tokio::test(start_paused = true)]
async fn a_measurement_covers_the_whole_call_and_its_outcome() {
    let (server, mut calls) = server();
    let measured = Arc::new(Mutex::new(Vec::new()));
    let service =
        Metered(ServiceBuilder::new().layer(UnaryLayer::new(drop)).service(server), measured.clone());

    for (item, took) in
        [(Ok(pong().into()), Duration::from_secs(3)), (Err("broken".into()), Duration::from_secs(7))]
    {
        let call = tokio::spawn(service.clone().oneshot(ping(1)));
        let (_, answer) = calls.recv().await.unwrap();
        tokio::time::advance(took).await;
        let succeeds = item.is_ok();
        let _ = answer.send(item);
        assert_eq!(call.await.unwrap().is_ok(), succeeds);
        assert_eq!(measured.lock().unwrap().last(), Some(&(took, succeeds)));
    }
}

#[test]
fn a_flood_lets_other_tasks_run() {
    let flood = || (0..1_000).map(|_| notification()).chain([pong()]).map(|message| Ok(message.into()));
    let server = service_fn(move |_: JsonRpcMessage| {
        let reply = Reply::new(Expects::Response(1.into()), Events::all(flood().collect()));
        std::future::ready(Ok::<_, Error>(reply))
    });
    let service = ServiceBuilder::new().layer(UnaryLayer::new(drop)).service(server);
    let mut call = tokio_test::task::spawn(service.oneshot(ping(1)));
    let mut polls = 0;
    while call.poll().is_pending() {
        assert!(call.is_woken(), "it asks to be polled again");
        polls += 1;
    }
    assert!(polls > 3, "{polls}");
}
