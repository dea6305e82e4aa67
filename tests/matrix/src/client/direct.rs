//! The transport itself: a message in, a stream of messages out.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;

use futures_util::StreamExt;
use http::Uri;
use mcp_streamable_http::{JsonRpcError, JsonRpcMessage, JsonRpcRequest, JsonRpcResponse, StreamableHttp};
use serde_json::Value;
use tokio::task::JoinHandle;
use tower::ServiceExt;

use super::Host;
use super::json::{Request, Wire};
use crate::Result;

/// A [`StreamableHttp`], called as a service.
#[derive(Debug)]
pub(crate) struct Direct {
    transport: StreamableHttp,
    host: Arc<Host>,
    listening: Option<JoinHandle<()>>,
}

impl Wire for Direct {
    async fn open(uri: Uri, host: Arc<Host>) -> Result<Self> {
        Ok(Self { transport: StreamableHttp::new(uri)?, host, listening: None })
    }

    fn listen(&mut self) {
        let mut stream = self.transport.listen();
        let (transport, host) = (self.transport.clone(), self.host.clone());
        self.listening = Some(tokio::spawn(async move {
            // Errors tell that the stream broke, or that the server has none; who waits for something on it fails.
            while let Some(item) = stream.next().await {
                if let Ok(message) = item {
                    let _ = take(&transport, &host, &message).await;
                }
            }
        }));
    }

    async fn request(&self, request: Request) -> Result<Value> {
        let message = JsonRpcMessage::request(request.id, request.method, request.params);
        let mut reply = self.transport.clone().oneshot(message).await?;
        while let Some(item) = reply.next().await {
            if let Some(response) = take(&self.transport, &self.host, &item?).await? {
                return result_of(&response);
            }
        }
        Err("the reply ends without a response".into())
    }

    /// Dropping is cancelling.
    async fn cancel(&self, request: Request, when: impl Future<Output = Result<()>> + Send) -> Result<()> {
        tokio::select! {
            done = when => done,
            outcome = pin!(self.request(request)) => Err(format!("not cancelled yet, it ends: {outcome:?}").into()),
        }
    }

    async fn notify(&self, method: &'static str, params: Value) -> Result<()> {
        send(&self.transport, JsonRpcMessage::notification(method, params)).await
    }

    async fn close(mut self) -> Result<()> {
        if let Some(listening) = self.listening.take() {
            listening.abort();
        }
        Ok(self.transport.terminate().await?)
    }
}

impl Drop for Direct {
    fn drop(&mut self) {
        if let Some(listening) = &self.listening {
            listening.abort();
        }
    }
}

/// Takes a message of the server's; a response is for the caller.
async fn take(
    transport: &StreamableHttp,
    host: &Host,
    message: &JsonRpcMessage,
) -> Result<Option<JsonRpcResponse>> {
    if let Some(notification) = message.as_notification() {
        host.hear(notification.method(), &params_of(message)?);
    }
    if let Some(question) = message.as_request() {
        send(transport, answer(host, question, &params_of(message)?)).await?;
    }
    Ok(message.as_response().cloned())
}

fn params_of(message: &JsonRpcMessage) -> Result<Value> {
    Ok(message.params().map(|params| params.to()).transpose()?.unwrap_or_default())
}

fn answer(host: &Host, question: &JsonRpcRequest, params: &Value) -> JsonRpcMessage {
    match host.answer(question.method(), params) {
        Ok(answer) => JsonRpcMessage::response(question.id().clone(), answer),
        Err(error) => {
            let error = JsonRpcError::new(JsonRpcError::METHOD_NOT_FOUND, error.to_string());
            JsonRpcMessage::error(question.id().clone(), error)
        }
    }
}

/// Sends a message that has no answer, and waits until the server has accepted it.
async fn send(transport: &StreamableHttp, message: JsonRpcMessage) -> Result<()> {
    let mut reply = transport.clone().oneshot(message).await?;
    match reply.next().await {
        None => Ok(()),
        Some(item) => Err(format!("a message that has no answer is answered: {:?}", item?).into()),
    }
}

fn result_of(response: &JsonRpcResponse) -> Result<Value> {
    match response.outcome() {
        Ok(_) => Ok(response.result()?),
        Err(error) => Err(format!("JSON-RPC error {}: {}", error.code(), error.message()).into()),
    }
}
