//! Resume the stream of a request that ends before the response.
//!
//! # Example
//!
//! ```
//! use http::{Method, Request, Response};
//! use mcp_streamable_http_layers::error::BoxError;
//! use mcp_streamable_http_layers::{
//!     Backoff, Endpoint, Event, Events, JsonRpcMessage, Payload, ResumeLayer, Session, SetSessionIdLayer,
//! };
//! use serde_json::json;
//! use tower::{ServiceBuilder, ServiceExt, service_fn};
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> Result<(), mcp_streamable_http_layers::error::BoxError> {
//! // A server that hangs up after an event with an id, and sends the response on the GET that comes then.
//! let server = service_fn(|request: Request<Payload>| async move {
//!     let event = match *request.method() {
//!         Method::GET => {
//!             assert_eq!(request.headers()["last-event-id"], "e1");
//!             Event::from(JsonRpcMessage::response(1, json!({ "sum": 5 })))
//!         }
//!         _ => {
//!             let mut event = Event::default();
//!             event.id = Some("e1".into());
//!             event
//!         }
//!     };
//!     Ok::<_, BoxError>(Response::new(Events::new(futures_util::stream::iter([Ok(event)]))))
//! });
//! let session = Session::new();
//! let endpoint = Endpoint::new("http://localhost/mcp".parse()?)?;
//! let service = ServiceBuilder::new()
//!     .layer(ResumeLayer::new(endpoint.clone(), session.clone(), Backoff::default()))
//!     .layer(SetSessionIdLayer::new(session))
//!     .service(server);
//!
//! let call = endpoint.post(JsonRpcMessage::request(1, "tools/call", ()));
//! let events: Vec<_> = futures_util::StreamExt::collect(service.oneshot(call).await?.into_body()).await;
//! assert!(events.last().is_some_and(|event| event.as_ref().is_ok_and(|event| event.message.is_some())));
//! # Ok(())
//! # }
//! ```
//!
//! Without resuming, but for the rest of what the layer does:
//!
//! ```
//! use mcp_streamable_http_layers::{Backoff, Endpoint, ResumeLayer, Session};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let endpoint = Endpoint::new("http://localhost/mcp".parse()?)?;
//! let layer = ResumeLayer::new(endpoint, Session::new(), Backoff::default().attempts(0));
//! # let _ = layer;
//! # Ok(())
//! # }
//! ```

mod future;
mod over;
mod stream;
mod trail;

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::{Request, Response};
use tower_layer::Layer;
use tower_service::Service;

pub use self::future::ResponseFuture;
pub(crate) use self::over::{Over, ends};
pub(crate) use self::stream::may_heal;
pub(crate) use self::trail::{End, Trail};

use self::future::Plan;
use crate::error::{BoxError, InvalidMessage};
use crate::options::ResumeFrom;
use crate::{Backoff, Endpoint, Events, JsonRpcMessage, Payload, Session};

/// Applies [`Resume`]: see the [module's documentation](self).
#[derive(Clone, Debug)]
pub struct ResumeLayer {
    endpoint: Endpoint,
    session: Session,
    backoff: Backoff,
    grace: Duration,
}

impl ResumeLayer {
    /// Sends the GETs to `endpoint`, after the waits of `backoff`, as long as the request's own session is that of
    /// `session`.
    pub fn new(endpoint: Endpoint, session: Session, backoff: Backoff) -> Self {
        Self { endpoint, session, backoff, grace: Duration::from_secs(5) }
    }

    /// How long a stream of a session that is over may still bring its response, once there is another session; 5 s by
    /// default.
    #[must_use]
    pub fn grace(self, grace: Duration) -> Self {
        Self { grace, ..self }
    }
}

impl<S: Clone> Layer<S> for ResumeLayer {
    type Service = Resume<S>;

    fn layer(&self, inner: S) -> Self::Service {
        let again = Arc::new(Again { service: inner.clone(), layer: self.clone() });
        Resume { inner, again }
    }
}

/// Takes up the stream of a request's answer again when it ends before the response (MCP 2025-11-25 §Resumability and
/// Redelivery).
///
/// It is done with a GET whose `Last-Event-ID` is the last id on that very stream, in the session and with the version that
/// the request was sent with, after the waits of a [`Backoff`]. A stream without ids is not resumed: it ends as it is.
/// The response gets the request's id. An event that was delivered before (one of the last 1,024 with an id) is dropped.
///
/// | what happens | what is done |
/// |---|---|
/// | the server ends the stream, after it has sent `retry:` | it is polled: no attempt is counted, the waits double after the fifth poll without a message |
/// | it ends the stream otherwise, or the connection breaks | the next GET; an attempt has failed if there was no new event |
/// | the GET is answered 408, 409, 429, 5xx, or not at all | the next GET, not before `Retry-After`; an attempt has failed |
/// | any other status or content type | the request fails with [`GaveUp`](crate::error::GaveUp) |
/// | [`Backoff::attempts`] have failed since there was a new event | the same |
/// | the server asks for a longer wait than [`Backoff::max_retry`] | the request fails with [`RetryTooLong`](crate::error::RetryTooLong) |
/// | the session ends | no further GET; the stream that is open may bring the response until it ends, or for [5 s](ResumeLayer::grace) in the next session; then the request fails with [`SessionExpired`](crate::error::SessionExpired) |
///
/// Dropping the events ends all of it, the waiting included. A request with [`ResumeFrom`] begins with the GET. In the
/// modern era, which knows no resuming, it does nothing. Outside a tokio runtime there is no clock, and nothing is resumed.
///
/// It sits outside of [`SetSessionId`](crate::SetSessionId), which tells it the session of each stream.
#[derive(Clone, Debug)]
pub struct Resume<S> {
    inner: S,
    /// Shared, as most calls have no use for it.
    again: Arc<Again<S>>,
}

/// What it takes to send a GET.
#[derive(Debug)]
struct Again<S> {
    service: S,
    layer: ResumeLayer,
}

impl<S> Service<Request<Payload>> for Resume<S>
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
        let Some(JsonRpcMessage::Request(message)) = request.body().message() else {
            return ResponseFuture::posted(self.inner.call(request), None);
        };
        let from = request.extensions().get::<ResumeFrom>();
        let plan = |options| Plan { again: self.again.clone(), id: message.id().clone(), options };
        match from {
            None if message.is_initialize() => ResponseFuture::posted(self.inner.call(request), None),
            None => {
                let plan = plan(request.extensions().clone());
                ResponseFuture::posted(self.inner.call(request), Some(plan))
            }
            Some(from) => {
                let outcome = match self.again.layer.session.claim_for(&request) {
                    Ok(Some(pinned)) => plan(request.extensions().clone()).resume_from(&from.0, pinned),
                    Ok(None) => Err(InvalidMessage::new("the modern era cannot resume a stream").into()),
                    Err(expired) => Err(expired.into()),
                };
                ResponseFuture::resumed(outcome)
            }
        }
    }
}
