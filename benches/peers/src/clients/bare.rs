//! hyper-util's client with nothing around it: the same bytes over the same connection, but nobody reads them.

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request, Uri, header};
use http_body_util::{BodyExt, Full};
use hyper_rustls::HttpsConnectorBuilder;
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use tower::BoxError;

use crate::peer::Peer;
use crate::server::{SESSION, Server};
use crate::work::{Depth, Seen, Shape, Wire, Work};

type Plain = legacy::Client<HttpConnector, Full<Bytes>>;
type Tls = legacy::Client<hyper_rustls::HttpsConnector<HttpConnector>, Full<Bytes>>;

#[derive(Clone)]
pub(crate) struct Bare {
    client: Either,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
    streams: bool,
}

#[derive(Clone)]
enum Either {
    Plain(Plain),
    Tls(Tls),
}

impl Peer for Bare {
    const DEPTH: Depth = Depth::Body;

    async fn connect(server: &Server, work: &Work) -> Result<Self, BoxError> {
        let mut tcp = HttpConnector::new();
        tcp.set_nodelay(true);
        tcp.enforce_http(false);
        let mut builder = legacy::Client::builder(TokioExecutor::new());
        builder.timer(TokioTimer::new()).pool_timer(TokioTimer::new()).http2_only(work.wire == Wire::Http2);
        let client = match work.wire {
            Wire::Tls => {
                let https = HttpsConnectorBuilder::new().with_tls_config(server.client_tls()?).https_only();
                Either::Tls(builder.build(https.enable_http1().wrap_connector(tcp)))
            }
            Wire::Plain | Wire::Http2 => Either::Plain(builder.build(tcp)),
        };
        let request = serde_json::json!({
            "jsonrpc": "2.0",
            "id": 1,
            "method": work.shape.method(),
            "params": work.shape.params(),
        });
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(header::ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
        headers.insert(SESSION.0, HeaderValue::from_static(SESSION.1));
        headers.insert("mcp-protocol-version", HeaderValue::from_static("2025-11-25"));
        Ok(Self {
            client,
            uri: server.uri().parse()?,
            headers,
            body: request.to_string().into(),
            streams: matches!(work.shape, Shape::OneEvent | Shape::Events),
        })
    }

    async fn exchange(&mut self) -> Result<Seen, BoxError> {
        let mut request = Request::post(self.uri.clone()).body(Full::new(self.body.clone()))?;
        // One by one, as from constants: a clone of the whole map would be cheaper than what anybody writes.
        request.headers_mut().extend(self.headers.iter().map(|(name, value)| (name.clone(), value.clone())));
        let answer = match &self.client {
            Either::Plain(client) => client.request(request),
            Either::Tls(client) => client.request(request),
        };
        let mut body = answer.await?.into_body();
        let mut size = 0;
        if self.streams {
            while let Some(frame) = body.frame().await {
                size += frame?.data_ref().map_or(0, Bytes::len);
            }
        } else {
            size = body.collect().await?.to_bytes().len();
        }
        Ok(Seen { notifications: 0, size })
    }
}
