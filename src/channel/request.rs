//! The task of one request.

use tokio::sync::mpsc::UnboundedSender;

use super::driver::Command;
use super::inbox::Ticket;
use super::{Call, next};
use crate::error::{EndedStream, Superseded};
use crate::{Error, JsonRpcMessage, JsonRpcResponse};

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
        Err(error) if error.is_cancelled() || error.find::<Superseded>().is_some() => drop(ticket),
        Err(error) => ticket.fail(error),
    }
}

async fn answer(call: Call, ticket: &Ticket) -> Result<JsonRpcResponse, Error> {
    let mut reply = call.await?;
    while let Some(message) = next(&mut reply).await.transpose()? {
        match message {
            JsonRpcMessage::Response(response) => return Ok(response),
            message => ticket.inbox().push_early(message, ticket.key()).await,
        }
    }
    // A layer of the caller's may have ended it.
    Err(Error::new(EndedStream))
}
