//! Redirects: the calls that are made for them, and what becomes of the bodies in between.

#![allow(clippy::unwrap_used)]

mod common;

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use common::bridge::{Answer, Query};
use common::*;
use http::{Request, Response};
use http_body_util::Full;
use mcp_streamable_http_layers::RedirectLayer;
use mcp_streamable_http_layers::error::BoxError;
use tokio::time::advance;
use tokio_test::assert_pending;
use tower::{Layer, Service, service_fn};
use tower_test::mock;

fn post() -> Query {
    Request::post("http://h/mcp").body(Full::default()).unwrap()
}

fn moved(location: &str) -> Answer {
    with_header(answer(307, "", ""), "location", location.as_bytes())
}

#[test]
fn readiness_is_that_of_the_service_below() {
    // This mock panics when one is called that was not made ready: a clone of it is not.
    let (mock, handle) = mock::pair::<Query, Answer>();
    let (service, mut server) = (RedirectLayer::new().layer(mock), Server(handle));
    assert_ready_passes_through(service, &mut server);

    let (mock, handle) = mock::pair::<Query, Answer>();
    let (mut service, mut server) = (RedirectLayer::new().layer(mock), Server(handle));
    server.0.allow(1);
    let mut sent = call(&mut service, post());
    server.received().1.send_response(moved("/mcp/"));
    assert_pending!(sent.poll());
    server.assert_nothing_received();
    server.0.allow(1);
    assert!(sent.is_woken(), "the second call waits for its turn");
    assert_pending!(sent.poll());
    assert_eq!(server.received().0.uri().path(), "/mcp/");
}

/// Has room for one call at a time, as under a concurrency limit of one: until the call's future is dropped.
#[derive(Clone, Default)]
struct OneAtATime {
    taken: Arc<AtomicBool>,
    paths: Arc<Mutex<Vec<String>>>,
    has_permit: bool,
}

struct Permit(Arc<AtomicBool>);

impl Drop for Permit {
    fn drop(&mut self) {
        self.0.store(false, Ordering::SeqCst);
    }
}

impl Service<Query> for OneAtATime {
    type Response = Answer;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Answer, BoxError>>>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.has_permit |= !self.taken.swap(true, Ordering::SeqCst);
        if self.has_permit { Poll::Ready(Ok(())) } else { Poll::Pending }
    }

    fn call(&mut self, query: Query) -> Self::Future {
        assert!(std::mem::take(&mut self.has_permit), "it was not made ready");
        let permit = Permit(Arc::clone(&self.taken));
        let mut paths = self.paths.lock().unwrap();
        paths.push(query.uri().path().to_owned());
        let answer = if paths.len() < 5 { moved("next/") } else { answer(200, "", "") };
        Box::pin(async move {
            // Held by the future, not by what it returns.
            let _permit = permit;
            let answered: Result<Answer, BoxError> = Ok(answer);
            std::future::ready(answered).await
        })
    }
}

#[test]
fn the_finished_call_makes_room_for_the_next() {
    let below = OneAtATime::default();
    let mut service = RedirectLayer::new().layer(below.clone());
    let answer = now(call(&mut service, post())).unwrap();
    assert_eq!(answer.status(), 200);
    assert_eq!(below.paths.lock().unwrap().len(), 5);
    assert!(!below.taken.load(Ordering::SeqCst), "and nothing is held after the end");
    drop(call(&mut service, post()));
    assert!(!below.taken.load(Ordering::SeqCst));
}

/// Answers the first request with a redirect that has the body `body`, and the second with an empty one.
fn redirecting(body: Script) -> impl Service<Query, Response = Response<Script>, Error = BoxError> {
    let bodies = Arc::new(Mutex::new(vec![script().1, body]));
    RedirectLayer::new().layer(service_fn(move |query: Query| {
        let body = bodies.lock().unwrap().pop().ok_or("called too often");
        let head = if query.uri().path() == "/mcp" { moved("/mcp/") } else { answer(200, "", "") };
        std::future::ready(body.map(|body| head.map(|_| body)).map_err(BoxError::from))
    }))
}

#[test]
fn the_body_of_a_redirect_is_read_to_its_end() {
    let (pen, body) = script();
    let watch = pen.watch();
    pen.write("<html>moved");
    pen.write("</html>");
    drop(pen);
    assert_eq!(now(call(&mut redirecting(body), post())).unwrap().status(), 200);
    assert!(watch.is_read() && watch.is_dropped(), "or its connection could not be used again");
}

#[test]
fn without_a_runtime_a_body_that_is_not_there_is_dropped() {
    let (pen, body) = script();
    let watch = pen.watch();
    assert_eq!(now(call(&mut redirecting(body), post())).unwrap().status(), 200);
    assert!(watch.is_dropped());
}

#[tokio::test(start_paused = true)]
async fn nobody_waits_for_the_body_of_a_redirect() {
    let (pen, body) = script();
    let watch = pen.watch();
    assert_eq!(now(call(&mut redirecting(body), post())).unwrap().status(), 200);
    pen.write(": still here");
    tokio::task::yield_now().await;
    advance(Duration::from_millis(49)).await;
    tokio::task::yield_now().await;
    assert!(!watch.is_dropped(), "it may end in a moment");
    advance(Duration::from_millis(2)).await;
    tokio::task::yield_now().await;
    assert!(watch.is_dropped() && !watch.is_read());
}
