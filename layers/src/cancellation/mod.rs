//! Translate cancellation to what the era of each request understands.
//!
//! # Example
//!
//! Dropping a reply before its response cancels the request:
//!
//! ```
//! use mcp_streamable_http_layers::error::Error;
//! use mcp_streamable_http_layers::{Events, Expects, JsonRpcMessage, Reply, Session, TranslateCancelLayer};
//! use tokio::sync::mpsc;
//! use tower::{Service, ServiceBuilder, ServiceExt, service_fn};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let (sent, mut seen) = mpsc::unbounded_channel();
//! // A server that never answers.
//! let server = service_fn(move |message: JsonRpcMessage| {
//!     let _ = sent.send(message.to_string());
//!     let reply = match message.id() {
//!         Some(id) => Reply::new(Expects::Response(id.clone()), Events::new(futures_util::stream::pending())),
//!         None => Reply::new(Expects::Acceptance, Events::EMPTY),
//!     };
//!     std::future::ready(Ok::<_, Error>(reply))
//! });
//! let mut service = ServiceBuilder::new().layer(TranslateCancelLayer::new(Session::new())).service(server);
//!
//! let reply = service.ready().await?.call(JsonRpcMessage::request(1, "tools/call", ())).await?;
//! drop(reply);
//! assert!(seen.recv().await.is_some_and(|call| call.contains("tools/call")));
//! assert!(seen.recv().await.is_some_and(|cancel| cancel.contains("notifications/cancelled")));
//! # Ok(())
//! # }
//! ```

mod flight;
mod future;
mod guard;

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::HeaderMap;
use tokio::runtime::Handle;
use tower::util::Oneshot;
use tower_layer::Layer;
use tower_service::Service;

pub use self::future::ResponseFuture;
pub(crate) use self::guard::Guard;

use self::flight::{Cut, Flights};
use self::guard::{Notice, Post};
use crate::envelope::stamp;
use crate::error::{BoxError, Error};
use crate::options::{ExtraHeaders, QuietDrop};
use crate::{Era, JsonRpcMessage, JsonRpcNotification, Reply, Session};

/// How long the server may take to accept the news of a cancellation. Nobody waits for it.
const NOTICE_TIMEOUT: Duration = Duration::from_secs(5);

/// Applies [`TranslateCancel`]: see the [module's documentation](self).
#[derive(Clone, Debug)]
pub struct TranslateCancelLayer {
    session: Session,
    grace: Duration,
}

impl TranslateCancelLayer {
    /// Tells the era of a request that names none by `session`, and cancels only in the session that a request was
    /// sent in.
    pub fn new(session: Session) -> Self {
        Self { session, grace: Duration::from_secs(30) }
    }

    /// How long a request that the caller has cancelled with a `notifications/cancelled` may still bring its response; 30 s by
    /// default. Then its stream closes. Legacy era only: in the modern era it closes at once.
    #[must_use]
    pub fn grace(self, grace: Duration) -> Self {
        Self { grace, ..self }
    }
}

impl<S> Layer<S> for TranslateCancelLayer
where
    S: Service<JsonRpcMessage, Response = Reply> + Clone + Send + Sync + 'static,
    S::Error: Into<BoxError>,
    S::Future: Send,
{
    type Service = TranslateCancel<S>;

    fn layer(&self, inner: S) -> Self::Service {
        let below = inner.clone();
        let post: Post = Box::new(move |message| {
            let call = Oneshot::new(below.clone(), message);
            Box::pin(async move {
                let failure = match tokio::time::timeout(NOTICE_TIMEOUT, call).await {
                    Ok(Ok(_)) => return,
                    Ok(Err(error)) => Error::new(error).to_string(),
                    Err(elapsed) => elapsed.to_string(),
                };
                tracing::debug!(%failure, "the server was not told of a cancellation");
            })
        });
        let Self { session, grace } = self.clone();
        TranslateCancel { inner, desk: Arc::new(Desk { session, grace, flights: Flights::default(), post }) }
    }
}

