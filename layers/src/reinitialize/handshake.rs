//! The handshake in place of the application's.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::pin::Pin;

use futures_core::Stream;
use http::{HeaderValue, Request, Response};
use serde_json::json;
use tower::ServiceExt;
use tower_service::Service;

use super::Again;
use crate::endpoint::extend;
use crate::error::{BoxError, EndedStream};
use crate::headers::{MCP_PROTOCOL_VERSION, MCP_SESSION_ID};
use crate::options::ExtraHeaders;
use crate::{Events, JsonRpcMessage, JsonRpcRequest, Payload};

impl<S> Again<S>
where
    S: Service<Request<Payload>, Response = Response<Events>> + Clone + Send + Sync + 'static,
    S::Error: Into<BoxError>,
    S::Future: Send,
{
    pub(super) async fn handshake(&self, initialize: JsonRpcRequest) -> Result<(), BoxError> {
        let session = &self.layer.session;
        let extra = initialize.extensions().get::<ExtraHeaders>().cloned();
        let handshake = session.begin_again();
        // By chance no id of the application's, which knows nothing of this request.
        let id = format!(
            "mcp-streamable-http:initialize:{:016x}",
            RandomState::new().hash_one(handshake.number())
        );
        let initialize = JsonRpcRequest::new(id, "initialize", initialize.params().cloned());
        let sent = self.post(initialize.into(), extra.clone(), |request| {
            request.extensions_mut().insert(handshake);
        });
        let (head, mut events) = sent.await?.into_parts();
        let id = head.headers.get(MCP_SESSION_ID).filter(|id| !id.is_empty()).cloned();
        self.await_result(&mut events, id.as_ref(), &extra).await?;
        drop(events);
        if session.current_handshake() != handshake {
            self.end(id, &extra).await;
            return Ok(());
        }
        let initialized = JsonRpcMessage::notification("notifications/initialized", ());
        // Servers that refuse it work nonetheless; if not, the next request will tell.
        let accepted = self.post(initialized, extra, |_| {}).await?;
        if !accepted.status().is_success() {
            tracing::debug!(status = %accepted.status(), "the server has not accepted `notifications/initialized`");
        }
        Ok(())
    }

    /// Reads on until the result. A server may ask first whether anybody is there (MCP 2025-11-25 §Lifecycle).
    async fn await_result(
        &self,
        events: &mut Events,
        id: Option<&HeaderValue>,
        extra: &Option<ExtraHeaders>,
    ) -> Result<(), BoxError> {
        loop {
            let event = std::future::poll_fn(|cx| Pin::new(&mut *events).poll_next(cx)).await;
            match event.ok_or(EndedStream)??.message {
                Some(JsonRpcMessage::Response(response)) => {
                    return match response.into_outcome() {
                        Ok(_) => Ok(()),
                        Err(error) => Err(error.to_string().into()),
                    };
                }
                Some(JsonRpcMessage::Request(ping)) if ping.method() == "ping" => {
                    let pong = JsonRpcMessage::response(ping.id().clone(), json!({}));
                    self.post(pong, extra.clone(), |request| self.claim(request, id)).await?;
                }
                _ => {}
            }
        }
    }

    /// Ends a session that has lost against one of the application's.
    async fn end(&self, id: Option<HeaderValue>, extra: &Option<ExtraHeaders>) {
        if id.is_some() {
            let mut delete = self.layer.endpoint.delete();
            extend(&mut delete, extra.clone().map(options).unwrap_or_default());
            self.claim(&mut delete, id.as_ref());
            if self.service.clone().oneshot(delete).await.is_err() {
                tracing::debug!("a session that never came into use was not ended");
            }
        }
    }

    async fn post(
        &self,
        message: JsonRpcMessage,
        extra: Option<ExtraHeaders>,
        prepare: impl FnOnce(&mut Request<Payload>),
    ) -> Result<Response<Events>, BoxError> {
        let mut request = self.layer.endpoint.post(message);
        extend(&mut request, extra.map(options).unwrap_or_default());
        prepare(&mut request);
        self.service.clone().oneshot(request).await.map_err(Into::into)
    }

    /// Puts a request into a session that is not, or not yet, the connection's.
    fn claim(&self, request: &mut Request<Payload>, id: Option<&HeaderValue>) {
        let version = self.layer.session.version();
        if let (Some(id), Some(version)) = (id, version) {
            let mut id = id.clone();
            id.set_sensitive(true);
            request.headers_mut().insert(MCP_SESSION_ID, id);
            request.headers_mut().insert(MCP_PROTOCOL_VERSION, version.to_header());
        }
    }
}

fn options(extra: ExtraHeaders) -> http::Extensions {
    let mut options = http::Extensions::new();
    options.insert(extra);
    options
}
