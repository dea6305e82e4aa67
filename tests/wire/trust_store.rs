//! The platform's trust store. Where it is comes from the environment, so each client lives in a process of its own: this
//! binary again, with one of the tests in here as its part.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::{env, fs};

use http::Uri;
use mcp_streamable_http::StreamableHttp;

use crate::common::*;
use crate::peer::Peer;
use crate::pki::{Authority, HOST};
use crate::support::mcp::result;
use crate::support::{Answer, Server};

/// What a child is to talk to. Without it a child's part is to do nothing.
const TARGET: &str = "WIRE_TEST_TARGET";

/// A file that is gone when the test is over.
struct TrustStore(PathBuf);

impl TrustStore {
    fn new(name: &str, pem: &str) -> Self {
        let path = env::temp_dir().join(format!("mcp-streamable-http-{}-{name}.pem", std::process::id()));
        fs::write(&path, pem).unwrap();
        Self(path)
    }
}

impl Drop for TrustStore {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// Plays `part` in a process that trusts what is in `store`.
async fn child(part: &'static str, store: &Path, target: &Uri) {
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["--exact", part, "--nocapture"]).env(TARGET, target.to_string());
    command.env("SSL_CERT_FILE", store).env_remove("SSL_CERT_DIR");
    let output = tokio::task::spawn_blocking(move || command.output());
    let Output { status, stdout, stderr } = soon(output).await.unwrap().unwrap();
    let (stdout, stderr) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    assert!(status.success() && stdout.contains("1 passed"), "{status}\n{stdout}\n{stderr}");
}

fn target() -> Option<Uri> {
    env::var(TARGET).ok().map(|target| target.parse().unwrap())
}

#[tokio::test]
async fn the_platforms_certificates_are_trusted() {
    let authority = Authority::new("the platform's");
    let peer = Peer::tls(authority.server(HOST).serve(&["h2", "http/1.1"])).await;
    let store = TrustStore::new("ours", &authority.pem());
    child("trust_store::a_default_transport_works", &store.0, &peer.url()).await;
    assert_eq!(peer.connections_of_calls(), [0]);
}

#[tokio::test]
async fn what_the_platform_does_not_trust_is_refused() {
    let peer = Peer::tls(Authority::new("theirs").server(HOST).serve(&["h2", "http/1.1"])).await;
    let store = TrustStore::new("another", &Authority::new("the platform's").pem());
    child("trust_store::a_default_transport_refuses", &store.0, &peer.url()).await;
    assert_eq!((peer.connections(), peer.versions()), (1, vec![]), "a call went through, or none was tried");
}

#[tokio::test]
async fn without_certificates_there_is_no_https_but_there_is_http() {
    let server = Server::start(|request| Answer::json(200, result(request, serde_json::json!({})))).await;
    let store = TrustStore::new("none", "");
    child("trust_store::only_http_can_be_built", &store.0, &server.url()).await;
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn a_default_transport_works() {
    let Some(target) = target() else { return };
    works(&StreamableHttp::new(target).unwrap(), ping(1)).await;
}

#[tokio::test]
async fn a_default_transport_refuses() {
    let Some(target) = target() else { return };
    let error = fails(&StreamableHttp::new(target).unwrap(), ping(1)).await;
    assert_not_sent(&error);
    assert_says(&error, &["certificate", "UnknownIssuer"]);
}

#[tokio::test]
async fn only_http_can_be_built() {
    let Some(target) = target() else { return };
    let https = StreamableHttp::new("https://127.0.0.1/mcp".parse().unwrap());
    assert_invalid_option(&https.unwrap_err(), &["the platform's certificates cannot be loaded"]);
    works(&StreamableHttp::new(target).unwrap(), ping(1)).await;
}
