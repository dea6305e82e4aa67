//! The task of one request.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;

use tokio::sync::OwnedSemaphorePermit;
use tokio::sync::mpsc::UnboundedSender;

use super::driver::Command;
use super::inbox::Inbox;
use super::ticket::Ticket;
use super::{Call, Incoming, next};
use crate::error::{EndedStream, Superseded};
use crate::{Error, Reply};

/// Tells the driver when an `initialize` is over, however it ends.
pub(super) struct Handshake {
    pub(super) number: u64,
    pub(super) driver: UnboundedSender<Command>,
}

impl Drop for Handshake {
    fn drop(&mut self) {
        let _ = self.driver.send(Command::HandshakeOver(self.number));
    }
}

/// Sends a request, and hands on what comes of it.
pub(super) async fn run(call: Call, ticket: Ticket, handshake: Option<Handshake>) {
    let outcome = answer(call, &ticket).await;
    // Before the answer is handed on: what its reader sends then need not wait.
    drop(handshake);
    match outcome {
        Ok(response) => ticket.answer(response),
        // Its sender has given it up, or given its id to another.
        Err(error) if error.is_cancelled() || error.find::<Superseded>().is_some() => ticket.give_up(error),
        Err(error) => ticket.fail(error),
    }
}

async fn answer(call: Call, ticket: &Ticket) -> Result<Incoming, Error> {
    let mut reply = call.await?;
    let mut begun = false;
    while let Some(message) = next(&mut reply).await.transpose()? {
        let is_response = message.as_response().is_some();
        let incoming = Incoming::new(message, ticket.origin()).after(&reply);
        if is_response {
            return Ok(incoming);
        }
        if !std::mem::replace(&mut begun, true) {
            // Before there is room: whoever waits for this may be the one who is to read.
            ticket.inbox().begun(ticket.key());
        }
        if let Some(room) = room(&mut reply, ticket.inbox()).await? {
            ticket.inbox().push_early(incoming, ticket.key(), room);
        }
    }
    // A layer of the caller's may have ended it.
    Err(Error::new(EndedStream))
}

/// Room for a message of `reply` to be read, unless the request is given up while there is none.
async fn room(reply: &mut Reply, inbox: &Inbox) -> Result<Option<OwnedSemaphorePermit>, Error> {
    let mut room = pin!(inbox.room_to_read());
    poll_fn(|cx| {
        if let Poll::Ready(room) = room.as_mut().poll(cx) {
            return Poll::Ready(Ok(room));
        }
        match reply.poll_given_up(cx) {
            Poll::Ready(Some(Err(error))) => Poll::Ready(Err(error)),
            _ => Poll::Pending,
        }
    })
    .await
}
