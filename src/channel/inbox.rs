//! What the two halves of a channel and its tasks share.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::AbortHandle;
use tracing::Span;

use super::delivery::Watch;
use super::driver::{Command, Outgoing, Pass};
use super::table::{Entry, Queued, State};
use super::ticket::{Key, Ticket};
use super::{ChannelOptions, Incoming, Origin, SendError};
use crate::error::Cancelled;
use crate::options::QuietDrop;
use crate::{Error, JsonRpcMessage, JsonRpcNotification, JsonRpcResponse, RequestId};

/// The way into a channel, and the requests in it that wait for their answers.
///
/// Both queues are unbounded, so that nobody has to wait with a lock held. What bounds them is counted here: requests and
/// their answers by the table, other messages by the permits that travel with them.
#[derive(Clone)]
pub(super) struct Inbox(Arc<Shared>);

struct Shared {
    state: Mutex<State>,
    /// For messages of the server's that were not read yet.
    unread: Arc<Semaphore>,
    /// For notifications and responses that were not sent yet.
    unsent: Arc<Semaphore>,
    max_in_flight: usize,
}

impl Inbox {
    pub(super) fn new(
        options: &ChannelOptions,
        commands: UnboundedSender<Command>,
        queue: UnboundedSender<Queued>,
    ) -> Self {
        let permits = |wanted: usize| Arc::new(Semaphore::new(wanted.min(Semaphore::MAX_PERMITS)));
        let state = State {
            commands: Some(commands),
            queue: Some(queue),
            requests: HashMap::new(),
            tickets: 0,
            unused: 0,
            unread: 0,
            refused: 0,
        };
        Self(Arc::new(Shared {
            state: Mutex::new(state),
            unread: permits(options.max_unread),
            unsent: permits(options.max_unsent),
            max_in_flight: options.max_in_flight,
        }))
    }

    /// Takes a message to be sent. All of it is one step, so that messages are sent in the order in which they were
    /// accepted. `permit` is one that was taken before for a notification or response; `watch` is told what becomes of it.
    pub(super) fn accept(
        &self,
        message: JsonRpcMessage,
        permit: Option<OwnedSemaphorePermit>,
        watch: Watch,
    ) -> Result<(), SendError> {
        let mut superseded = None;
        let mut state = self.lock();
        if state.commands.is_none() {
            return Err(SendError::closed(message));
        }
        let (message, pass) = match message {
            JsonRpcMessage::Request(request) => {
                if !state.has_room(request.id(), self.0.max_in_flight) {
                    return state.refuse(request.into(), self.0.max_in_flight, watch);
                }
                let own: Option<&QuietDrop> = request.extensions().get();
                let quiet = own.map_or_else(QuietDrop::new, QuietDrop::child);
                let (key, earlier) = state.register(request.id(), quiet.clone(), watch);
                superseded = earlier;
                let message = JsonRpcMessage::from(request).with(quiet);
                (message, Pass::Request(Ticket::new(key, self.clone())))
            }
            message => match permit.map_or_else(|| self.0.unsent.clone().try_acquire_owned(), Ok) {
                Ok(permit) => {
                    let cancelled =
                        message.as_notification().and_then(JsonRpcNotification::cancelled_request);
                    let cancels = cancelled.and_then(|id| state.key(&id));
                    (message, Pass::Ordered { permit, cancels, watch })
                }
                Err(_) => return Err(SendError::full(message)),
            },
        };
        let command = Command::Send(Box::new(Outgoing { message, span: Span::current(), pass }));
        let unsent = state.commands.as_ref().and_then(|commands| commands.send(command).err());
        // What comes back, because the runtime is going away, takes this lock as it is dropped.
        drop(state);
        drop(unsent);
        if let Some(Entry { task: Some(task), .. }) = superseded {
            task.abort();
        }
        Ok(())
    }

    /// Room for a notification or response. `None`: the channel is closed.
    pub(super) async fn room_to_send(self) -> Option<OwnedSemaphorePermit> {
        self.0.unsent.clone().acquire_owned().await.ok()
    }

    /// Notes the task that sends a request, and ends it if its answer is out, or its id was given to another.
    pub(super) fn started(&self, key: &Key, task: AbortHandle) {
        let mut state = self.lock();
        match state.current(key).filter(|entry| !entry.answered) {
            Some(entry) => entry.task = Some(task),
            None => {
                drop(state);
                task.abort();
            }
        }
    }

    /// Whether an id is in use again, for another request.
    pub(super) fn is_used_again(&self, key: &Key) -> bool {
        self.lock().key(&key.id).is_some_and(|current| current != *key)
    }

    /// Whether a request still waits for its answer.
    pub(super) fn is_waiting(&self, key: &Key) -> bool {
        self.lock().current(key).is_some_and(|entry| !entry.answered)
    }

    /// Hands the reader a message that came before the answer to a request. `room` is what it takes up until it is read.
    pub(super) fn push_early(&self, incoming: Incoming, key: &Key, room: OwnedSemaphorePermit) {
        self.lock().push(Queued::Early { incoming, key: key.clone(), _room: room });
    }

    /// Hands the reader an item of the listening stream that is no response.
    pub(super) async fn push_heard(&self, item: Result<Incoming, Error>) {
        let Some(_room) = self.room_to_read().await else { return };
        self.lock().push(Queued::Heard { item, _room });
    }

