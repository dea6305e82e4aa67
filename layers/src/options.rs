//! What can be asked for, or is told, with a single message.
//!
//! Options travel in a message's [`extensions`](crate::JsonRpcMessage::extensions), never on the wire. To a message
//! that is sent, the caller adds them with [`JsonRpcMessage::with`](crate::JsonRpcMessage::with);
//! [`EnvelopeLayer`](crate::EnvelopeLayer) moves them into the HTTP request's extensions, where the layers below, the
//! user's own included, find them. On a message that is received, the transport leaves notes for the caller.
//!
//! | option | on | what it does |
//! |---|---|---|
//! | [`ExtraHeaders`] | sent messages | adds HTTP headers to this message's POST |
//! | [`Deadline`] | sent messages | fails the call if it is not over by then |
//! | [`FirstByte`] | sent messages | bounds the wait for the head of the answer |
//! | [`Pinned`] | sent messages | sends it in this session, or not at all |
//! | [`ResumeFrom`] | sent requests | takes up the stream of its answer again, instead of sending it |
//! | [`Idempotent`] | sent requests | says that sending it twice does no harm |
//! | [`Once`] | sent messages | keeps it from being sent again |
//! | [`QuietDrop`] | sent requests | lets it be dropped without a word to a legacy server |
//! | [`Gap`] | received messages | says that messages before it may be missing |
//! | [`WireId`] | received responses | the id that the response had on the wire, if it differed |
//!
//! ```
//! use http::header::{HeaderMap, HeaderValue};
//! use mcp_streamable_http_layers::JsonRpcMessage;
//! use mcp_streamable_http_layers::options::ExtraHeaders;
//!
//! let mut headers = HeaderMap::new();
//! headers.insert("x-tenant", HeaderValue::from_static("blue"));
//! let ping = JsonRpcMessage::request(1, "ping", ()).with(ExtraHeaders(headers));
//! assert!(ping.extensions().get::<ExtraHeaders>().is_some());
//! ```

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http::{HeaderMap, HeaderValue};
use tokio::time::{Instant, Sleep};

use crate::error::TimedOut;
use crate::session::SessionMark;
use crate::{Era, ProtocolVersion, RequestId};

/// HTTP headers for one message's POST.
///
/// - `mcp-protocol-version` is a stamp: it sets the version and era of this message and of later ones that name none.
///   It must agree with the message's own `_meta`, and is dropped from an `initialize`.
/// - `mcp-method`, `mcp-name` and `mcp-param-*` replace what the transport would send.
/// - `accept` and `content-type` are overwritten.
/// - `mcp-session-id`, `last-event-id`, and headers of the connection or of message framing are refused: sending the
///   message fails with [`InvalidMessage`](crate::error::InvalidMessage).
#[derive(Clone, Default)]
pub struct ExtraHeaders(
    /// The headers.
    pub HeaderMap,
);

/// The names, not the values.
impl fmt::Debug for ExtraHeaders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

/// The time at which a call must be over: the wait for the head of the answer and all of its reply, until the response.
///
/// If it is not, the call, or the reply, fails with [`TimedOut`]. Without a deadline nothing
/// bounds a stream that stays open. It does not bound the wait for the service to be ready, in a limit for example, but
/// that time counts. Once it has passed, a response that is there already is still handed out, other messages are not.
/// The clock is tokio's: outside a runtime such a message is refused.
///
/// ```
/// use std::time::Duration;
///
/// use mcp_streamable_http_layers::JsonRpcMessage;
/// use mcp_streamable_http_layers::options::Deadline;
///
/// let ping = JsonRpcMessage::request(1, "ping", ()).with(Deadline::within(Duration::from_secs(5)));
/// # let _ = ping;
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Deadline {
    /// `None`: later than can be told.
    at: Option<Instant>,
    after: Duration,
}

impl Deadline {
    /// So long after now.
    pub fn within(after: Duration) -> Self {
        Self { at: Instant::now().checked_add(after), after }
    }

    pub(crate) fn clock(self) -> Option<Sleep> {
        self.at.map(tokio::time::sleep_until)
    }

    pub(crate) fn missed(self) -> TimedOut {
        TimedOut::new("the call", "Deadline", self.after)
    }
}

/// How long to wait for the head of the answer to this message, in place of the bound of
/// [`FirstByteTimeout`](crate::FirstByteTimeout), which obeys it.
///
/// [`Sse`](crate::Sse) gives this option to notifications and responses that have none, as they need no work:
/// [`Limits::acceptance_timeout`](crate::sse::Limits::acceptance_timeout).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FirstByte {
    bound: Duration,
    /// What to name in the error when it passes.
    knob: &'static str,
}

impl FirstByte {
    /// So long after the request is sent.
    pub fn within(bound: Duration) -> Self {
        Self { bound, knob: "FirstByte" }
    }

    /// A default, which the option `knob` sets.
    pub(crate) fn by_default(bound: Duration, knob: &'static str) -> Self {
        Self { bound, knob }
    }

