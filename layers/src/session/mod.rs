//! The state of one connection to a server.

mod saved;
mod state;
mod steps;
mod watch;

use std::fmt;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use http::HeaderValue;
use tokio::sync::{Mutex as AsyncMutex, watch as channel};

pub use self::saved::SavedSession;
pub(crate) use self::state::{Expiry, Handshake, Outside, SessionMark};
use self::state::{SessionId, State};
pub(crate) use self::steps::own_era;
pub use self::watch::{SessionStatus, SessionWatch};

use crate::options::Pinned;
use crate::{Era, JsonRpcRequest, ProtocolVersion};

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
    /// Whether the state holds a cancelled request: a look at it costs no lock.
    has_cancelled: AtomicBool,
    /// Counts what the application may want to know of.
    changes: channel::Sender<u64>,
    /// Is held by whoever is starting a session in place of one that has expired.
    renewal: AsyncMutex<()>,
}

impl Session {
    /// A connection on which nothing was sent yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// The session's id, marked sensitive. `None`: there is no session, the server issued no id, or it has expired.
    pub fn id(&self) -> Option<HeaderValue> {
        self.lock().live_id().cloned()
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
        let id = state.live_id().cloned();
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

    /// The session as it is now, for a request that must not go out in a later one: the DELETE that ends it, say.
    pub fn pin(&self) -> Pinned {
        let mut state = self.lock();
        match state.id {
            // What is given while there is none is of no later session.
            SessionId::Expired { .. } => Pinned(Arc::new(SessionMark::never(state.version.clone()))),
            _ => state.pin(),
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
