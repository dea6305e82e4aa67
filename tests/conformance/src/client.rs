//! A client over the transport's [`Channel`](mcp_streamable_http::Channel).

use std::collections::HashMap;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::StreamExt;
use mcp_streamable_http::channel::{Receiver, Sender};
use mcp_streamable_http::{Era, JsonRpcMessage, Probe, ProtocolVersion, RawJson, RequestId, StreamableHttp};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::oneshot;

use crate::{Failure, host};

/// What a legacy server may choose.
const LEGACY: [ProtocolVersion; 3] =
    [ProtocolVersion::V2025_11_25, ProtocolVersion::V2025_06_18, ProtocolVersion::V2025_03_26];

/// What is told to a modern server that refuses the version that it was asked for.
const MODERN: [ProtocolVersion; 1] = [ProtocolVersion::V2026_07_28];

type Answer = Result<RawJson, Failure>;

/// A connection to a server, ready for requests. Any number of them can be made at a time.
pub(crate) struct Client {
    sender: Sender,
    waiting: Waiting,
    last_id: AtomicI64,
    /// What goes into the `_meta` of every request; legacy servers know nothing of it.
    meta: Option<Value>,
    server: Server,
}

/// What the server said of itself.
#[derive(Default, Deserialize)]
struct Server {
    #[serde(default, rename = "protocolVersion")]
    version: String,
    #[serde(default)]
    capabilities: HashMap<String, Value>,
}

#[derive(Serialize)]
struct WithMeta<'a, P> {
    #[serde(flatten)]
    params: P,
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    meta: Option<&'a Value>,
}

impl Client {
    /// Connects to the server at `url`, in the way of the era of `version`.
    pub(crate) async fn connect(url: &str, version: ProtocolVersion) -> Result<Self, Failure> {
        let transport = StreamableHttp::new(url.parse()?)?;
        match version.era() {
            Era::Legacy => {
                let mut client = Self::over(transport, None);
                client.server = client.handshake(&version).await?;
                Ok(client)
            }
            Era::Modern => {
                let (meta, server) = discover(&transport, version).await?;
                Ok(Self { server, ..Self::over(transport, Some(meta)) })
            }
        }
    }

    fn over(transport: StreamableHttp, meta: Option<Value>) -> Self {
        let (sender, receiver) = transport.channel().split();
        let waiting = Waiting::default();
        // It ends with the channel.
        tokio::spawn(read(receiver, sender.clone(), waiting.clone()));
        Self { sender, waiting, last_id: AtomicI64::new(0), meta, server: Server::default() }
    }

    async fn handshake(&self, version: &ProtocolVersion) -> Result<Server, Failure> {
        let hello = json!({
            "protocolVersion": version.as_str(),
            "capabilities": host::capabilities(),
            "clientInfo": host::info(),
        });
        let server: Server = self.call("initialize", hello).await?.to()?;
        if !LEGACY.iter().any(|version| version.as_str() == server.version) {
            return Err(format!("the server chose the version {:?}", server.version).into());
        }
        // What is sent after it waits until the server has accepted it: the channel sees to that.
        self.sender.send(JsonRpcMessage::notification("notifications/initialized", ()))?;
        Ok(server)
    }

    /// Whether the server has this capability.
    pub(crate) fn offers(&self, capability: &str) -> bool {
        self.server.capabilities.contains_key(capability)
    }

    /// Sends a request, under an id of its own, and waits for its result. An error of the server's is an error here.
    pub(crate) async fn call(&self, method: &'static str, params: impl Serialize) -> Answer {
        let id = RequestId::Number(self.last_id.fetch_add(1, Ordering::Relaxed) + 1);
        let params = WithMeta { params, meta: self.meta.as_ref() };
        // A legacy request without anything in its params has an empty object there, which all servers take.
        let request = JsonRpcMessage::request(id.clone(), method, RawJson::new(&params)?);
        let answer = self.waiting.expect(id);
        self.sender.send(request)?;
        answer.await.map_err(|_| "the channel closed before the answer")?
    }

