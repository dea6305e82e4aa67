//! The shapes of HTTP response the server gives.

use std::convert::Infallible;

use bytes::Bytes;
use futures_util::{Stream, StreamExt};
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use http::{Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Empty, Full, StreamBody};
use hyper::body::Frame;
use serde_json::Value;

pub(super) type Body = UnsyncBoxBody<Bytes, Infallible>;

pub(super) fn empty(status: StatusCode) -> Response<Body> {
    let mut response = Response::new(Empty::new().boxed_unsync());
    *response.status_mut() = status;
    response
}

pub(super) fn json(status: StatusCode, message: &Value) -> Response<Body> {
    let mut response = Response::new(Full::from(message.to_string()).boxed_unsync());
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// A response whose body goes on for as long as the stream does, each item a piece of it.
pub(super) fn events(stream: impl Stream<Item = String> + Send + 'static) -> Response<Body> {
    let frames = stream.map(|piece| Ok(Frame::data(Bytes::from(piece))));
    let mut response = Response::new(StreamBody::new(frames).boxed_unsync());
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// One server-sent event. A line break would end its `data` field; `Value` prints JSON without any.
pub(super) fn event(id: Option<&str>, message: &Value) -> String {
    let id = id.map(|id| format!("id: {id}\n")).unwrap_or_default();
    format!("event: message\n{id}data: {message}\n\n")
}

/// A comment is no event: it only keeps proxies and clients from taking a silent stream for a dead one.
pub(super) fn comment(text: &str) -> String {
    format!(": {text}\n\n")
}
