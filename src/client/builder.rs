//! The options of the default client.

use std::sync::Arc;
use std::time::Duration;

use hyper_rustls::HttpsConnectorBuilder;
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls::ClientConfig;

use super::Client;
use super::connect::Connector;
use super::dial::Dial;
use super::route::{Route, RouteOptions};
use super::tls::Tls;
use crate::error::{Error, InvalidOption};

/// RFC 9113 §6.9.1: no flow-control window may be larger.
const MAX_WINDOW: u32 = (1 << 31) - 1;

/// Options for a [`Client`].
///
/// ```no_run
/// use mcp_streamable_http::Client;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let client = Client::builder()
///     .root_certificates_pem(std::fs::read("company-ca.pem")?)
///     .client_certificate_pem(std::fs::read("me.pem")?, std::fs::read("me.key")?)
///     .http1_only()
///     .build()?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing until `build` is called"]
pub struct ClientBuilder {
    protocol: Protocol,
    connect_timeout: Option<Duration>,
    tcp_keepalive: Option<Duration>,
    pool_idle_timeout: Option<Duration>,
    pool_max_idle_per_host: usize,
    http2_ping_interval: Option<Duration>,
    http2_ping_timeout: Duration,
    http2_stream_window: u32,
    tls: Tls,
    pub(super) route: RouteOptions,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Protocol {
    Negotiated,
    Http1,
    Http2,
}

impl Default for ClientBuilder {
    fn default() -> Self {
        Self {
            protocol: Protocol::Negotiated,
            connect_timeout: Some(Duration::from_secs(10)),
            tcp_keepalive: Some(Duration::from_secs(30)),
            pool_idle_timeout: Some(Duration::from_secs(4)),
            pool_max_idle_per_host: 64,
            http2_ping_interval: Some(Duration::from_secs(20)),
            http2_ping_timeout: Duration::from_secs(10),
            http2_stream_window: 1 << 20,
            tls: Tls::default(),
            route: RouteOptions::default(),
        }
    }
}

impl ClientBuilder {
    /// How long making a connection may take: looking up the name, the TCP handshake, getting through a proxy and
    /// the TLS handshake together. 10 s by default; `None` leaves it to the operating system, which takes minutes.
    pub fn connect_timeout(self, timeout: impl Into<Option<Duration>>) -> Self {
        Self { connect_timeout: timeout.into(), ..self }
    }

    /// After how long without traffic TCP probes whether the peer is still there. 30 s by default, which also keeps the
    /// connection in the tables of most firewalls; `None` does not probe.
    pub fn tcp_keepalive(self, idle: impl Into<Option<Duration>>) -> Self {
        Self { tcp_keepalive: idle.into(), ..self }
    }

    /// How long an unused connection is kept. 4 s by default: widely used servers close theirs after 5 s (Node,
    /// uvicorn), and a request that meets the closing is lost. `None` keeps it until the server closes it.
    pub fn pool_idle_timeout(self, timeout: impl Into<Option<Duration>>) -> Self {
        Self { pool_idle_timeout: timeout.into(), ..self }
    }

    /// How many unused HTTP/1.1 connections are kept for one host. 64 by default. It does not bound the connections in
    /// use: each open stream needs one of its own.
    pub fn pool_max_idle_per_host(self, connections: usize) -> Self {
        Self { pool_max_idle_per_host: connections, ..self }
    }

    /// How often an HTTP/2 connection is checked with a PING, also while it is unused. 20 s by default, below the idle
    /// timeouts of common load balancers; `None` does not check. Without it a connection that silently went away
    /// swallows every later call.
    pub fn http2_ping_interval(self, interval: impl Into<Option<Duration>>) -> Self {
        Self { http2_ping_interval: interval.into(), ..self }
    }

    /// How long the answer to such a PING may take before the connection counts as gone. 10 s by default. Calls that wait
    /// for the head of their answer fail with [`TimedOut`](crate::error::TimedOut); a body that is being read breaks, and
    /// hyper does not say why.
    pub fn http2_ping_timeout(self, timeout: Duration) -> Self {
        Self { http2_ping_timeout: timeout, ..self }
    }