    /// Hands the reader the answer to a request, if it waits for one still.
    pub(super) fn answer(&self, key: &Key, answer: Incoming) {
        self.lock().answer(key, answer);
    }

    /// The first message of a reply has come.
    pub(super) fn begun(&self, key: &Key) {
        if let Some(entry) = self.lock().current(key) {
            entry.watch.begun();
        }
    }

    /// Tells whoever waits for the answer to a request that there will be none.
    pub(super) fn fail(&self, key: &Key, error: Error) {
        let mut state = self.lock();
        let Some(entry) = state.current(key).filter(|entry| !entry.answered) else { return };
        match entry.watch.failed(error) {
            Some(error) => state.answer(key, Incoming::failed(&key.id, error)),
            // Not before its reader has come so far: what it has brought can still be read.
            None => state.end(key, Queued::Failed(key.clone())),
        }
    }

    /// A request was given up by its sender: it gets no answer.
    pub(super) fn forget(&self, key: &Key, error: Error) {
        let mut state = self.lock();
        if let Some(entry) = state.current(key).filter(|entry| !entry.answered) {
            let _ = entry.watch.failed(error);
            state.requests.remove(&key.id);
        }
    }

    /// Cancels a request by dropping its reply: what that means to the server is for the transport.
    pub(super) fn cancel(&self, key: &Key) {
        let task = self.lock().current(key).and_then(|entry| entry.task.take());
        self.forget(key, Error::new(Cancelled));
        if let Some(task) = task {
            task.abort();
        }
    }

    /// The ticket with this key is gone.
    pub(super) fn use_up(&self, key: &Key) {
        let mut state = self.lock();
        state.unused -= 1;
        // What has come for it before the channel closed can still be read.
        let is_closing = state.commands.is_none();
        match state.current(key).filter(|entry| !entry.answered) {
            Some(entry) if is_closing => entry.watch = Watch::default(),
            Some(_) => drop(state.requests.remove(&key.id)),
            None => {}
        }
    }

    /// Tells of a failure whose `Delivery` was dropped with it inside.
    pub(super) fn fail_late(&self, id: &RequestId, error: Error) {
        let mut state = self.lock();
        // Room for all that can have been accepted and not been read since, and for as many over the limit as are answered.
        if state.refused < self.0.max_in_flight.max(1).saturating_mul(3) {
            state.refused += 1;
            state.push(Queued::Refusal(Incoming::failed(id, error)));
        }
    }

    /// A response on the listening stream. If its request is in flight this is the answer, and what its own stream brings
    /// is not waited for any more; if not, it is nobody's.
    pub(super) fn answer_heard(&self, response: JsonRpcResponse) {
        let mut state = self.lock();
        let entry = response.id().and_then(|id| state.requests.get_key_value(id));
        // A request without a task was not sent yet.
        let sent = entry.filter(|(_, entry)| !entry.answered).and_then(|(id, entry)| {
            let key = Key { id: id.clone(), ticket: entry.ticket };
            Some((key, entry.quiet.clone(), entry.task.clone()?))
        });
        let Some((key, quiet, task)) = sent else {
            drop(state);
            tracing::debug!("dropped a response on the listening stream: no request waits for it");
            return;
        };
        state.answer(&key, Incoming::new(response, Origin::Listening));
        drop(state);
        quiet.turn_on();
        task.abort();
    }

    /// What is taken from the queue. `None`: the reader is not to see it, because its request was given up since.
    pub(super) fn take(&self, queued: Queued) -> Option<Result<Incoming, Error>> {
        let mut state = self.lock();
        match queued {
            Queued::Heard { item, .. } => Some(item),
            Queued::Early { incoming, key, .. } => state.current(&key).map(|_| Ok(incoming)),
            Queued::Answer { incoming, key } => state.finish(&key).then_some(Ok(incoming)),
            Queued::Failed(key) => {
                state.finish(&key);
                None
            }
            Queued::Refusal(incoming) => {
                state.refused -= 1;
                let response = incoming.message.as_response().and_then(JsonRpcResponse::id);
                // Its id may have come into use since.
                let is_current = response.is_some_and(|id| !state.requests.contains_key(id));
                is_current.then_some(Ok(incoming))
            }
        }
    }

    pub(super) fn is_closed(&self) -> bool {
        self.lock().commands.is_none()
    }

    /// Nothing more is accepted, and the driver closes the channel.
    pub(super) fn close(&self) {
        if let Some(commands) = self.lock().commands.take() {
            let _ = commands.send(Command::Close);
        }
        self.0.unsent.close();
    }

    /// The requests in flight are about to be dropped, and the server is not to be told of each.
    pub(super) fn hush(&self) {
        self.lock().requests.values().for_each(|entry| entry.quiet.turn_on());
    }

    /// The reader gets an error and then the end.
    pub(super) fn refuse(&self, error: Error) {
        if let Ok(_room) = self.0.unread.clone().try_acquire_owned() {
            self.lock().push(Queued::Heard { item: Err(error), _room });
        }
    }

    /// The reader gets what is in the queue, then the end.
    pub(super) fn end(&self) {
        self.close();
        self.lock().queue = None;
    }

    /// Room for a message to be read.
    pub(super) async fn room_to_read(&self) -> Option<OwnedSemaphorePermit> {
        self.0.unread.clone().acquire_owned().await.ok()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // No step in here leaves the state half-made.
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
