//! Send again what may be sent again.
//!
//! # Example
//!
//! ```
//! use mcp_streamable_http_layers::{RetryPolicy, Session};
//! use tower::ServiceBuilder;
//! use tower::retry::RetryLayer;
//!
//! let layers = ServiceBuilder::new().layer(RetryLayer::new(RetryPolicy::new().for_session(Session::new())));
//! # let _ = layers;
//! ```
//!
//! More patient, and with a budget of one's own: at most one request in ten is sent again, and one a second at any rate.
//!
//! ```
//! use std::sync::Arc;
//! use std::time::Duration;
//!
//! use mcp_streamable_http_layers::{Backoff, RetryPolicy};
//! use tower::retry::budget::TpsBudget;
//!
//! let policy = RetryPolicy::new()
//!     .backoff(Backoff::default().attempts(8))
//!     .budget(Arc::new(TpsBudget::new(Duration::from_secs(10), 1, 0.1)));
//! # let _ = policy;
//! ```

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use http::{Extensions, Method, Request, Response, StatusCode};
use tokio::runtime::Handle;
use tokio::time::Sleep;
use tower::retry::Policy;
use tower::retry::budget::{Budget, TpsBudget};
use tower::timeout::error::Elapsed;

use crate::backoff::Attempts;
use crate::error::{
    BoxError, EndedStream, InvalidMessage, NoToken, NotRepeated, NotSent, SessionExpired, TimedOut, find,
    retry_after,
};
use crate::options::{Idempotent, Once, ResumeFrom};
use crate::{Backoff, Era, Events, JsonRpcMessage, JsonRpcRequest, Payload, Session};

/// What does no harm if a server acts on it twice.
const REPEATABLE: [&str; 11] = [
    "ping",
    "server/discover",
    "tools/list",
    "prompts/list",
    "resources/list",
    "resources/templates/list",
    "resources/read",
    "prompts/get",
    "completion/complete",
    "tasks/get",
    "tasks/list",
];

/// Decides for tower's [`Retry`](tower::retry::Retry) which POSTs are sent again.
///
/// | what happened | what is sent again |
/// |---|---|
/// | it was never written ([`NotSent`]): the connection was refused, or one from the pool was closed | everything |
/// | the connection broke before the head of the answer | once, in the legacy era: what is repeatable |
/// | 429 or 503 with `Retry-After` | what is repeatable, and `initialize`, when that time has passed |
/// | no connection for another reason (a name, a certificate), a time bound passed, any other status, a stream that broke after its head | nothing |
///
/// *Repeatable* are `ping`, `server/discover`, `tools/list`, `prompts/list`, `resources/list`,
/// `resources/templates/list`, `resources/read`, `prompts/get`, `completion/complete`, `tasks/get`, `tasks/list`, and
/// what the caller marks with [`Idempotent`]; but never a request with `requestState` or `inputResponses` in its `params`,
/// which the server may take only once. Above all `tools/call` is not: the server may have acted on it, and what it was can
/// only be judged by the caller, from the error's [`may_have_run`](crate::Error::may_have_run).
///
/// The waits are those of a [`Backoff`], which begins at 250 ms here, and of whose attempts there are five; `Retry-After`
/// counts if it is longer, and beyond [`Backoff::max_retry`] the answer is handed on with it. On top of that there is
/// tower's budget, which keeps all requests together from multiplying what a server in trouble has to bear: by default
/// one in five may be sent again, and ten a second at any rate.
///
/// GETs and DELETEs are not its business, and outside a tokio runtime it sends nothing again.
#[derive(Clone)]
pub struct RetryPolicy {
    session: Session,
    backoff: Backoff,
    budget: Arc<TpsBudget>,
    // Of one request: tower clones the policy for each.
    waits: u32,
    was_broken: bool,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self::new()
    }
}

impl RetryPolicy {
    /// With the waits and the budget below. It takes requests that name no version for legacy ones.
    pub fn new() -> Self {
        Self {
            session: Session::new(),
            backoff: Backoff::default().base(Duration::from_millis(250)),
            budget: Arc::new(TpsBudget::default()),
            waits: 0,
            was_broken: false,
        }
    }

    /// The waits, and how many attempts there are.
    #[must_use]
    pub fn backoff(self, backoff: Backoff) -> Self {
        Self { backoff, ..self }
    }

    /// The budget of all requests together.
    #[must_use]
    pub fn budget(self, budget: Arc<TpsBudget>) -> Self {
        Self { budget, ..self }
    }

    /// Tells the era of a request that names none by `session`.
    #[must_use]
    pub fn for_session(self, session: Session) -> Self {
        Self { session, ..self }
    }

