//! The state of one connection to a server.

mod saved;
mod watch;

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use http::{HeaderValue, Request};
use tokio::sync::{Mutex as AsyncMutex, watch as channel};

pub use self::saved::SavedSession;
pub use self::watch::{SessionStatus, SessionWatch};

use crate::error::SessionExpired;
use crate::headers::{MCP_PROTOCOL_VERSION, MCP_SESSION_ID};
use crate::options::Pinned;
use crate::{Era, JsonRpcMessage, JsonRpcRequest, Payload, ProtocolVersion, RequestId};

/// What the layers of one transport share: the session's id, the protocol version with its era, and the `initialize`
/// that they came from.
///
/// All of it is one snapshot behind one lock, so no request is ever stamped with the id of one session and the
/// version of another. Clones are handles to the same state.
///
/// The layers keep it; users read it. It holds a session only in the legacy era, between an `initialize` that was
/// answered with a result and the end of the session.
#[derive(Clone, Default)]
pub struct Session(Arc<Shared>);

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    /// Counts what the application may want to know of.
    changes: channel::Sender<u64>,
    /// Is held by whoever is starting a session in place of one that has expired.
    renewal: AsyncMutex<()>,
}

#[derive(Default)]
struct State {
    id: SessionId,
    version: Option<ProtocolVersion>,
    handshake: Option<JsonRpcRequest>,
    /// How often `initialize` was sent: the answer to an earlier one is too late to count.
    handshakes: u64,
    /// Whether the server has accepted a listening GET in this session.
    listened: bool,
    /// It began in place of one that had expired, and no request was answered in it yet.
    on_trial: bool,
    /// An `initialize` of the application's was sent, and not answered with a result yet.
    is_beginning: bool,
    /// The requests that were sent again in the session that took the place of theirs, with the number of its handshake.
    replayed: VecDeque<(RequestId, u64)>,
    /// How often a new session could not be started in place of one that had expired.
    failed_renewals: u64,
}

#[derive(Clone, Default)]
enum SessionId {
    #[default]
    None,
    /// Marked sensitive, so that no `Debug` of a header map shows it.
    Live(HeaderValue),
    /// The server answered 404 to the last id. Where it did so before it answered anything else, another session would
    /// fare no better.
    Expired { is_renewable: bool },
}

/// The handshake that an `initialize` belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Handshake(u64);

impl Handshake {
    pub(crate) fn number(self) -> u64 {
        self.0
    }
}

/// One session, to be told from those before and after it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SessionMark {
    handshake: Handshake,
    /// Marked sensitive.
    id: Option<HeaderValue>,
}

impl SessionMark {
    pub(crate) fn id(&self) -> Option<&HeaderValue> {
        self.id.as_ref()
    }
}

/// On a request that has to do with a session which is not, or not yet, the connection's: it is sent as it is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outside;

