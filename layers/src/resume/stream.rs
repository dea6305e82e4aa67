//! One stream over several connections.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures_core::Stream;
use http::{Request, Response, StatusCode};
use tokio::runtime::Handle;
use tokio::time::Sleep;
use tower::ServiceExt;
use tower_service::Service;

use super::future::Plan;
use super::{End, Over, Trail, ends};
use crate::endpoint::extend;
use crate::error::{BoxError, GaveUp, InvalidMessage, SessionExpired, UnexpectedContent, UnexpectedStatus};
use crate::headers::{LAST_EVENT_ID, is_mirrored};
use crate::options::{FirstByte, Pinned, ResumeFrom};
use crate::payload::Resumes;
use crate::{Event, Events, JsonRpcMessage, Payload};

type Opening = Pin<Box<dyn Future<Output = Result<Response<Events>, BoxError>> + Send>>;

/// So many events may be dropped before other tasks get their turn.
const DROPPED_PER_POLL: usize = 64;

/// The events of a request's answer, up to the response, on as many connections as it takes.
pub(super) struct Resumable<S> {
    state: State,
    plan: Plan<S>,
    pinned: Pinned,
    trail: Trail,
    over: Over,
}

/// The service is only ever cloned, never pinned.
impl<S> Unpin for Resumable<S> {}

enum State {
    Reading(Pin<Box<dyn Stream<Item = Result<Event, BoxError>> + Send>>),
    Waiting(Pin<Box<Sleep>>),
    Opening(Opening),
    Ended,
}