    /// How many bytes of an answer may arrive over HTTP/2 before they are read; 1 MiB by default. It bounds what a reply
    /// that nobody reads takes up. The connection has no such bound of its own, or the replies that are not read would
    /// hold up the others.
    pub fn http2_stream_window(self, bytes: u32) -> Self {
        Self { http2_stream_window: bytes, ..self }
    }

    /// Speaks HTTP/1.1 only, for servers whose HTTP/2 stalls one request while another's stream is open. By default
    /// HTTP/2 is used where the server offers it in the TLS handshake, HTTP/1.1 elsewhere.
    pub fn http1_only(self) -> Self {
        Self { protocol: Protocol::Http1, ..self }
    }

    /// Speaks HTTP/2 only, without asking the server (RFC 9113 §3.3), also over `http`.
    pub fn http2_prior_knowledge(self) -> Self {
        Self { protocol: Protocol::Http2, ..self }
    }

    /// Trusts these certificate authorities, one or more certificates in PEM, besides the platform's.
    pub fn root_certificates_pem(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.tls.roots = Some(pem.into());
        self
    }

    /// Shows this certificate to servers that ask for one: the chain, beginning with the client's own, and its key,
    /// both in PEM.
    pub fn client_certificate_pem(mut self, chain: impl Into<Vec<u8>>, key: impl Into<Vec<u8>>) -> Self {
        self.tls.identity = Some((chain.into(), key.into()));
        self
    }

    /// Uses a whole TLS configuration, which takes the place of the other TLS options. Its ALPN protocols are replaced
    /// by those of the HTTP versions that the client speaks.
    pub fn tls_config(mut self, config: ClientConfig) -> Self {
        self.tls.config = Some(config);
        self
    }

    /// Makes the client. Nothing is sent, and no runtime is needed.
    ///
    /// # Errors
    /// The platform's certificates cannot be loaded; a certificate or key cannot be used; there are TLS options beside
    /// a whole TLS configuration; there is no provider of cryptography; a window that HTTP/2 does not allow; a proxy, also
    /// one of the environment, cannot be used, or is wanted beside a Unix socket; the path of a Unix socket cannot be one.
    pub fn build(mut self) -> Result<Client, Error> {
        if !(1..=MAX_WINDOW).contains(&self.http2_stream_window) {
            let reason = format!("`http2_stream_window` must be from 1 to {MAX_WINDOW} bytes");
            return Err(Error::new(InvalidOption::new(reason)));
        }
        let route = self.route.build()?;
        let tls = std::mem::take(&mut self.tls).build()?;
        Ok(self.with(route, tls))
    }

    /// A client whose TLS handshakes all fail.
    pub(super) fn build_without_roots(self) -> Result<Client, Error> {
        let route = self.route.build()?;
        Ok(self.with(route, Tls::without_roots()?))
    }

    fn with(self, route: Route, mut tls: ClientConfig) -> Client {
        let mut tcp = HttpConnector::new();
        // The TLS connector around it looks at the scheme.
        tcp.enforce_http(false);
        // Messages are small and wait for their answers: Nagle's algorithm would only hold them back.
        tcp.set_nodelay(true);
        tcp.set_keepalive(self.tcp_keepalive);
        let dial = Dial::new(route, tcp, &tls);
        // The connector would panic at a list that is not empty.
        tls.alpn_protocols.clear();
        let https = HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http();
        let https = match self.protocol {
            Protocol::Negotiated => https.enable_all_versions().wrap_connector(dial),
            Protocol::Http1 => https.enable_http1().wrap_connector(dial),
            Protocol::Http2 => https.enable_http2().wrap_connector(dial),
        };
        let client = legacy::Client::builder(TokioExecutor::new())
            .timer(TokioTimer::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(self.pool_idle_timeout)
            .pool_max_idle_per_host(self.pool_max_idle_per_host)
            .http2_only(self.protocol == Protocol::Http2)
            .http2_initial_stream_window_size(self.http2_stream_window)
            .http2_initial_connection_window_size(MAX_WINDOW)
            .http2_keep_alive_interval(self.http2_ping_interval)
            .http2_keep_alive_timeout(self.http2_ping_timeout)
            .http2_keep_alive_while_idle(true)
            .build(Connector::new(https, self.connect_timeout));
        Client { pool: Arc::new(client), ping_timeout: self.http2_ping_timeout }
    }
}
