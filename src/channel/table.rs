//! What is known of the requests in flight.

use std::collections::HashMap;

use tokio::sync::OwnedSemaphorePermit;
use tokio::sync::mpsc::UnboundedSender;
use tokio::task::AbortHandle;

use super::delivery::Watch;
use super::driver::Command;
use super::ticket::Key;
use super::{Incoming, SendError, TooManyInFlight};
use crate::options::QuietDrop;
use crate::{Error, JsonRpcMessage, RequestId};

/// The requests in flight, and the queues that lead in and out.
pub(super) struct State {
    /// To the driver. `None`: the channel is being closed.
    pub(super) commands: Option<UnboundedSender<Command>>,
    /// To the reader. `None`: the channel is closed.
    pub(super) queue: Option<UnboundedSender<Queued>>,
    pub(super) requests: HashMap<RequestId, Entry>,
    pub(super) tickets: u64,
    /// How many tickets were not used up yet, and how many answers were not read. If ids are used again while they are in
    /// use, these are more than there are requests.
    pub(super) unused: usize,
    pub(super) unread: usize,
    /// How many requests over the limit have answers that were not read yet.
    pub(super) refused: usize,
}

/// A request whose answer was not read yet.
pub(super) struct Entry {
    pub(super) ticket: u64,
    pub(super) answered: bool,
    pub(super) watch: Watch,
    pub(super) quiet: QuietDrop,
    pub(super) task: Option<AbortHandle>,
}

/// An item on its way to the reader.
pub(super) enum Queued {
    /// A message before the answer to a request.
    Early {
        incoming: Incoming,
        key: Key,
        _room: OwnedSemaphorePermit,
    },
    Answer {
        incoming: Incoming,
        key: Key,
    },
    /// Where the answer to a request would be that has failed, which was told elsewhere.
    Failed(Key),
    /// The answer to a request that has none in the table: it was over the limit, or its failure is told late.
    Refusal(Incoming),
    /// An item of the listening stream.
    Heard {
        item: Result<Incoming, Error>,
        _room: OwnedSemaphorePermit,
    },
}

impl State {
    /// Whether another request may be sent, under this id.
    pub(super) fn has_room(&self, id: &RequestId, limit: usize) -> bool {
        let has_room = self.requests.contains_key(id) || self.requests.len() < limit;
        has_room && self.unused + self.unread < limit.saturating_mul(2)
    }

    /// A ticket for a request. One under the same id loses its own, and is given back.
    pub(super) fn register(
        &mut self,
        id: &RequestId,
        quiet: QuietDrop,
        watch: Watch,
    ) -> (Key, Option<Entry>) {
        self.tickets += 1;
        self.unused += 1;
        let ticket = self.tickets;
        let entry = Entry { ticket, answered: false, watch, quiet, task: None };
        let earlier = self.requests.insert(id.clone(), entry);
        if let Some(earlier) = &earlier {
            earlier.quiet.turn_on();
        }
        (Key { id: id.clone(), ticket }, earlier)
    }

    /// Answers a request over the limit, if there are not too many of those as well.
    pub(super) fn refuse(
        &mut self,
        message: JsonRpcMessage,
        limit: usize,
        mut watch: Watch,
    ) -> Result<(), SendError> {
        let Some(error) = watch.failed(Error::new(TooManyInFlight { limit })) else { return Ok(()) };
        match message.id() {
            // An answer to this one would be taken for that of the other under its id.
            Some(id) if self.refused < limit.max(1) && !self.requests.contains_key(id) => {
                self.refused += 1;
                self.push(Queued::Refusal(Incoming::failed(id, error)));
                Ok(())
            }
            _ => Err(SendError::full(message)),
        }
    }

    /// The use of an id that there is now.
    pub(super) fn key(&self, id: &RequestId) -> Option<Key> {
        self.requests.get(id).map(|entry| Key { id: id.clone(), ticket: entry.ticket })
    }

    pub(super) fn current(&mut self, key: &Key) -> Option<&mut Entry> {
        self.requests.get_mut(&key.id).filter(|entry| entry.ticket == key.ticket)
    }

    /// Queues the answer to a request, if it waits for one still.
    pub(super) fn answer(&mut self, key: &Key, incoming: Incoming) {
        self.end(key, Queued::Answer { incoming, key: key.clone() });
    }

    /// Queues the last of a request, if that was not done yet.
    pub(super) fn end(&mut self, key: &Key, last: Queued) {
        if let Some(entry) = self.current(key).filter(|entry| !entry.answered) {
            entry.answered = true;
            entry.watch.done();
            self.unread += 1;
            self.push(last);
        }
    }

    /// The reader has come to the last of a request. Returns whether the request was still there.
    pub(super) fn finish(&mut self, key: &Key) -> bool {
        self.unread -= 1;
        let is_current = self.current(key).is_some();
        if is_current {
            self.requests.remove(&key.id);
        }
        is_current
    }

    pub(super) fn push(&self, queued: Queued) {
        // Without a reader there is nobody to miss it.
        if let Some(queue) = &self.queue {
            let _ = queue.send(queued);
        }
    }
}