impl<S> Resumable<S>
where
    S: Service<Request<Payload>, Response = Response<Events>> + Clone + Send + Sync + 'static,
    S::Error: Into<BoxError>,
    S::Future: Send,
{
    /// `events` is the stream that is open; `None`: it is yet to be opened.
    pub(super) fn new(plan: Plan<S>, events: Option<Events>, pinned: Pinned, trail: Trail) -> Self {
        let mut this = Self { state: State::Ended, plan, pinned, trail, over: Over::default() };
        this.state = match events {
            Some(events) => State::Reading(events.into_stream()),
            None => State::Opening(this.open()),
        };
        this
    }

    /// The GET that goes on with the stream.
    fn open(&self) -> Opening {
        let mut get = self.plan.again.layer.endpoint.get();
        extend(&mut get, self.plan.options.clone());
        let mirrored: Vec<_> = get.headers().keys().filter(|name| is_mirrored(name)).cloned().collect();
        for name in mirrored {
            get.headers_mut().remove(name);
        }
        if let Some(position) = self.trail.position() {
            get.headers_mut().insert(LAST_EVENT_ID, position.clone());
        }
        let options = get.extensions_mut();
        // The bound of a POST: a server may send the head of a stream with its first event.
        options.remove::<FirstByte>();
        options.remove::<ResumeFrom>();
        options.insert(self.pinned.clone());
        options.insert(Resumes(self.plan.id.clone()));
        let opening = self.plan.again.service.clone().oneshot(get);
        Box::pin(async move { opening.await.map_err(Into::into) })
    }

    /// A connection has ended, with `error` if it broke.
    fn reconnect(&mut self, end: End, error: Option<BoxError>) -> Option<BoxError> {
        if !self.plan.again.layer.session.is_current(&self.pinned) {
            return Some(SessionExpired::in_flight().into());
        }
        if !self.trail.can_go_on() || Handle::try_current().is_err() {
            return error;
        }
        match self.trail.ended(end) {
            Ok(wait) => {
                tracing::debug!(request.id = %self.plan.id, ?end, ?wait, "the stream of a request is to be resumed");
                self.wait(wait);
                None
            }
            Err(error) => Some(error),
        }
    }

    /// An attempt to reconnect has failed.
    fn failed(&mut self, error: BoxError) -> Option<BoxError> {
        if error.is::<SessionExpired>() {
            return Some(SessionExpired::in_flight().into());
        }
        // Without a runtime there is no clock to wait by.
        if !may_heal(&error) || Handle::try_current().is_err() {
            return Some(GaveUp::new(self.trail.fail(), Some(error)).into());
        }
        tracing::debug!(request.id = %self.plan.id, %error, "the stream of a request was not resumed");
        match self.trail.failed(Some(error)) {
            Ok(wait) => {
                self.wait(wait);
                None
            }
            Err(error) => Some(error),
        }
    }

    fn wait(&mut self, wait: std::time::Duration) {
        self.over.reset();
        self.state = State::Waiting(Box::pin(tokio::time::sleep(wait)));
    }

    fn end(&mut self) {
        self.state = State::Ended;
        self.over.reset();
    }

    /// Waits for what would make waiting for the server useless.
    fn poll_over(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Event, BoxError>>> {
        let (session, grace) = (&self.plan.again.layer.session, self.plan.again.layer.grace);
        ready!(match &self.state {
            // What is under way may still arrive.
            State::Reading(_) => self.over.poll_succeeded(session, &self.pinned, grace, cx),
            _ => self.over.poll_ended(session, &self.pinned, cx),
        });
        self.end();
        Poll::Ready(Some(Err(SessionExpired::in_flight().into())))
    }
}

/// Whether an attempt that failed like this can do better the next time.
pub(crate) fn may_heal(error: &BoxError) -> bool {
    const PASSING: [StatusCode; 3] =
        [StatusCode::REQUEST_TIMEOUT, StatusCode::CONFLICT, StatusCode::TOO_MANY_REQUESTS];
    match error.downcast_ref::<UnexpectedStatus>().map(UnexpectedStatus::status) {
        Some(status) => status.is_server_error() || PASSING.contains(&status),
        None => !error.is::<UnexpectedContent>() && !error.is::<InvalidMessage>(),
    }
}

impl<S> Stream for Resumable<S>
where
    S: Service<Request<Payload>, Response = Response<Events>> + Clone + Send + Sync + 'static,
    S::Error: Into<BoxError>,
    S::Future: Send,
{
    type Item = Result<Event, BoxError>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        for _ in 0..DROPPED_PER_POLL {
            let failure = match &mut this.state {
                State::Reading(events) => match events.as_mut().poll_next(cx) {
                    Poll::Ready(Some(Ok(event))) => {
                        if event.message.as_ref().is_some_and(is_response) {
                            this.end();
                        }
                        if this.trail.pass(&event) {
                            return Poll::Ready(Some(Ok(event)));
                        }
                        continue;
                    }
                    Poll::Ready(Some(Err(error))) if ends(&error) => this.reconnect(End::Broken, Some(error)),
                    Poll::Ready(Some(Err(error))) => Some(error),
                    Poll::Ready(None) => this.reconnect(End::Clean, None),
                    Poll::Pending => return this.poll_over(cx),
                },
                State::Waiting(sleep) => {
                    if sleep.as_mut().poll(cx).is_pending() {
                        return this.poll_over(cx);
                    }
                    this.state = State::Opening(this.open());
                    continue;
                }
                State::Opening(opening) => match opening.as_mut().poll(cx) {
                    Poll::Ready(Ok(response)) if response.body().is_stream() => {
                        this.over.reset();
                        this.trail.opened(true);
                        this.state = State::Reading(response.into_body().into_stream());
                        // The break is over.
                        return Poll::Ready(Some(Ok(Event::default())));
                    }
                    Poll::Ready(Ok(response)) => match response.into_body().ready_error() {
                        Some(error) => this.failed(error),
                        // It was accepted, and that was all.
                        None => {
                            this.trail.opened(true);
                            this.reconnect(End::Clean, None)
                        }
                    },
                    Poll::Ready(Err(error)) => this.failed(error),
                    Poll::Pending => return this.poll_over(cx),
                },
                State::Ended => return Poll::Ready(None),
            };
            if let Some(error) = failure {
                this.end();
                return Poll::Ready(Some(Err(error)));
            }
            return Poll::Ready(match this.state {
                State::Waiting(_) => Some(Ok(Event::BREAK)),
                // There is nothing to resume from: it ends as it is.
                _ => {
                    this.end();
                    None
                }
            });
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

fn is_response(message: &JsonRpcMessage) -> bool {
    message.as_response().is_some()
}
