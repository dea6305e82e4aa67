//! The state of one connection to a server.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use http::{HeaderValue, Request};

use crate::error::SessionExpired;
use crate::headers::{MCP_PROTOCOL_VERSION, MCP_SESSION_ID};
use crate::options::Pinned;
use crate::{Era, JsonRpcMessage, JsonRpcRequest, Payload, ProtocolVersion};

/// What the layers of one transport share: the session's id, the protocol version with its era, and the `initialize`
/// that they came from.
///
/// All of it is one snapshot behind one lock, so no request is ever stamped with the id of one session and the
/// version of another. Clones are handles to the same state.
///
/// The layers keep it; users read it. It holds a session only in the legacy era, between an `initialize` that was
/// answered with a result and the end of the session.
#[derive(Clone, Default)]
pub struct Session(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    id: SessionId,
    version: Option<ProtocolVersion>,
    handshake: Option<JsonRpcRequest>,
    /// How often `initialize` was sent: the answer to an earlier one is too late to count.
    handshakes: u64,
    /// Whether the server has accepted a listening GET in this session.
    listened: bool,
}

#[derive(Clone, Default)]
enum SessionId {
    #[default]
    None,
    /// Marked sensitive, so that no `Debug` of a header map shows it.
    Live(HeaderValue),
    /// The server answered 404 to the last id.
    Expired,
}

/// The handshake that an `initialize` belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Handshake(u64);

/// One session, to be told from those before and after it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SessionMark {
    handshake: Handshake,
    /// Marked sensitive.
    id: Option<HeaderValue>,
}

/// What a request is to be sent with.
pub(crate) enum Claim {
    Id(Option<HeaderValue>),
    Expired,
}

impl Session {
    /// A connection on which nothing was sent yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// The session's id, marked sensitive. `None`: there is no session, the server issued no id, or it has expired.
    pub fn id(&self) -> Option<HeaderValue> {
        self.lock().live_id()
    }

    /// The version that messages which name none are sent with: the negotiated one, or the one that the last stamped
    /// request named.
    pub fn version(&self) -> Option<ProtocolVersion> {
        self.lock().version.clone()
    }

    /// The era of that version; legacy as long as there is none.
    pub fn era(&self) -> Era {
        self.lock().version.as_ref().map_or(Era::Legacy, ProtocolVersion::era)
    }

    /// The `initialize` that the session began with.
    pub fn handshake(&self) -> Option<JsonRpcRequest> {
        self.lock().handshake.clone()
    }

    /// Whether the server has answered 404 to the session's id, and no `initialize` was sent since.
    pub fn is_expired(&self) -> bool {
        matches!(self.lock().id, SessionId::Expired)
    }

    /// An `initialize` is being sent: what was negotiated before no longer counts.
    pub(crate) fn begin(&self) -> Handshake {
        let mut state = self.lock();
        state.clear();
        state.handshakes += 1;
        Handshake(state.handshakes)
    }

    pub(crate) fn current_handshake(&self) -> Handshake {
        Handshake(self.lock().handshakes)
    }

    /// The `initialize` of `handshake` was answered with a result.
    pub(crate) fn establish(
        &self,
        handshake: Handshake,
        id: Option<HeaderValue>,
        version: Option<ProtocolVersion>,
        initialize: JsonRpcRequest,
    ) {
        let mut state = self.lock();
        if state.handshakes == handshake.0 {
            *state = State {
                id: id.map_or(SessionId::None, SessionId::Live),
                version,
                handshake: Some(initialize),
                handshakes: handshake.0,
                listened: false,
            };
        }
    }

    /// A request that names its version is being sent.
    pub(crate) fn note_version(&self, version: &ProtocolVersion) {
        let mut state = self.lock();
        if state.version.as_ref() != Some(version) {
            state.version = Some(version.clone());
        }
    }

    /// The id that a request of the legacy era is to carry.
    pub(crate) fn claim(&self) -> Claim {
        match &self.lock().id {
            SessionId::None => Claim::Id(None),
            SessionId::Live(id) => Claim::Id(Some(id.clone())),
            SessionId::Expired => Claim::Expired,
        }
    }