    /// Ends the session, if there is one.
    pub(crate) async fn close(self) {
        self.sender.close().await;
    }
}

/// Finds out what a modern server offers, and in which version: the `_meta` of all requests to come names it.
async fn discover(transport: &StreamableHttp, version: ProtocolVersion) -> Result<(Value, Server), Failure> {
    let meta = meta(&version);
    let Probe::Modern { versions, discovered } = transport.probe(meta.clone()).await? else {
        return Err("the server is not of the modern era".into());
    };
    if let Some(discovered) = discovered {
        return Ok((meta, discovered.to()?));
    }
    // It refused the version, and named those that it would take: once more with one of them.
    let meta = self::meta(&mutual(&versions).ok_or("the server has no version in common with this client")?);
    match transport.probe(meta.clone()).await? {
        Probe::Modern { discovered: Some(discovered), .. } => Ok((meta, discovered.to()?)),
        other => Err(format!("the server cannot be discovered: {other:?}").into()),
    }
}

fn meta(version: &ProtocolVersion) -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": version.as_str(),
        "io.modelcontextprotocol/clientCapabilities": host::capabilities(),
        "io.modelcontextprotocol/clientInfo": host::info(),
    })
}

/// The version that this client likes best among those of the server.
fn mutual(theirs: &[ProtocolVersion]) -> Option<ProtocolVersion> {
    MODERN.into_iter().find(|version| theirs.contains(version))
}

/// Hands on what the server sends, and answers what it asks.
async fn read(mut receiver: Receiver, sender: Sender, waiting: Waiting) {
    while let Some(incoming) = receiver.next().await {
        // What cannot be read belongs to no request: there is nobody to tell.
        let Ok(incoming) = incoming else { continue };
        match incoming.message {
            JsonRpcMessage::Response(response) => {
                let Some(id) = response.id().cloned() else { continue };
                waiting.answer(
                    &id,
                    match incoming.failure {
                        Some(failure) => Err(failure.into()),
                        None => response.into_outcome().map_err(Failure::from),
                    },
                );
            }
            JsonRpcMessage::Request(request) => {
                let answer = match host::answer(request.method(), request.params()) {
                    Ok(result) => JsonRpcMessage::response(request.id().clone(), result),
                    Err(error) => JsonRpcMessage::error(request.id().clone(), error),
                };
                // It fails only if the channel is closed, and then the loop ends too.
                let _ = sender.send(answer);
            }
            JsonRpcMessage::Notification(_) => {}
        }
    }
    waiting.give_up();
}

/// Who waits for which answer.
#[derive(Clone, Default)]
struct Waiting(Arc<Mutex<HashMap<RequestId, oneshot::Sender<Answer>>>>);

impl Waiting {
    fn expect(&self, id: RequestId) -> oneshot::Receiver<Answer> {
        let (sender, receiver) = oneshot::channel();
        self.lock().insert(id, sender);
        receiver
    }

    fn answer(&self, id: &RequestId, answer: Answer) {
        if let Some(waiting) = self.lock().remove(id) {
            // Who no longer waits does not want it.
            let _ = waiting.send(answer);
        }
    }

    fn give_up(&self) {
        self.lock().clear();
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<RequestId, oneshot::Sender<Answer>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_chosen_that_both_know() {
        let versions =
            |texts: &[&str]| -> Vec<_> { texts.iter().map(|text| text.parse().unwrap()).collect() };
        assert_eq!(mutual(&versions(&["2027-01-01", "2026-07-28"])), Some(ProtocolVersion::V2026_07_28));
        assert_eq!(mutual(&versions(&["2027-01-01", "2025-11-25"])), None);
        assert_eq!(mutual(&[]), None);
    }

    #[test]
    fn params_keep_what_they_have_beside_the_metadata() {
        let meta = json!({ "a": 1 });
        let written = |params: Value, meta| RawJson::new(&WithMeta { params, meta }).unwrap().to_string();
        assert_eq!(written(json!({ "name": "x" }), Some(&meta)), r#"{"name":"x","_meta":{"a":1}}"#);
        assert_eq!(written(json!({}), None), "{}");
    }
}
