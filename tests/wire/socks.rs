//! SOCKS5 proxies.

use std::net::SocketAddr;

use http::{Uri, Version};
use mcp_streamable_http::Client;
use mcp_streamable_http::client::{ClientBuilder, Proxy, ProxyError};

use crate::common::*;
use crate::peer::Peer;
use crate::pki::Authority;
use crate::relay::{Kind, Relay};
use crate::support::mcp::result;
use crate::support::{Answer, Server};

const NOBODY: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 9);
const ME: Option<(&str, &str)> = Some(("me", "s3cret"));

async fn server() -> (Server, SocketAddr) {
    let server = Server::start(|request| Answer::json(200, result(request, serde_json::json!({})))).await;
    let address = server.url().authority().unwrap().as_str().parse().unwrap();
    (server, address)
}

fn by(url: String) -> ClientBuilder {
    Client::builder().proxy(Proxy::new(url))
}

fn named(url: &str) -> Uri {
    url.parse().unwrap()
}

async fn refusal(relay: &Relay, client: ClientBuilder) -> ProxyError {
    let error = fails(&transport(named("http://server.test/mcp"), client), ping(1)).await;
    assert_not_sent(&error);
    assert_says(&error, &[&relay.url("the proxy socks5h://"), "server.test:80"]);
    assert!(!format!("{error:?}{error}").contains("s3cret"), "a password was printed");
    error.find::<ProxyError>().unwrap().clone()
}

#[tokio::test]
async fn names_are_looked_up_by_the_proxy_or_by_the_client() {
    let (server, address) = server().await;
    let relay = Relay::start(Kind::Socks(None), address).await;
    let url = named("http://localhost:8000/mcp");
    works(&transport(url.clone(), by(relay.url("socks5h://"))), ping(1)).await;
    works(&transport(url, by(relay.url("socks5://"))), ping(1)).await;
    assert_eq!(relay.targets(), ["name localhost:8000", "127.0.0.1:8000"]);
    assert_eq!(server.requests()[1].header("host"), Some("localhost:8000"));
}

#[tokio::test]
async fn addresses_are_told_as_addresses() {
    let (_server, address) = server().await;
    let relay = Relay::start(Kind::Socks(None), address).await;
    for scheme in ["socks5h://", "socks5://"] {
        for url in ["http://192.0.2.1/mcp", "http://[2001:db8::1]:8000/mcp"] {
            works(&transport(named(url), by(relay.url(scheme))), ping(1)).await;
        }
    }
    let told = ["192.0.2.1:80", "2001:db8::1:8000"];
    assert_eq!(relay.targets(), [told, told].concat());
}

#[tokio::test]
async fn a_name_that_the_client_cannot_look_up_is_not_sent() {
    let relay = Relay::start(Kind::Socks(None), NOBODY).await;
    let error =
        fails(&transport(named("http://server.invalid/mcp"), by(relay.url("socks5://"))), ping(1)).await;
    assert_not_sent(&error);
    assert!(relay.wanted().is_empty());
}

#[tokio::test]
async fn credentials_are_told_and_many_calls_use_one_tunnel() {
    let (server, address) = server().await;
    let relay = Relay::start(Kind::Socks(ME), address).await;
    let ways = [
        Proxy::new(relay.url("socks5h://me:s3cret@")),
        Proxy::new(relay.url("socks5h://")).credentials("me", "s3cret"),
    ];
    for way in ways {
        let transport = transport(named("http://server.test/mcp"), Client::builder().proxy(way));
        for id in 0..50 {
            works(&transport, ping(id)).await;
        }
    }
    assert_eq!((relay.wanted().len(), server.connections()), (2, 2));
}

#[tokio::test]
async fn missing_and_wrong_credentials_are_refused() {
    let relay = Relay::start(Kind::Socks(ME), NOBODY).await;
    for prefix in ["socks5h://", "socks5h://me:wrong@", "socks5h://s3cret:me@"] {
        let error = refusal(&relay, by(relay.url(prefix))).await;
        assert_eq!(error.proxy(), relay.url("socks5h://"));
    }
    let error = refusal(&relay, by(relay.url("socks5h://me:wrong@"))).await;
    assert!(error.to_string().contains("credentials not accepted"), "{error}");
}

#[tokio::test]
async fn a_refusal_says_why() {
    for (code, why) in [(2, "connection not allowed"), (4, "host unreachable"), (5, "connection refused")] {
        let relay = Relay::start(Kind::SocksAnswer(code), NOBODY).await;
        let error = refusal(&relay, by(relay.url("socks5h://"))).await;
        assert!(error.to_string().contains(why), "{error}");
        assert_eq!(error.status(), None);
    }
}

#[tokio::test]
async fn a_proxy_of_another_kind_is_an_error() {
    let relay = Relay::start(Kind::Answer("HTTP/1.1 400 Bad Request\r\n\r\n"), NOBODY).await;
    // It waits for the end of a head, which never comes.
    let client = by(relay.url("socks5h://")).connect_timeout(std::time::Duration::from_millis(200));
    assert_not_sent(&fails(&transport(named("http://server.test/mcp"), client), ping(1)).await);
    let relay = Relay::start(Kind::Socks(None), NOBODY).await;
    let error = fails(&transport(named("http://server.test/mcp"), by(relay.url("http://"))), ping(1)).await;
    assert_not_sent(&error);
    assert_says(&error, &[&relay.url("the proxy http://"), "server.test:80"]);
}

#[tokio::test]
async fn credentials_that_leave_no_room_for_the_host_are_an_error() {
    let relay = Relay::start(Kind::Socks(ME), NOBODY).await;
    let proxy = Proxy::new(relay.url("socks5h://")).credentials("me", "s3cret".repeat(40));
    let error = refusal(&relay, Client::builder().proxy(proxy)).await;
    assert!(error.to_string().contains("too long together"), "{error}");
}

#[tokio::test]
async fn tls_and_http2_go_through() {
    let authority = Authority::new("ours");
    let peer = Peer::tls(authority.server("server.test").serve(&["h2", "http/1.1"])).await;
    let relay = Relay::start(Kind::Socks(ME), peer.address()).await;
    let client = by(relay.url("socks5h://me:s3cret@")).root_certificates_pem(authority.pem());
    let transport = transport(named("https://server.test/mcp"), client);
    works(&transport, ping(1)).await;
    works(&transport, ping(2)).await;
    assert_eq!(relay.targets(), ["name server.test:443"]);
    assert_eq!((peer.connections(), peer.versions()), (1, vec![Version::HTTP_2; 2]));
}
