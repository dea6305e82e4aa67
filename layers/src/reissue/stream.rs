//! Replies that go on in another call.

use std::future::Future;
use std::ops::ControlFlow;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use futures_core::Stream;
use tokio::runtime::Handle;
use tokio::time::Sleep;
use tower_service::Service;

use super::call::{Kind, Plan, is_break};
use super::future::HEADER_MISMATCH;
use super::rename::Rename;
use crate::backoff::Attempts;
use crate::error::{BoxError, Error};
use crate::options::Gap;
use crate::resume::{End, Trail};
use crate::{Event, JsonRpcMessage, Reply};

type Item = Result<Event, BoxError>;
type Again = Pin<Box<dyn Future<Output = Result<Reply, Error>> + Send>>;

/// A reply under another id than the one that its request was sent with.
pub(super) struct Renamed {
    reply: Reply,
    rename: Rename,
}

impl Renamed {
    pub(super) fn new(reply: Reply, rename: Rename) -> Self {
        Self { reply, rename }
    }
}

impl Stream for Renamed {
    type Item = Item;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Item>> {
        let this = self.get_mut();
        let item = ready!(Pin::new(&mut this.reply).poll_next(cx));
        Poll::Ready(
            item.map(|item| item.map(|message| this.rename.apply(message).into()).map_err(BoxError::from)),
        )
    }
}

/// The reply to a request that is sent once more if its stream breaks, or says that its headers did not match.
pub(super) struct Reissuing<S> {
    reply: Reply,
    /// `None`: it was sent again.
    plan: Option<Arc<Plan<S>>>,
    again: Option<Again>,
    is_first: bool,
}

impl<S> Reissuing<S> {
    pub(super) fn new(reply: Reply, plan: Arc<Plan<S>>) -> Self {
        Self { reply, plan: Some(plan), again: None, is_first: true }
    }
}

/// The service is only ever cloned, never pinned.
impl<S> Unpin for Reissuing<S> {}

impl<S> Reissuing<S>
where
    S: Service<JsonRpcMessage, Response = Reply> + Clone + Send + Sync + 'static,
    S::Error: Into<BoxError>,
    S::Future: Send,
{
    /// The second call that an item asks for, or the item, to be handed on.
    fn again(
        &mut self,
        item: Result<JsonRpcMessage, Error>,
    ) -> ControlFlow<Result<JsonRpcMessage, Error>, Again> {
        let is_first = std::mem::take(&mut self.is_first);
        let Some(plan) = self.plan.clone() else { return ControlFlow::Break(item) };
        match item {
            Err(error) if plan.is_repeatable && is_break(&error) => {
                ControlFlow::Continue(Box::pin(plan.send_after_break()))
            }
            Ok(message) if is_first && plan.kind == Kind::ToolCall && is_mismatch(&message) => {
                ControlFlow::Continue(Box::pin(plan.refresh_and_send(message)))
            }
            item => ControlFlow::Break(item),
        }
    }
}

fn is_mismatch(message: &JsonRpcMessage) -> bool {
    let refusal = message.as_response().and_then(|response| response.outcome().err());
    refusal.is_some_and(|error| error.code() == HEADER_MISMATCH)
}

impl<S> Stream for Reissuing<S>
where
    S: Service<JsonRpcMessage, Response = Reply> + Clone + Send + Sync + 'static,
    S::Error: Into<BoxError>,
    S::Future: Send,
{
    type Item = Item;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Item>> {
        let this = self.get_mut();
        loop {
            if let Some(again) = &mut this.again {
                this.reply = ready!(again.as_mut().poll(cx)).map_err(BoxError::from)?;
                this.again = None;
            }
            let Some(item) = ready!(Pin::new(&mut this.reply).poll_next(cx)) else {
                return Poll::Ready(None);
            };
            match this.again(item) {
                ControlFlow::Continue(again) => {
                    this.plan = None;
                    this.again = Some(again);
                }
                ControlFlow::Break(item) => {
                    return Poll::Ready(Some(item.map(Event::from).map_err(BoxError::from)));
                }
            }
        }
    }
}

