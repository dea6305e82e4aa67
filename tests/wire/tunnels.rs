//! HTTP proxies: everything goes through CONNECT.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use http::{Uri, Version};
use mcp_streamable_http::client::{ClientBuilder, Proxy, ProxyError};
use mcp_streamable_http::error::NotSent;
use mcp_streamable_http::{Backoff, Client, Error, RetryPolicy, StreamableHttp};
use tokio::net::TcpSocket;

use crate::common::*;
use crate::peer::{Peer, Play};
use crate::pki::{Authority, HOST};
use crate::relay::{Kind, Relay};
use crate::support::mcp::result;
use crate::support::{Answer, Server};

/// `me:s3cret`.
const BASIC: &str = "Basic bWU6czNjcmV0";

async fn server() -> Server {
    Server::start(|request| Answer::json(200, result(request, serde_json::json!({})))).await
}

fn address(url: &Uri) -> SocketAddr {
    url.authority().unwrap().as_str().parse().unwrap()
}

fn by(url: String) -> ClientBuilder {
    Client::builder().proxy(Proxy::new(url))
}

fn named(url: &str) -> Uri {
    url.parse().unwrap()
}

/// A call through a proxy that does not let it pass.
async fn refusal(relay: &Relay, client: ClientBuilder) -> ProxyError {
    let error = fails(&transport(named("http://server.test/mcp"), client), ping(1)).await;
    assert_not_sent(&error);
    assert!(error.find::<NotSent>().is_some() && !error.is_timeout(), "{error:?}");
    assert_says(&error, &["the proxy http://", &relay.address(), "server.test:80"]);
    for text in [error.to_string(), format!("{error:?}")] {
        assert!(!text.contains("s3cret") && !text.contains("czNjcmV0"), "a password was printed");
    }
    error.find::<ProxyError>().unwrap().clone()
}

#[tokio::test]
async fn plain_http_is_tunnelled() {
    let server = server().await;
    let relay = Relay::start(Kind::Connect(None), address(&server.url())).await;
    let transport = transport(named("http://server.test/mcp"), by(relay.url("http://")));
    works(&transport, ping(1)).await;
    assert_eq!(relay.targets(), ["server.test:80"]);
    let request = server.requests().remove(0);
    assert_eq!((request.target.as_str(), request.header("host")), ("/mcp", Some("server.test")));
}

#[tokio::test]
async fn a_port_of_its_own_is_asked_for() {
    let server = server().await;
    let relay = Relay::start(Kind::Connect(None), address(&server.url())).await;
    for url in ["http://server.test:8000/mcp", "http://[2001:db8::1]:8000/mcp", "http://[2001:db8::1]/mcp"] {
        works(&transport(named(url), by(relay.url("http://"))), ping(1)).await;
    }
    assert_eq!(relay.targets(), ["server.test:8000", "[2001:db8::1]:8000", "[2001:db8::1]:80"]);
}

#[tokio::test]
async fn a_proxy_needs_no_scheme() {
    let server = server().await;
    let relay = Relay::start(Kind::Connect(None), address(&server.url())).await;
    works(&transport(named("http://server.test/mcp"), by(relay.address())), ping(1)).await;
    assert_eq!(relay.targets(), ["server.test:80"]);
}

#[tokio::test]
async fn many_calls_one_after_the_other_use_one_tunnel() {
    let server = server().await;
    let relay = Relay::start(Kind::Connect(Some(BASIC)), address(&server.url())).await;
    let transport = transport(named("http://server.test/mcp"), by(relay.url("http://me:s3cret@")));
    for id in 0..100 {
        works(&transport, ping(id)).await;
    }
    assert_eq!((relay.wanted().len(), server.connections()), (1, 1));
}

#[tokio::test]
async fn each_server_has_a_tunnel_of_its_own() {
    let server = server().await;
    let relay = Relay::start(Kind::Connect(None), address(&server.url())).await;
    let client = by(relay.url("http://")).build().unwrap();
    for host in ["one.test", "two.test", "one.test"] {
        let url = named(&format!("http://{host}/mcp"));
        let builder = mcp_streamable_http::StreamableHttp::with_client(url, client.clone());
        works(&builder.build().unwrap(), ping(1)).await;
    }
    assert_eq!(relay.targets(), ["one.test:80", "two.test:80"]);
}

#[tokio::test]
async fn credentials_are_told_to_the_proxy_and_to_nobody_else() {
    let server = server().await;
    let relay = Relay::start(Kind::Connect(Some(BASIC)), address(&server.url())).await;
    let ways = [
        Proxy::new(relay.url("http://me:s3cret@")),
        Proxy::new(relay.url("http://m%65:s3cre%74@")),
        Proxy::new(relay.url("http://")).credentials("me", "s3cret"),
        Proxy::new(relay.url("http://other:one@")).credentials("me", "s3cret"),
        Proxy::new(relay.address()).credentials("me", "s3cret"),
    ];
    let count = ways.len();
    for way in ways {
        works(&transport(named("http://server.test/mcp"), Client::builder().proxy(way)), ping(1)).await;
    }
    let requests = server.requests();
    assert_eq!(requests.len(), count);
    for request in requests {
        assert!(!request.headers.contains_key("proxy-authorization"), "{:?}", request.headers);
        assert!(!request.headers.values().any(|value| value.as_bytes().ends_with(BASIC.as_bytes())));
    }
}

