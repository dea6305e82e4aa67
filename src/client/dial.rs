//! The way to the server: straight, through a proxy, or to a Unix socket.

use std::future::Future;
#[cfg(unix)]
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::Uri;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
#[cfg(unix)]
use tokio::net::UnixStream;
use tower::Service;

use super::proxy::{Hop, Rules, through};
use super::route::Route;
use super::stream::Stream;
use crate::error::BoxError;

/// Makes the connections that TLS to the server, if there is any, goes over.
#[derive(Clone)]
pub(super) struct Dial {
    way: Way,
    tcp: HttpConnector,
}

#[derive(Clone)]
enum Way {
    Direct,
    /// For some connections. The connector has TLS for the proxies that want it.
    Proxies(Arc<Rules>, HttpsConnector<HttpConnector>),
    #[cfg(unix)]
    Unix(Arc<Path>),
}

impl Dial {
    /// `tls` is for proxies that want it.
    pub(super) fn new(route: Route, tcp: HttpConnector, tls: &ClientConfig) -> Self {
        let way = match route {
            Route::Direct => Way::Direct,
            Route::Proxies(rules) => {
                let mut tls = tls.clone();
                // CONNECT is sent in HTTP/1.1.
                tls.alpn_protocols.clear();
                let connector =
                    HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http().enable_http1();
                Way::Proxies(rules, connector.wrap_connector(tcp.clone()))
            }
            #[cfg(unix)]
            Route::Unix(path) => Way::Unix(path.into()),
        };
        Self { way, tcp }
    }

    async fn dial(mut self, target: Uri) -> Result<TokioIo<Stream>, BoxError> {
        match self.way {
            Way::Direct => {}
            Way::Proxies(rules, mut connector) => {
                if let Some(proxy) = rules.intercept(&target) {
                    let hop = Hop::new(&proxy)?;
                    let dialing = connector.call(hop.address().clone());
                    let dialing = async { dialing.await.map(Stream::from) };
                    return through(&hop, dialing, &target).await.map(TokioIo::new);
                }
            }
            #[cfg(unix)]
            Way::Unix(path) => return Ok(TokioIo::new(Stream::Unix(UnixStream::connect(path).await?))),
        }
        let stream = self.tcp.call(target).await?;
        Ok(TokioIo::new(Stream::Tcp(stream.into_inner())))
    }
}

impl Service<Uri> for Dial {
    type Response = TokioIo<Stream>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.tcp.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, target: Uri) -> Self::Future {
        Box::pin(self.clone().dial(target))
    }
}
