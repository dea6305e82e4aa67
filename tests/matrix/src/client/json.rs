//! What a client of the least size does, whatever carries its messages: ids, the handshake, the metadata of the modern
//! era, and the rounds in which a call of that era asks for more.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use http::Uri;
use serde_json::{Map, Value, json};

use super::{Call, Client, Era, Host, text_of};
use crate::Result;

/// Servers that ask for more in every round are not humoured for ever.
const MAX_ROUNDS: usize = 4;

/// A request.
#[derive(Debug)]
pub(crate) struct Request {
    /// Not used before.
    pub(crate) id: i64,
    /// What is asked for.
    pub(crate) method: &'static str,
    /// An object.
    pub(crate) params: Value,
}

/// Carries messages to a server and back, and hands the server's own on to the host.
pub(crate) trait Wire: Sized + Send + Sync {
    /// Opens it; nothing is sent yet.
    fn open(uri: Uri, host: Arc<Host>) -> impl Future<Output = Result<Self>> + Send;

    /// Listens to the server from now on, if it does not by itself after the handshake.
    fn listen(&mut self);

    /// Sends a request, and returns the result. A JSON-RPC error is an error.
    fn request(&self, request: Request) -> impl Future<Output = Result<Value>> + Send;

    /// Sends a request, and cancels it once `when` is done.
    fn cancel(
        &self,
        request: Request,
        when: impl Future<Output = Result<()>> + Send,
    ) -> impl Future<Output = Result<()>> + Send;

    /// Sends a notification.
    fn notify(&self, method: &'static str, params: Value) -> impl Future<Output = Result<()>> + Send;

    /// Closes it.
    fn close(self) -> impl Future<Output = Result<()>> + Send;
}

/// The client.
#[derive(Debug)]
pub(crate) struct Json<W> {
    wire: W,
    era: Era,
    host: Arc<Host>,
    last_id: AtomicI64,
}

impl<W: Wire> Json<W> {
    /// A request with what the era wants. It allows reports of progress, with its id as their token.
    fn message(&self, method: &'static str, mut params: Value) -> Request {
        let id = self.last_id.fetch_add(1, Ordering::Relaxed) + 1;
        params["_meta"]["progressToken"] = id.into();
        if self.era == Era::Modern {
            params["_meta"]["io.modelcontextprotocol/protocolVersion"] = "2026-07-28".into();
            params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = Host::capabilities();
            params["_meta"]["io.modelcontextprotocol/clientInfo"] = info();
        }
        Request { id, method, params }
    }

    async fn request(&self, method: &'static str, params: Value) -> Result<Value> {
        self.wire.request(self.message(method, params)).await
    }

    /// Makes a request, again with answers as long as the server asks for more.
    async fn complete(&self, method: &'static str, mut params: Value) -> Result<Value> {
        for _ in 0..MAX_ROUNDS {
            let mut result = self.request(method, params.clone()).await?;
            if result["resultType"] != "input_required" {
                return Ok(result);
            }
            params["inputResponses"] = self.answers(&result["inputRequests"])?;
            if let Some(state) = result.get_mut("requestState") {
                params["requestState"] = state.take();
            }
        }
        Err(format!("{method} asks for more after {MAX_ROUNDS} rounds").into())
    }

    fn answers(&self, questions: &Value) -> Result<Value> {
        let mut answers = Map::new();
        for (key, question) in questions.as_object().into_iter().flatten() {
            let method = question["method"].as_str().unwrap_or_default();
            answers.insert(key.clone(), self.host.answer(method, &question["params"])?);
        }
        Ok(answers.into())
    }

    async fn handshake(&mut self) -> Result<()> {
        let params = json!({
            "protocolVersion": "2025-11-25", "capabilities": Host::capabilities(), "clientInfo": info(),
        });
        let result = self.request("initialize", params).await?;
        if result["protocolVersion"] != "2025-11-25" {
            return Err(format!("the server speaks {}", result["protocolVersion"]).into());
        }
        self.wire.notify("notifications/initialized", json!({})).await?;
        self.wire.listen();
        Ok(())
    }

    async fn discover(&self) -> Result<()> {
        let result = self.request("server/discover", json!({})).await?;
        let versions = result["supportedVersions"].as_array().map_or(&[][..], Vec::as_slice);
        if versions.iter().any(|version| version == "2026-07-28") {
            return Ok(());
        }
        Err(format!("the server speaks {versions:?}").into())
    }
}

impl<W: Wire> Client for Json<W> {
    const KEEPS_ORDER: bool = true;

    async fn connect(uri: Uri, era: Era, host: Arc<Host>) -> Result<Self> {
        let wire = W::open(uri, host.clone()).await?;
        let mut client = Self { wire, era, host, last_id: AtomicI64::new(0) };
        match era {
            Era::Legacy => client.handshake().await?,
            Era::Modern => client.discover().await?,
        }
        Ok(client)
    }

    async fn tools(&self) -> Result<Vec<String>> {
        let list = self.request("tools/list", json!({})).await?;
        let tools = list["tools"].as_array().ok_or_else(|| format!("no tools: {list}"))?;
        Ok(tools.iter().filter_map(|tool| tool["name"].as_str()).map(str::to_owned).collect())
    }

    async fn call(&self, call: Call) -> Result<String> {
        text_of(&self.complete("tools/call", params_of(call)).await?)
    }

    async fn read(&self, uri: &str) -> Result<String> {
        let result = self.complete("resources/read", json!({ "uri": uri })).await?;
        let text = result["contents"][0]["text"].as_str();
        Ok(text.ok_or_else(|| format!("no text: {result}"))?.to_owned())
    }

    async fn cancel(&self, call: Call, when: impl Future<Output = Result<()>> + Send) -> Result<()> {
        self.wire.cancel(self.message("tools/call", params_of(call)), when).await
    }

    async fn close(self) -> Result<()> {
        self.wire.close().await
    }
}

fn params_of(call: Call) -> Value {
    json!({ "name": call.tool, "arguments": call.arguments })
}

fn info() -> Value {
    json!({ "name": "matrix", "version": "1.0" })
}
