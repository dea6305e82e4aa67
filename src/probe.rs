//! Asking a server for its era.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::runtime::Handle;
use tower::ServiceExt;

use crate::error::{InvalidMessage, TimedOut};
use crate::layers::probe::{Probe, classify};
use crate::layers::{Era, Error, JsonRpcMessage, JsonRpcRequest, RawJson};
use crate::options::Once;
use crate::transport::StreamableHttp;

/// Two probes at a time are two requests.
fn fresh_id() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    format!("mcp-streamable-http:discover:{}", COUNT.fetch_add(1, Ordering::Relaxed))
}

impl StreamableHttp {
    /// Asks the server of which era it is, with a `server/discover` of the modern one (MCP 2026-07-28 §Backward
    /// Compatibility). `meta` is the `_meta` of that request: it names the protocol version, the client and its capabilities.
    ///
    /// If it is [`Legacy`](Probe::Legacy) or [`Unknown`](Probe::Unknown), send `initialize` next, which starts afresh. What is
    /// found out is kept in the [`probe_cache`](crate::Builder::probe_cache), if there is one, and taken from there.
    ///
    /// ```no_run
    /// use mcp_streamable_http::{Probe, StreamableHttp};
    /// use serde_json::json;
    ///
    /// # async fn example(transport: StreamableHttp) -> Result<(), mcp_streamable_http::Error> {
    /// let meta = json!({
    ///     "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    ///     "io.modelcontextprotocol/clientInfo": { "name": "example", "version": "1.0.0" },
    ///     "io.modelcontextprotocol/clientCapabilities": {},
    /// });
    /// match transport.probe(meta).await? {
    ///     Probe::Modern { versions, .. } => println!("modern, {versions:?}"),
    ///     _ => println!("send initialize"),
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The server asks for other credentials, there was no complete answer within the
    /// [`probe_timeout`](crate::Builder::probe_timeout), or `meta` names no version of the modern era.
    pub async fn probe(&self, meta: impl Into<RawJson>) -> Result<Probe, Error> {
        if let Some(known) = self.shared.probes.as_ref().and_then(|cache| cache.get(&self.shared.endpoint)) {
            return Ok(known);
        }
        let params = RawJson::parse(format!(r#"{{"_meta":{}}}"#, meta.into())).map_err(Error::new)?;
        let discover = JsonRpcRequest::new(fresh_id(), "server/discover", params);
        let version = discover.protocol_version().ok().flatten();
        if !version.is_some_and(|version| version.era() == Era::Modern) {
            return Err(Error::new(InvalidMessage::new(
                "a probe must name a protocol version of the modern era",
            )));
        }
        let probe = self
            .within(self.shared.probe_timeout, self.discover(JsonRpcMessage::from(discover).with(Once)))
            .await?;
        if let Some(cache) = &self.shared.probes {
            cache.insert(&self.shared.endpoint, &probe);
        }
        Ok(probe)
    }

    async fn discover(&self, discover: JsonRpcMessage) -> Result<Probe, Error> {
        match self.clone().oneshot(discover).await {
            Ok(reply) => {
                let status = reply.head().map(|head| head.status);
                classify(status, reply.response().await)
            }
            Err(error) => classify(error.status(), Err(error)),
        }
    }

    async fn within<T>(
        &self,
        bound: Duration,
        probe: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        // Without a runtime there is no timer, and tokio's would panic.
        match Handle::try_current() {
            Ok(_) => tokio::time::timeout(bound, probe)
                .await
                .unwrap_or_else(|_| Err(Error::new(TimedOut::new("the probe", "probe_timeout", bound)))),
            Err(_) => probe.await,
        }
    }
}
