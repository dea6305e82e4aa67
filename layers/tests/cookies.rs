//! Cookies: which are kept, where they are sent, and what a server cannot do with them.

#![cfg(feature = "cookies")]
#![allow(clippy::unwrap_used)]

mod common;

use common::bridge::{Answer, Query};
use common::*;
use http::{Request, Uri};
use http_body_util::Full;
use mcp_streamable_http_layers::error::InvalidOption;
use mcp_streamable_http_layers::{CookieLayer, Cookies};
use tower::Layer;
use tower_test::mock;

type Jar = Cookies<mock::Mock<Query, Answer>>;

fn jar_of(uri: &str) -> (Jar, Server<Query, Answer>) {
    let (mock, handle) = mock::pair();
    (CookieLayer::new(&uri.parse().unwrap()).unwrap().layer(mock), Server(handle))
}

fn jar() -> (Jar, Server<Query, Answer>) {
    jar_of(ENDPOINT)
}

fn to(uri: &str) -> Query {
    Request::post(uri).body(Full::default()).unwrap()
}

/// The cookies that `query` goes out with, sorted. The answer sets those in `set`.
fn exchange(jar: &mut Jar, server: &mut Server<Query, Answer>, query: Query, set: &[&[u8]]) -> Vec<String> {
    let sent = call(jar, query);
    let (received, reply) = server.received();
    let answer =
        set.iter().fold(answer(200, "", ""), |answer, cookie| with_header(answer, "set-cookie", cookie));
    reply.send_response(answer);
    let answer = now(sent).unwrap();
    assert_eq!(answer.headers().get_all("set-cookie").iter().count(), set.len(), "they are passed on");
    let mut cookies = Vec::new();
    for header in received.headers().get_all("cookie") {
        assert!(header.is_sensitive());
        cookies.extend(header.to_str().unwrap().split("; ").map(str::to_owned));
    }
    cookies.sort_unstable();
    cookies
}

/// What is sent to `uri` after `set` was answered from [`ENDPOINT`].
fn sent_to(uri: &str, set: &[&[u8]]) -> Vec<String> {
    let (mut jar, mut server) = jar();
    assert_eq!(exchange(&mut jar, &mut server, to(ENDPOINT), set), [""; 0]);
    exchange(&mut jar, &mut server, to(uri), &[])
}

fn sent_back(set: &[&[u8]]) -> Vec<String> {
    sent_to(ENDPOINT, set)
}

#[test]
fn what_the_server_sets_is_sent_back_to_it() {
    assert_eq!(sent_back(&[b"route=b"]), ["route=b"]);
    assert_eq!(sent_back(&[b"a=1; Path=/; HttpOnly; SameSite=Lax", b"b=\"2\"; Secure"]), ["a=1", "b=\"2\""]);
    assert_eq!(sent_back(&[]), [""; 0]);
    // The later one of the same name replaces the earlier.
    assert_eq!(sent_back(&[b"a=1", b"a=2"]), ["a=2"]);
}

#[test]
fn clones_share_what_was_set() {
    let layer = CookieLayer::new(&ENDPOINT.parse().unwrap()).unwrap();
    let (mock, handle) = mock::pair();
    let (mut one, mut other, mut server) =
        (layer.clone().layer(mock.clone()), layer.layer(mock), Server(handle));
    exchange(&mut one, &mut server, to(ENDPOINT), &[b"a=1"]);
    assert_eq!(exchange(&mut one.clone(), &mut server, to(ENDPOINT), &[b"b=2"]), ["a=1"]);
    assert_eq!(exchange(&mut other, &mut server, to(ENDPOINT), &[]), ["a=1", "b=2"]);
}

#[test]
fn a_path_bounds_where_a_cookie_goes() {
    for (path, uri, is_sent) in [
        ("/", "https://example.com/other", true),
        ("/mcp", "https://example.com/mcp", true),
        ("/mcp", "https://example.com/mcp/sub?q", true),
        ("/mcp", "https://example.com/mcp2", false),
        ("/mcp", "https://example.com/", false),
        ("/else", "https://example.com/mcp", false),
    ] {
        let cookie = format!("a=1; Path={path}");
        assert_eq!(sent_to(uri, &[cookie.as_bytes()]).len(), usize::from(is_sent), "{path} {uri}");
    }
}