#[tokio::test]
async fn passwords_with_special_characters_arrive_as_they_are() {
    let server = server().await;
    // `me:p@ss:w%rd/é`.
    let relay = Relay::start(Kind::Connect(Some("Basic bWU6cEBzczp3JXJkL8Op")), address(&server.url())).await;
    let proxy = Proxy::new(relay.url("http://")).credentials("me", "p@ss:w%rd/é");
    works(&transport(named("http://server.test/mcp"), Client::builder().proxy(proxy)), ping(1)).await;
}

#[tokio::test]
async fn missing_and_wrong_credentials_are_a_407() {
    let relay = Relay::start(Kind::Connect(Some(BASIC)), ([127, 0, 0, 1], 9).into()).await;
    for prefix in ["http://", "http://me:wrong@", "http://s3cret:me@"] {
        let error = refusal(&relay, by(relay.url(prefix))).await;
        assert_eq!(
            (error.status().map(|status| status.as_u16()), error.proxy()),
            (Some(407), &*relay.url("http://"))
        );
        assert!(error.to_string().contains("407 Proxy Authentication Required"), "{error}");
    }
}

#[tokio::test]
async fn a_refusal_says_the_status() {
    for (answer, status) in [
        ("HTTP/1.1 403 Forbidden\r\ncontent-length: 4\r\n\r\nnope", 403),
        ("HTTP/1.0 502 Bad Gateway\r\n\r\n", 502),
        ("HTTP/1.1 504 \r\n\r\n", 504),
        ("HTTP/1.1 302 Found\r\nlocation: http://login.test/\r\n\r\n", 302),
    ] {
        let relay = Relay::start(Kind::Answer(answer), ([127, 0, 0, 1], 9).into()).await;
        let error = refusal(&relay, by(relay.url("http://me:s3cret@"))).await;
        assert_eq!(error.status().map(|status| status.as_u16()), Some(status), "{error}");
        // It is no status of the server's.
        assert_eq!(Error::new(NotSent(error.into())).status(), None);
    }
}

/// A proxy may lock out whoever tries too often.
#[tokio::test]
async fn only_that_the_server_is_out_of_reach_is_tried_again() {
    for (answer, attempts) in [
        ("HTTP/1.1 401 Unauthorized\r\n\r\n", 1),
        ("HTTP/1.1 403 Forbidden\r\n\r\n", 1),
        ("HTTP/1.1 407 Proxy Authentication Required\r\n\r\n", 1),
        ("HTTP/1.1 502 Bad Gateway\r\n\r\n", 3),
        ("HTTP/1.1 503 Service Unavailable\r\n\r\n", 3),
    ] {
        let relay = Relay::start(Kind::Answer(answer), ([127, 0, 0, 1], 9).into()).await;
        let client = by(relay.url("http://me:s3cret@")).build().unwrap();
        let backoff = Backoff::default().base(Duration::from_millis(1)).attempts(3);
        let transport = StreamableHttp::with_client(named("http://server.test/mcp"), client)
            .retry(RetryPolicy::new().backoff(backoff))
            .build()
            .unwrap();
        let error = fails(&transport, ping(1)).await;
        assert_eq!(relay.targets().len(), attempts, "{error}");
    }
}

#[tokio::test]
async fn what_is_no_answer_to_connect_is_a_failure_of_the_proxy() {
    let endless = Box::leak(format!("HTTP/1.1 200 OK\r\nx: {}", "x".repeat(20_000)).into_boxed_str());
    for answer in ["", "HTTP/1.1 200 OK\r\n", "SSH-2.0-OpenSSH_9.6\r\n", endless] {
        let relay = Relay::start(Kind::Answer(answer), ([127, 0, 0, 1], 9).into()).await;
        let error = refusal(&relay, by(relay.url("http://me:s3cret@"))).await;
        assert_eq!(error.status(), None, "{error}");
    }
}

#[tokio::test]
async fn a_proxy_that_is_not_there_is_named() {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let proxy = socket.local_addr().unwrap();
    for (given, named_as) in [("http://me:s3cret@", "http://"), ("socks5h://me:s3cret@", "socks5h://")] {
        let client = by(format!("{given}{proxy}"));
        let error = fails(&transport(named("http://server.test/mcp"), client), ping(1)).await;
        assert_not_sent(&error);
        assert_says(&error, &[&format!("the proxy {named_as}{proxy} could not be reached"), "refused"]);
        assert!(!format!("{error:?}{error}").contains("s3cret"));
        assert_eq!(error.find::<ProxyError>().map(ProxyError::status), Some(None));
        // It is still an error of the operating system, of that kind.
        let cause = error.find::<std::io::Error>().unwrap();
        assert_eq!(cause.kind(), std::io::ErrorKind::ConnectionRefused);
    }
}