/// Gives up requests, the way that the era of each wants it.
///
/// | | legacy (MCP 2025-11-25 §Cancellation) | modern (MCP 2026-07-28 §Transport-Specific Cancellation) |
/// |---|---|---|
/// | a reply, or the future of a call, is dropped before the response | `notifications/cancelled` is posted, in the background | the stream closes, which is the signal |
/// | a clock on this side runs out | the same | the same |
/// | the caller sends `notifications/cancelled` | it is posted; a late response is still delivered, for [30 s](TranslateCancelLayer::grace); a stream that ends without one is not taken up again, and the call fails with [`Cancelled`](crate::error::Cancelled) | the stream of that request closes, nothing is posted, and its call fails with [`Cancelled`](crate::error::Cancelled) |
///
/// The era is the one that *that* request was sent in; for an id that is not in flight, that of the connection.
///
/// A request under an id that is in flight takes the other's place: the stream of the other closes, its call fails with
/// [`Superseded`](crate::error::Superseded), and its late response reaches nobody. A response that arrives on a
/// request's stream under the id of another in flight fails with
/// [`ForeignResponse`](crate::error::ForeignResponse).
///
/// The background message carries the [`ExtraHeaders`] of the request, and is sent only in the session that the request
/// was sent in. There is none for `initialize`, for a request with `params.task` (`tasks/cancel` ends that one), for
/// one whose future was never polled, for one with a [`QuietDrop`] that is on, and outside a tokio runtime.
#[derive(Clone)]
pub struct TranslateCancel<S> {
    inner: S,
    desk: Arc<Desk>,
}

/// What the requests of one transport share.
struct Desk {
    session: Session,
    grace: Duration,
    flights: Flights,
    post: Post,
}

impl<S> TranslateCancel<S> {
    /// How many requests wait for their response.
    pub fn in_flight(&self) -> usize {
        self.desk.flights.len()
    }

    /// Whether a cancellation of the caller's has been dealt with, so that it is not to be sent.
    fn translate(&self, frame: &JsonRpcNotification) -> bool {
        match frame.cancelled_request().and_then(|id| self.desk.flights.get(&id)) {
            Some(flight) if flight.era == Era::Modern => {
                flight.sever(Cut::Cancelled);
                true
            }
            Some(flight) => {
                flight.announce();
                self.desk.session.note_cancelled(&flight.id);
                false
            }
            // Late, unknown or malformed: in the modern era it must not reach the wire either.
            None => self.desk.session.era() == Era::Modern,
        }
    }
}

impl<S> Service<JsonRpcMessage> for TranslateCancel<S>
where
    S: Service<JsonRpcMessage, Response = Reply>,
    S::Error: Into<BoxError>,
{
    type Response = Reply;
    type Error = Error;
    type Future = ResponseFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        self.inner.poll_ready(cx).map_err(Error::new)
    }

    fn call(&mut self, message: JsonRpcMessage) -> Self::Future {
        let request = match &message {
            JsonRpcMessage::Notification(frame) if frame.method() == "notifications/cancelled" => {
                if self.translate(frame) {
                    return ResponseFuture::done();
                }
                return ResponseFuture::new(self.inner.call(message), None);
            }
            JsonRpcMessage::Request(request) => request,
            _ => return ResponseFuture::new(self.inner.call(message), None),
        };
        let extra: Option<Box<ExtraHeaders>> = request.extensions().get().cloned().map(Box::new);
        let quiet: Option<QuietDrop> = request.extensions().get().cloned();
        let stamp = match &extra {
            Some(extra) => stamp(&message, &extra.0),
            None => stamp(&message, &HeaderMap::new()),
        };
        let (id, is_initialize, is_task) = (request.id().clone(), request.is_initialize(), request.is_task());
        self.desk.session.forget_cancelled(&id);
        let call = self.inner.call(message);
        // After the call, which has noted an `initialize`.
        let named = stamp.ok().flatten().filter(|_| !is_initialize);
        let sent_in = self.desk.session.pin();
        let era = named.map_or_else(|| sent_in.era(), |version| version.era());
        // MCP 2025-11-25 §Cancellation: not for `initialize`, nor for a task.
        let is_told = era == Era::Legacy && !is_initialize && !is_task;
        let runtime = if is_told { Handle::try_current().ok() } else { None };
        let notice = runtime.map(|runtime| Notice { runtime, sent_in, headers: extra, quiet });
        let flight = self.desk.flights.add(id, era);
        ResponseFuture::new(call, Some(Guard::new(self.desk.clone(), flight, notice)))
    }
}

impl<S: std::fmt::Debug> std::fmt::Debug for TranslateCancel<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TranslateCancel")
            .field("inner", &self.inner)
            .field("flights", &self.desk.flights)
            .finish_non_exhaustive()
    }
}
