//! Protocol versions: which one each message is stamped with, and which messages set the connection's.

#![allow(clippy::unwrap_used)]

mod common;

use common::*;
use http::{HeaderMap, Request, Response};
use mcp_streamable_http_layers::error::{InvalidMessage, SessionExpired};
use mcp_streamable_http_layers::headers::MCP_PROTOCOL_VERSION;
use mcp_streamable_http_layers::{
    Envelope, EnvelopeLayer, Era, Events, JsonRpcMessage, Payload, ProtocolVersion, RawJson, RequestId,
    Session, SetSessionId, SetSessionIdLayer, StampVersion, StampVersionLayer,
};
use serde_json::json;
use tokio_test::task;
use tower::{Layer, Service, ServiceBuilder};
use tower_test::mock;

type Stamped = StampVersion<mock::Mock<Request<Payload>, Response<Events>>>;
type Messages = Envelope<SetSessionId<Stamped>>;

struct Client {
    session: Session,
    messages: Messages,
    stamped: Stamped,
    server: Server<Request<Payload>, Response<Events>>,
}

impl Client {
    fn new() -> Self {
        let (mock, handle) = mock::pair();
        let session = Session::new();
        let stamped = StampVersionLayer::new(session.clone()).layer(mock);
        let messages = ServiceBuilder::new()
            .layer(EnvelopeLayer::new(endpoint(), session.clone()))
            .layer(SetSessionIdLayer::new(session.clone()))
            .service(stamped.clone());
        Self { session, messages, stamped, server: Server(handle) }
    }

    fn send(
        &mut self,
        message: JsonRpcMessage,
    ) -> task::Spawn<<Messages as Service<JsonRpcMessage>>::Future> {
        call(&mut self.messages, message)
    }

    /// The version that the message goes out with.
    fn version_of(&mut self, message: JsonRpcMessage) -> Option<String> {
        let _sent = self.send(message);
        header(self.server.received().0.headers())
    }

    /// The version that a request without a message goes out with.
    fn version_of_empty(&mut self, request: Request<Payload>) -> Option<String> {
        let _sent = call(&mut self.stamped, request);
        header(self.server.received().0.headers())
    }

    /// An `initialize` that is answered with `result`.
    fn negotiate(&mut self, result: serde_json::Value) {
        let sent = self.send(initialize(1));
        let answer = Events::from(JsonRpcMessage::response(1, result));
        self.server.received().1.send_response(Response::new(answer));
        response(now(sent)).unwrap();
    }
}

fn header(headers: &HeaderMap) -> Option<String> {
    assert!(headers.get_all(MCP_PROTOCOL_VERSION).iter().count() <= 1);
    Some(headers.get(MCP_PROTOCOL_VERSION)?.to_str().unwrap().into())
}

fn response_to_server() -> JsonRpcMessage {
    JsonRpcMessage::response("s", json!({}))
}

#[test]
fn before_any_version_is_known_there_is_no_header() {
    let mut client = Client::new();
    for message in [ping(1), notification(), response_to_server(), initialize(2)] {
        assert_eq!(client.version_of(message), None);
    }
    assert_eq!(client.version_of_empty(endpoint().get()), None);
    assert_eq!((client.session.version(), client.session.era()), (None, Era::Legacy));
}

#[test]
fn the_negotiated_version_goes_with_everything_but_initialize() {
    let mut client = Client::new();
    client.negotiate(json!({ "protocolVersion": "2025-06-18" }));
    for message in [ping(2), notification(), response_to_server()] {
        assert_eq!(client.version_of(message).as_deref(), Some("2025-06-18"));
    }
    for request in [endpoint().get(), endpoint().delete()] {
        assert_eq!(client.version_of_empty(request).as_deref(), Some("2025-06-18"));
    }
    assert_eq!(client.version_of(initialize(3)), None);
    assert_eq!(client.version_of(ping(4)), None, "what was negotiated before no longer counts");
}

#[test]
fn a_result_that_names_no_version_leaves_it_open() {
    for result in [json!({}), json!({ "protocolVersion": null }), json!({ "protocolVersion": 20250618 })] {
        let mut client = Client::new();
        client.negotiate(result.clone());
        assert_eq!(client.version_of(ping(2)), None, "{result}");
    }
}

#[test]
fn a_message_that_names_its_version_sets_that_of_the_connection() {
    let mut client = Client::new();
    client.negotiate(json!({ "protocolVersion": "2025-06-18" }));
    assert_eq!(client.version_of(versioned("tools/list", "2026-07-28")).as_deref(), Some("2026-07-28"));
    assert_eq!(
        (client.session.version(), client.session.era()),
        (Some(ProtocolVersion::V2026_07_28), Era::Modern)
    );

    assert_eq!(client.version_of(notification()).as_deref(), Some("2026-07-28"));
    assert_eq!(client.version_of(ping(2)).as_deref(), Some("2026-07-28"));

    let stamped = notification().with(extra(&[("mcp-protocol-version", "2025-03-26")]));
    assert_eq!(client.version_of(stamped).as_deref(), Some("2025-03-26"));
    assert_eq!(client.version_of(ping(3)).as_deref(), Some("2025-03-26"));
    assert_eq!(client.session.era(), Era::Legacy);
}

#[test]
fn the_version_counts_from_the_call_on_not_from_the_first_poll() {
    let mut client = Client::new();
    let _first = client.send(versioned("tools/list", "2026-07-28"));
    let _second = client.send(versioned("tools/list", "2025-11-25"));
    assert_eq!(client.session.version(), Some(ProtocolVersion::V2025_11_25), "in the order of the calls");
}

