//! The duty to answer a request.

use super::error::Panicked;
use super::inbox::Inbox;
use super::{Incoming, Origin};
use crate::{Error, RequestId};

/// One use of a request's id.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Key {
    pub(super) id: RequestId,
    pub(super) ticket: u64,
}

/// The duty to answer a request, or to forget it.
pub(super) struct Ticket {
    key: Key,
    inbox: Inbox,
}

impl Ticket {
    pub(super) fn new(key: Key, inbox: Inbox) -> Self {
        Self { key, inbox }
    }

    pub(super) fn key(&self) -> &Key {
        &self.key
    }

    pub(super) fn inbox(&self) -> &Inbox {
        &self.inbox
    }

    pub(super) fn origin(&self) -> Origin {
        Origin::Request(self.key.id.clone())
    }

    pub(super) fn answer(self, response: Incoming) {
        self.inbox.answer(&self.key, response);
    }

    pub(super) fn fail(self, error: Error) {
        self.inbox.fail(&self.key, error);
    }

    /// Its sender has given it up, or given its id to another.
    pub(super) fn give_up(self, error: Error) {
        self.inbox.forget(&self.key, error);
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // Whoever waits for the answer has not panicked.
            self.inbox.fail(&self.key, Error::new(Panicked));
        }
        self.inbox.use_up(&self.key);
    }
}
