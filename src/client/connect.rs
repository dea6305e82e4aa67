//! Making connections within a bound.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use http::Uri;
use hyper_rustls::HttpsConnector;
use tower::Service;

use super::connection::Connection;
use super::dial::Dial;
use crate::error::{BoxError, TimedOut};

/// Bounds all of it together: the look-up of the name, the TCP handshake, getting through a proxy, the TLS handshake.
/// `HttpConnector` has a bound for the second only.
#[derive(Clone)]
pub(super) struct Connector {
    inner: HttpsConnector<Dial>,
    timeout: Option<Duration>,
}

impl Connector {
    pub(super) fn new(inner: HttpsConnector<Dial>, timeout: Option<Duration>) -> Self {
        Self { inner, timeout }
    }
}

impl Service<Uri> for Connector {
    type Response = Connection;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let connecting = self.inner.call(uri);
        let timeout = self.timeout;
        Box::pin(async move {
            let connected = match timeout {
                None => connecting.await,
                Some(timeout) => tokio::time::timeout(timeout, connecting)
                    .await
                    .unwrap_or_else(|_| Err(TimedOut::new("connecting", "connect_timeout", timeout).into())),
            };
            connected.map(Connection::from)
        })
    }
}
