//! Redirects: which are followed, with what, and how often.

#![allow(clippy::unwrap_used)]

mod common;

use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use common::bridge::{Answer, Query};
use common::*;
use http::{Method, Request};
use http_body_util::{BodyExt as _, Full};
use mcp_streamable_http_layers::options::FirstByte;
use mcp_streamable_http_layers::{Redirect, RedirectLayer};
use tokio_test::assert_pending;
use tower::Layer;
use tower_test::mock;

fn redirect(layer: RedirectLayer) -> (Redirect<mock::Mock<Query, Answer>>, Server<Query, Answer>) {
    let (mock, handle) = mock::pair();
    (layer.layer(mock), Server(handle))
}

fn request(method: Method, uri: &str) -> Query {
    Request::builder().method(method).uri(uri).body(Full::default()).unwrap()
}

fn post(uri: &str) -> Query {
    request(Method::POST, uri)
}

fn moved(status: u16, location: &str) -> Answer {
    with_header(answer(status, "", ""), "location", location.as_bytes())
}

/// Sends `request`; what arrives is answered with `answers`, one after the other. Returns what arrived, and the answer.
fn exchange(layer: RedirectLayer, request: Query, answers: Vec<Answer>) -> (Vec<Query>, Answer) {
    let (mut service, mut server) = redirect(layer);
    let mut sent = call(&mut service, request);
    let mut received = Vec::new();
    for answer in answers {
        assert_pending!(sent.poll());
        let (query, reply) = server.received();
        received.push(query);
        reply.send_response(answer);
    }
    let answer = now(sent).unwrap();
    server.assert_nothing_received();
    (received, answer)
}

/// Where a request goes that is redirected once; `None`: nowhere, the redirect is the answer.
fn second_hop(request: Query, status: u16, location: &str) -> Option<String> {
    let (mut service, mut server) = redirect(RedirectLayer::new());
    let mut sent = call(&mut service, request);
    server.received().1.send_response(moved(status, location));
    match sent.poll() {
        Poll::Pending => Some(server.received().0.uri().to_string()),
        Poll::Ready(answer) => {
            let answer = answer.unwrap();
            assert_eq!(
                (answer.status().as_u16(), &answer.headers()["location"]),
                (status, &location.parse().unwrap())
            );
            server.assert_nothing_received();
            None
        }
    }
}

fn body_of(query: Query) -> Bytes {
    now(query.into_body().collect()).unwrap().to_bytes()
}