#[test]
fn every_version_but_the_legacy_ones_is_modern() {
    for (version, era) in [
        ("2024-10-07", Era::Legacy),
        ("2024-11-05", Era::Legacy),
        ("2025-03-26", Era::Legacy),
        ("2025-06-18", Era::Legacy),
        ("2025-11-25", Era::Legacy),
        ("2026-07-28", Era::Modern),
        ("2031-01-01", Era::Modern),
        ("DRAFT-x", Era::Modern),
    ] {
        let mut client = Client::new();
        assert_eq!(client.version_of(versioned("ping", version)).as_deref(), Some(version));
        assert_eq!(client.session.era(), era, "{version}");
    }
}

#[test]
fn the_stamping_layer_only_reads_the_version_of_the_connection() {
    let mut client = Client::new();
    let request = endpoint().post(versioned("tools/list", "2026-07-28"));
    assert_eq!(client.version_of_empty(request).as_deref(), Some("2026-07-28"));
    assert_eq!(client.session.version(), None);
}

#[test]
fn a_header_and_meta_that_agree_are_one_version() {
    let mut client = Client::new();
    let message = versioned("ping", "2026-07-28").with(extra(&[("mcp-protocol-version", "2026-07-28")]));
    assert_eq!(client.version_of(message).as_deref(), Some("2026-07-28"));
}

#[test]
fn a_stamp_is_dropped_from_an_initialize() {
    let mut client = Client::new();
    let stamped = initialize(1).with(extra(&[("mcp-protocol-version", "2025-11-25"), ("x-other", "kept")]));
    let _sent = client.send(stamped);
    let (request, _) = client.server.received();
    assert_eq!(header(request.headers()), None);
    assert_eq!(request.headers()["x-other"], "kept");
    assert_eq!(client.session.version(), None, "it is the result that names it");
}

#[test]
fn an_initialize_that_names_a_version_in_its_meta_goes_without_the_header_too() {
    let mut client = Client::new();
    assert_eq!(client.version_of(versioned("initialize", "2026-07-28")), None);
    assert_eq!(client.session.version(), None);
}

#[test]
fn what_is_refused_is_not_sent_and_changes_nothing() {
    let stamp = |version| extra(&[("mcp-protocol-version", version)]);
    let fraction = RequestId::Other(RawJson::parse("1.5").unwrap());
    for (why, message) in [
        ("disagreement", versioned("ping", "2026-07-28").with(stamp("2025-11-25"))),
        ("no header can carry it", versioned("ping", "2026-07-28 ")),
        ("no header can carry it", versioned("ping", "")),
        ("no version", ping(1).with(stamp("a b"))),
        ("a response in the modern era", response_to_server().with(stamp("2026-07-28"))),
        (
            "a header of the transport's",
            ping(1).with(extra(&[("mcp-protocol-version", "2026-07-28"), ("mcp-session-id", "x")])),
        ),
        ("a header of the transport's", initialize(1).with(extra(&[("mcp-session-id", "x")]))),
        ("its id", JsonRpcMessage::request(fraction.clone(), "initialize", ())),
    ] {
        let mut client = Client::new();
        client.negotiate(json!({ "protocolVersion": "2025-06-18" }));
        let error = now(client.send(message)).unwrap_err();
        assert!(error.find::<InvalidMessage>().is_some() && !error.may_have_run(), "{why}: {error}");
        client.server.assert_nothing_received();
        assert_eq!(client.session.version(), Some(ProtocolVersion::V2025_06_18), "{why}");
        assert!(client.session.handshake().is_some(), "{why}");
    }
}

#[test]
fn in_the_modern_era_a_response_is_refused() {
    let mut client = Client::new();
    assert_eq!(client.version_of(versioned("tools/list", "2026-07-28")).as_deref(), Some("2026-07-28"));
    let error = now(client.send(response_to_server())).unwrap_err();
    assert!(error.find::<InvalidMessage>().is_some(), "{error}");
    client.server.assert_nothing_received();

    let legacy = response_to_server().with(extra(&[("mcp-protocol-version", "2025-11-25")]));
    assert_eq!(client.version_of(legacy).as_deref(), Some("2025-11-25"), "the stamp of the message decides");
}

#[test]
fn the_message_itself_is_left_as_it_is() {
    let mut client = Client::new();
    let message = versioned("tools/list", "2026-07-28");
    let _sent = client.send(message.clone());
    let (request, _) = client.server.received();
    assert_eq!(request.body().message().map(JsonRpcMessage::encode), Some(message.encode()));
}

#[test]
fn it_is_ready_when_the_service_below_is() {
    let mut client = Client::new();
    assert_ready_passes_through::<_, Request<Payload>, _, _>(client.stamped, &mut client.server);
}

#[test]
fn an_id_and_a_version_of_different_sessions_are_never_sent_together() {
    let mut client = Client::new();
    client.negotiate(json!({ "protocolVersion": "2025-06-18" }));
    // As if the session had been replaced after the id was claimed.
    let mut request = endpoint().post(ping(2));
    request.headers_mut().extend(headers(&[("mcp-session-id", "of-another")]));
    let error = now(call(&mut client.stamped, request)).unwrap_err();
    assert!(error.downcast_ref::<SessionExpired>().is_some(), "{error}");
    client.server.assert_nothing_received();
}
