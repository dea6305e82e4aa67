//! What goes wrong with proxies.

use std::{fmt, io};

use http::StatusCode;

use super::Hop;
use crate::error::BoxError;

/// A proxy could not be reached, or did not connect the client to the server. Nothing was sent to the server.
///
/// It names the proxy, without its credentials. [`Error::find`](crate::Error::find) gets at it:
///
/// ```
/// use mcp_streamable_http::Error;
/// use mcp_streamable_http::client::ProxyError;
///
/// fn wants_other_credentials(error: &Error) -> bool {
///     error.find::<ProxyError>().and_then(ProxyError::status).is_some_and(|status| status == 407)
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
        Box::new(Self { proxy, server, status: Some(status), reason: status.to_string() })
    }

    pub(super) fn failed(hop: &Hop, server: &str, cause: &(dyn std::error::Error + 'static)) -> BoxError {
        let (proxy, server) = (hop.name().to_owned(), Some(server.to_owned()));
        Self { proxy, server, status: None, reason: root(cause).to_string() }.of_kind(cause)
    }

    /// As an error of the operating system if that is its cause: that it was a timeout, say, must not be lost. The cause
    /// itself is none of its sources, because the last of those is the one whom the user hears.
    fn of_kind(self, cause: &(dyn std::error::Error + 'static)) -> BoxError {
        match root(cause).downcast_ref::<io::Error>() {
            Some(cause) => Box::new(io::Error::new(cause.kind(), self)),
            None => Box::new(self),
        }
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
