//! Unix domain sockets.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{env, fs, process};

use bytes::Bytes;
use futures_util::future::join_all;
use http::{Request, Response, Version};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use mcp_streamable_http::Client;
use mcp_streamable_http::client::Proxy;
use mcp_streamable_http::error::BoxError;
use rustls::ServerConfig;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::UnixListener;
use tokio::sync::{Barrier, watch};
use tokio::task::{JoinHandle, JoinSet};
use tokio_rustls::TlsAcceptor;

use crate::common::*;
use crate::pki::Authority;
use crate::relay::{Kind, Relay};

#[derive(Default)]
struct Seen {
    connections: usize,
    /// The version, the host and the path of each request.
    requests: Vec<(Version, String, String)>,
}

/// A server on a socket in the directory for temporary files.
struct UnixServer {
    path: PathBuf,
    seen: watch::Receiver<Seen>,
    accepting: JoinHandle<()>,
}

/// A name for a socket of a test's.
fn socket(name: &str) -> PathBuf {
    env::temp_dir().join(format!("mcp-{}-{name}.sock", process::id()))
}

impl UnixServer {
    /// Each answer waits for so many requests. One with the name `http2` speaks that, others HTTP/1.1.
    async fn start(name: &str, together: usize, tls: Option<ServerConfig>) -> Self {
        let path = socket(name);
        let listener = UnixListener::bind(&path).unwrap();
        let (sender, seen) = watch::channel(Seen::default());
        let sender = Arc::new(sender);
        let together = Arc::new(Barrier::new(together));
        let speaks = if name == "http2" { Version::HTTP_2 } else { Version::HTTP_11 };
        let tls = tls.map(|config| TlsAcceptor::from(Arc::new(config)));
        let accepting = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                sender.send_modify(|seen| seen.connections += 1);
                let (sender, together, tls) = (Arc::clone(&sender), Arc::clone(&together), tls.clone());
                connections.spawn(async move {
                    // A connection that breaks is the client's affair.
                    let _ = match tls {
                        None => serve(stream, speaks, sender, together).await,
                        Some(tls) => match tls.accept(stream).await {
                            Ok(stream) => serve(stream, speaks, sender, together).await,
                            Err(_) => return,
                        },
                    };
                });
            }
        });
        Self { path, seen, accepting }
    }

    fn connections(&self) -> usize {
        self.seen.borrow().connections
    }

    fn requests(&self) -> Vec<(Version, String, String)> {
        self.seen.borrow().requests.clone()
    }
}

impl Drop for UnixServer {
    fn drop(&mut self) {
        self.accepting.abort();
        let _ = fs::remove_file(&self.path);
    }
}

async fn serve<I>(
    io: I,
    speaks: Version,
    seen: Arc<watch::Sender<Seen>>,
    together: Arc<Barrier>,
) -> hyper::Result<()>
where
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let service = service_fn(move |request| answer(Arc::clone(&seen), Arc::clone(&together), request));
    let io = TokioIo::new(io);
    match speaks {
        Version::HTTP_2 => http2::Builder::new(TokioExecutor::new()).serve_connection(io, service).await,
        _ => http1::Builder::new().serve_connection(io, service).await,
    }
}