    /// The session as it is now, for a request that must not go out in a later one: the DELETE that ends it, say.
    pub fn pin(&self) -> Pinned {
        let state = self.lock();
        Pinned { mark: state.mark(), version: state.version.clone() }
    }

    pub(crate) fn is_current(&self, pinned: &Pinned) -> bool {
        self.lock().mark() == pinned.mark
    }

    /// The server answered 404 to the id `sent`. An id that has been replaced since does not touch its successor.
    pub(crate) fn expire(&self, sent: &HeaderValue) {
        let mut state = self.lock();
        if state.holds(sent) {
            state.id = SessionId::Expired;
        }
    }

    /// The session with the id `sent` was ended by a DELETE.
    pub(crate) fn end(&self, sent: &HeaderValue) {
        let mut state = self.lock();
        if state.holds(sent) {
            state.clear();
        }
    }

    /// The server accepted a listening GET that carried the id `sent`.
    pub(crate) fn accept_listening(&self, sent: &HeaderValue) {
        let mut state = self.lock();
        if state.holds(sent) {
            state.listened = true;
        }
    }

    pub(crate) fn has_listened(&self, sent: &HeaderValue) -> bool {
        let state = self.lock();
        state.holds(sent) && state.listened
    }

    /// The version that `request` is to be stamped with. An id that it carries already was claimed a moment ago; if the
    /// session has changed since, its version is no longer known.
    pub(crate) fn stamp(
        &self,
        request: &Request<Payload>,
    ) -> Result<Option<ProtocolVersion>, SessionExpired> {
        let message = request.body().message();
        if message.is_some_and(JsonRpcMessage::is_initialize) {
            return Ok(None);
        }
        if let Some(version) = stamp(request, message) {
            return Ok(Some(version));
        }
        let pinned = request.extensions().get::<Pinned>();
        let state = self.lock();
        match request.headers().get(MCP_SESSION_ID) {
            Some(claimed) if !state.holds(claimed) => Err(SessionExpired::new(None)),
            _ => Ok(pinned.map_or(&state.version, |pinned| &pinned.version).clone()),
        }
    }

    /// The version that `request` is sent with: its own, or the connection's. An `initialize` has none.
    pub(crate) fn version_of(&self, request: &Request<Payload>) -> Option<ProtocolVersion> {
        match request.body().message() {
            Some(message) if message.is_initialize() => None,
            message => stamp(request, message).or_else(|| match request.extensions().get::<Pinned>() {
                Some(pinned) => pinned.version.clone(),
                None => self.version(),
            }),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Every change is one assignment, so a panic elsewhere leaves no half-made state behind.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The version that a request names itself, in a header of the caller's or in its `_meta`.
fn stamp(request: &Request<Payload>, message: Option<&JsonRpcMessage>) -> Option<ProtocolVersion> {
    if let Some(value) = request.headers().get(MCP_PROTOCOL_VERSION) {
        return ProtocolVersion::from_header(value).ok();
    }
    message?.as_request()?.protocol_version().ok()?.cloned()
}

impl State {
    fn clear(&mut self) {
        *self = Self { handshakes: self.handshakes, ..Self::default() };
    }

    fn live_id(&self) -> Option<HeaderValue> {
        match &self.id {
            SessionId::Live(id) => Some(id.clone()),
            SessionId::None | SessionId::Expired => None,
        }
    }

    fn mark(&self) -> SessionMark {
        SessionMark { handshake: Handshake(self.handshakes), id: self.live_id() }
    }

    fn holds(&self, sent: &HeaderValue) -> bool {
        matches!(&self.id, SessionId::Live(id) if id == sent)
    }
}

/// Without the id.
impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.lock();
        let id = match state.id {
            SessionId::None => "none",
            SessionId::Live(_) => "live",
            SessionId::Expired => "expired",
        };
        f.debug_struct("Session").field("id", &id).field("version", &state.version).finish_non_exhaustive()
    }
}