/// The reply to a `subscriptions/listen`, which is sent again whenever its stream breaks.
pub(super) struct Relistening<S> {
    state: State,
    plan: Arc<Plan<S>>,
    trail: Trail,
    /// Whether the next message is the first after a break.
    after_gap: bool,
    /// The server has ended the subscription, and is about to end its stream.
    is_over: bool,
}

#[expect(clippy::large_enum_variant, reason = "the stream lives in a box")]
enum State {
    Reading(Reply),
    Waiting(Pin<Box<Sleep>>),
    Opening(Again),
    Ended,
}

impl<S> Relistening<S> {
    pub(super) fn new(reply: Reply, plan: Arc<Plan<S>>) -> Self {
        let trail = Trail::new(plan.again.layer.backoff.clone(), Attempts::default());
        Self { state: State::Reading(reply), plan, trail, after_gap: false, is_over: false }
    }

    /// What a message means for the subscription, and to the caller.
    fn pass(&mut self, mut message: JsonRpcMessage) -> Event {
        self.trail.never_give_up();
        self.trail.lasted();
        let cancelled = message.as_notification().and_then(|frame| frame.cancelled_request());
        // MCP 2026-07-28 §Cancellation: so a server ends a subscription.
        self.is_over |= cancelled.as_ref() == Some(self.plan.id());
        if std::mem::take(&mut self.after_gap) {
            message.extensions_mut().insert(Gap);
        }
        if message.as_response().is_some() {
            self.state = State::Ended;
        }
        message.into()
    }

    /// After a break, or an attempt that has failed: waits, or fails.
    fn retry(&mut self, error: Error, is_break: bool) -> Option<Item> {
        if self.is_over || Handle::try_current().is_err() {
            self.state = State::Ended;
            return Some(Err(error.into()));
        }
        let wait =
            if is_break { self.trail.ended(End::Broken) } else { self.trail.failed(Some(error.into())) };
        match wait {
            Ok(wait) => {
                tracing::debug!(request.id = %self.plan.id(), ?wait, "a subscription is to be opened again");
                self.after_gap = true;
                self.state = State::Waiting(Box::pin(tokio::time::sleep(wait)));
                None
            }
            Err(error) => {
                self.state = State::Ended;
                Some(Err(error))
            }
        }
    }
}

/// The service is only ever cloned, never pinned.
impl<S> Unpin for Relistening<S> {}

impl<S> Stream for Relistening<S>
where
    S: Service<JsonRpcMessage, Response = Reply> + Clone + Send + Sync + 'static,
    S::Error: Into<BoxError>,
    S::Future: Send,
{
    type Item = Item;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Item>> {
        let this = self.get_mut();
        loop {
            let item = match &mut this.state {
                State::Reading(reply) => match ready!(Pin::new(reply).poll_next(cx)) {
                    Some(Ok(message)) => Some(Ok(this.pass(message))),
                    Some(Err(error)) if is_break(&error) => this.retry(error, true),
                    Some(Err(error)) => Some(Err(error.into())),
                    None => return Poll::Ready(None),
                },
                State::Waiting(sleep) => {
                    ready!(sleep.as_mut().poll(cx));
                    this.state = State::Opening(Box::pin(this.plan.clone().send()));
                    None
                }
                State::Opening(opening) => match ready!(opening.as_mut().poll(cx)) {
                    Ok(reply) => {
                        this.trail.opened(true);
                        this.state = State::Reading(reply);
                        None
                    }
                    Err(error) if may_heal(&error) => this.retry(error, false),
                    Err(error) => {
                        this.state = State::Ended;
                        Some(Err(error.into()))
                    }
                },
                State::Ended => return Poll::Ready(None),
            };
            if let Some(item) = item {
                return Poll::Ready(Some(item));
            }
        }
    }
}

/// Whether an attempt to subscribe that failed like this can do better the next time.
fn may_heal(error: &Error) -> bool {
    match error.status() {
        Some(status) => status.is_server_error() || [408, 409, 429].contains(&status.as_u16()),
        None => error.is_connect() || error.is_timeout() || is_break(error),
    }
}
