//! The bare HTTP client that the transport is compared with, and what a careful user of it would send.

use bytes::Bytes;
use http::{HeaderValue, Method, Request, Uri, header};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::{Connect, HttpConnector};
use hyper_util::client::legacy::{self, Client};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls::{ClientConfig, RootCertStore};

use mcp_streamable_http::JsonRpcMessage;

use crate::BoxError;
use crate::server::Protocol;

/// Without TLS.
pub(crate) type Plain = Client<HttpConnector, Full<Bytes>>;
/// With a connector that could do TLS if the URL asked for it, like that of the transport's default client.
pub(crate) type WithTls = Client<HttpsConnector<HttpConnector>, Full<Bytes>>;

pub(crate) fn plain(protocol: Protocol) -> Plain {
    builder(protocol).build(connector())
}

pub(crate) fn with_tls(protocol: Protocol) -> WithTls {
    let tls = ClientConfig::builder().with_root_certificates(RootCertStore::empty()).with_no_client_auth();
    let https = HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http();
    builder(protocol).build(match protocol {
        Protocol::Http1 => https.enable_http1().wrap_connector(connector()),
        Protocol::Http2 => https.enable_http2().wrap_connector(connector()),
    })
}

fn connector() -> HttpConnector {
    let mut connector = HttpConnector::new();
    connector.set_nodelay(true);
    connector.enforce_http(false);
    connector
}

fn builder(protocol: Protocol) -> legacy::Builder {
    let mut builder = Client::builder(TokioExecutor::new());
    builder.timer(TokioTimer::new()).pool_timer(TokioTimer::new()).http2_only(protocol == Protocol::Http2);
    // The transport's default.
    builder.pool_max_idle_per_host(64);
    builder
}

/// The request that carries `message`, or the listening GET, with the headers of MCP that it needs.
pub(crate) fn request(
    uri: &Uri,
    message: Option<&JsonRpcMessage>,
    mcp: &[(&'static str, &'static str)],
) -> Request<Full<Bytes>> {
    let body = message.map(JsonRpcMessage::encode).unwrap_or_default();
    let mut request = Request::new(Full::new(body));
    *request.uri_mut() = uri.clone();
    let headers = request.headers_mut();
    for (name, value) in mcp {
        headers.insert(*name, HeaderValue::from_static(value));
    }
    if message.is_some() {
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(header::ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
        *request.method_mut() = Method::POST;
    } else {
        headers.insert(header::ACCEPT, HeaderValue::from_static("text/event-stream"));
    }
    request
}

/// Sends a request, and returns the body of its answer.
pub(crate) async fn send<C>(
    client: &Client<C, Full<Bytes>>,
    request: Request<Full<Bytes>>,
) -> Result<Incoming, BoxError>
where
    C: Connect + Clone + Send + Sync + 'static,
{
    let response = client.request(request).await?;
    if !response.status().is_success() {
        return Err(format!("the server answers {}", response.status()).into());
    }
    Ok(response.into_body())
}

/// A whole call.
pub(crate) async fn call<C>(
    client: &Client<C, Full<Bytes>>,
    uri: &Uri,
    message: &JsonRpcMessage,
) -> Result<Bytes, BoxError>
where
    C: Connect + Clone + Send + Sync + 'static,
{
    let body = send(client, request(uri, Some(message), &[])).await?;
    Ok(body.collect().await?.to_bytes())
}