#[test]
fn a_post_is_sent_again_as_it_was() {
    for status in [307, 308] {
        let mut request =
            post("https://example.com/mcp?tenant=a").map(|_| Full::from(r#"{"jsonrpc":"2.0"}"#));
        *request.headers_mut() = headers(&[
            ("authorization", "Bearer s3cret"),
            ("mcp-session-id", "s-1"),
            ("x-many", "1"),
            ("x-many", "2"),
        ]);
        request.extensions_mut().insert(FirstByte::within(Duration::from_secs(1)));
        let sent = request.clone();
        let answers = vec![moved(status, "/mcp/"), json_answer("{}")];
        let (received, answer) = exchange(RedirectLayer::new(), request, answers);
        assert_eq!(answer.status(), 200);

        let targets: Vec<_> = received.iter().map(|query| query.uri().to_string()).collect();
        assert_eq!(targets, ["https://example.com/mcp?tenant=a", "https://example.com/mcp/"]);
        for query in received {
            assert_eq!((query.method(), query.headers()), (sent.method(), sent.headers()));
            assert_eq!(
                query.extensions().get(),
                Some(&FirstByte::within(Duration::from_secs(1))),
                "for the layers below"
            );
            assert_eq!(body_of(query), r#"{"jsonrpc":"2.0"}"#);
        }
    }
}

#[test]
fn a_method_follows_the_redirects_that_keep_it() {
    for (status, by_post, by_get, by_delete) in [
        (301, false, true, false),
        (302, false, true, false),
        (303, false, true, false),
        (304, false, false, false),
        (307, true, true, true),
        (308, true, true, true),
        (201, false, false, false),
        (400, false, false, false),
    ] {
        for (method, followed) in
            [(Method::POST, by_post), (Method::GET, by_get), (Method::DELETE, by_delete)]
        {
            let request = request(method.clone(), "http://h/mcp");
            let target = second_hop(request, status, "/mcp/");
            assert_eq!(target.as_deref(), followed.then_some("http://h/mcp/"), "{method} {status}");
        }
    }
}

#[test]
fn a_get_and_a_delete_keep_method_and_headers() {
    for (method, status) in [(Method::GET, 302), (Method::GET, 308), (Method::DELETE, 307)] {
        let mut request = request(method.clone(), "http://h/mcp");
        *request.headers_mut() = headers(&[("mcp-session-id", "s-1"), ("authorization", "Bearer s3cret")]);
        let sent = request.clone();
        let (received, _) =
            exchange(RedirectLayer::new(), request, vec![moved(status, "/mcp/"), answer(200, "", "")]);
        assert_eq!((received[1].method(), received[1].headers()), (&method, sent.headers()));
    }
}

#[test]
fn only_the_same_origin_and_its_upgrade_are_followed() {
    for (from, to, followed) in [
        ("https://h/mcp", "https://h/mcp/", true),
        ("https://h/mcp", "https://h:443/mcp/", true),
        ("https://h:443/mcp", "https://H/mcp/", true),
        ("http://h:8000/mcp", "http://h:8000/mcp/", true),
        ("http://[::1]:8000/mcp", "http://[::1]:8000/mcp/", true),
        // The way out: to TLS, where both sides are on their default ports.
        ("http://h/mcp", "https://h/mcp", true),
        ("http://h:80/mcp", "https://h:443/mcp", true),
        ("http://h:8000/mcp", "https://h/mcp", false),
        ("http://h/mcp", "https://h:8443/mcp", false),
        ("http://h:443/mcp", "https://h/mcp", false),
        ("http://h/mcp", "https://www.h/mcp", false),
        // Never back, and never elsewhere.
        ("https://h/mcp", "http://h/mcp", false),
        ("https://h/mcp", "http://h:443/mcp", false),
        ("https://h/mcp", "https://h:8443/mcp", false),
        ("https://h/mcp", "https://evil/mcp", false),
        ("https://h/mcp", "//evil/mcp", false),
        ("https://h/mcp", "https://h.evil/mcp", false),
        ("http://127.0.0.1:1/mcp", "http://127.0.0.1:2/mcp", false),
        ("http://127.0.0.1/mcp", "http://localhost/mcp", false),
        ("https://h/mcp", "ws://h/mcp", false),
        // RFC 9110 §4.2.4: userinfo is not for the wire, and here not even to the same host.
        ("https://h/mcp", "https://user@h/mcp/", false),
        ("https://h/mcp", "https://user:password@h/mcp/", false),
        ("https://h/mcp", "//user@h/mcp/", false),
        ("https://h/mcp", "https://h@evil/mcp", false),
    ] {
        for method in [Method::POST, Method::GET, Method::DELETE] {
            assert_eq!(second_hop(request(method, from), 307, to).is_some(), followed, "{from} to {to}");
        }
    }
}

#[test]
fn a_location_may_be_relative() {
    for (location, target) in [
        ("/mcp/", "http://h:1/mcp/"),
        ("/other?a=b", "http://h:1/other?a=b"),
        ("mcp/", "http://h:1/api/mcp/"),
        ("./v2", "http://h:1/api/v2"),
        ("../mcp", "http://h:1/mcp"),
        ("?b=2", "http://h:1/api/mcp?b=2"),
        ("//h:1/x", "http://h:1/x"),
        ("http://h:1/x#fragment", "http://h:1/x"),
    ] {
        assert_eq!(
            second_hop(post("http://h:1/api/mcp?a=1"), 307, location).as_deref(),
            Some(target),
            "{location}"
        );
    }
}

#[test]
fn a_relative_location_starts_from_where_it_came() {
    let answers = vec![moved(307, "/a/b"), moved(307, "c"), moved(308, "../d/"), answer(202, "", "")];
    let (received, _) = exchange(RedirectLayer::new(), post("http://h/"), answers);
    let paths: Vec<_> = received.iter().map(|query| query.uri().path()).collect();
    assert_eq!(paths, ["/", "/a/b", "/a/c", "/d/"]);
}

#[test]
fn after_the_upgrade_there_is_no_way_back() {
    let answers = vec![moved(308, "https://h/mcp"), moved(307, "http://h/mcp")];
    let (received, answer) = exchange(RedirectLayer::new(), post("http://h/mcp"), answers);
    assert_eq!((received.len(), answer.status().as_u16()), (2, 307));
}

#[test]
fn a_redirect_without_a_usable_location_is_the_answer() {
    let (received, answered) = exchange(RedirectLayer::new(), post("http://h/"), vec![answer(307, "", "")]);
    assert_eq!((received.len(), answered.status().as_u16()), (1, 307));
    for location in ["http://", "http://h:99999/", "mailto:a@h", "a b"] {
        assert_eq!(second_hop(post("http://h/"), 307, location), None, "{location}");
    }
    let odd = with_header(answer(307, "", ""), "location", b"/\xff");
    assert_eq!(exchange(RedirectLayer::new(), post("http://h/"), vec![odd]).1.status(), 307);
}

#[test]
fn the_last_redirect_of_too_many_is_the_answer() {
    for (layer, follows) in [
        (RedirectLayer::new(), 10),
        (RedirectLayer::default(), 10),
        (RedirectLayer::new().max_redirects(3), 3),
        (RedirectLayer::new().max_redirects(0), 0),
    ] {
        // A loop, as servers make them that redirect a path to itself.
        let answers =
            (0..=follows).map(|nth| with_header(moved(307, "/mcp"), "x-nth", nth.to_string().as_bytes()));
        let (received, answer) = exchange(layer, post("http://h/mcp"), answers.collect());
        assert_eq!(received.len(), follows + 1);
        assert_eq!(answer.status(), 307);
        assert_eq!(answer.headers()["location"], "/mcp");
        assert_eq!(answer.headers()["x-nth"], follows.to_string(), "the last, not the first");
    }
}

#[test]
fn as_many_redirects_as_allowed_are_followed() {
    let hops = (0..10).map(|nth| moved(308, &format!("/{nth}"))).chain([answer(200, "", "")]);
    let (received, answered) = exchange(RedirectLayer::new(), post("http://h/mcp"), hops.collect());
    assert_eq!((received.len(), answered.status().as_u16()), (11, 200));
}

#[test]
fn every_request_starts_at_its_own_url() {
    let (mut service, mut server) = redirect(RedirectLayer::new());
    for _ in 0..3 {
        let mut sent = call(&mut service, post("http://h/mcp"));
        for (path, answer) in [("/mcp", moved(308, "/mcp/")), ("/mcp/", answer(200, "", ""))] {
            assert_pending!(sent.poll());
            let (query, reply) = server.received();
            assert_eq!(query.uri().path(), path, "a permanent redirect is not remembered either");
            reply.send_response(answer);
        }
        assert_eq!(now(sent).unwrap().status(), 200);
    }
}

#[test]
fn the_bound_is_one_for_each_request() {
    let (mut service, mut server) = redirect(RedirectLayer::new().max_redirects(1));
    for _ in 0..3 {
        let mut sent = call(&mut service, post("http://h/mcp"));
        server.received().1.send_response(moved(307, "/mcp/"));
        assert_pending!(sent.poll());
        server.received().1.send_response(answer(202, "", ""));
        assert_eq!(now(sent).unwrap().status(), 202);
    }
}

#[test]
fn failures_of_any_hop_are_passed_on() {
    for hops in [0, 1, 2] {
        let (mut service, mut server) = redirect(RedirectLayer::new());
        let mut sent = call(&mut service, post("http://h/mcp"));
        for _ in 0..hops {
            server.received().1.send_response(moved(307, "/mcp"));
            assert_pending!(sent.poll());
        }
        server.received().1.send_error("reset");
        assert_eq!(now(sent).unwrap_err().to_string(), "reset");
    }
}
