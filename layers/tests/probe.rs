//! Probing: what a server's answer says of its era, and what is remembered of it.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "in a test a panic is how it fails, in its helpers too"
)]

mod common;

use std::io;

use common::bridge::*;
use common::*;
use http::{Response, StatusCode};
use mcp_streamable_http_layers::error::{NotSent, TimedOut};
use mcp_streamable_http_layers::probe::{ForgetEraLayer, Probe, ProbeCache, classify};
use mcp_streamable_http_layers::sse::Limits;
use mcp_streamable_http_layers::{
    Endpoint, EnvelopeLayer, Error, JsonRpcMessage, JsonRpcResponse, ProtocolVersion, Session, SseLayer,
    StampVersionLayer,
};
use serde_json::json;
use tower::{Layer, ServiceBuilder};
use tower_test::mock;

const MODERN: &str = "2026-07-28";
const SSE: &str = "text/event-stream";

fn discover() -> JsonRpcMessage {
    versioned("server/discover", MODERN)
}

/// What the layers make of `answer` to a `server/discover`, and what that says of the server.
fn probed(answer: Result<Answer, Box<dyn std::error::Error + Send + Sync>>) -> Result<Probe, Error> {
    let (mock, handle) = mock::pair::<Query, Answer>();
    let session = Session::new();
    let mut messages = ServiceBuilder::new()
        .layer(EnvelopeLayer::new(endpoint(), session.clone()))
        .layer(StampVersionLayer::new(session))
        .layer(SseLayer::new(Limits::default()))
        .service(mock);
    let mut server = Server(handle);
    let sent = call(&mut messages, discover());
    match answer {
        Ok(answer) => server.received().1.send_response(answer),
        Err(error) => server.received().1.send_error(error),
    }
    match now(sent) {
        Ok(reply) => {
            let status = reply.head().map(|head| head.status);
            classify(status, response(Ok(reply)))
        }
        Err(error) => classify(error.status(), Err(error)),
    }
}

fn era(status: u16, content_type: &str, body: &str) -> Probe {
    probed(Ok(answer(status, content_type, body.to_owned()))).unwrap()
}

fn error_body(id: &str, error: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{error}}}"#)
}

fn versions(texts: &[&str]) -> Vec<ProtocolVersion> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

fn modern(texts: &[&str]) -> Probe {
    Probe::Modern { versions: versions(texts), discovered: None }
}

