//! The response future of the reissue layer.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;
use tower_service::Service;

use super::call::{Kind, Plan, is_break};
use super::stream::{Reissuing, Relistening};
use crate::error::{BoxError, Error};
use crate::{JsonRpcMessage, Reply};

/// MCP 2026-07-28 §Server Validation.
pub(super) const HEADER_MISMATCH: i64 = -32020;

type Again = Pin<Box<dyn Future<Output = Result<Reply, Error>> + Send>>;

pin_project! {
    /// The response future of [`Reissue`](super::Reissue).
    #[must_use = "futures do nothing unless polled"]
    pub struct ResponseFuture<S>
    where
        S: Service<JsonRpcMessage>,
    {
        #[pin]
        state: State<S::Future>,
        plan: Option<Plan<S>>,
    }
}

pin_project! {
    #[project = StateProj]
    enum State<F> {
        First { #[pin] call: F },
        Again { call: Again },
    }
}

impl<S: Service<JsonRpcMessage>> ResponseFuture<S> {
    pub(super) fn new(call: S::Future, plan: Option<Plan<S>>) -> Self {
        Self { state: State::First { call }, plan }
    }
}

impl<S> Future for ResponseFuture<S>
where
    S: Service<JsonRpcMessage, Response = Reply> + Clone + Send + Sync + 'static,
    S::Error: Into<BoxError>,
    S::Future: Send,
{
    type Output = Result<Reply, Error>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        loop {
            let outcome = match this.state.as_mut().project() {
                StateProj::First { call } => ready!(call.poll(cx)).map_err(Error::new),
                StateProj::Again { call } => return call.as_mut().poll(cx),
            };
            let Some(plan) = this.plan.take() else { return Poll::Ready(outcome) };
            let again: Again = match (outcome, plan.kind) {
                (Ok(mut reply), Kind::ToolCall) if reply.ready_error_code() == Some(HEADER_MISMATCH) => {
                    match reply.take_ready() {
                        Some(refusal) => Box::pin(Arc::new(plan).refresh_and_send(refusal)),
                        None => return Poll::Ready(Ok(reply)),
                    }
                }
                (Ok(reply), Kind::Subscription) if reply.is_stream() => {
                    let id = plan.id().clone();
                    return Poll::Ready(
                        Ok(reply.rewrap(id, |reply| Relistening::new(reply, Arc::new(plan)))),
                    );
                }
                (Ok(reply), kind) if reply.is_stream() && (plan.is_repeatable || kind == Kind::ToolCall) => {
                    let id = plan.id().clone();
                    return Poll::Ready(Ok(reply.rewrap(id, |reply| Reissuing::new(reply, Arc::new(plan)))));
                }
                (Err(error), _) if plan.is_repeatable && is_break(&error) => {
                    Box::pin(Arc::new(plan).send_after_break())
                }
                (outcome, _) => return Poll::Ready(outcome),
            };
            // This drops the first call: what limits calls below would count both.
            this.state.set(State::Again { call: again });
        }
    }
}

impl<S: Service<JsonRpcMessage>> std::fmt::Debug for ResponseFuture<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ResponseFuture").finish_non_exhaustive()
    }
}
