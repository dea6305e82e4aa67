//! The default HTTP client: hyper-util's pooled client over rustls.
//!
//! It speaks HTTP/1.1, and HTTP/2 where the server offers it in the TLS handshake (ALPN). Certificates are checked
//! against the platform's trust store; cryptography is by *ring*, or by aws-lc-rs if only that feature is on. It uses the
//! proxies of the environment, or the one or none that it is told ([`ClientBuilder::proxy`]). It keeps no cookies and
//! asks for no compression.
//!
//! ```
//! use std::time::Duration;
//!
//! use mcp_streamable_http::{Client, StreamableHttp};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let client = Client::builder().connect_timeout(Duration::from_secs(3)).build()?;
//! let transport = StreamableHttp::with_client("http://localhost:8000/mcp".parse()?, client).build()?;
//! # Ok(())
//! # }
//! ```

mod builder;
mod connect;
mod connection;
mod dial;
mod future;
mod proxy;
mod route;
mod stream;
mod tls;

use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::uri::Scheme;
use http::{Request, Response, Uri};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper_util::client::legacy;
use tower::Service;

pub use self::builder::ClientBuilder;
pub use self::future::ResponseFuture;
pub use self::proxy::{Proxy, ProxyError};
/// The version of rustls whose [`ClientConfig`](rustls::ClientConfig) is wanted by [`ClientBuilder::tls_config`].
pub use rustls;

use self::connect::Connector;
use crate::error::{BoxError, Error, InvalidOption};

/// A pooled HTTP client that is a `Service<http::Request<Full<Bytes>>>`.
///
/// It is always ready: nothing limits how many requests it has open. Clones share the pool. A call needs a tokio
/// runtime with I/O and time enabled.
///
/// A call fails with [`NotSent`](crate::error::NotSent) if not one byte of the request was written: there was no
/// connection, or a pooled one was closed before the request was on its way; or if an HTTP/2 server says that it did not
/// act on it (GOAWAY, `REFUSED_STREAM`). Otherwise it fails with
/// [`BrokenStream`](crate::error::BrokenStream).
#[derive(Clone)]
pub struct Client {
    pool: Arc<legacy::Client<Connector, Full<Bytes>>>,
    ping_timeout: Duration,
}

impl Client {
    /// A client for `http` and `https` with default options.
    ///
    /// # Errors
    /// The platform's certificates cannot be loaded; a proxy of the environment cannot be used.
    pub fn new() -> Result<Self, Error> {
        Self::builder().build()
    }

    /// Options for a client.
    pub fn builder() -> ClientBuilder {
        ClientBuilder::default()
    }

    /// A client that can reach `endpoint`. One without TLS does not need the platform's certificates, which a small
    /// container may not have.
    pub(crate) fn for_endpoint(endpoint: &Uri) -> Result<Self, Error> {
        match endpoint.scheme() {
            Some(scheme) if *scheme == Scheme::HTTPS => Self::new(),
            Some(scheme) if *scheme == Scheme::HTTP => {
                Self::new().or_else(|_| Self::builder().build_without_roots())
            }
            _ => {
                Err(Error::new(InvalidOption::new("the endpoint's URL must begin with http:// or https://")))
            }
        }
    }
}

impl Service<Request<Full<Bytes>>> for Client {
    type Response = Response<Incoming>;
    type Error = BoxError;
    type Future = ResponseFuture;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Full<Bytes>>) -> Self::Future {
        ResponseFuture::new(self.pool.request(request), self.ping_timeout)
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").finish_non_exhaustive()
    }
}
