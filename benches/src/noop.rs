//! Services that do next to nothing, for a layer to be alone on.

use std::future::{Ready, ready};
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use mcp_streamable_http::error::BoxError;
use mcp_streamable_http::{Event, Events, Expects, JsonRpcMessage, Payload, Reply};
use tower::Service;

use crate::texts;

/// Answers a call with the same message always, on each of the three floors.
#[derive(Clone, Debug)]
pub struct Noop {
    answer: JsonRpcMessage,
    /// As a stream of that one event, rather than as an event that is there.
    is_stream: bool,
}

impl Noop {
    /// Answers with what is there already.
    ///
    /// # Panics
    /// The text is none that can be decoded.
    pub fn new(text: impl Into<Bytes>) -> Self {
        Self { answer: JsonRpcMessage::decode(text).unwrap(), is_stream: false }
    }

    /// Answers with a stream of events, one.
    pub fn streaming() -> Self {
        Self { is_stream: true, ..Self::new(texts::RESULT) }
    }

    fn events(&self) -> Events {
        if self.is_stream {
            let event = Ok(Event::from(self.answer.clone()));
            Events::new(futures_util::stream::iter([event]))
        } else {
            Events::from(self.answer.clone())
        }
    }
}

impl Service<JsonRpcMessage> for Noop {
    type Response = Reply;
    type Error = BoxError;
    type Future = Ready<Result<Reply, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, message: JsonRpcMessage) -> Self::Future {
        let expects = message.id().map_or(Expects::Acceptance, |id| Expects::Response(id.clone()));
        ready(Ok(Reply::new(expects, self.events())))
    }
}

impl Service<Request<Payload>> for Noop {
    type Response = Response<Events>;
    type Error = BoxError;
    type Future = Ready<Result<Response<Events>, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Payload>) -> Self::Future {
        drop(request);
        ready(Ok(Response::new(self.events())))
    }
}

impl Service<Request<Full<Bytes>>> for Noop {
    type Response = Response<Full<Bytes>>;
    type Error = BoxError;
    type Future = Ready<Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Full<Bytes>>) -> Self::Future {
        drop(request);
        ready(Ok(Response::new(Full::default())))
    }
}
