//! The bridge to HTTP over a client that the test plays.

use std::future::Future;
use std::pin::Pin;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use mcp_streamable_http_layers::error::BoxError;
use mcp_streamable_http_layers::sse::Limits;
use mcp_streamable_http_layers::{
    Error, Event, Events, JsonRpcMessage, JsonRpcResponse, Payload, Sse, SseLayer,
};
use tokio_test::task;
use tower::{Layer, service_fn};
use tower_test::mock;

use super::*;

pub(crate) type Query = Request<Full<Bytes>>;
pub(crate) type Answer = Response<Full<Bytes>>;
pub(crate) type Opened = Pin<Box<dyn Future<Output = Result<Response<Events>, BoxError>>>>;
pub(crate) type Bridge = Sse<mock::Mock<Query, Answer>>;

pub(crate) const JSON: &str = "application/json";
pub(crate) const PONG: &str = r#"{"jsonrpc":"2.0","id":1,"result":{}}"#;

pub(crate) fn bridge(limits: Limits) -> (Bridge, Server<Query, Answer>) {
    let (mock, handle) = mock::pair();
    (SseLayer::new(limits).layer(mock), Server(handle))
}

pub(crate) fn answered_within(limits: Limits, request: Request<Payload>, answer: Answer) -> Response<Events> {
    let (mut bridge, mut server) = bridge(limits);
    let sent = call(&mut bridge, request);
    server.received().1.send_response(answer);
    now(sent).unwrap()
}

pub(crate) fn answered(request: Request<Payload>, answer: Answer) -> Response<Events> {
    answered_within(Limits::default(), request, answer)
}

/// The items that a ping with the id 1 is answered with. All but streams are ready.
pub(crate) fn items(answer: Answer) -> Vec<Result<Event, BoxError>> {
    let events = answered(endpoint().post(ping(1)), answer).into_body();
    assert!(events.is_stream() || events.ready().is_some());
    all(events)
}

/// The only item, which is the response.
pub(crate) fn pong(answer: Answer) -> JsonRpcResponse {
    match <[_; 1]>::try_from(items(answer)) {
        Ok([Ok(Event { message: Some(JsonRpcMessage::Response(response)), .. })]) => response,
        other => panic!("not one response: {other:?}"),
    }
}

/// The only item, which is an error.
pub(crate) fn failure(events: Events) -> Error {
    match <[_; 1]>::try_from(all(events)) {
        Ok([Err(error)]) => Error::new(error),
        other => panic!("not one error: {other:?}"),
    }
}

pub(crate) fn ping_failure(answer: Answer) -> Error {
    failure(answered(endpoint().post(ping(1)), answer).into_body())
}

/// Sends `request`, here and now; the answer has the body `body`.
pub(crate) fn opened(
    limits: Limits,
    request: Request<Payload>,
    status: u16,
    content_type: &str,
    body: Script,
) -> task::Spawn<Opened> {
    let mut answer = Some(answer(status, content_type, "").map(|_| body));
    let http = service_fn(move |_| std::future::ready(answer.take().ok_or("called twice")));
    task::spawn(Box::pin(call(&mut SseLayer::new(limits).layer(http), request)))
}