#[test]
fn no_other_origin_is_sent_a_cookie_or_may_set_one() {
    for uri in [
        "http://example.com/mcp",
        "https://example.com:8443/mcp",
        "https://example.org/mcp",
        "https://sub.example.com/mcp",
    ] {
        assert_eq!(sent_to(uri, &[b"a=1; Domain=example.com; Path=/", b"b=2"]), [""; 0], "{uri}");

        let (mut jar, mut server) = jar();
        exchange(&mut jar, &mut server, to(uri), &[b"a=1; Domain=example.com; Path=/", b"b=2"]);
        assert_eq!(exchange(&mut jar, &mut server, to(ENDPOINT), &[]), [""; 0], "{uri}");
    }
    // The same origin in other words.
    assert_eq!(sent_to("https://EXAMPLE.com:443/mcp", &[b"a=1; Domain=example.com"]), ["a=1"]);
    // Nor does the origin set any for others.
    assert_eq!(sent_back(&[b"a=1; Domain=example.org", b"b=2; Domain=sub.example.com"]), [""; 0]);
}

#[test]
fn secure_cookies_are_not_sent_in_the_clear() {
    let (mut jar, mut server) = jar_of("http://example.com/mcp");
    let query = || to("http://example.com/mcp");
    exchange(&mut jar, &mut server, query(), &[b"a=1; Secure", b"b=2"]);
    assert_eq!(exchange(&mut jar, &mut server, query(), &[]), ["b=2"]);
}

#[test]
fn what_has_expired_is_not_sent() {
    for expired in [
        &b"a=2; Max-Age=0"[..],
        b"a=2; Max-Age=-1",
        b"a=; Expires=Thu, 01 Jan 1970 00:00:00 GMT",
        b"a=2; Expires=Wed, 21 Oct 2015 07:28:00 GMT",
    ] {
        assert_eq!(sent_back(&[expired]), [""; 0]);
        let (mut jar, mut server) = jar();
        exchange(&mut jar, &mut server, to(ENDPOINT), &[b"a=1", b"b=1"]);
        assert_eq!(exchange(&mut jar, &mut server, to(ENDPOINT), &[expired]), ["a=1", "b=1"]);
        assert_eq!(exchange(&mut jar, &mut server, to(ENDPOINT), &[b"a=3"]), ["b=1"], "it is deleted");
        assert_eq!(exchange(&mut jar, &mut server, to(ENDPOINT), &[]), ["a=3", "b=1"]);
    }
    assert_eq!(sent_back(&[b"a=1; Max-Age=3600", b"b=2; Expires=Fri, 01 Jan 2100 00:00:00 GMT"]).len(), 2);
}

#[test]
fn no_more_than_fifty_are_kept() {
    let (mut jar, mut server) = jar();
    for number in 0..200 {
        exchange(&mut jar, &mut server, to(ENDPOINT), &[format!("c{number}=1").as_bytes()]);
    }
    assert_eq!(exchange(&mut jar, &mut server, to(ENDPOINT), &[]).len(), 50);
    // Those that there are can still change, and make room.
    exchange(&mut jar, &mut server, to(ENDPOINT), &[b"c0=2", b"c1=; Max-Age=0", b"late=1", b"later=1"]);
    let cookies = exchange(&mut jar, &mut server, to(ENDPOINT), &[]);
    assert_eq!(cookies.len(), 50);
    assert!(cookies.contains(&"c0=2".to_owned()) && cookies.contains(&"late=1".to_owned()), "{cookies:?}");
    assert!(!cookies.iter().any(|cookie| cookie.starts_with("c1=") || cookie.starts_with("later")));
}

#[test]
fn paths_do_not_make_room_for_more() {
    let (mut jar, mut server) = jar();
    let path = "/a".repeat(200);
    let uri = format!("https://example.com{path}");
    for depth in 1..=200 {
        let cookie = format!("c=1; Path={}", "/a".repeat(depth));
        exchange(&mut jar, &mut server, to(&uri), &[cookie.as_bytes()]);
    }
    let sent = exchange(&mut jar, &mut server, to(&uri), &[]).len();
    assert!(sent <= 50, "{sent} are kept");
}

