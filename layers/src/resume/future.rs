//! The response future of the resume layer.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use http::{Extensions, Request, Response};
use pin_project_lite::pin_project;
use tower_service::Service;

use super::stream::Resumable;
use super::{Again, Trail};
use crate::backoff::Attempts;
use crate::error::{BoxError, InvalidMessage};
use crate::options::Pinned;
use crate::reply::Unopened;
use crate::{Events, Payload, RequestId};

pin_project! {
    /// The response future of [`Resume`](super::Resume).
    #[must_use = "futures do nothing unless polled"]
    pub struct ResponseFuture<S>
    where
        S: Service<Request<Payload>>,
    {
        #[pin]
        state: State<S::Future>,
        plan: Option<Plan<S>>,
    }
}

pin_project! {
    #[project = StateProj]
    enum State<F> {
        Posted { #[pin] call: F },
        Done { outcome: Option<Result<Response<Events>, BoxError>> },
    }
}

/// What it takes to resume the stream of a request.
pub(super) struct Plan<S> {
    pub(super) again: Arc<Again<S>>,
    pub(super) id: RequestId,
    pub(super) options: Extensions,
}

impl<S> Plan<S>
where
    S: Service<Request<Payload>, Response = Response<Events>> + Clone + Send + Sync + 'static,
    S::Error: Into<BoxError>,
    S::Future: Send,
{
    /// Follows a stream on to the response.
    fn follow(self, events: Events, pinned: Pinned) -> Events {
        let trail = self.trail();
        Events::new(Resumable::new(self, Some(events), pinned, trail))
    }

    /// Begins with the GET.
    pub(super) fn resume_from(self, id: &str, pinned: Pinned) -> Result<Response<Events>, BoxError> {
        let trail = self.trail().after(id);
        if trail.position().is_none() {
            return Err(InvalidMessage::new("the event id to resume from cannot be sent in a header").into());
        }
        let mut response = Response::new(Events::new(Resumable::new(self, None, pinned, trail)));
        response.extensions_mut().insert(Unopened);
        Ok(response)
    }

    fn trail(&self) -> Trail {
        let attempts = self.options.get::<Attempts>().cloned().unwrap_or_default();
        Trail::new(self.again.layer.backoff.clone(), attempts)
    }
}

impl<S: Service<Request<Payload>>> ResponseFuture<S> {
    pub(super) fn posted(call: S::Future, plan: Option<Plan<S>>) -> Self {
        Self { state: State::Posted { call }, plan }
    }

    pub(super) fn resumed(outcome: Result<Response<Events>, BoxError>) -> Self {
        Self { state: State::Done { outcome: Some(outcome) }, plan: None }
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
        let this = self.project();
        let mut response = match this.state.project() {
            StateProj::Posted { call } => ready!(call.poll(cx)).map_err(Into::into)?,
            StateProj::Done { outcome } => return outcome.take().map_or(Poll::Pending, Poll::Ready),
        };
        // Only streams of the legacy era belong to a session.
        let Some(plan) = this.plan.take().filter(|_| response.body().is_stream()) else {
            return Poll::Ready(Ok(response));
        };
        match response.extensions_mut().remove::<Pinned>() {
            Some(pinned) => Poll::Ready(Ok(response.map(|events| plan.follow(events, pinned)))),
            None => Poll::Ready(Ok(response)),
        }
    }
}

impl<S: Service<Request<Payload>>> std::fmt::Debug for ResponseFuture<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ResponseFuture").finish_non_exhaustive()
    }
}
