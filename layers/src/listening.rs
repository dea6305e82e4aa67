//! The stream on which a server of the legacy era speaks of its own accord.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_core::Stream;
use http::{Request, Response};
use tokio::runtime::Handle;
use tokio::time::{Instant, Sleep};
use tower::ServiceExt;
use tower_service::Service;

use crate::backoff::Attempts;
use crate::error::{BoxError, GaveUp, NotOffered, SessionExpired, TooLarge};
use crate::headers::LAST_EVENT_ID;
use crate::options::Pinned;
use crate::resume::{End, Over, Trail, ends, may_heal};
use crate::{Backoff, Endpoint, Era, Event, Events, Payload, Session, SessionStatus};

type Opening = Pin<Box<dyn Future<Output = Result<Response<Events>, BoxError>> + Send>>;

/// So many steps are made before other tasks get their turn.
const STEPS_PER_POLL: usize = 64;

/// The events of the listening GET (MCP 2025-11-25 §Listening for Messages from the Server), on as many connections as it
/// takes: a stream for [`Events::new`].
///
/// It connects when it is first polled. An `Err` for an event that cannot be read is followed by others; any other is the
/// last item.
///
/// | what happens | what is done |
/// |---|---|
/// | there is no session, or the connection is of the modern era | it fails with [`NotOffered`], and no GET is sent |
/// | the GET is answered 4xx but for 408, 409, 429 and a challenge, or with another content type | the same, with the status |
/// | 401 or 403 with a challenge | it fails with that |
/// | 408, 409, 429, 5xx, no answer | the next GET, after the waits of a [`Backoff`]; when its attempts have failed before the server has accepted one, it fails |
/// | the server ends the stream, or the connection breaks | the next GET, with the `Last-Event-ID`, if there was an id; it is never given up |
/// | the session is replaced by another | the GET is closed, and opened anew in that one |
/// | the session is ended | it ends |
/// | an event is too large | it fails |
///
/// A stream that was open for [10 s](Self::stable_after) counts as progress, so that the waits begin again. Outside a tokio
/// runtime there is no clock, and it ends with its first connection.
pub struct Listening<S> {
    service: S,
    endpoint: Endpoint,
    session: Session,
    needs_session: bool,
    stable_after: Duration,
    trail: Trail,
    state: State,
    /// That of the stream that is open, or was last.
    pinned: Option<Pinned>,
    over: Over,
    opened: Option<Instant>,
    was_accepted: bool,
}

/// The service is only ever cloned, never pinned.
impl<S> Unpin for Listening<S> {}

enum State {
    Idle,
    Opening(Opening),
    Reading(Pin<Box<dyn Stream<Item = Result<Event, BoxError>> + Send>>),
    Waiting(Pin<Box<Sleep>>),
    /// The application's `initialize` is not answered yet.
    Between,
    Ended,
}

/// What a step has led to.
enum Step {
    Next,
    Item(Result<Event, BoxError>),
    Fail(BoxError),
    End,
    Pending,
}