#[test]
fn what_has_expired_takes_no_room() {
    let (mut jar, mut server) = jar();
    for number in 0..100 {
        exchange(&mut jar, &mut server, to(ENDPOINT), &[format!("c{number}=1").as_bytes()]);
        exchange(&mut jar, &mut server, to(ENDPOINT), &[format!("c{number}=1; Max-Age=0").as_bytes()]);
    }
    exchange(&mut jar, &mut server, to(ENDPOINT), &[b"late=1"]);
    assert_eq!(exchange(&mut jar, &mut server, to(ENDPOINT), &[]), ["late=1"]);
}

#[test]
fn what_is_no_cookie_is_ignored() {
    let big = format!("big={}", "x".repeat(1 << 20));
    let nameless = format!("={}", "x".repeat(1 << 20));
    let hostile: [&[u8]; 9] = [
        b"",
        b"=",
        b"; Path=/",
        b"novalue",
        b"n=\xff\xfe",
        b"\xc3\x28=1",
        b"a=1; Max-Age=99999999999999999999999; Expires=nonsense; Domain=..; Path=\xff",
        nameless.as_bytes(),
        big.as_bytes(),
    ];
    for set in hostile {
        // It is neither an error nor in the way of what comes after it.
        let cookies = sent_back(&[set, b"ok=1"]);
        assert!(cookies.contains(&"ok=1".to_owned()), "{:?}", set.get(..20));
    }
}

#[test]
fn a_cookie_of_the_callers_own_is_sent_too() {
    let own = || {
        let mut value = http::HeaderValue::from_static("own=1");
        value.set_sensitive(true);
        let mut query = to(ENDPOINT);
        query.headers_mut().insert("cookie", value);
        query
    };
    let (mut jar, mut server) = jar();
    assert_eq!(exchange(&mut jar, &mut server, own(), &[b"a=1"]), ["own=1"]);
    assert_eq!(exchange(&mut jar, &mut server, own(), &[]), ["a=1", "own=1"]);
    assert_eq!(exchange(&mut jar, &mut server, to(ENDPOINT), &[]), ["a=1"], "it is not kept");
}

#[test]
fn every_cookie_header_of_the_callers_own_is_sent_too() {
    let (mut jar, mut server) = jar();
    exchange(&mut jar, &mut server, to(ENDPOINT), &[b"a=1"]);
    let mut query = to(ENDPOINT);
    for own in [&b"x=1"[..], b"y=2", b"z=\xff"] {
        query.headers_mut().append("cookie", own.try_into().unwrap());
    }
    let _sent = call(&mut jar, query);
    let received = server.received().0;
    let values: Vec<_> = received.headers().get_all("cookie").iter().map(|value| value.as_bytes()).collect();
    let all = values.join(&b"; "[..]);
    for cookie in [&b"a=1"[..], b"x=1", b"y=2", b"z=\xff"] {
        assert!(all.windows(cookie.len()).any(|found| found == cookie), "{cookie:?} is lost");
    }
}

#[test]
fn cookies_are_not_shown() {
    let layer = CookieLayer::new(&ENDPOINT.parse().unwrap()).unwrap();
    let (mock, handle) = mock::pair();
    let (mut jar, mut server) = (layer.layer(mock), Server(handle));
    exchange(&mut jar, &mut server, to(ENDPOINT), &[b"s3cret=s3cret"]);
    let sent = call(&mut jar, to(ENDPOINT));
    let text = format!("{layer:?} {jar:?} {:?} {:?}", &*sent, server.received().0);
    assert!(text.contains("CookieLayer") && text.contains("example.com"), "{text}");
    assert!(!text.contains("s3cret"), "{text}");
}

#[test]
fn readiness_and_errors_are_those_of_the_service_below() {
    let (jar, mut server) = jar();
    assert_ready_passes_through(jar, &mut server);

    let (mut jar, mut server) = self::jar();
    let sent = call(&mut jar, to(ENDPOINT));
    server.received().1.send_error("broken");
    assert_eq!(now(sent).unwrap_err().to_string(), "broken");
}

#[test]
fn there_are_no_cookies_for_what_is_no_origin() {
    for uri in ["/mcp", "example.com"] {
        let error: InvalidOption = CookieLayer::new(&uri.parse::<Uri>().unwrap()).unwrap_err();
        assert!(error.to_string().contains("scheme"), "{error}");
    }
}
