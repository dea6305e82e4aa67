//! TLS with servers that can be trusted, and with others.

use futures_util::future::join_all;
use http::Version;
use mcp_streamable_http::client::ClientBuilder;
use mcp_streamable_http::{Client, Error};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::common::*;
use crate::peer::Peer;
use crate::pki::{Authority, HOST};
use crate::raw::Raw;

/// A client that trusts `authority`, besides the platform's.
fn trusting(authority: &Authority) -> ClientBuilder {
    Client::builder().root_certificates_pem(authority.pem())
}

async fn versions(offered: &[&str], change: impl Fn(ClientBuilder) -> ClientBuilder) -> Vec<Version> {
    let authority = Authority::new("ours");
    let peer = Peer::tls(authority.server(HOST).serve(offered)).await;
    let transport = transport(peer.url(), change(trusting(&authority)));
    works(&transport, ping(1)).await;
    works(&transport, ping(2)).await;
    assert_eq!(peer.connections(), 1);
    peer.versions()
}

async fn refusal(peer: &Peer, client: ClientBuilder) -> Error {
    let error = fails(&transport(peer.url(), client), ping(1)).await;
    assert!(peer.versions().is_empty(), "a call went through");
    error
}

#[tokio::test]
async fn http2_is_spoken_where_the_server_offers_it() {
    assert_eq!(versions(&["h2", "http/1.1"], |client| client).await, [Version::HTTP_2; 2]);
    assert_eq!(versions(&["http/1.1", "h2"], |client| client).await, [Version::HTTP_11; 2]);
}

#[tokio::test]
async fn http1_is_spoken_elsewhere() {
    assert_eq!(versions(&["http/1.1"], |client| client).await, [Version::HTTP_11; 2]);
    assert_eq!(versions(&[], |client| client).await, [Version::HTTP_11; 2]);
}

#[tokio::test]
async fn http1_is_spoken_where_the_caller_wants_it() {
    let offered = ["h2", "http/1.1"];
    assert_eq!(versions(&offered, ClientBuilder::http1_only).await, [Version::HTTP_11; 2]);
}

#[tokio::test]
async fn http2_is_spoken_where_the_caller_knows_of_it() {
    assert_eq!(versions(&["h2"], ClientBuilder::http2_prior_knowledge).await, [Version::HTTP_2; 2]);
    assert_eq!(
        versions(&["http/1.1", "h2"], ClientBuilder::http2_prior_knowledge).await,
        [Version::HTTP_2; 2]
    );
}

#[tokio::test]
async fn a_server_that_lacks_the_only_version_wanted_is_refused() {
    let authority = Authority::new("ours");
    let peer = Peer::tls(authority.server(HOST).serve(&["http/1.1"])).await;
    let error = refusal(&peer, trusting(&authority).http2_prior_knowledge()).await;
    assert_not_sent(&error);
    assert_says(&error, &["NoApplicationProtocol"]);
}

#[tokio::test]
async fn many_first_calls_at_once_end_up_on_one_http2_connection() {
    let authority = Authority::new("ours");
    let peer = Peer::tls(authority.server(HOST).serve(&["h2"])).await;
    let transport = transport(peer.url(), trusting(&authority));
    join_all((0..50).map(|id| works(&transport, ping(id)))).await;
    let used = peer.connections_of_calls();
    assert!(used.iter().all(|connection| *connection == used[0]), "{used:?}");
}

#[tokio::test]
async fn a_certificate_for_another_name_is_refused() {
    let authority = Authority::new("ours");
    let peer = Peer::tls(authority.server("elsewhere.example").serve(&["h2"])).await;
    let error = refusal(&peer, trusting(&authority)).await;
    assert_not_sent(&error);
    assert_says(&error, &["certificate", "not valid for name", HOST, "elsewhere.example"]);
}

#[tokio::test]
async fn an_expired_certificate_is_refused() {
    let authority = Authority::new("ours");
    let peer = Peer::tls(authority.expired_server(HOST).serve(&["h2"])).await;
    let error = refusal(&peer, trusting(&authority)).await;
    assert_not_sent(&error);
    assert_says(&error, &["certificate expired"]);
}

#[tokio::test]
async fn a_certificate_by_an_unknown_authority_is_refused() {
    let peer = Peer::tls(Authority::new("theirs").server(HOST).serve(&["h2"])).await;
    let error = refusal(&peer, trusting(&Authority::new("ours"))).await;
    assert_not_sent(&error);
    assert_says(&error, &["certificate", "UnknownIssuer"]);
}

#[tokio::test]
async fn a_client_certificate_is_shown_where_it_is_asked_for() {
    let (authority, clients) = (Authority::new("ours"), Authority::new("clients"));
    for alpn in ["h2", "http/1.1"] {
        let peer = Peer::tls(authority.server(HOST).serve_clients_of(&clients, &[alpn])).await;
        let me = clients.client("me.example");
        let client = trusting(&authority).client_certificate_pem(me.certificate, me.key);
        works(&transport(peer.url(), client), ping(1)).await;
    }
}

#[tokio::test]
async fn a_missing_client_certificate_is_named() {
    let (authority, clients) = (Authority::new("ours"), Authority::new("clients"));
    for alpn in ["h2", "http/1.1"] {
        let peer = Peer::tls(authority.server(HOST).serve_clients_of(&clients, &[alpn])).await;
        let error = refusal(&peer, trusting(&authority)).await;
        assert_says(&error, &["CertificateRequired"]);
        assert!(!error.is_timeout(), "{error:?}");
    }
}

#[tokio::test]
async fn a_client_certificate_by_an_unknown_authority_is_named() {
    let (authority, clients) = (Authority::new("ours"), Authority::new("clients"));
    let peer = Peer::tls(authority.server(HOST).serve_clients_of(&clients, &["h2"])).await;
    let me = Authority::new("others").client("me.example");
    let error = refusal(&peer, trusting(&authority).client_certificate_pem(me.certificate, me.key)).await;
    assert_says(&error, &["UnknownCA"]);
}

#[tokio::test]
async fn a_server_without_tls_is_named() {
    let authority = Authority::new("ours");
    let server = Raw::start(|_, mut stream| async move {
        stream.readable().await.unwrap();
        stream.write_all(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n").await.unwrap();
        // Until the client closes.
        let _ = stream.read_to_end(&mut Vec::new()).await;
    })
    .await;
    let error = fails(&transport(server.url("https"), trusting(&authority)), ping(1)).await;
    assert_not_sent(&error);
    assert_says(&error, &["InvalidContentType"]);
}

#[tokio::test]
async fn a_server_that_closes_within_the_handshake_was_never_reached() {
    let authority = Authority::new("ours");
    let server = Raw::start(|_, mut stream| async move {
        let _ = stream.read(&mut [0; 16 << 10]).await;
    })
    .await;
    let error = fails(&transport(server.url("https"), trusting(&authority)), ping(1)).await;
    assert_not_sent(&error);
    assert_says(&error, &["eof"]);
}
