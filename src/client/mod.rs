//! The default HTTP client: hyper-util's pooled client over rustls.
//!
//! It speaks HTTP/1.1, and HTTP/2 where the server offers it in the TLS handshake (ALPN). Certificates are checked
//! against the platform's trust store; cryptography is by *ring*. It follows no redirects, keeps no cookies, uses no
//! proxy and asks for no compression.

mod future;

use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::uri::Scheme;
use http::{Request, Response, Uri};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls::crypto::ring;
use rustls::{ClientConfig, RootCertStore};
use rustls_platform_verifier::BuilderVerifierExt;
use tower::Service;

pub use self::future::ResponseFuture;
use crate::error::{BoxError, InvalidOption};

/// How long a TCP connection may take to be made.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// How long an unused connection is kept. Widely used servers close theirs after five seconds (Node, uvicorn), and a
/// request that meets the closing is lost.
const IDLE_TIMEOUT: Duration = Duration::from_secs(4);

/// A pooled HTTP client that is a `Service<http::Request<Full<Bytes>>>`.
///
/// It is always ready: nothing limits how many requests it has open. Clones share the pool. A call needs a tokio
/// runtime with I/O and time enabled. It fails with [`NotSent`](crate::error::NotSent) if no connection could be made.
#[derive(Clone)]
pub struct Client(Arc<legacy::Client<HttpsConnector<HttpConnector>, Full<Bytes>>>);

impl Client {
    /// A client for `http` and `https`.
    ///
    /// # Errors
    /// The platform's certificates cannot be loaded.
    pub fn new() -> Result<Self, BoxError> {
        let tls = tls()?.with_platform_verifier()?.with_no_client_auth();
        Ok(Self::with_tls(tls))
    }

    /// A client that can reach `endpoint`. One without TLS does not need the platform's certificates, which a small
    /// container may not have.
    pub(crate) fn for_endpoint(endpoint: &Uri) -> Result<Self, BoxError> {
        match endpoint.scheme() {
            Some(scheme) if *scheme == Scheme::HTTPS => Self::new(),
            Some(scheme) if *scheme == Scheme::HTTP => Self::new().or_else(|_| {
                let tls = tls()?.with_root_certificates(RootCertStore::empty()).with_no_client_auth();
                Ok(Self::with_tls(tls))
            }),
            _ => Err(InvalidOption::new("the endpoint's URL must begin with http:// or https://").into()),
        }
    }

    fn with_tls(tls: ClientConfig) -> Self {
        let mut tcp = HttpConnector::new();
        // The TLS connector around it looks at the scheme.
        tcp.enforce_http(false);
        // Messages are small and wait for their answers: Nagle's algorithm would only hold them back.
        tcp.set_nodelay(true);
        tcp.set_connect_timeout(Some(CONNECT_TIMEOUT));
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(tls)
            .https_or_http()
            .enable_all_versions()
            .wrap_connector(tcp);
        let client = legacy::Client::builder(TokioExecutor::new())
            .timer(TokioTimer::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE_TIMEOUT)
            .build(connector);
        Self(Arc::new(client))
    }
}

/// Names its provider of cryptography, since rustls panics if it must guess between two.
fn tls() -> Result<rustls::ConfigBuilder<ClientConfig, rustls::WantsVerifier>, rustls::Error> {
    ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
}

impl Service<Request<Full<Bytes>>> for Client {
    type Response = Response<Incoming>;
    type Error = BoxError;
    type Future = ResponseFuture;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Full<Bytes>>) -> Self::Future {
        ResponseFuture::new(self.0.request(request))
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").finish_non_exhaustive()
    }
}
