//! The options for TLS that cannot be honoured, and a whole configuration.

use std::sync::Arc;

use http::Version;
use mcp_streamable_http::{Client, Error};
use rustls::ClientConfig;

use crate::common::*;
use crate::peer::Peer;
use crate::pki::{Authority, HOST};

fn whole(authority: &Authority, alpn: &[&str]) -> ClientConfig {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let mut config = config.with_root_certificates(authority.roots()).with_no_client_auth();
    config.alpn_protocols = alpn.iter().map(|protocol| protocol.as_bytes().to_vec()).collect();
    config
}

fn root_error(pem: impl Into<Vec<u8>>) -> Error {
    Client::builder().root_certificates_pem(pem).build().unwrap_err()
}

fn identity_error(chain: impl Into<Vec<u8>>, key: impl Into<Vec<u8>>) -> Error {
    Client::builder().client_certificate_pem(chain, key).build().unwrap_err()
}

#[tokio::test]
async fn a_whole_configuration_is_used() {
    let authority = Authority::new("ours");
    let peer = Peer::tls(authority.server(HOST).serve(&["h2", "http/1.1"])).await;
    // What is in its list of protocols makes no difference.
    for alpn in [&[][..], &["h2"], &["http/1.1"], &["acme-tls/1"]] {
        let client = Client::builder().tls_config(whole(&authority, alpn));
        works(&transport(peer.url(), client.clone()), ping(1)).await;
        works(&transport(peer.url(), client.clone().http1_only()), ping(1)).await;
        works(&transport(peer.url(), client.http2_prior_knowledge()), ping(1)).await;
    }
    let versions = [Version::HTTP_2, Version::HTTP_11, Version::HTTP_2];
    assert_eq!(peer.versions(), versions.repeat(4));
}

#[tokio::test]
async fn a_whole_configuration_trusts_whom_it_trusts() {
    let peer = Peer::tls(Authority::new("theirs").server(HOST).serve(&[])).await;
    let client = Client::builder().tls_config(whole(&Authority::new("ours"), &[]));
    let error = fails(&transport(peer.url(), client), ping(1)).await;
    assert_not_sent(&error);
    assert_says(&error, &["UnknownIssuer"]);
}

#[test]
fn other_options_beside_a_whole_configuration_are_refused() {
    let authority = Authority::new("ours");
    let client = || Client::builder().tls_config(whole(&authority, &[]));
    let me = authority.client("me.example");
    let words = ["whole TLS configuration", "other TLS options"];
    assert_invalid_option(&client().root_certificates_pem(authority.pem()).build().unwrap_err(), &words);
    let error = client().client_certificate_pem(me.certificate, me.key).build().unwrap_err();
    assert_invalid_option(&error, &words);
}

#[test]
fn root_certificates_that_are_none_are_refused() {
    assert_invalid_option(&root_error(""), &["root certificates", "there is none"]);
    assert_invalid_option(&root_error("no PEM at all"), &["root certificates", "there is none"]);
    let key = Authority::new("ours").client("me.example").key;
    assert_invalid_option(&root_error(key), &["root certificates", "there is none"]);
}

#[test]
fn root_certificates_that_are_broken_are_refused() {
    let pem = Authority::new("ours").pem();
    let cut_off = &pem[..pem.len() / 2];
    let no_base64 = pem.replacen("\nMI", "\n!!", 1);
    for broken in [cut_off, &no_base64] {
        assert_invalid_option(&root_error(broken), &["root certificates"]);
    }
}

#[test]
fn root_certificates_that_are_no_certificates_are_refused() {
    let pem = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    assert_invalid_option(&root_error(pem), &["root certificates", "BadEncoding"]);
}

#[test]
fn a_client_certificate_that_is_none_is_refused() {
    let me = Authority::new("ours").client("me.example");
    assert_invalid_option(&identity_error("", me.key.clone()), &["client certificate", "there is none"]);
    assert_invalid_option(&identity_error(me.certificate.clone(), ""), &["client's key"]);
    assert_invalid_option(&identity_error(me.certificate.clone(), me.certificate), &["client's key"]);
}

#[test]
fn a_key_of_another_certificate_is_refused() {
    let authority = Authority::new("ours");
    let (me, other) = (authority.client("me.example"), authority.client("other.example"));
    let error = identity_error(me.certificate, other.key.clone());
    assert_invalid_option(&error, &["client certificate"]);
    // Nor does any of it end up in what is logged.
    let text = format!("{error} {error:?}");
    assert!(other.key.lines().filter(|line| !line.starts_with('-')).all(|line| !text.contains(line)));
}

#[test]
fn neither_key_nor_certificate_is_in_the_debug_output() {
    let me = Authority::new("ours").client("me.example");
    let client = Client::builder().client_certificate_pem(me.certificate, me.key);
    let text = format!("{client:?} {:?}", client.clone().build().unwrap());
    assert!(text.len() < 1000, "{text}");
    assert!(text.contains("identity: true"), "{text}");
}
