//! The read half.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures_core::Stream;
use tokio::sync::mpsc::UnboundedReceiver;

use super::Incoming;
use super::inbox::Inbox;
use super::table::Queued;
use crate::Error;

/// The read half of a [`Channel`](super::Channel): a [`Stream`] of what the server sends, and of the answers to requests
/// that have failed.
///
/// An `Err` item is a message on the listening GET that could not be read; the stream goes on. It ends when the channel is
/// closed. Dropping it closes the channel.
pub struct Receiver {
    queue: UnboundedReceiver<Queued>,
    inbox: Inbox,
}

impl Receiver {
    pub(super) fn new(queue: UnboundedReceiver<Queued>, inbox: Inbox) -> Self {
        Self { queue, inbox }
    }
}

impl Stream for Receiver {
    type Item = Result<Incoming, Error>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        loop {
            match ready!(this.queue.poll_recv(cx)) {
                Some(queued) => match this.inbox.take(queued) {
                    Some(item) => return Poll::Ready(Some(item)),
                    None => continue,
                },
                None => return Poll::Ready(None),
            }
        }
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.inbox.close();
    }
}

impl fmt::Debug for Receiver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receiver").field("closed", &self.inbox.is_closed()).finish_non_exhaustive()
    }
}