async fn answer(
    seen: Arc<watch::Sender<Seen>>,
    together: Arc<Barrier>,
    request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, BoxError> {
    let host = request.headers().get("host").map(|host| host.to_str().unwrap().to_owned());
    let host = host.or_else(|| request.uri().authority().map(ToString::to_string)).unwrap();
    let told = (request.version(), host, request.uri().path().to_owned());
    seen.send_modify(|seen| seen.requests.push(told));
    let message: Value = serde_json::from_slice(&request.into_body().collect().await?.to_bytes())?;
    together.wait().await;
    let result = json!({ "jsonrpc": "2.0", "id": message["id"], "result": {} }).to_string();
    Ok(Response::builder().header("content-type", "application/json").body(result.into())?)
}

fn at(path: &Path) -> mcp_streamable_http::client::ClientBuilder {
    Client::builder().unix_socket(path)
}

#[tokio::test]
async fn the_url_gives_host_and_path() {
    let server = UnixServer::start("host", 1, None).await;
    for url in ["http://localhost/mcp", "http://server.test:8000/a/b"] {
        works(&transport(url.parse().unwrap(), at(&server.path)), ping(1)).await;
    }
    let told = |host: &str, path: &str| (Version::HTTP_11, host.to_owned(), path.to_owned());
    assert_eq!(server.requests(), [told("localhost", "/mcp"), told("server.test:8000", "/a/b")]);
}

#[tokio::test]
async fn a_thousand_calls_one_after_the_other_use_one_connection() {
    let server = UnixServer::start("pool", 1, None).await;
    let transport = transport("http://localhost/mcp".parse().unwrap(), at(&server.path));
    for id in 0..1000 {
        works(&transport, ping(id)).await;
    }
    assert_eq!((server.connections(), server.requests().len()), (1, 1000));
}

#[tokio::test]
async fn calls_at_once_have_connections_of_their_own_which_are_used_again() {
    const CALLS: i64 = 20;
    let server = UnixServer::start("many", 20, None).await;
    let transport = transport("http://localhost/mcp".parse().unwrap(), at(&server.path));
    for _ in 0..10 {
        join_all((0..CALLS).map(|id| works(&transport, ping(id)))).await;
    }
    assert_eq!(server.requests().len(), 200);
    assert_eq!(server.connections(), 20);
}

#[tokio::test]
async fn http2_works_by_prior_knowledge() {
    let server = UnixServer::start("http2", 1, None).await;
    let client = at(&server.path).http2_prior_knowledge();
    let transport = transport("http://localhost/mcp".parse().unwrap(), client);
    works(&transport, ping(0)).await;
    join_all((1..50).map(|id| works(&transport, ping(id)))).await;
    assert_eq!(server.connections(), 1);
    assert!(server.requests().iter().all(|(version, ..)| *version == Version::HTTP_2));
}

#[tokio::test]
async fn tls_is_for_the_host_of_the_url() {
    let authority = Authority::new("ours");
    let server =
        UnixServer::start("tls", 1, Some(authority.server("server.test").serve(&["http/1.1"]))).await;
    let client = || at(&server.path).root_certificates_pem(authority.pem());
    works(&transport("https://server.test/mcp".parse().unwrap(), client()), ping(1)).await;
    let error = fails(&transport("https://other.test/mcp".parse().unwrap(), client()), ping(1)).await;
    assert_not_sent(&error);
    assert_says(&error, &["not valid for name", "other.test"]);
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn a_socket_that_is_not_there_is_not_sent() {
    let transport = transport("http://localhost/mcp".parse().unwrap(), at(&socket("nobody")));
    let error = fails(&transport, ping(1)).await;
    assert_not_sent(&error);
    assert_says(&error, &["No such file"]);
    let server = UnixServer::start("nobody", 1, None).await;
    works(&transport, ping(1)).await;
    assert_eq!(server.connections(), 1);
}

#[tokio::test]
async fn the_proxies_of_the_environment_are_not_used() {
    let server = UnixServer::start("environment", 1, None).await;
    let relay = Relay::start(Kind::Connect(None), ([127, 0, 0, 1], 9).into()).await;
    let variables = [("ALL_PROXY", relay.url("http://"))];
    // These are as good as set by hand.
    let error = at(&server.path).proxy_from(variables).build().unwrap_err();
    assert_invalid_option(&error, &["Unix socket", "proxy"]);
    let client = at(&server.path).no_proxy();
    works(&transport("http://server.test/mcp".parse().unwrap(), client), ping(1)).await;
    assert!(relay.wanted().is_empty());
}

#[test]
fn a_proxy_beside_a_socket_is_an_error() {
    let proxy = || Proxy::new("http://proxy.test");
    for client in [
        Client::builder().unix_socket("/run/mcp.sock").proxy(proxy()),
        Client::builder().proxy(proxy()).unix_socket("/run/mcp.sock"),
    ] {
        assert_invalid_option(&client.build().unwrap_err(), &["Unix socket", "proxy"]);
    }
}

#[test]
fn a_path_that_no_socket_can_have_is_an_error() {
    let long = "x".repeat(200);
    for (path, why) in [("", "empty"), (&*long, "path"), ("/run/a\0b", "path")] {
        let error = Client::builder().unix_socket(path).build().unwrap_err();
        assert_invalid_option(&error, &["the Unix socket's path: ", why]);
    }
}