/// What is to be done about a session that a request found expired.
pub(crate) enum Expiry {
    /// There is another.
    Over,
    /// `initialize` is to be sent again.
    Renewable(Box<JsonRpcRequest>),
    /// Nothing can be done, or the application is doing it.
    Final,
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
        matches!(self.lock().id, SessionId::Expired { .. })
    }

    /// Whether there is a session.
    pub fn status(&self) -> SessionStatus {
        match self.lock().id {
            SessionId::None => SessionStatus::None,
            SessionId::Live(_) => SessionStatus::Live,
            SessionId::Expired { .. } => SessionStatus::Expired,
        }
    }

    /// Tells of every change from now on: a session that begins, expires or ends. What the application has told the server
    /// in a session, such as its subscriptions, is gone with it.
    pub fn watch(&self) -> SessionWatch {
        SessionWatch::new(self.clone())
    }

    /// The session, to be [taken up](Self::restore) again by another transport, or another process. `None`: nothing was
    /// negotiated in the legacy era.
    pub fn save(&self) -> Option<SavedSession> {
        let state = self.lock();
        let id = state.live_id();
        (id.is_some() || state.handshake.is_some()).then(|| SavedSession {
            id,
            has_expired: matches!(state.id, SessionId::Expired { .. }),
            version: state.version.clone(),
            handshake: state.handshake.clone(),
        })
    }

    /// Takes up a session that was [saved](Self::save): what is sent from now on is sent in it. Whether the server still
    /// knows it is found out then.
    pub fn restore(&self, saved: SavedSession) {
        let mut state = self.lock();
        state.clear();
        state.handshakes += 1;
        state.id = match saved.id {
            _ if saved.has_expired => SessionId::Expired { is_renewable: true },
            Some(id) => SessionId::Live(id),
            None => SessionId::None,
        };
        state.version = saved.version;
        state.handshake = saved.handshake;
        self.changed(state);
    }

    /// An `initialize` is being sent: what was negotiated before no longer counts.
    pub(crate) fn begin(&self) -> Handshake {
        let mut state = self.lock();
        state.clear();
        state.is_beginning = true;
        state.handshakes += 1;
        let handshake = Handshake(state.handshakes);
        self.changed(state);
        handshake
    }

    /// An `initialize` is being sent in place of a session that has expired. Until it is answered the session stays
    /// expired, so that nothing else is sent without one.
    pub(crate) fn begin_again(&self) -> Handshake {
        let mut state = self.lock();
        state.handshakes += 1;
        Handshake(state.handshakes)
    }

    pub(crate) fn current_handshake(&self) -> Handshake {
        Handshake(self.lock().handshakes)
    }

    /// The `initialize` of `handshake` was answered with a result. Returns whether it counts, as no other was sent since.
    pub(crate) fn establish(
        &self,
        handshake: Handshake,
        id: Option<HeaderValue>,
        version: Option<ProtocolVersion>,
        initialize: JsonRpcRequest,
    ) -> bool {
        let mut state = self.lock();
        let counts = state.handshakes == handshake.0;
        if counts {
            let on_trial = matches!(state.id, SessionId::Expired { .. });
            state.clear();
            state.on_trial = on_trial;
            state.id = id.map_or(SessionId::None, SessionId::Live);
            state.version = version;
            state.handshake = Some(initialize);
            self.changed(state);
        }
        counts
    }

    /// A request that names its version is being sent.
    pub(crate) fn note_version(&self, version: &ProtocolVersion) {
        let mut state = self.lock();
        if state.version.as_ref() != Some(version) {
            state.version = Some(version.clone());
        }
    }

    /// The session that a request of the legacy era is to be sent in. `None`: it has expired.
    pub(crate) fn claim(&self) -> Option<Pinned> {
        let state = self.lock();
        (!matches!(state.id, SessionId::Expired { .. })).then(|| state.pin())
    }

    /// The session as it is now, for a request that must not go out in a later one: the DELETE that ends it, say.
    pub fn pin(&self) -> Pinned {
        self.lock().pin()
    }

    pub(crate) fn is_current(&self, pinned: &Pinned) -> bool {
        self.lock().is_current(pinned)
    }

    /// Whether another session has begun since.
    pub(crate) fn has_succeeded(&self, pinned: &Pinned) -> bool {
        let state = self.lock();
        let is_live = matches!(state.id, SessionId::Live(_))
            || (matches!(state.id, SessionId::None) && state.handshake.is_some());
        is_live && !state.is_current(pinned)
    }

    /// The server answered 404 to the id `sent`. An id that has been replaced since does not touch its successor.
    pub(crate) fn expire(&self, sent: &HeaderValue) {
        let mut state = self.lock();
        if state.holds(sent) {
            state.id = SessionId::Expired { is_renewable: !state.on_trial };
            self.changed(state);
        }
    }

    /// The server has answered a request that carried the id `sent`.
    pub(crate) fn prove(&self, sent: &HeaderValue) {
        let mut state = self.lock();
        if state.on_trial && state.holds(sent) {
            state.on_trial = false;
        }
    }

    /// Waits until nobody else is starting a session in place of one that has expired.
    pub(crate) async fn renewal(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.0.renewal.lock().await
    }

    /// What to do about the session in which a request failed.
    pub(crate) fn expiry(&self) -> Expiry {
        let state = self.lock();
        match (&state.id, &state.handshake) {
            (SessionId::Expired { is_renewable: true }, Some(initialize)) => {
                Expiry::Renewable(Box::new(initialize.clone()))
            }
            (SessionId::Expired { .. }, _) | (SessionId::None, None) => Expiry::Final,
            _ => Expiry::Over,
        }
    }

    /// Whether an `initialize` of the application's waits for its answer.
    pub(crate) fn is_beginning(&self) -> bool {
        self.lock().is_beginning
    }

    /// A request is being sent again, in the session that there is now.
    pub(crate) fn note_replay(&self, id: &RequestId) {
        /// A request that is forgotten here cannot be cancelled in its new session, that is all.
        const REPLAYED: usize = 1024;
        let mut state = self.lock();
        if state.replayed.len() == REPLAYED {
            state.replayed.pop_front();
        }
        let handshake = state.handshakes;
        state.replayed.push_back((id.clone(), handshake));
    }

    /// The session that the request `id` was last sent in, of which `pinned` was the first; `None`: it is over.
    pub(crate) fn last_sent_in(&self, id: &RequestId, pinned: Pinned) -> Option<Pinned> {
        let state = self.lock();
        let is_replayed = || state.replayed.iter().any(|(found, at)| found == id && *at == state.handshakes);
        if state.is_current(&pinned) { Some(pinned) } else { is_replayed().then(|| state.pin()) }
    }

    /// How often a renewal has failed so far.
    pub(crate) fn failed_renewals(&self) -> u64 {
        self.lock().failed_renewals
    }

    pub(crate) fn note_failed_renewal(&self) {
        self.lock().failed_renewals += 1;
    }

    /// The session with the id `sent` was ended by a DELETE.
    pub(crate) fn end(&self, sent: &HeaderValue) {
        let mut state = self.lock();
        if state.holds(sent) {
            state.clear();
            self.changed(state);
        }
    }

    /// The server accepted a listening GET that carried the id `sent`.
    pub(crate) fn accept_listening(&self, sent: &HeaderValue) {
        let mut state = self.lock();
        if state.holds(sent) {
            state.listened = true;
            state.on_trial = false;
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
        if request.extensions().get::<Outside>().is_some() {
            return Ok(None);
        }
        let pinned = request.extensions().get::<Pinned>();
        let state = self.lock();
        match request.headers().get(MCP_SESSION_ID) {
            Some(claimed) if !state.holds(claimed) => Err(SessionExpired::new(None)),
            _ => Ok(pinned.and_then(|pinned| pinned.version.as_ref()).or(state.version.as_ref()).cloned()),
        }
    }

    /// The version that `request` is sent with: its own, or the connection's. An `initialize` has none.
    pub(crate) fn version_of(&self, request: &Request<Payload>) -> Option<ProtocolVersion> {
        match request.body().message() {
            Some(message) if message.is_initialize() => None,
            message => stamp(request, message).or_else(|| match request.extensions().get::<Pinned>() {
                Some(pinned) if pinned.version.is_some() => pinned.version.clone(),
                _ => self.version(),
            }),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Every change is one assignment, so a panic elsewhere leaves no half-made state behind.
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells those who watch, when they can look.
    fn changed(&self, state: MutexGuard<'_, State>) {
        drop(state);
        self.0.changes.send_modify(|count| *count += 1);
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
        let replayed = std::mem::take(&mut self.replayed);
        let Self { handshakes, failed_renewals, .. } = *self;
        *self = Self { handshakes, failed_renewals, replayed, ..Self::default() };
    }

    fn pin(&self) -> Pinned {
        Pinned { mark: self.mark(), version: self.version.clone() }
    }

    /// What was pinned during a handshake, or in a session without an id, is of the session that came of it.
    fn is_current(&self, pinned: &Pinned) -> bool {
        let SessionMark { handshake, id } = &pinned.mark;
        handshake.0 == self.handshakes && (id.is_none() || *id == self.live_id())
    }

    fn live_id(&self) -> Option<HeaderValue> {
        match &self.id {
            SessionId::Live(id) => Some(id.clone()),
            SessionId::None | SessionId::Expired { .. } => None,
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
            SessionId::Expired { .. } => "expired",
        };
        f.debug_struct("Session").field("id", &id).field("version", &state.version).finish_non_exhaustive()
    }
}
