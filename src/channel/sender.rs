//! The write half.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use futures_sink::Sink;
use tokio::sync::OwnedSemaphorePermit;
use tokio::sync::mpsc::UnboundedSender;

use super::delivery::Watch;
use super::driver::Command;
use super::inbox::Inbox;
use super::{Delivery, SendError, Until};
use crate::JsonRpcMessage;

type Boxed<T> = Pin<Box<dyn Future<Output = T> + Send + Sync>>;

/// The write half of a [`Channel`](super::Channel). Clones write into the same channel; when the last of them is dropped, it closes.
///
/// As a [`Sink`] it is ready when there is room for a notification or response to wait in
/// ([`max_unsent`](super::ChannelOptions::max_unsent)); requests need no room. Flushing does not wait for the network:
/// what fails is told on the read half. Closing waits until the channel is closed.
pub struct Sender {
    handle: Arc<Handle>,
    /// Of the sink.
    reserving: Option<Boxed<Option<OwnedSemaphorePermit>>>,
    reserved: Option<OwnedSemaphorePermit>,
    closing: Option<Boxed<()>>,
}

/// Closes the channel with the last sender.
struct Handle {
    inbox: Inbox,
    commands: UnboundedSender<Command>,
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.inbox.close();
    }
}

impl Sender {
    pub(super) fn new(inbox: Inbox, commands: UnboundedSender<Command>) -> Self {
        Self::of(Arc::new(Handle { inbox, commands }))
    }

    fn of(handle: Arc<Handle>) -> Self {
        Self { handle, reserving: None, reserved: None, closing: None }
    }

    /// Takes a message to be sent, at once and without waiting: messages are sent in the order of these calls, but for
    /// what the [channel](super::Channel) says of the lane for notifications and responses. Whatever becomes of a *request* is
    /// told on the read half; a notification or response that fails is logged, and told to
    /// [`on_send_failure`](super::ChannelOptions::on_send_failure).
    ///
    /// The current [`tracing`] span is that in which the message is sent.
    ///
    /// # Errors
    /// The channel is closed, or too many messages wait; the message comes back with the error.
    pub fn send(&self, message: JsonRpcMessage) -> Result<(), SendError> {
        self.handle.inbox.accept(message, None, Watch::default())
    }

    /// The same, for a caller who wants to know what becomes of this one message: see [`Delivery`]. A failure is told there
    /// instead of on the read half, as an [`Error`](crate::Error) and not as a JSON-RPC one; that of a notification or response
    /// also as ever.
    ///
    /// # Errors
    /// As [`send`](Self::send), but that a request over [`max_in_flight`](super::ChannelOptions::max_in_flight) is
    /// refused by the `Delivery`.
    pub fn deliver(&self, message: JsonRpcMessage, until: Until) -> Result<Delivery, SendError> {
        let inbox = &self.handle.inbox;
        let request = message.as_request().map(|request| (request.id().clone(), inbox.clone()));
        let (watch, delivery) = Watch::new(until, request);
        inbox.accept(message, None, watch)?;
        Ok(delivery)
    }

    /// Closes the channel, and waits until that is done: see [`Channel::close`](super::Channel::close). The read half gets what has arrived by
    /// then, and ends.
    pub fn close(&self) -> impl Future<Output = ()> + Send + Sync + 'static {
        self.handle.inbox.close();
        let commands = self.handle.commands.clone();
        async move { commands.closed().await }
    }

    /// Whether the channel is closed, or is being closed.
    pub fn is_closed(&self) -> bool {
        self.handle.inbox.is_closed()
    }
}

impl Clone for Sender {
    fn clone(&self) -> Self {
        Self::of(self.handle.clone())
    }
}

impl Sink<JsonRpcMessage> for Sender {
    type Error = SendError;

    fn poll_ready(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), SendError>> {
        let this = self.get_mut();
        if this.is_closed() {
            return Poll::Ready(Err(SendError::closed(None)));
        }
        if this.reserved.is_none() {
            let inbox = &this.handle.inbox;
            let reserving = this.reserving.get_or_insert_with(|| Box::pin(inbox.clone().room_to_send()));
            let permit = ready!(reserving.as_mut().poll(cx));
            this.reserving = None;
            this.reserved = Some(permit.ok_or_else(|| SendError::closed(None))?);
        }
        Poll::Ready(Ok(()))
    }

    fn start_send(self: Pin<&mut Self>, message: JsonRpcMessage) -> Result<(), SendError> {
        let this = self.get_mut();
        // A request needs none, and must not keep it from others.
        let permit = this.reserved.take().filter(|_| message.as_request().is_none());
        this.handle.inbox.accept(message, permit, Watch::default())
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Result<(), SendError>> {
        Poll::Ready(Ok(()))
    }

    fn poll_close(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), SendError>> {
        let this = self.get_mut();
        let mut closing = this.closing.take().unwrap_or_else(|| Box::pin(this.close()));
        if closing.as_mut().poll(cx).is_pending() {
            this.closing = Some(closing);
            return Poll::Pending;
        }
        Poll::Ready(Ok(()))
    }
}

impl fmt::Debug for Sender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sender").field("closed", &self.is_closed()).finish_non_exhaustive()
    }
}
