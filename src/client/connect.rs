//! Making connections within a bound.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use http::Uri;
use hyper_rustls::{HttpsConnector, MaybeHttpsStream};
use hyper_util::rt::TokioIo;
use tower::Service;

use super::dial::Dial;
use super::stream::Stream;
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
    type Response = MaybeHttpsStream<TokioIo<Stream>>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let connecting = self.inner.call(uri);
        let Some(timeout) = self.timeout else { return Box::pin(connecting) };
        Box::pin(async move {
            match tokio::time::timeout(timeout, connecting).await {
                Ok(connected) => connected,
                Err(_) => Err(TimedOut::new("connecting", "connect_timeout", timeout).into()),
            }
        })
    }
}
