//! The URL that every message goes to.

use std::fmt;
use std::sync::Arc;

use http::header::{HeaderMap, HeaderName};
use http::{Extensions, Method, Request, Uri};

use crate::error::{InvalidOption, Redacted};
use crate::options::ExtraHeaders;
use crate::{Payload, headers};

/// The MCP endpoint: its URL, and the headers that every request to it carries.
///
/// Path and query of the URL are sent exactly as they are given.
#[derive(Clone)]
pub struct Endpoint(Arc<Parts>);

/// Shared, as many layers and streams hold on to it.
#[derive(Clone)]
struct Parts {
    uri: Uri,
    headers: HeaderMap,
}

impl Endpoint {
    /// An endpoint without headers of its own.
    ///
    /// # Errors
    /// The URL has no scheme or no host, or it has a user name or password: RFC 9110 §4.2.4 forbids sending these in
    /// a URL, so they belong in an `authorization` header.
    pub fn new(uri: Uri) -> Result<Self, InvalidOption> {
        match (uri.scheme(), uri.authority()) {
            (Some(_), Some(authority)) if !authority.as_str().contains('@') => {
                Ok(Self(Arc::new(Parts { uri, headers: HeaderMap::new() })))
            }
            (Some(_), Some(_)) => Err(InvalidOption::new(
                "the endpoint's URL has a user name or password, which belong in an `authorization` header",
            )),
            _ => Err(InvalidOption::new("the endpoint's URL must have a scheme and a host")),
        }
    }

    /// Sends `headers` with every request, marked sensitive. `accept` and `content-type` among them are overwritten.
    ///
    /// # Errors
    /// One of them is the transport's own business: `mcp-*`, `last-event-id`, and headers of the connection or of
    /// message framing.
    pub fn with_headers(mut self, mut headers: HeaderMap) -> Result<Self, InvalidOption> {
        for name in headers.keys() {
            if headers::is_reserved(name) || name.as_str().starts_with("mcp-") {
                return Err(InvalidOption::new(reserved(name)));
            }
        }
        headers::mark_sensitive(&mut headers);
        Arc::make_mut(&mut self.0).headers = headers;
        Ok(self)
    }

    /// The URL.
    pub fn uri(&self) -> &Uri {
        &self.0.uri
    }

    /// A POST of `payload`.
    pub fn post(&self, payload: impl Into<Payload>) -> Request<Payload> {
        self.request(Method::POST, payload.into())
    }

    /// The GET that listens for messages of the server's own.
    pub fn get(&self) -> Request<Payload> {
        self.request(Method::GET, Payload::EMPTY)
    }

    /// The DELETE that ends a session.
    pub fn delete(&self) -> Request<Payload> {
        self.request(Method::DELETE, Payload::EMPTY)
    }

    fn request(&self, method: Method, payload: Payload) -> Request<Payload> {
        let mut request = Request::new(payload);
        *request.method_mut() = method;
        let Parts { uri, headers } = &*self.0;
        *request.uri_mut() = uri.clone();
        request.headers_mut().extend(headers.iter().map(|(name, value)| (name.clone(), value.clone())));
        request
    }
}

/// Gives `request` the options of a message, and the headers among them.
pub(crate) fn extend(request: &mut Request<Payload>, options: Extensions) {
    if let Some(ExtraHeaders(extra)) = options.get() {
        request.headers_mut().extend(extra.clone());
    }
    *request.extensions_mut() = options;
}

pub(crate) fn reserved(name: &HeaderName) -> String {
    format!("the header `{name}` is the transport's own and cannot be set")
}

/// The URL without its query.
impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Redacted::from(self.uri()).fmt(f)
    }
}

/// The URL without its query, and the names of the headers.
impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.0.headers.keys().collect();
        f.debug_struct("Endpoint").field("uri", &self.to_string()).field("headers", &names).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_in_the_url_are_refused_and_not_shown() {
        let error = Endpoint::new("https://user:s3cret@host/mcp".parse().unwrap()).unwrap_err();
        assert!(error.to_string().contains("authorization") && !error.to_string().contains("s3cret"));
        assert!(Endpoint::new("/mcp".parse().unwrap()).is_err());
    }

    #[test]
    fn the_query_is_sent_but_not_shown() {
        let endpoint = Endpoint::new("https://host/a%20b/?key=s3cret".parse().unwrap()).unwrap();
        assert_eq!(endpoint.get().uri(), "https://host/a%20b/?key=s3cret");
        assert_eq!(endpoint.to_string(), "https://host/a%20b/");
        assert!(!format!("{endpoint:?}").contains("s3cret"));
    }

    #[test]
    fn reserved_headers_are_refused_by_name() {
        for name in ["mcp-session-id", "mcp-method", "last-event-id", "connection", "content-length"] {
            let headers =
                HeaderMap::from_iter([(name.parse().unwrap(), http::HeaderValue::from_static("x"))]);
            let endpoint = Endpoint::new("http://host/".parse().unwrap()).unwrap();
            assert!(endpoint.with_headers(headers).unwrap_err().to_string().contains(name));
        }
    }
}
