//! The transport of this repository, by itself.

use std::cell::Cell;
use std::rc::Rc;

use futures_util::StreamExt;
use mcp_streamable_http::{Client, JsonRpcMessage, RawJson, StreamableHttp};
use serde_json::{Value, json};
use tower::{BoxError, Service, ServiceExt};

use crate::peer::Peer;
use crate::server::Server;
use crate::work::{Depth, Seen, Wire, Work};

/// In the legacy era, in a session.
#[derive(Clone)]
pub(crate) struct This {
    transport: StreamableHttp,
    method: &'static str,
    params: RawJson,
    next_id: Rc<Cell<i64>>,
}

/// In the modern era, in which each request says what it is.
#[derive(Clone)]
pub(crate) struct Modern(This);

/// The transport with default options, over the client that `new` would make but for what it trusts and speaks.
pub(crate) fn transport(server: &Server) -> Result<StreamableHttp, BoxError> {
    let client = Client::builder().tls_config(server.client_tls()?);
    let client = match server.wire {
        Wire::Http2 => client.http2_prior_knowledge(),
        Wire::Plain | Wire::Tls => client,
    };
    Ok(StreamableHttp::with_client(server.uri().parse()?, client.build()?).build()?)
}

impl This {
    fn new(server: &Server, work: &Work, params: Value) -> Result<Self, BoxError> {
        let transport = transport(server)?;
        Ok(Self {
            transport,
            method: work.shape.method(),
            params: params.into(),
            next_id: Rc::new(Cell::new(1)),
        })
    }
}

impl Peer for This {
    const DEPTH: Depth = Depth::Message;

    async fn connect(server: &Server, work: &Work) -> Result<Self, BoxError> {
        let this = Self::new(server, work, work.shape.params())?;
        let hello = json!({
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": { "name": "peers", "version": "1.0.0" },
        });
        let hello = JsonRpcMessage::request(0, "initialize", hello);
        this.transport.clone().oneshot(hello).await?.response().await?;
        let done = JsonRpcMessage::notification("notifications/initialized", ());
        let _ = this.transport.clone().oneshot(done).await?.count().await;
        Ok(this)
    }

    async fn exchange(&mut self) -> Result<Seen, BoxError> {
        let id = self.next_id.replace(self.next_id.get() + 1);
        let message = JsonRpcMessage::request(id, self.method, self.params.clone());
        let mut reply = self.transport.ready().await?.call(message).await?;
        let mut seen = Seen::default();
        while let Some(message) = reply.next().await {
            match message? {
                JsonRpcMessage::Response(response) => {
                    seen.size = response.outcome().map_or(0, |result| result.as_str().len());
                }
                _ => seen.notifications += 1,
            }
        }
        Ok(seen)
    }
}

impl Peer for Modern {
    const DEPTH: Depth = Depth::Message;

    async fn connect(server: &Server, work: &Work) -> Result<Self, BoxError> {
        let mut params = work.shape.params();
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": { "name": "peers", "version": "1.0.0" },
            "io.modelcontextprotocol/clientCapabilities": {},
        });
        This::new(server, work, params).map(Self)
    }

    async fn exchange(&mut self) -> Result<Seen, BoxError> {
        self.0.exchange().await
    }
}
