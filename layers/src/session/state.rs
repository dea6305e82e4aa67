//! The snapshot that a session is.

use std::collections::VecDeque;
use std::sync::Arc;

use http::HeaderValue;

use crate::options::Pinned;
use crate::{JsonRpcRequest, ProtocolVersion, RequestId};

#[derive(Default)]
pub(super) struct State {
    pub(super) id: SessionId,
    pub(super) version: Option<ProtocolVersion>,
    pub(super) handshake: Option<JsonRpcRequest>,
    /// How often `initialize` was sent: the answer to an earlier one is too late to count.
    pub(super) handshakes: u64,
    /// Whether the server has accepted a listening GET in this session.
    pub(super) listened: bool,
    /// It began in place of one that had expired, and no request was answered in it yet.
    pub(super) on_trial: bool,
    /// An `initialize` of the application's was sent, and not answered with a result yet.
    pub(super) is_beginning: bool,
    /// The requests that were sent again in the session that took the place of theirs, with the number of its handshake.
    pub(super) replayed: VecDeque<(RequestId, u64)>,
    /// The requests in flight that the caller has cancelled.
    pub(super) cancelled: VecDeque<RequestId>,
    /// How often a new session could not be started in place of one that had expired.
    pub(super) failed_renewals: u64,
    /// What was last pinned: most requests pin the same.
    pinned: Option<Pinned>,
}

#[derive(Clone, Default)]
pub(super) enum SessionId {
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
pub(crate) struct Handshake(pub(super) u64);

impl Handshake {
    pub(crate) fn number(self) -> u64 {
        self.0
    }
}

/// One session, to be told from those before and after it.
#[derive(Clone)]
pub(crate) struct SessionMark {
    handshake: Handshake,
    /// Marked sensitive.
    pub(crate) id: Option<HeaderValue>,
    pub(crate) version: Option<ProtocolVersion>,
}

impl SessionMark {
    /// Of no session at all.
    pub(super) fn never(version: Option<ProtocolVersion>) -> Self {
        Self { handshake: Handshake(u64::MAX), id: None, version }
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

impl State {
    pub(super) fn clear(&mut self) {
        let (replayed, cancelled) = (std::mem::take(&mut self.replayed), std::mem::take(&mut self.cancelled));
        let Self { handshakes, failed_renewals, .. } = *self;
        *self = Self { handshakes, failed_renewals, replayed, cancelled, ..Self::default() };
    }

    pub(super) fn pin(&mut self) -> Pinned {
        match &self.pinned {
            Some(pinned) if self.is_as_in(&pinned.0) => pinned.clone(),
            _ => {
                let (handshake, version) = (Handshake(self.handshakes), self.version.clone());
                let mark = SessionMark { handshake, id: self.live_id().cloned(), version };
                self.pinned.insert(Pinned(Arc::new(mark))).clone()
            }
        }
    }

    fn is_as_in(&self, mark: &SessionMark) -> bool {
        mark.handshake.0 == self.handshakes
            && mark.version == self.version
            && mark.id.as_ref() == self.live_id()
    }

    /// What was pinned during a handshake, or in a session without an id, is of the session that came of it.
    pub(super) fn is_current(&self, pinned: &Pinned) -> bool {
        let SessionMark { handshake, id, .. } = &*pinned.0;
        handshake.0 == self.handshakes && (id.is_none() || id.as_ref() == self.live_id())
    }

    pub(super) fn live_id(&self) -> Option<&HeaderValue> {
        match &self.id {
            SessionId::Live(id) => Some(id),
            SessionId::None | SessionId::Expired { .. } => None,
        }
    }

    pub(super) fn holds(&self, sent: &HeaderValue) -> bool {
        matches!(&self.id, SessionId::Live(id) if id == sent)
    }
}