impl<S> Listening<S>
where
    S: Service<Request<Payload>, Response = Response<Events>> + Clone + Send + 'static,
    S::Error: Into<BoxError>,
    S::Future: Send,
{
    /// Listens at `endpoint` through `service`, a stack of the envelope floor, in whatever session the connection is in.
    pub fn new(service: S, endpoint: Endpoint, session: Session, backoff: Backoff) -> Self {
        Self {
            service,
            endpoint,
            session,
            needs_session: true,
            stable_after: Duration::from_secs(10),
            trail: Trail::new(backoff, Attempts::default()),
            state: State::Idle,
            pinned: None,
            over: Over::default(),
            opened: None,
            was_accepted: false,
        }
    }

    /// Whether to listen only in a session that has an id; `true` by default.
    #[must_use]
    pub fn needs_session(self, needs_session: bool) -> Self {
        Self { needs_session, ..self }
    }

    /// How long a connection must have been open to count as progress; 10 s by default.
    #[must_use]
    pub fn stable_after(self, stable_after: Duration) -> Self {
        Self { stable_after, ..self }
    }

    /// Opens the stream in the session that there is.
    fn begin(&mut self) -> Step {
        let status = self.session.status();
        if self.session.era() == Era::Modern || (self.needs_session && status == SessionStatus::None) {
            return match self.was_accepted {
                // There will be one, or not: that change is waited for.
                true if self.session.is_beginning() => {
                    self.pinned = Some(self.session.pin());
                    self.set(State::Between);
                    Step::Next
                }
                true => Step::End,
                false => Step::Fail(NotOffered::new(None).into()),
            };
        }
        // What has expired is left to the layer that starts another.
        self.pinned = (status != SessionStatus::Expired).then(|| self.session.pin());
        self.open()
    }

    /// Opens it in another session.
    fn begin_anew(&mut self) -> Step {
        self.trail.forget();
        self.begin()
    }

    /// Opens it, and goes on where it broke off.
    fn open(&mut self) -> Step {
        let mut get = self.endpoint.get();
        if let Some(position) = self.trail.position() {
            get.headers_mut().insert(LAST_EVENT_ID, position.clone());
        }
        if let Some(pinned) = &self.pinned {
            get.extensions_mut().insert(pinned.clone());
        }
        let opening = self.service.clone().oneshot(get);
        self.set(State::Opening(Box::pin(async move { opening.await.map_err(Into::into) })));
        Step::Next
    }

    fn opened(&mut self, mut response: Response<Events>) -> Step {
        if !response.body().is_stream() {
            let refusal = response.into_body().ready_error();
            return self.failed(refusal.unwrap_or_else(|| NotOffered::new(None).into()));
        }
        self.pinned = response.extensions_mut().remove::<Pinned>().or(self.pinned.take());
        self.was_accepted = true;
        self.trail.never_give_up();
        self.trail.opened(self.trail.position().is_some());
        self.opened = Some(Instant::now());
        self.set(State::Reading(response.into_body().into_stream()));
        Step::Next
    }

    /// A GET has failed.
    fn failed(&mut self, error: BoxError) -> Step {
        if error.is::<SessionExpired>() {
            // It was refused for its session's sake, or another was started but nothing was sent in it.
            let is_over = self.pinned.is_some() || self.session.status() == SessionStatus::Live;
            return if is_over { self.begin_anew() } else { Step::Fail(error) };
        }
        if error.is::<NotOffered>() || !may_heal(&error) {
            return Step::Fail(error);
        }
        tracing::debug!(%error, "the listening stream was not opened");
        match self.trail.failed(Some(error)) {
            Ok(wait) => self.wait(wait),
            Err(error) => Step::Fail(match error.downcast::<GaveUp>() {
                // Nothing was lost: what it failed with is what there is to know.
                Ok(gave_up) => gave_up.into_last(),
                Err(error) => error,
            }),
        }
    }

    /// A connection has ended.
    fn ended(&mut self, end: End) -> Step {
        if self.is_over() {
            return self.begin_anew();
        }
        if self.opened.take().is_some_and(|opened| opened.elapsed() >= self.stable_after) {
            self.trail.lasted();
        }
        match self.trail.ended(end) {
            Ok(wait) => self.wait(wait),
            Err(error) => Step::Fail(error),
        }
    }

    fn wait(&mut self, wait: Duration) -> Step {
        if Handle::try_current().is_err() {
            return Step::End;
        }
        tracing::debug!(?wait, "the listening stream is to be opened again");
        self.set(State::Waiting(Box::pin(tokio::time::sleep(wait))));
        Step::Next
    }

    fn is_over(&self) -> bool {
        self.pinned.as_ref().is_some_and(|pinned| !self.session.is_current(pinned))
    }

    fn set(&mut self, state: State) {
        self.over.reset();
        self.state = state;
    }

    fn step(&mut self, cx: &mut Context<'_>) -> Step {
        match &mut self.state {
            State::Idle => self.begin(),
            State::Opening(opening) => match opening.as_mut().poll(cx) {
                Poll::Ready(Ok(response)) => self.opened(response),
                Poll::Ready(Err(error)) => self.failed(error),
                Poll::Pending => self.watch(cx),
            },
            State::Reading(events) => match events.as_mut().poll_next(cx) {
                Poll::Ready(Some(Ok(event))) => {
                    if self.trail.pass(&event) {
                        Step::Item(Ok(event))
                    } else {
                        Step::Next
                    }
                }
                Poll::Ready(Some(Err(error))) if ends(&error) => self.ended(End::Broken),
                Poll::Ready(Some(Err(error))) if error.is::<TooLarge>() => Step::Fail(error),
                Poll::Ready(Some(Err(error))) => Step::Item(Err(error)),
                Poll::Ready(None) => self.ended(End::Clean),
                Poll::Pending => self.watch(cx),
            },
            State::Waiting(sleep) => match sleep.as_mut().poll(cx) {
                Poll::Ready(()) => self.open(),
                Poll::Pending => self.watch(cx),
            },
            State::Between => self.watch(cx),
            State::Ended => Step::End,
        }
    }

    /// While there is nothing to do: looks whether the session has changed.
    fn watch(&mut self, cx: &mut Context<'_>) -> Step {
        let Some(pinned) = &self.pinned else { return Step::Pending };
        let over = match self.state {
            // What is under way may still arrive, until there is another session.
            State::Reading(_) => self.over.poll_succeeded(&self.session, pinned, Duration::ZERO, cx),
            State::Between => self.over.poll_begun(&self.session, cx),
            _ => self.over.poll_ended(&self.session, pinned, cx),
        };
        if over.is_pending() {
            return Step::Pending;
        }
        // The old stream is closed before the new one is opened.
        self.trail.forget();
        self.set(State::Idle);
        Step::Next
    }
}

impl<S> Stream for Listening<S>
where
    S: Service<Request<Payload>, Response = Response<Events>> + Clone + Send + 'static,
    S::Error: Into<BoxError>,
    S::Future: Send,
{
    type Item = Result<Event, BoxError>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        for _ in 0..STEPS_PER_POLL {
            match this.step(cx) {
                Step::Next => {}
                Step::Item(item) => return Poll::Ready(Some(item)),
                Step::Fail(error) => {
                    this.set(State::Ended);
                    return Poll::Ready(Some(Err(error)));
                }
                Step::End => {
                    this.set(State::Ended);
                    return Poll::Ready(None);
                }
                Step::Pending => return Poll::Pending,
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

impl<S> fmt::Debug for Listening<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Listening")
            .field("endpoint", &self.endpoint)
            .field("session", &self.session)
            .finish_non_exhaustive()
    }
}