#[test]
fn a_result_is_that_of_a_modern_server() {
    for (result, supported) in [
        (
            r#"{"supportedVersions":["2026-07-28","2025-11-25"],"capabilities":{ "a":1.0 }}"#,
            vec![MODERN, "2025-11-25"],
        ),
        (r#"{"supportedVersions":["2027-01-01"]}"#, vec!["2027-01-01"]),
        (r#"{"supportedVersions":["", "2026-07-28"]}"#, vec![MODERN]),
        (r#"{"supportedVersions":"2026-07-28"}"#, vec![]),
        (r#"{"supportedVersions":[1]}"#, vec![]),
        ("{}", vec![]),
    ] {
        let body = format!(r#"{{"jsonrpc":"2.0","id":1,"result":{result}}}"#);
        for found in [era(200, JSON, &body), era(200, SSE, &format!("data: {body}\n\n"))] {
            let Probe::Modern { versions: found, discovered } = found else { panic!("{result}: {found:?}") };
            assert_eq!(found, versions(&supported), "{result}");
            assert_eq!(discovered.unwrap().as_str(), result);
        }
    }
}

#[test]
fn the_errors_of_the_modern_era_are_those_of_a_modern_server() {
    for (error, expected) in [
        (r#"{"code":-32020,"message":"Header mismatch"}"#, modern(&[])),
        (r#"{"code":-32021,"message":"Missing capability","data":{"requiredCapabilities":{}}}"#, modern(&[])),
        (r#"{"code":-32022,"message":"?","data":{"supported":["2027-01-01"]}}"#, modern(&["2027-01-01"])),
        (
            r#"{"code":-32022,"message":"?","data":{"supported":["2025-11-25","2026-07-28"],"requested":"x"}}"#,
            modern(&["2025-11-25", MODERN]),
        ),
        (r#"{"code":-32022,"message":"?","data":{"supported":[]}}"#, modern(&[])),
        (r#"{"code":-32022,"message":"?","data":{"supported":null}}"#, modern(&[])),
        (r#"{"code":-32022,"message":"?","data":"x"}"#, modern(&[])),
        (r#"{"code":-32022,"message":"?"}"#, modern(&[])),
        (r#"{"code":-32022,"message":"?","data":{"supported":["2025-11-25"]}}"#, Probe::Legacy),
        (r#"{"code":-32022,"message":"?","data":{"supported":["2025-06-18","2024-11-05"]}}"#, Probe::Legacy),
    ] {
        let body = error_body("1", error);
        for status in [200, 400, 404] {
            assert_eq!(era(status, JSON, &body), expected, "{status} {error}");
        }
        assert_eq!(era(200, SSE, &format!("data: {body}\n\n")), expected, "{error}");
        assert_eq!(era(400, JSON, &error_body("null", error)), expected, "{error}");
    }
}

#[test]
fn any_other_answer_is_that_of_a_legacy_server() {
    let error = |code: i64, id| error_body(id, &format!(r#"{{"code":{code},"message":"no"}}"#));
    for (status, content_type, body) in [
        (404, "text/plain", "Not Found".to_owned()),
        (404, "", String::new()),
        (404, JSON, error(-32601, "1")),
        (404, JSON, r#"{"detail":"Not Found"}"#.to_owned()),
        (400, "text/plain", "Bad Request: Missing session ID".to_owned()),
        (400, "text/html", "<p>Bad Request".to_owned()),
        (400, JSON, "{".to_owned()),
        (400, JSON, r#"{"error":"Bad Request"}"#.to_owned()),
        (400, JSON, error(-32600, "1")),
        (400, JSON, error(-32600, "null")),
        (400, JSON, error(-32600, r#""server-error""#)),
        (400, JSON, error(-32700, "null")),
        (400, JSON, error(-32000, "null")),
        (400, JSON, error(-32000, r#""server-error""#)),
        (200, JSON, error(-32601, "1")),
        (200, JSON, error(-32602, "1")),
        (200, JSON, error(-32001, "1")),
        (405, "", String::new()),
        (406, JSON, error(-32600, r#""server-error""#)),
        (410, "", String::new()),
        (415, "", String::new()),
        (422, JSON, r#"{"detail":[]}"#.to_owned()),
        (202, "", String::new()),
        (204, "", String::new()),
        (200, SSE, String::new()),
        (200, SSE, ": hello\n\n".to_owned()),
        (200, SSE, format!("data: {}\n\n", error(-32601, "1"))),
        (200, SSE, "data: {\n\n".to_owned()),
        (200, JSON, String::new()),
        (200, JSON, "{".to_owned()),
        (200, JSON, r#"{"ok":true}"#.to_owned()),
        (200, JSON, r#"{"jsonrpc":"2.0","method":"hello"}"#.to_owned()),
        (200, "text/html", "<p>Welcome".to_owned()),
        (200, "", String::new()),
    ] {
        assert_eq!(era(status, content_type, &body), Probe::Legacy, "{status} {content_type} {body}");
    }
}

#[test]
fn a_server_that_does_not_let_itself_be_asked_is_unknown() {
    let body = |code: i64| error_body("1", &format!(r#"{{"code":{code},"message":"no"}}"#));
    for status in [401, 403, 407, 429, 500, 501, 502, 503, 504, 599] {
        assert_eq!(era(status, "text/plain", "no"), Probe::Unknown, "{status}");
        // Whatever the body says.
        for code in [-32601, -32000, -32603, -32022] {
            assert_eq!(era(status, JSON, &body(code)), Probe::Unknown, "{status} {code}");
        }
    }
}

#[test]
fn a_challenge_is_the_error() {
    for status in [401, 403] {
        for body in ["", r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32022,"message":"no"}}"#] {
            let answer = with_header(answer(status, JSON, body), "www-authenticate", b"Bearer realm=\"x\"");
            let error = probed(Ok(answer)).unwrap_err();
            assert_eq!((error.status().unwrap().as_u16(), error.challenges().len()), (status, 1));
        }
    }
}

#[test]
fn without_a_complete_answer_there_is_an_error() {
    let error = probed(Err(Box::new(NotSent("refused".into())))).unwrap_err();
    assert!(error.is_connect());
    let reset = || io::Error::from(io::ErrorKind::ConnectionReset);
    assert!(!probed(Err(Box::new(reset()))).unwrap_err().is_connect());
    let late = TimedOut::new("the head", "first_byte_timeout", std::time::Duration::from_secs(1));
    assert!(probed(Err(Box::new(late))).unwrap_err().is_timeout());

    // A body, or a stream, that breaks.
    for (content_type, text) in [(JSON, r#"{"jsonrpc"#), (SSE, ": hello\n\n")] {
        let (pen, script) = script();
        pen.write(text);
        pen.fail(reset());
        let events = now(opened(Limits::default(), endpoint().post(discover()), 200, content_type, script));
        let outcome: Vec<_> = all(events.unwrap().into_body());
        let error = Error::new(outcome.into_iter().next_back().unwrap().unwrap_err());
        assert!(classify(Some(StatusCode::OK), Err(error)).is_err(), "{content_type}");
    }
}

fn at(url: &str) -> Endpoint {
    Endpoint::new(url.parse().unwrap()).unwrap()
}

#[test]
fn what_is_found_out_is_remembered_and_what_is_unknown_is_not() {
    let (cache, endpoint) = (ProbeCache::new(), endpoint());
    let clone = cache.clone();
    assert_eq!(cache.get(&endpoint), None);
    let discovered =
        Probe::Modern { versions: versions(&[MODERN]), discovered: Some(json!({ "a": 1 }).into()) };
    for (probe, expected) in
        [(discovered, modern(&[MODERN])), (Probe::Legacy, Probe::Legacy), (modern(&[]), modern(&[]))]
    {
        cache.insert(&endpoint, &probe);
        assert_eq!(cache.get(&endpoint), Some(expected.clone()));
        cache.insert(&endpoint, &Probe::Unknown);
        assert_eq!(cache.get(&endpoint), Some(expected), "it was known before");
    }
    assert_eq!(clone.len(), 1, "clones are the same cache");
    clone.forget(&endpoint);
    assert!(cache.get(&endpoint).is_none() && cache.is_empty());
    cache.forget(&endpoint);
    cache.insert(&endpoint, &Probe::Unknown);
    assert!(cache.is_empty());
}

#[test]
fn it_is_remembered_by_url_without_the_query() {
    let cache = ProbeCache::new();
    cache.insert(&at("https://example.com/mcp?token=s3cret"), &Probe::Legacy);
    for same in ["https://example.com/mcp", "https://example.com/mcp?token=other", "https://example.com/mcp?"]
    {
        assert_eq!(cache.get(&at(same)), Some(Probe::Legacy), "{same}");
    }
    for other in [
        "https://example.com/mcp/",
        "https://example.com/",
        "https://example.com/other",
        "http://example.com/mcp",
        "https://example.com:8443/mcp",
        "https://example.org/mcp",
    ] {
        assert_eq!(cache.get(&at(other)), None, "{other}");
    }
    let stored = serde_json::to_string(&cache).unwrap();
    assert!(!stored.contains("s3cret") && !format!("{cache:?}").contains("example"));
}

#[test]
fn it_is_bounded_and_the_newest_is_kept() {
    let cache = ProbeCache::new();
    let server = |n: usize| at(&format!("https://example.com/{n}"));
    for n in 0..3000 {
        cache.insert(&server(n), &Probe::Legacy);
        assert!(cache.len() <= 1024);
        assert!(cache.get(&server(n)).is_some());
    }
    assert_eq!(cache.len(), 1024);
    // What is known already takes no room.
    let known: Vec<_> = (0..3000).filter(|n| cache.get(&server(*n)).is_some()).collect();
    known.iter().for_each(|n| cache.insert(&server(*n), &modern(&[MODERN])));
    assert!(known.iter().all(|n| cache.get(&server(*n)) == Some(modern(&[MODERN]))));

    let many: String = (0..3000).map(|n| format!(r#""https://example.com/{n}":null,"#)).collect();
    let many: ProbeCache = serde_json::from_str(&format!("{{{}}}", many.trim_end_matches(','))).unwrap();
    assert_eq!(many.len(), 1024);
}

#[test]
fn it_can_be_stored() {
    let cache = ProbeCache::new();
    let servers = [
        ("https://example.com/modern", modern(&["2027-01-01", MODERN])),
        ("https://example.com/silent", modern(&[])),
        ("https://example.com/legacy", Probe::Legacy),
    ];
    servers.iter().for_each(|(url, probe)| cache.insert(&at(url), probe));
    let stored = serde_json::to_string(&cache).unwrap();
    let restored: ProbeCache = serde_json::from_str(&stored).unwrap();
    assert_eq!(restored.len(), 3);
    for (url, probe) in servers {
        assert_eq!(restored.get(&at(url)), Some(probe));
    }
    // It is not tied to the one that it was made from.
    cache.forget(&at("https://example.com/legacy"));
    assert_eq!(restored.len(), 3);
    // What is no version is left out, whoever has written it.
    let odd: ProbeCache = serde_json::from_str(r#"{"https://example.com/mcp":["","2026-07-28"]}"#).unwrap();
    assert_eq!(odd.get(&endpoint()), Some(modern(&[MODERN])));
    assert!(serde_json::from_str::<ProbeCache>(r#"{"x":1}"#).is_err());
}

/// Whether what is known (`known`) is still known after `message` was answered with `answer`.
fn survives(known: &Probe, message: JsonRpcMessage, answer: Answer) -> bool {
    let (cache, endpoint) = (ProbeCache::new(), endpoint());
    cache.insert(&endpoint, known);
    let (mock, handle) = mock::pair::<Query, Answer>();
    let session = Session::new();
    let mut messages = ServiceBuilder::new()
        .layer(ForgetEraLayer::new(cache.clone(), endpoint.clone()))
        .layer(EnvelopeLayer::new(endpoint.clone(), session.clone()))
        .layer(StampVersionLayer::new(session))
        .layer(SseLayer::new(Limits::default()))
        .service(mock);
    let sent = call(&mut messages, message);
    Server(handle).received().1.send_response(answer);
    let _: Option<Vec<_>> = now(sent).ok().map(all);
    cache.get(&endpoint).is_some()
}

#[test]
fn a_server_that_refuses_initialize_is_no_longer_taken_for_a_legacy_one() {
    let refusal = error_body("1", r#"{"code":-32022,"message":"no","data":{"supported":["2026-07-28"]}}"#);
    let stream = format!("data: {refusal}\n\n");
    for (status, content_type, body) in [
        (400, JSON, refusal.as_str()),
        (200, JSON, &refusal),
        (404, JSON, &refusal),
        (200, SSE, &stream),
        (400, "text/plain", "no"),
        (404, "", ""),
        (405, "", ""),
    ] {
        let answer = || answer(status, content_type, body.to_owned());
        assert!(!survives(&Probe::Legacy, initialize(1), answer()), "{status} {content_type} {body}");
        // Of another server it says nothing new.
        assert!(survives(&modern(&[MODERN]), initialize(1), answer()), "{status} {content_type} {body}");
        assert!(survives(&Probe::Legacy, ping(1), answer()), "{status} {content_type} {body}");
    }
    assert!(survives(&Probe::Legacy, initialize(1), json_answer(client::RESULT)));
}

#[test]
fn a_server_that_does_not_understand_a_modern_request_is_no_longer_taken_for_a_modern_one() {
    let known = modern(&[MODERN]);
    for status in [400, 404, 405] {
        assert!(
            !survives(&known, versioned("tools/list", MODERN), answer(status, "text/plain", "no")),
            "{status}"
        );
        assert!(!survives(&known, versioned("tools/list", MODERN), answer(status, "", "")), "{status}");
    }
    let error = |code: i64| error_body("1", &format!(r#"{{"code":{code},"message":"no"}}"#));
    let asked =
        |status, code| survives(&known, versioned("tools/list", MODERN), answer(status, JSON, error(code)));
    for (status, code) in [(400, -32022), (400, -32021), (400, -32020), (404, -32601), (200, -32602)] {
        assert!(asked(status, code), "{status} {code}");
    }
    for (status, code) in [(400, -32600), (400, -32000), (404, -32001), (400, -32700)] {
        assert!(!asked(status, code), "{status} {code}");
    }
}

#[test]
fn a_server_in_trouble_is_what_it_was() {
    for known in [Probe::Legacy, modern(&[MODERN])] {
        let message = || if known == Probe::Legacy { initialize(1) } else { versioned("tools/list", MODERN) };
        for status in [401, 403, 408, 429, 500, 502, 503] {
            assert!(survives(&known, message(), answer(status, "text/plain", "no")), "{status}");
        }
        assert!(survives(&known, message(), answer(200, "text/html", "<p>")));
        assert!(survives(&known, message(), answer(200, SSE, "")));
        // A probe settles itself what it finds.
        assert!(survives(&known, discover(), answer(404, "", "")));
    }
    // Notifications are answered in too many ways to tell anything.
    assert!(survives(&modern(&[MODERN]), notification(), answer(400, "", "")));
}

#[test]
fn forgetting_changes_nothing_else() {
    let (cache, endpoint) = (ProbeCache::new(), endpoint());
    cache.insert(&endpoint, &Probe::Legacy);
    let (mock, handle) = mock::pair::<Query, Answer>();
    let messages = EnvelopeLayer::new(endpoint.clone(), Session::new())
        .layer(SseLayer::new(Limits::default()).layer(mock));
    let mut messages = ForgetEraLayer::new(cache, endpoint).layer(messages);
    let mut server = Server(handle);
    let sent = call(&mut messages, initialize(1));
    let refusal = error_body("1", r#"{"code":-32022,"message":"no","data":{ "n":1.0 }}"#);
    server.received().1.send_response(Response::map(answer(400, JSON, refusal), |body| body));
    let refused: JsonRpcResponse = response(now(sent)).unwrap();
    assert_eq!(refused.outcome().unwrap_err().data().unwrap().as_str(), r#"{ "n":1.0 }"#);
    let sent = call(&mut messages, ping(2));
    server.received().1.send_error("reset");
    assert!(now(sent).unwrap_err().may_have_run());
}
