//! Messages in envelopes: the HTTP request that a message becomes, and the reply that its answer becomes.

#![allow(clippy::unwrap_used)]

mod common;

use std::time::Duration;

use bytes::Bytes;
use common::*;
use http::{Method, Request, Response};
use http_body_util::Full;
use mcp_streamable_http_layers::error::{BoxError, EndedStream, InvalidMessage, NotSent, TimedOut};
use mcp_streamable_http_layers::options::ExtraHeaders;
use mcp_streamable_http_layers::sse::Limits;
use mcp_streamable_http_layers::{
    Endpoint, Envelope, EnvelopeLayer, Error, Events, JsonRpcMessage, Payload, RawJson, RequestId, Session,
    SseLayer,
};
use serde_json::json;
use tokio_test::task;
use tower::{Layer, Service, ServiceBuilder};
use tower_test::mock;

type Below = mock::Mock<Request<Payload>, Response<Events>>;

struct Client {
    messages: Envelope<Below>,
    server: Server<Request<Payload>, Response<Events>>,
}

impl Client {
    fn new() -> Self {
        Self::of(endpoint())
    }

    fn of(endpoint: Endpoint) -> Self {
        let (mock, handle) = mock::pair();
        Self { messages: EnvelopeLayer::new(endpoint, Session::new()).layer(mock), server: Server(handle) }
    }

    fn send(
        &mut self,
        message: JsonRpcMessage,
    ) -> task::Spawn<<Envelope<Below> as Service<JsonRpcMessage>>::Future> {
        call(&mut self.messages, message)
    }

    /// The request that the message becomes.
    fn wrapped(&mut self, message: JsonRpcMessage) -> Request<Payload> {
        let _sent = self.send(message);
        self.server.received().0
    }

    fn refusal(&mut self, message: JsonRpcMessage) -> Error {
        let error = now(self.send(message)).unwrap_err();
        self.server.assert_nothing_received();
        error
    }
}

fn stream(items: Vec<Result<JsonRpcMessage, BoxError>>) -> Events {
    Events::new(futures_util::stream::iter(items.into_iter().map(|item| item.map(Into::into))))
}

#[test]
fn each_message_is_a_post_to_the_very_url() {
    for url in
        ["https://example.com/a%20b//mcp/?x=%2F&y=a+b&&z", "http://[::1]:8080/", "https://host/%c3%bc?"]
    {
        let mut client = Client::of(Endpoint::new(url.parse().unwrap()).unwrap());
        for message in [ping(1), notification(), JsonRpcMessage::response("s", json!({})), initialize(2)] {
            let request = client.wrapped(message.clone());
            assert_eq!((request.method(), request.uri().to_string()), (&Method::POST, url.to_owned()));
            assert_eq!(request.body(), &Payload::from(message));
        }
    }
}

#[test]
fn the_headers_of_the_endpoint_go_with_every_request() {
    let own = headers(&[("authorization", "Bearer t"), ("x-a", "1"), ("x-a", "2")]);
    let endpoint = endpoint().with_headers(own).unwrap();
    for request in [endpoint.get(), endpoint.delete(), Client::of(endpoint).wrapped(ping(1))] {
        assert_eq!(request.headers()["authorization"], "Bearer t");
        assert_eq!(request.headers().get_all("x-a").iter().collect::<Vec<_>>(), ["1", "2"]);
        assert!(!format!("{request:?}").contains("Bearer t"), "{request:?}");
    }
}

#[test]
fn the_headers_of_one_message_replace_those_of_the_endpoint() {
    let mut client = Client::of(endpoint().with_headers(headers(&[("x-a", "1"), ("x-b", "b")])).unwrap());
    let message = ping(1).with(extra(&[("x-a", "2"), ("x-a", "3"), ("authorization", "Bearer t")]));
    let request = client.wrapped(message);
    assert_eq!(request.headers().get_all("x-a").iter().collect::<Vec<_>>(), ["2", "3"]);
    assert_eq!(
        (&request.headers()["x-b"], &request.headers()["authorization"]),
        (&"b".parse().unwrap(), &"Bearer t".parse().unwrap())
    );
    assert!(!format!("{request:?}").contains("Bearer t"), "{request:?}");

    let next = client.wrapped(ping(2));
    assert_eq!(next.headers()["x-a"], "1");
    assert!(!next.headers().contains_key("authorization"));
}

#[test]
fn accept_and_content_type_are_the_transports_own() {
    let (mock, handle) = mock::pair::<Request<Full<Bytes>>, Response<Full<Bytes>>>();
    let mut server = Server(handle);
    let own = headers(&[("accept", "text/html"), ("content-type", "text/plain"), ("accept", "*/*")]);
    let mut client = ServiceBuilder::new()
        .layer(EnvelopeLayer::new(endpoint().with_headers(own).unwrap(), Session::new()))
        .layer(SseLayer::new(Limits::default()))
        .service(mock);
    let message = ping(1).with(extra(&[("accept", "text/csv"), ("content-type", "application/xml")]));
    let _sent = call(&mut client, message);
    let sent = server.received().0;
    assert_eq!(
        sent.headers().get_all("accept").iter().collect::<Vec<_>>(),
        ["application/json, text/event-stream"]
    );
    assert_eq!(sent.headers().get_all("content-type").iter().collect::<Vec<_>>(), ["application/json"]);
}

