//! The handshake in place of the application's.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::pin::Pin;
use std::time::Duration;

use futures_core::Stream;
use http::{Extensions, HeaderValue, Request, Response, StatusCode};
use serde_json::json;
use tokio::runtime::Handle;
use tower::ServiceExt;
use tower_service::Service;

use super::Again;
use crate::endpoint::extend;
use crate::error::{BoxError, EndedStream, Preview, SessionExpired};
use crate::headers::{MCP_PROTOCOL_VERSION, MCP_SESSION_ID};
use crate::options::ExtraHeaders;
use crate::session::Outside;
use crate::session_id::negotiated_version;
use crate::{Events, JsonRpcMessage, JsonRpcRequest, Payload, ProtocolVersion};

/// How long the acceptance of `notifications/initialized` is waited for.
const PATIENCE: Duration = Duration::from_secs(5);

/// A session that is not the connection's yet.
#[derive(Default)]
struct Candidate {
    id: Option<HeaderValue>,
    version: Option<ProtocolVersion>,
    /// What goes with every message of it.
    options: Extensions,
}

impl<S> Again<S>
where
    S: Service<Request<Payload>, Response = Response<Events>> + Clone + Send + Sync + 'static,
    S::Error: Into<BoxError>,
    S::Future: Send,
{
    /// Starts a session. It becomes the connection's when all of the handshake is over, so that nothing gets ahead of it.
    pub(super) async fn handshake(&self, initialize: JsonRpcRequest) -> Result<(), BoxError> {
        let session = &self.layer.session;
        let mut candidate = Candidate::default();
        candidate.options.insert(Outside);
        if let Some(extra) = initialize.extensions().get::<ExtraHeaders>() {
            candidate.options.insert(extra.clone());
        }
        let Some(handshake) = session.begin_again() else { return Ok(()) };
        // By chance no id of the application's, which knows nothing of this request.
        let chance = RandomState::new().hash_one(handshake.number());
        let id = format!("mcp-streamable-http:initialize:{chance:016x}");
        let again = JsonRpcRequest::new(id, "initialize", initialize.params().cloned());
        let (head, mut events) = self.post(again.into(), &candidate).await?.into_parts();
        candidate.id = head.headers.get(MCP_SESSION_ID).filter(|id| !id.is_empty()).cloned();
        if let Some(id) = &mut candidate.id {
            id.set_sensitive(true);
        }
        let version = self.await_version(&mut events, &candidate).await;
        drop(events);
        match version {
            Ok(version) => candidate.version = version,
            Err(error) => {
                self.end(&candidate).await;
                return Err(error);
            }
        }
        let mut is_known = true;
        if session.current_handshake() == handshake {
            is_known = self.notify(&candidate).await;
        }
        let Candidate { id, version, .. } = &candidate;
        if !session.establish(handshake, id.clone(), version.clone(), initialize) {
            // The application has begun another meanwhile.
            self.end(&candidate).await;
        } else if let (Some(id), false) = (id, is_known) {
            // It died before it answered anything, as another would.
            session.expire(id);
            return Err(SessionExpired::new(Some(StatusCode::NOT_FOUND)).into());
        }
        Ok(())
    }

    /// Reads on until the result. A server may ask first whether anybody is there (MCP 2025-11-25 §Lifecycle).
    async fn await_version(
        &self,
        events: &mut Events,
        candidate: &Candidate,
    ) -> Result<Option<ProtocolVersion>, BoxError> {
        loop {
            let event = std::future::poll_fn(|cx| Pin::new(&mut *events).poll_next(cx)).await;
            match event.ok_or(EndedStream)??.message {
                Some(JsonRpcMessage::Response(response)) => {
                    return match response.into_outcome() {
                        Ok(result) => Ok(negotiated_version(&result)?),
                        // Servers like to name the session.
                        Err(error) => Err(Preview::of(error.to_string().as_bytes()).to_string().into()),
                    };
                }
                Some(JsonRpcMessage::Request(ping)) if ping.method() == "ping" => {
                    let pong = JsonRpcMessage::response(ping.id().clone(), json!({}));
                    if self.post(pong, candidate).await.is_err() {
                        tracing::debug!("a ping during a handshake was not answered");
                    }
                }
                _ => {}
            }
        }
    }

    /// Ends the handshake. Servers that refuse this work nonetheless, unless they say that they do not know the session:
    /// returns whether they do.
    async fn notify(&self, candidate: &Candidate) -> bool {
        let initialized = JsonRpcMessage::notification("notifications/initialized", ());
        let sent = self.post(initialized, candidate);
        let accepted = match Handle::try_current() {
            Ok(_) => tokio::time::timeout(PATIENCE, sent).await.ok(),
            Err(_) => Some(sent.await),
        };
        let status = accepted.and_then(Result::ok).map(|answer| answer.status());
        if !status.is_some_and(|status| status.is_success()) {
            tracing::debug!(?status, "the server has not accepted `notifications/initialized`");
        }
        status != Some(StatusCode::NOT_FOUND)
    }

    /// Ends a session that is not needed.
    async fn end(&self, candidate: &Candidate) {
        if candidate.id.is_some() {
            let delete = candidate.claim(self.layer.endpoint.delete());
            if self.service.clone().oneshot(delete).await.is_err() {
                tracing::debug!("a session that never came into use was not ended");
            }
        }
    }

    async fn post(
        &self,
        message: JsonRpcMessage,
        candidate: &Candidate,
    ) -> Result<Response<Events>, BoxError> {
        let request = candidate.claim(self.layer.endpoint.post(message));
        self.service.clone().oneshot(request).await.map_err(Into::into)
    }
}

impl Candidate {
    /// Puts a request into the session, as far as it is known.
    fn claim(&self, mut request: Request<Payload>) -> Request<Payload> {
        extend(&mut request, self.options.clone());
        if let Some(id) = &self.id {
            request.headers_mut().insert(MCP_SESSION_ID, id.clone());
        }
        if let Some(version) = &self.version {
            request.headers_mut().insert(MCP_PROTOCOL_VERSION, version.to_header());
        }
        request
    }
}
