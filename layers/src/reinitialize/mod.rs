//! Start a new session when the server no longer knows the old one.
//!
//! # Example
//!
//! ```
//! use mcp_streamable_http_layers::{Endpoint, ReinitializeLayer, Session, SetSessionIdLayer};
//! use tower::ServiceBuilder;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let session = Session::new();
//! let endpoint = Endpoint::new("http://localhost/mcp".parse()?)?;
//! let layers = ServiceBuilder::new()
//!     .layer(ReinitializeLayer::new(endpoint, session.clone()))
//!     .layer(SetSessionIdLayer::new(session));
//! # let _ = layers;
//! # Ok(())
//! # }
//! ```
//!
//! For an application that must know before anything is sent in a new session:
//!
//! ```
//! use mcp_streamable_http_layers::{Endpoint, ReinitializeLayer, ReinitializePolicy, Session};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let endpoint = Endpoint::new("http://localhost/mcp".parse()?)?;
//! let layer = ReinitializeLayer::new(endpoint, Session::new()).policy(ReinitializePolicy::Fail);
//! # let _ = layer;
//! # Ok(())
//! # }
//! ```

mod future;
mod handshake;

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::{Extensions, Method, Request, Response};
use tower_layer::Layer;
use tower_service::Service;

pub use self::future::ResponseFuture;

use crate::endpoint::extend;
use crate::error::BoxError;
use crate::options::{Pinned, ResumeFrom};
use crate::payload::Resumes;
use crate::session::own_era;
use crate::{Endpoint, Era, Events, JsonRpcMessage, Payload, Session};

/// What to do when the server no longer knows the session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReinitializePolicy {
    /// Start another, and send the request again in it.
    #[default]
    Replay,
    /// Start another, but let the request fail: what it meant may be gone with the old one.
    Renew,
    /// Nothing: every request fails until the application sends `initialize` itself.
    Fail,
}

/// Applies [`Reinitialize`]: see the [module's documentation](self).
#[derive(Clone, Debug)]
pub struct ReinitializeLayer {
    endpoint: Endpoint,
    session: Session,
    policy: ReinitializePolicy,
    timeout: Duration,
}

impl ReinitializeLayer {
    /// Sends the handshake of `session` to `endpoint` again when it has expired.
    pub fn new(endpoint: Endpoint, session: Session) -> Self {
        Self { endpoint, session, policy: ReinitializePolicy::default(), timeout: Duration::from_secs(10) }
    }

    /// What to do; [`ReinitializePolicy::Replay`] by default.
    #[must_use]
    pub fn policy(self, policy: ReinitializePolicy) -> Self {
        Self { policy, ..self }
    }

    /// How long the handshake may take, `notifications/initialized` included; 10 s by default.
    #[must_use]
    pub fn timeout(self, timeout: Duration) -> Self {
        Self { timeout, ..self }
    }
}

impl<S: Clone> Layer<S> for ReinitializeLayer {
    type Service = Reinitialize<S>;

    fn layer(&self, inner: S) -> Self::Service {
        let again = Arc::new(Again { service: inner.clone(), layer: self.clone() });
        Reinitialize { inner, again }
    }
}

/// Starts a new session when a request finds that the server no longer knows the old one (MCP 2025-11-25 §Session
/// Management, rule 4), and sends the request again in it.
///
/// The handshake is the one that the session began with: the same `initialize`, under an id of this layer's, then
/// `notifications/initialized`. All requests that meet the end of the session wait for one handshake. If it fails, they fail
/// with [`SessionExpired`](crate::error::SessionExpired), and the next request tries it again.
///
/// - Requests and the listening GET are sent again, once. Notifications and responses are not, since what they speak of is
///   gone, and neither is a GET that resumes a stream; they fail with `SessionExpired`.
/// - Nothing is sent again if the new session speaks another protocol version.
/// - There is no new session if the old one expired before it had answered a request and was itself the replacement of another,
///   or if its `initialize` is not known.
/// - A request that is dropped meanwhile is not sent again. If it was the one that did the handshake, the next does it.
/// - If the caller sends an `initialize` of its own meanwhile, that one counts, and the session that loses is ended.
///
/// Whatever the application had told the server in the old session is gone: [`Session::watch`] tells when.
///
/// It sits outside of [`SetSessionId`](crate::SetSessionId), which finds the end of a session. The handshake needs a tokio
/// runtime for its time bound, and has none without.
#[derive(Clone, Debug)]
pub struct Reinitialize<S> {
    inner: S,
    /// Shared, as most calls have no use for it.
    again: Arc<Again<S>>,
}

/// What it takes to start a new session.
#[derive(Debug)]
struct Again<S> {
    service: S,
    layer: ReinitializeLayer,
}

/// A request as it can be sent again.
struct Replay {
    method: Method,
    payload: Payload,
    options: Extensions,
    sent_in: Pinned,
}

impl ReinitializeLayer {
    /// Takes note of a request that may be sent again in a new session.
    fn replay(&self, request: &Request<Payload>) -> Option<Replay> {
        match request.body().message() {
            Some(JsonRpcMessage::Request(message)) if !message.is_initialize() => {}
            None if request.method() == Method::GET => {}
            _ => return None,
        }
        let options = request.extensions();
        let is_bound = options.get::<Pinned>().is_some()
            || options.get::<Resumes>().is_some()
            || options.get::<ResumeFrom>().is_some();
        let sent_in = self.session.pin();
        let era = own_era(request).unwrap_or_else(|| sent_in.era());
        if self.policy == ReinitializePolicy::Fail || is_bound || era == Era::Modern {
            return None;
        }
        Some(Replay {
            method: request.method().clone(),
            payload: request.body().clone(),
            options: options.clone(),
            sent_in,
        })
    }

    fn rebuild(&self, replay: Replay) -> Request<Payload> {
        let mut request = match replay.method {
            Method::GET => self.endpoint.get(),
            _ => self.endpoint.post(replay.payload),
        };
        extend(&mut request, replay.options);
        request
    }
}

impl<S> Service<Request<Payload>> for Reinitialize<S>
where
    S: Service<Request<Payload>, Response = Response<Events>> + Clone + Send + Sync + 'static,
    S::Error: Into<BoxError>,
    S::Future: Send,
{
    type Response = Response<Events>;
    type Error = BoxError;
    type Future = ResponseFuture<S>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, request: Request<Payload>) -> Self::Future {
        let again = self.again.layer.replay(&request).map(|replay| (self.again.clone(), replay));
        ResponseFuture::new(self.inner.call(request), again)
    }
}