#[test]
fn the_mirrored_headers_may_be_the_callers() {
    let own = extra(&[("mcp-method", "m"), ("mcp-name", "n"), ("mcp-param-region", "eu")]);
    let request = Client::new().wrapped(ping(1).with(own.clone()));
    assert_eq!(request.headers(), &own.0);
}

#[test]
fn headers_that_the_transport_lives_on_are_refused_by_name() {
    for name in [
        "mcp-session-id",
        "last-event-id",
        "connection",
        "content-length",
        "keep-alive",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    ] {
        for message in [ping(1), notification(), initialize(2)] {
            let error = Client::new().refusal(message.with(extra(&[("x-ok", "1"), (name, "s3cret")])));
            assert!(error.find::<InvalidMessage>().is_some() && !error.may_have_run(), "{name}");
            assert!(error.to_string().contains(name) && !error.to_string().contains("s3cret"), "{error}");
        }
        let error = endpoint().with_headers(headers(&[(name, "x")])).unwrap_err();
        assert!(error.to_string().contains(name), "{error}");
    }
}

#[test]
fn a_request_under_a_number_that_is_no_integer_is_refused() {
    for id in ["1.0", "1.5", "-0", "1e3", "12345678901234567890"] {
        let id = RequestId::Other(RawJson::parse(id).unwrap());
        let error = Client::new().refusal(JsonRpcMessage::request(id.clone(), "ping", ()));
        assert!(error.find::<InvalidMessage>().is_some(), "{error}");
        // The server may use such an id, and its answer echoes it.
        Client::new().wrapped(JsonRpcMessage::response(id, json!({})));
    }
}

#[test]
fn options_move_into_the_request() {
    #[derive(Clone, Debug, PartialEq)]
    struct Mine(u8);
    let headers = extra(&[("x-a", "1")]);
    let message = ping(1).with(Mine(7)).with(headers.clone());
    let request = Client::new().wrapped(message);
    assert_eq!(request.extensions().get::<Mine>(), Some(&Mine(7)));
    // Beside the headers themselves, for what sends another request in the place of this one.
    assert_eq!(request.headers(), &headers.0);
    assert_eq!(request.extensions().get::<ExtraHeaders>().unwrap().0, headers.0);
    assert!(Client::new().wrapped(ping(2)).extensions().get::<ExtraHeaders>().is_none());
    assert!(request.body().message().unwrap().extensions().is_empty());
}

#[test]
fn the_reply_has_the_messages_and_the_head_of_the_answer() {
    let mut client = Client::new();
    let sent = client.send(ping(1));
    let events = stream(vec![Ok(notification()), Ok(JsonRpcMessage::response(1, json!({ "a": 1 })))]);
    client.server.received().1.send_response(with_header(Response::new(events), "x-trace", b"abc"));

    let reply = now(sent).unwrap();
    let head = reply.head().unwrap();
    assert_eq!((head.status.as_u16(), &head.headers["x-trace"]), (200, &"abc".parse().unwrap()));
    let items: Vec<_> = all(reply).into_iter().map(Result::unwrap).collect();
    assert_eq!(items, [notification(), JsonRpcMessage::response(1, json!({ "a": 1 }))]);
}

#[test]
fn an_error_that_is_there_already_fails_the_call() {
    let mut client = Client::new();
    for events in
        [Events::error(NotSent("refused".into())), Events::all(vec![Err(NotSent("refused".into()).into())])]
    {
        let sent = client.send(ping(1));
        client.server.received().1.send_response(Response::new(events));
        assert!(now(sent).unwrap_err().is_connect());
    }
}

#[test]
fn an_error_that_comes_later_is_an_item() {
    let mut client = Client::new();
    let failure = || BoxError::from(TimedOut::new("it", "knob", Duration::from_secs(1)));
    for events in [
        Events::all(vec![Ok(notification().into()), Err(failure())]),
        stream(vec![Ok(notification()), Err(failure())]),
    ] {
        let sent = client.send(ping(1));
        client.server.received().1.send_response(Response::new(events));
        let items = all(now(sent).unwrap());
        assert!(matches!(&items[..], [Ok(_), Err(error)] if error.is_timeout()), "{items:?}");
    }
}

#[test]
fn a_notification_is_answered_by_nothing_and_a_request_never_is() {
    let mut client = Client::new();
    let sent = client.send(notification());
    client.server.received().1.send_response(Response::new(Events::EMPTY));
    assert!(all(now(sent).unwrap()).is_empty());

    let sent = client.send(ping(1));
    client.server.received().1.send_response(Response::new(Events::EMPTY));
    let items = all(now(sent).unwrap());
    assert!(matches!(&items[..], [Err(error)] if error.find::<EndedStream>().is_some()), "{items:?}");
}

#[test]
fn what_fails_below_is_found_in_the_error() {
    let mut client = Client::new();
    let sent = client.send(ping(1));
    client.server.received().1.send_error(NotSent("connection refused".into()));
    let error = now(sent).unwrap_err();
    assert!(error.is_connect() && !error.may_have_run());
    assert_eq!(error.to_string(), "the server could not be reached: connection refused");

    // An error of ours that passed through the user's middleware is not wrapped again.
    let sent = client.send(ping(1));
    client.server.received().1.send_error(Error::new(NotSent("connection refused".into())));
    assert!(format!("{:?}", now(sent).unwrap_err()).starts_with("Error(NotSent("));
}

#[test]
fn it_is_ready_when_the_service_below_is() {
    let mut client = Client::new();
    assert_ready_passes_through(client.messages, &mut client.server);
}
