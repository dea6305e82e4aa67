//! How far a stream was followed, and when to take it up again.

use std::collections::VecDeque;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::LazyLock;
use std::time::Duration;

use http::{HeaderValue, StatusCode};

use crate::backoff::Attempts;
use crate::error::{BoxError, GaveUp, RetryTooLong, UnexpectedStatus, find};
use crate::{Backoff, Event};

/// How many events of a stream are remembered, to know them again.
const REMEMBERED: usize = 1024;

/// One for all streams, as each would have to hold its own.
static HASHER: LazyLock<RandomState> = LazyLock::new(RandomState::new);

/// A longer id would not get through as a header.
const MAX_ID_BYTES: usize = 8 << 10;

/// The position in one stream that may go on over several connections.
pub(crate) struct Trail {
    backoff: Backoff,
    attempts: Attempts,
    position: Option<HeaderValue>,
    /// What the server has last asked to wait.
    retry: Option<Duration>,
    /// Hashes of the ids of events that were delivered, keyed by chance: a server cannot aim for two that are the same.
    delivered: VecDeque<u64>,
    is_resumed: bool,
    has_progressed: bool,
    /// Since there was progress.
    waits: u32,
    /// In a row, without a message.
    polls: u32,
    /// Whether attempts are not counted.
    is_endless: bool,
}

/// How a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The server has ended it properly.
    Clean,
    Broken,
}

impl Trail {
    pub(crate) fn new(backoff: Backoff, attempts: Attempts) -> Self {
        Self {
            backoff,
            attempts,
            position: None,
            retry: None,
            delivered: VecDeque::new(),
            is_resumed: false,
            has_progressed: false,
            waits: 0,
            polls: 0,
            is_endless: false,
        }
    }

    /// From now on it is never given up.
    pub(crate) fn never_give_up(&mut self) {
        // Unless nothing is to be sent again at all.
        self.is_endless = self.backoff.max_attempts() > 0;
    }

    /// One that begins after the event with this id.
    pub(crate) fn after(mut self, id: &str) -> Self {
        self.note_position(id);
        self.is_resumed = true;
        self
    }

    /// What `Last-Event-ID` is to say; `None`: the stream cannot be resumed.
    pub(crate) fn position(&self) -> Option<&HeaderValue> {
        self.position.as_ref()
    }

    /// Whether there is a position to go on from, and it is allowed.
    pub(crate) fn can_go_on(&self) -> bool {
        self.position.is_some() && self.backoff.max_attempts() > 0
    }

    /// A connection is open. `is_resumed`: it goes on after the position, so it may bring what came before.
    pub(crate) fn opened(&mut self, is_resumed: bool) {
        self.is_resumed = is_resumed;
        self.has_progressed = false;
    }

    /// A connection has lasted, which is progress that no event shows.
    pub(crate) fn lasted(&mut self) {
        self.progress();
        self.polls = 0;
    }

    /// The stream begins anew: ids of the old one mean nothing in it.
    pub(crate) fn forget(&mut self) {
        self.position = None;
        self.retry = None;
        self.delivered.clear();
        self.is_resumed = false;
        self.lasted();
    }

    /// Notes an event. Returns whether it is to be handed on, as it was not delivered before.
    pub(crate) fn pass(&mut self, event: &Event) -> bool {
        self.retry = event.retry.or(self.retry);
        let within = event.within.as_ref().filter(|_| self.is_resumed);
        let mut is_known = within.is_some_and(|id| self.delivered.contains(&HASHER.hash_one(&***id)));
        if let Some(id) = &event.id {
            is_known = self.remember(id);
            self.note_position(id);
        }
        let has_message = event.message.is_some();
        if is_known && self.is_resumed {
            return event.message.as_ref().is_some_and(|message| message.as_response().is_some());
        }
        if has_message || (event.id.is_some() && !is_known) {
            self.progress();
        }
        if has_message {
            self.polls = 0;
        }
        true
    }

    fn progress(&mut self) {
        self.has_progressed = true;
        self.waits = 0;
        self.attempts.reset();
    }

    /// How many attempts have failed since there was progress, counting one that has failed now.
    pub(crate) fn fail(&mut self) -> u32 {
        self.attempts.fail(self.backoff.max_attempts());
        self.attempts.failed()
    }

    /// A connection has ended. Returns how long to wait before the next.
    pub(crate) fn ended(&mut self, end: End) -> Result<Duration, BoxError> {
        if let Some(retry) = self.retry {
            self.retry = Some(self.allowed("retry", retry, None)?.0);
        }
        if self.backoff.max_attempts() == 0 && !self.is_endless {
            return Err(GaveUp::new(0, None).into());
        }
        match (end, self.retry) {
            // MCP 2025-11-25 §Sending Messages to the Server, rule 6: the server wants to be polled.
            (End::Clean, Some(retry)) => {
                let wait = self.backoff.poll_wait(retry, self.polls);
                self.polls = self.polls.saturating_add(1);
                Ok(wait)
            }
            _ if self.has_progressed || !self.is_resumed => Ok(self.next_wait()),
            _ => self.failed(None),
        }
    }

    /// An attempt to connect has failed, or has brought nothing. Returns how long to wait before the next.
    pub(crate) fn failed(&mut self, error: Option<BoxError>) -> Result<Duration, BoxError> {
        let status = error.as_ref().and_then(|error| find::<UnexpectedStatus>(&**error));
        let is_conflict = status.is_some_and(|status| status.status() == StatusCode::CONFLICT);
        let (asked, error) = match status.and_then(UnexpectedStatus::retry_after) {
            Some(asked) => {
                self.allowed("Retry-After", asked, error).map(|(asked, error)| (Some(asked), error))?
            }
            None => (None, error),
        };
        if !self.attempts.fail(self.backoff.max_attempts()) && !self.is_endless {
            return Err(GaveUp::new(self.attempts.failed(), error).into());
        }
        let wait = self.next_wait();
        Ok(self.backoff.at_least(wait, asked, is_conflict))
    }

    /// A wait that the server asks for, if it is not too long; a stream that is never given up waits as long as is allowed.
    fn allowed(
        &self,
        field: &'static str,
        asked: Duration,
        error: Option<BoxError>,
    ) -> Result<(Duration, Option<BoxError>), BoxError> {
        match self.backoff.longest_retry() {
            limit if asked <= limit => Ok((asked, error)),
            limit if self.is_endless => Ok((limit, error)),
            limit => Err(RetryTooLong::new(field, asked, limit, error).into()),
        }
    }

    fn next_wait(&mut self) -> Duration {
        let wait = self.backoff.wait(self.retry, self.waits);
        self.waits = self.waits.saturating_add(1);
        wait
    }

    fn note_position(&mut self, id: &str) {
        // WHATWG HTML §9.2.6: an empty id takes the last one back.
        let sent = Some(id.as_bytes()).filter(|id| !id.is_empty() && id.len() <= MAX_ID_BYTES);
        self.position = sent.and_then(|id| HeaderValue::from_bytes(id).ok());
    }

    /// Returns whether the event was delivered before.
    fn remember(&mut self, id: &str) -> bool {
        if id.is_empty() {
            return false;
        }
        let hash = HASHER.hash_one(id);
        let is_known = self.is_resumed && self.delivered.contains(&hash);
        if !is_known {
            if self.delivered.len() == REMEMBERED {
                self.delivered.pop_front();
            }
            self.delivered.push_back(hash);
        }
        is_known
    }
}
