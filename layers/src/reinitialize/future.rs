//! The response future of the reinitialize layer.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use http::{Request, Response};
use pin_project_lite::pin_project;
use tokio::runtime::Handle;
use tower::ServiceExt;
use tower_service::Service;

use super::{Again, ReinitializePolicy, Replay};
use crate::error::{BoxError, SessionExpired, TimedOut};
use crate::session::Expiry;
use crate::{Events, JsonRpcMessage, Payload};

type Second = Pin<Box<dyn Future<Output = Result<Response<Events>, BoxError>> + Send>>;

pin_project! {
    /// The response future of [`Reinitialize`](super::Reinitialize).
    #[must_use = "futures do nothing unless polled"]
    pub struct ResponseFuture<S>
    where
        S: Service<Request<Payload>>,
    {
        #[pin]
        state: State<S::Future>,
        again: Option<(Arc<Again<S>>, Replay)>,
    }
}

pin_project! {
    #[project = StateProj]
    enum State<F> {
        First { #[pin] call: F },
        Again { call: Second },
    }
}

impl<S: Service<Request<Payload>>> ResponseFuture<S> {
    pub(super) fn new(call: S::Future, again: Option<(Arc<Again<S>>, Replay)>) -> Self {
        Self { state: State::First { call }, again }
    }
}

impl<S> Future for ResponseFuture<S>
where
    S: Service<Request<Payload>, Response = Response<Events>> + Clone + Send + Sync + 'static,
    S::Error: Into<BoxError>,
    S::Future: Send,
{
    type Output = Result<Response<Events>, BoxError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        loop {
            let error = match this.state.as_mut().project() {
                StateProj::First { call } => match ready!(call.poll(cx)).map_err(Into::into) {
                    Err(error) if error.is::<SessionExpired>() => error,
                    outcome => return Poll::Ready(outcome),
                },
                StateProj::Again { call } => return call.as_mut().poll(cx),
            };
            let Some((again, replay)) = this.again.take() else { return Poll::Ready(Err(error)) };
            // This drops the first call: what limits calls below would count both.
            this.state.set(State::Again { call: Box::pin(again.send(replay, error)) });
        }
    }
}

impl<S> Again<S>
where
    S: Service<Request<Payload>, Response = Response<Events>> + Clone + Send + Sync + 'static,
    S::Error: Into<BoxError>,
    S::Future: Send,
{
    /// Sends a request again in another session, which it starts if nobody else has. `error` is what it met.
    async fn send(self: Arc<Self>, replay: Replay, error: BoxError) -> Result<Response<Events>, BoxError> {
        let session = self.layer.session.clone();
        let failed_before = session.failed_renewals();
        // Whoever is at it may not be polled: that must not hold up the others for ever.
        let Ok(renewal) = self.within(session.renewal()).await else { return Err(error) };
        match session.expiry() {
            // Someone has tried while this one waited, and it would be no use to everyone to try it in turn.
            Expiry::Renewable(_) if session.failed_renewals() != failed_before => return Err(error),
            Expiry::Renewable(initialize) => {
                if let Err(cause) = self.within(self.handshake(*initialize)).await.and_then(|outcome| outcome)
                {
                    session.note_failed_renewal();
                    tracing::warn!(error = %crate::Error::new(cause), "no new session could be started");
                    return Err(error);
                }
                tracing::info!("the session had expired, and a new one has begun");
            }
            Expiry::Over => {}
            Expiry::Final => return Err(error),
        }
        drop(renewal);
        let is_same_version = session.version().as_ref() == replay.sent_in.version();
        if self.layer.policy != ReinitializePolicy::Replay || !is_same_version {
            return Err(error);
        }
        if let Some(id) = replay.payload.message().and_then(JsonRpcMessage::id) {
            if session.is_cancelled(id) {
                return Err(error);
            }
            session.note_replay(id);
        }
        self.service.clone().oneshot(self.layer.rebuild(replay)).await.map_err(Into::into)
    }

    /// Waits for `step`, for as long as a handshake may take.
    async fn within<T>(&self, step: impl Future<Output = T>) -> Result<T, BoxError> {
        let timeout = self.layer.timeout;
        match Handle::try_current() {
            Ok(_) => tokio::time::timeout(timeout, step).await.map_err(|_| {
                TimedOut::new("the handshake of a new session", "handshake_timeout", timeout).into()
            }),
            Err(_) => Ok(step.await),
        }
    }
}

impl<S: Service<Request<Payload>>> std::fmt::Debug for ResponseFuture<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ResponseFuture").finish_non_exhaustive()
    }
}
