//! What the layers do with a session.

use std::sync::atomic::Ordering;

use http::{HeaderValue, Request};

use super::Session;
use super::state::{Expiry, Handshake, Outside, SessionId};
use crate::error::SessionExpired;
use crate::headers::{MCP_PROTOCOL_VERSION, MCP_SESSION_ID, value_of};
use crate::options::Pinned;
use crate::{Era, JsonRpcMessage, JsonRpcRequest, Payload, ProtocolVersion, RequestId};

impl Session {
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
    /// expired, so that nothing else is sent without one. `None`: it is no longer, as the application has begun another.
    pub(crate) fn begin_again(&self) -> Option<Handshake> {
        let mut state = self.lock();
        matches!(state.id, SessionId::Expired { .. }).then(|| {
            state.handshakes += 1;
            Handshake(state.handshakes)
        })
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

    /// The session that `request` is to be sent in, at the version that it is sent with: whatever goes on with its stream
    /// speaks what it spoke. `None`: in the modern era there is none. Fails if the one that it belongs to is over.
    pub(crate) fn claim_for(&self, request: &Request<Payload>) -> Result<Option<Pinned>, SessionExpired> {
        let own = own_version(request);
        let mut state = self.lock();
        let version = own.as_ref().or(state.version.as_ref());
        if version.is_some_and(|version| version.era() == Era::Modern) {
            return Ok(None);
        }
        let is_over = |pinned: &Pinned| !state.is_current(pinned);
        if request.extensions().get().is_some_and(is_over) || matches!(state.id, SessionId::Expired { .. }) {
            return Err(SessionExpired::new(None));
        }
        let session = state.pin();
        drop(state);
        Ok(Some(match own {
            Some(version) => session.at(version),
            None => session,
        }))
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
        let mut state = self.lock();
        if state.is_current(&pinned) {
            return Some(pinned);
        }
        let is_replayed = state.replayed.iter().any(|(found, at)| found == id && *at == state.handshakes);
        is_replayed.then(|| state.pin())
    }

    /// The caller has cancelled a request, which is not to be sent again.
    pub(crate) fn note_cancelled(&self, id: &RequestId) {
        /// One that is forgotten here may be sent again, that is all.
        const CANCELLED: usize = 1024;
        let mut state = self.lock();
        if state.cancelled.len() == CANCELLED {
            state.cancelled.pop_front();
        }
        state.cancelled.push_back(id.clone());
        self.0.has_cancelled.store(true, Ordering::Release);
    }

    /// The request is over, or its id is used again.
    pub(crate) fn forget_cancelled(&self, id: &RequestId) {
        // Most connections never have any.
        if self.0.has_cancelled.load(Ordering::Acquire) {
            let mut state = self.lock();
            state.cancelled.retain(|cancelled| cancelled != id);
            self.0.has_cancelled.store(!state.cancelled.is_empty(), Ordering::Release);
        }
    }

    /// Whether the caller has cancelled the request.
    pub(crate) fn is_cancelled(&self, id: &RequestId) -> bool {
        self.0.has_cancelled.load(Ordering::Acquire) && self.lock().cancelled.contains(id)
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
        match value_of(request.headers(), &MCP_SESSION_ID) {
            Some(claimed) if !state.holds(claimed) => Err(SessionExpired::new(None)),
            _ => Ok(pinned.and_then(Pinned::version).or(state.version.as_ref()).cloned()),
        }
    }

    /// The era that `request` is sent in.
    pub(crate) fn era_of(&self, request: &Request<Payload>) -> Era {
        if request.body().message().is_some_and(JsonRpcMessage::is_initialize) {
            return Era::Legacy;
        }
        own_era(request).unwrap_or_else(|| self.era())
    }
}

/// The version that a request is sent with, unless that is the connection's.
fn own_version(request: &Request<Payload>) -> Option<ProtocolVersion> {
    let pinned = || request.extensions().get().and_then(Pinned::version).cloned();
    stamp(request, request.body().message()).or_else(pinned)
}

/// The era of that version.
pub(crate) fn own_era(request: &Request<Payload>) -> Option<Era> {
    own_version(request).map(|version| version.era())
}

/// The version that a request names itself, in a header of the caller's or in its `_meta`.
fn stamp(request: &Request<Payload>, message: Option<&JsonRpcMessage>) -> Option<ProtocolVersion> {
    if let Some(value) = value_of(request.headers(), &MCP_PROTOCOL_VERSION) {
        return ProtocolVersion::from_header(value).ok();
    }
    message?.as_request()?.protocol_version().ok()?.cloned()
}
