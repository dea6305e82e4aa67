//! The layers that keep a session, over a server that the test plays.

use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use http_body_util::Full;
use mcp_streamable_http_layers::error::BoxError;
use mcp_streamable_http_layers::sse::Limits;
use mcp_streamable_http_layers::{
    Envelope, EnvelopeLayer, Error, Events, JsonRpcMessage, Payload, Reply, Session, SetSessionId,
    SetSessionIdLayer, Sse, SseLayer, StampVersion, StampVersionLayer,
};
use tokio_test::task;
use tower::{Layer, Service, ServiceBuilder};
use tower_test::mock;

use super::*;

pub(crate) type Query = Request<Full<Bytes>>;
pub(crate) type Answer = Response<Full<Bytes>>;
pub(crate) type Envelopes = SetSessionId<StampVersion<Sse<mock::Mock<Query, Answer>>>>;

/// The result of the `initialize` with the id 1.
pub(crate) const RESULT: &str = r#"{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-06-18"}}"#;

/// A client's layers over a server that the test plays.
pub(crate) struct Client {
    pub(crate) session: Session,
    pub(crate) envelopes: Envelopes,
    pub(crate) messages: Envelope<Envelopes>,
    pub(crate) server: Server<Query, Answer>,
}

impl Client {
    pub(crate) fn new() -> Self {
        let (mock, handle) = mock::pair();
        let session = Session::new();
        let envelopes = ServiceBuilder::new()
            .layer(SetSessionIdLayer::new(session.clone()))
            .layer(StampVersionLayer::new(session.clone()))
            .layer(SseLayer::new(Limits::default()))
            .service(mock);
        let messages = EnvelopeLayer::new(endpoint(), session.clone()).layer(envelopes.clone());
        Self { session, envelopes, messages, server: Server(handle) }
    }

    /// With a session of the id `id`.
    pub(crate) fn in_session(id: &str) -> Self {
        let mut client = Self::new();
        client.begin(id);
        client
    }

    pub(crate) fn begin(&mut self, id: &str) {
        let answer = with_header(json_answer(RESULT), "mcp-session-id", id.as_bytes());
        response(self.exchange(initialize(1), answer)).unwrap();
        assert_eq!(self.session.id().unwrap(), id);
    }

    pub(crate) fn send(
        &mut self,
        message: JsonRpcMessage,
    ) -> task::Spawn<<Envelope<Envelopes> as Service<JsonRpcMessage>>::Future> {
        call(&mut self.messages, message)
    }

    pub(crate) fn exchange(&mut self, message: JsonRpcMessage, answer: Answer) -> Result<Reply, Error> {
        let sent = self.send(message);
        self.server.received().1.send_response(answer);
        now(sent)
    }

    /// Sends a GET or a DELETE, and returns its headers and its answer.
    pub(crate) fn exchange_empty(
        &mut self,
        request: Request<Payload>,
        answer: Answer,
    ) -> (HeaderMap, Result<Response<Events>, BoxError>) {
        let sent = call(&mut self.envelopes, request);
        let (received, reply) = self.server.received();
        reply.send_response(answer);
        (received.headers().clone(), now(sent))
    }

    /// The headers that `message` goes out with.
    pub(crate) fn headers_of(&mut self, message: JsonRpcMessage) -> HeaderMap {
        let _sent = self.send(message);
        self.server.received().0.headers().clone()
    }
}