    /// How long to wait before `request` is sent again. `None`: it is not.
    fn wait(
        &mut self,
        request: &Request<Payload>,
        outcome: &Result<Response<Events>, BoxError>,
    ) -> Option<Duration> {
        let asked = match outcome {
            Err(error) if find::<NotSent>(&**error).is_some() => {
                if !may_pass(error) {
                    return None;
                }
                None
            }
            Err(error) => {
                // These are no signs of a broken connection.
                let is_ours = is_timeout(error)
                    || find::<InvalidMessage>(&**error).is_some()
                    || find::<SessionExpired>(&**error).is_some()
                    || find::<NoToken>(&**error).is_some();
                let is_legacy = || self.session.era_of(request) == Era::Legacy;
                if is_ours || self.was_broken || !is_repeatable(request) || !is_legacy() {
                    return None;
                }
                self.was_broken = true;
                None
            }
            Ok(response) => {
                let is_initialize = request.body().message().is_some_and(JsonRpcMessage::is_initialize);
                let is_busy = [StatusCode::TOO_MANY_REQUESTS, StatusCode::SERVICE_UNAVAILABLE]
                    .contains(&response.status());
                if !is_busy || !(is_initialize || is_repeatable(request)) {
                    return None;
                }
                let asked = retry_after(response.headers())?;
                Some(asked).filter(|asked| !self.backoff.is_too_long(*asked)).map(Some)?
            }
        };
        let wait = self.backoff.wait(None, self.waits);
        self.waits = self.waits.saturating_add(1);
        Some(self.backoff.at_least(wait, asked, false))
    }
}

/// Whether a connection that could not be made may be made a moment later: what is refused now is accepted when the server
/// is up, but no time makes a name or a certificate right, and who has waited out a time bound has waited enough.
fn may_pass(error: &BoxError) -> bool {
    use io::ErrorKind::{
        BrokenPipe, ConnectionAborted, ConnectionRefused, ConnectionReset, NotConnected, UnexpectedEof,
    };
    let passing =
        [BrokenPipe, ConnectionAborted, ConnectionRefused, ConnectionReset, NotConnected, UnexpectedEof];
    !is_timeout(error) && find::<io::Error>(&**error).is_none_or(|error| passing.contains(&error.kind()))
}

fn is_timeout(error: &BoxError) -> bool {
    find::<TimedOut>(&**error).is_some() || find::<Elapsed>(&**error).is_some()
}

/// Whether the server may act on it twice.
fn is_repeatable(request: &Request<Payload>) -> bool {
    let message = request.body().message().and_then(JsonRpcMessage::as_request);
    message.is_some_and(|message| is_repeatable_request(message, request.extensions()))
}

/// The same of a message with these options.
pub(crate) fn is_repeatable_request(request: &JsonRpcRequest, options: &Extensions) -> bool {
    let is_listed = || options.get::<Idempotent>().is_some() || REPEATABLE.contains(&request.method());
    is_listed() && !request.is_continuation() && options.get::<Once>().is_none()
}

/// If an attempt broke, the server may have acted on it, whatever became of a later one.
fn settle(outcome: &mut Result<Response<Events>, BoxError>, had_broken: bool) {
    if let (Err(error), true) = (&mut *outcome, had_broken) {
        if let Some(expired) = error.downcast_ref::<SessionExpired>() {
            *error = expired.after_a_break().into();
        } else if find::<NotSent>(&**error).is_some() {
            let last = std::mem::replace(error, Box::new(EndedStream));
            *error = NotRepeated::new(last).into();
        }
    }
}

impl Policy<Request<Payload>, Response<Events>, BoxError> for RetryPolicy {
    type Future = Sleep;

    fn retry(
        &mut self,
        request: &mut Request<Payload>,
        outcome: &mut Result<Response<Events>, BoxError>,
    ) -> Option<Sleep> {
        let had_broken = self.was_broken;
        let id = request.body().message().and_then(JsonRpcMessage::id);
        let is_cancelled = id.is_some_and(|id| self.session.is_cancelled(id));
        let wait = if is_cancelled { None } else { self.wait(request, outcome) };
        let Some(wait) = wait else {
            if outcome.is_ok() {
                self.budget.deposit();
            }
            settle(outcome, had_broken);
            return None;
        };
        let attempts = request.extensions_mut().get_or_insert_with(Attempts::default).clone();
        if Handle::try_current().is_err()
            || !attempts.fail(self.backoff.max_attempts())
            || !self.budget.withdraw()
        {
            settle(outcome, had_broken);
            return None;
        }
        tracing::debug!(?wait, "a request is to be sent again");
        Some(tokio::time::sleep(wait))
    }

    fn clone_request(&mut self, request: &Request<Payload>) -> Option<Request<Payload>> {
        let options = request.extensions();
        let is_ours = request.method() == Method::POST
            && options.get::<ResumeFrom>().is_none()
            && options.get::<Once>().is_none();
        (is_ours && self.backoff.max_attempts() > 0).then(|| request.clone())
    }
}

impl fmt::Debug for RetryPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RetryPolicy")
            .field("backoff", &self.backoff)
            .field("budget", &self.budget)
            .finish_non_exhaustive()
    }
}