#[tokio::test]
async fn the_time_to_connect_bounds_the_proxy_too() {
    const LIMIT: Duration = Duration::from_millis(200);
    let relay = Relay::start(Kind::Hang, ([127, 0, 0, 1], 9).into()).await;
    for scheme in ["http://", "https://", "socks5h://"] {
        let client = by(relay.url(scheme)).connect_timeout(LIMIT);
        let start = Instant::now();
        let error = fails(&transport(named("http://server.test/mcp"), client), ping(1)).await;
        let took = start.elapsed();
        assert!(took >= LIMIT && took < Duration::from_secs(5), "{took:?}");
        assert_not_sent(&error);
        assert!(error.is_timeout(), "{error:?}");
        assert_says(&error, &["connecting", "200ms", "connect_timeout"]);
    }
}

#[tokio::test]
async fn tls_goes_to_the_server_itself() {
    let authority = Authority::new("ours");
    for (alpn, version) in [("h2", Version::HTTP_2), ("http/1.1", Version::HTTP_11)] {
        let peer = Peer::tls(authority.server("server.test").serve(&[alpn])).await;
        let relay = Relay::start(Kind::Connect(Some(BASIC)), peer.address()).await;
        let client = by(relay.url("http://me:s3cret@")).root_certificates_pem(authority.pem());
        let transport = transport(named("https://server.test/mcp"), client);
        works(&transport, ping(1)).await;
        works(&transport, ping(2)).await;
        assert_eq!(
            (relay.targets(), peer.versions()),
            (vec!["server.test:443".to_owned()], vec![version; 2])
        );
    }
}

#[tokio::test]
async fn a_proxy_cannot_pass_for_the_server() {
    let authority = Authority::new("ours");
    let (elsewhere, theirs) =
        (authority.server("elsewhere.test"), Authority::new("theirs").server("server.test"));
    for (identity, complaint) in [(elsewhere, "not valid for name"), (theirs, "UnknownIssuer")] {
        let peer = Peer::tls(identity.serve(&["h2"])).await;
        let relay = Relay::start(Kind::Connect(None), peer.address()).await;
        let client = by(relay.url("http://")).root_certificates_pem(authority.pem());
        let error = fails(&transport(named("https://server.test/mcp"), client), ping(1)).await;
        assert_not_sent(&error);
        assert_says(&error, &["certificate", complaint]);
        assert!(error.find::<ProxyError>().is_none() && peer.versions().is_empty(), "{error:?}");
    }
}

#[tokio::test]
async fn many_calls_at_once_share_an_http2_tunnel() {
    let authority = Authority::new("ours");
    let peer = Peer::tls(authority.server("server.test").serve(&["h2"])).await;
    let relay = Relay::start(Kind::Connect(None), peer.address()).await;
    let client = by(relay.url("http://")).root_certificates_pem(authority.pem());
    let transport = transport(named("https://server.test/mcp"), client);
    works(&transport, ping(0)).await;
    join_all((1..100).map(|id| works(&transport, ping(id)))).await;
    assert_eq!((relay.wanted().len(), peer.connections()), (1, 1));
}

#[tokio::test]
async fn what_the_server_says_first_is_not_lost_in_the_handshake() {
    let peer = Peer::http2(|_| Play::Json).await;
    for (kind, scheme) in [(Kind::Connect(None), "http://"), (Kind::Socks(None), "socks5h://")] {
        let relay = Relay::eager(kind, peer.address()).await;
        let client = by(relay.url(scheme)).http2_prior_knowledge();
        let transport = transport(named("http://server.test/mcp"), client);
        works(&transport, ping(1)).await;
        works(&transport, ping(2)).await;
        assert_eq!(relay.wanted().len(), 1);
    }
}

#[tokio::test]
async fn a_proxy_with_tls_is_checked_and_tunnels_tls() {
    let (proxies, servers) = (Authority::new("proxies"), Authority::new("servers"));
    let peer = Peer::tls(servers.server("server.test").serve(&["h2", "http/1.1"])).await;
    let relay = Relay::tls(proxies.server(HOST).serve(&[]), peer.address()).await;
    let url = named("https://server.test/mcp");
    let both = by(relay.url("https://")).root_certificates_pem(proxies.pem() + &servers.pem());
    works(&transport(url.clone(), both), ping(1)).await;
    assert_eq!(
        (relay.targets(), peer.versions()),
        (vec!["server.test:443".to_owned()], vec![Version::HTTP_2])
    );
    let only_servers = by(relay.url("https://me:s3cret@")).root_certificates_pem(servers.pem());
    let error = fails(&transport(url, only_servers), ping(1)).await;
    assert_not_sent(&error);
    assert_says(&error, &[&relay.url("the proxy https://"), "could not be reached", "UnknownIssuer"]);
    assert_eq!(relay.wanted().len(), 1);
}
