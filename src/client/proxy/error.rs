//! What goes wrong with proxies.

use std::{fmt, io};

use http::StatusCode;

use super::Hop;
use crate::error::BoxError;

/// A proxy could not be reached, or did not connect the client to the server. Nothing was sent to the server.
///
/// That a proxy refuses, or its credentials are wrong, is told once: the request is not sent again, as it is where the
/// proxy answers 502, 503 or 504 to `CONNECT`, or does not accept connections.
///
/// It names the proxy, without its credentials. [`Error::find`](crate::Error::find) gets at it:
///
/// ```
/// use mcp_streamable_http::Error;
/// use mcp_streamable_http::client::ProxyError;
///
/// /// Some proxies answer 401 where they should 407.
/// fn wants_other_credentials(error: &Error) -> bool {
///     let status = error.find::<ProxyError>().and_then(ProxyError::status);
///     status.is_some_and(|status| status == 407 || status == 401)
/// }
/// ```
#[derive(Clone, Debug)]
pub struct ProxyError {
    proxy: String,
    /// Host and port of the server; `None`: it did not come to that.
    server: Option<String>,
    status: Option<StatusCode>,
    reason: String,
}

impl ProxyError {
    /// The proxy's URL without its credentials.
    pub fn proxy(&self) -> &str {
        &self.proxy
    }

    /// The status with which an HTTP proxy refused.
    pub fn status(&self) -> Option<StatusCode> {
        self.status
    }

    pub(super) fn unreachable(hop: &Hop, cause: &BoxError) -> BoxError {
        Self { proxy: hop.name().to_owned(), server: None, status: None, reason: root(&**cause).to_string() }
            .of_kind(&**cause)
    }

    pub(super) fn refused(hop: &Hop, server: &str, status: StatusCode) -> BoxError {
        let (proxy, server) = (hop.name().to_owned(), Some(server.to_owned()));
        let refusal = Self { proxy, server, status: Some(status), reason: status.to_string() };
        Box::new(io::Error::new(kind(status), refusal))
    }

    pub(super) fn failed(hop: &Hop, server: &str, cause: &(dyn std::error::Error + 'static)) -> BoxError {
        let (proxy, server) = (hop.name().to_owned(), Some(server.to_owned()));
        Self { proxy, server, status: None, reason: root(cause).to_string() }.of_kind(cause)
    }

    /// As an error of the operating system, of the kind of its cause: that it was a timeout, say, must not be lost. The
    /// cause itself is none of its sources, because the last of those is the one whom the user hears.
    fn of_kind(self, cause: &(dyn std::error::Error + 'static)) -> BoxError {
        // hyper-util's errors of SOCKS cannot be told apart, and refused credentials are among them.
        let kind = root(cause).downcast_ref().map_or(io::ErrorKind::Other, io::Error::kind);
        Box::new(io::Error::new(kind, self))
    }
}

/// What may pass, and is therefore tried again, is only that the proxy does not reach the server.
fn kind(status: StatusCode) -> io::ErrorKind {
    match status {
        StatusCode::BAD_GATEWAY | StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT => {
            io::ErrorKind::ConnectionRefused
        }
        _ => io::ErrorKind::PermissionDenied,
    }
}

fn root<'a>(mut error: &'a (dyn std::error::Error + 'static)) -> &'a (dyn std::error::Error + 'static) {
    while let Some(source) = error.source() {
        error = source;
    }
    error
}

impl fmt::Display for ProxyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { proxy, server, reason, .. } = self;
        match server {
            Some(server) => write!(f, "the proxy {proxy} did not connect to {server}: {reason}"),
            None => write!(f, "the proxy {proxy} could not be reached: {reason}"),
        }
    }
}

impl std::error::Error for ProxyError {}