    /// The bound.
    pub fn bound(&self) -> Duration {
        self.bound
    }

    pub(crate) fn knob(&self) -> &'static str {
        self.knob
    }
}

/// The id that a response had on the wire where it was not its request's: `None` for `null` or none at all.
///
/// Servers answer with the id as a string, with `null`, or with one of their own making. Such a response is delivered
/// under the request's id, and this note tells of the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WireId(
    /// The id.
    pub Option<RequestId>,
);

/// The session that a request belongs to. What carries it is sent in that session, or refused with
/// [`SessionExpired`](crate::error::SessionExpired) if that is over: see [`Session::pin`](crate::Session::pin).
#[derive(Clone)]
pub struct Pinned(pub(crate) Arc<SessionMark>);

impl Pinned {
    pub(crate) fn id(&self) -> Option<&HeaderValue> {
        self.0.id.as_ref()
    }

    /// What is sent in it is stamped with this, whatever the connection speaks by then.
    pub(crate) fn version(&self) -> Option<&ProtocolVersion> {
        self.0.version.as_ref()
    }

    /// The era that it was in.
    pub(crate) fn era(&self) -> Era {
        self.version().map_or(Era::Legacy, ProtocolVersion::era)
    }

    /// The same session under another version.
    pub(crate) fn at(self, version: ProtocolVersion) -> Self {
        if self.version() == Some(&version) {
            return self;
        }
        let mut mark = Arc::unwrap_or_clone(self.0);
        mark.version = Some(version);
        Self(Arc::new(mark))
    }
}

impl fmt::Debug for Pinned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Pinned(..)")
    }
}

/// A switch with which a request can be dropped quietly.
///
/// In the legacy era [`TranslateCancel`](crate::TranslateCancel) tells the server when a request is dropped before its
/// response. Whoever drops it for another reason than that it should stop, because the whole session is being ended, say,
/// gives it this option, and [turns it on](Self::turn_on) before. Its stream closes all the same. Clones are handles to the
/// same switch.
///
/// ```
/// use mcp_streamable_http_layers::JsonRpcMessage;
/// use mcp_streamable_http_layers::options::QuietDrop;
///
/// let quiet = QuietDrop::new();
/// let call = JsonRpcMessage::request(1, "tools/call", ()).with(quiet.clone());
/// // Later, before its reply is dropped:
/// quiet.turn_on();
/// # let _ = call;
/// ```
#[derive(Clone, Debug, Default)]
pub struct QuietDrop(Arc<Switch>);

#[derive(Debug, Default)]
struct Switch {
    is_on: AtomicBool,
    parent: Option<QuietDrop>,
}

impl QuietDrop {
    /// A switch that is off.
    pub fn new() -> Self {
        Self::default()
    }

    /// A switch that is on if it is turned on itself, or this one is.
    #[must_use]
    pub fn child(&self) -> Self {
        Self(Arc::new(Switch { is_on: AtomicBool::new(false), parent: Some(self.clone()) }))
    }

    /// From now on the server is not told.
    pub fn turn_on(&self) {
        self.0.is_on.store(true, Ordering::Release);
    }

    /// Whether it is on.
    pub fn is_on(&self) -> bool {
        self.0.is_on.load(Ordering::Acquire) || self.0.parent.as_ref().is_some_and(Self::is_on)
    }
}

/// Takes up the answer to a request where it broke off, in another process perhaps: instead of the POST there is a GET with
/// this event id as its `Last-Event-ID` (MCP 2025-11-25 §Resumability and Redelivery).
///
/// The id is that of the last event that was received: see [`Reply::last_event_id`](crate::Reply::last_event_id). The
/// request is answered, cancelled and superseded as if it had been posted; the response gets its id, whatever that was
/// before. Its method and `params` are not sent. It is an option of requests of the legacy era; anything else that has it
/// is refused with [`InvalidMessage`](crate::error::InvalidMessage), or, if it is not a request, sent without it.
///
/// ```
/// use mcp_streamable_http_layers::JsonRpcMessage;
/// use mcp_streamable_http_layers::options::ResumeFrom;
///
/// let call = JsonRpcMessage::request(1, "tools/call", ()).with(ResumeFrom("event-17".into()));
/// # let _ = call;
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResumeFrom(
    /// The id of the last event that was received.
    pub String,
);

/// Says that a request may be sent again even if the server may have acted on it: see
/// [`RetryPolicy`](crate::RetryPolicy).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Idempotent;

/// Keeps a message from being sent again, by [`RetryPolicy`](crate::RetryPolicy) or [`Reissue`](crate::Reissue), whatever becomes
/// of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Once;

/// On the first message of a subscription whose stream had broken and was opened again: what the server sent in between
/// is lost, so the application should look for itself at what it is subscribed to. See
/// [`ReissueLayer::relisten`](crate::ReissueLayer::relisten).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap;
