//! A request as it can be sent once more.

use bytes::Bytes;
use http::{Extensions, HeaderName, HeaderValue, Method, Request, Uri, Version};
use http_body_util::Full;

/// What most requests have no use for, so it is kept as it costs least: a copy of a header map is a table for lookups too.
pub(super) struct Repeat {
    pub(super) method: Method,
    /// Of the last hop.
    pub(super) uri: Uri,
    version: Version,
    headers: Vec<(HeaderName, HeaderValue)>,
    options: Extensions,
    body: Full<Bytes>,
}

impl Repeat {
    pub(super) fn of(request: &Request<Full<Bytes>>) -> Self {
        Self {
            method: request.method().clone(),
            uri: request.uri().clone(),
            version: request.version(),
            headers: request.headers().iter().map(|(name, value)| (name.clone(), value.clone())).collect(),
            options: request.extensions().clone(),
            body: request.body().clone(),
        }
    }

    pub(super) fn request(&self) -> Request<Full<Bytes>> {
        let mut request = Request::new(self.body.clone());
        *request.method_mut() = self.method.clone();
        *request.uri_mut() = self.uri.clone();
        *request.version_mut() = self.version;
        *request.extensions_mut() = self.options.clone();
        let headers = request.headers_mut();
        for (name, value) in &self.headers {
            headers.append(name, value.clone());
        }
        request
    }
}
