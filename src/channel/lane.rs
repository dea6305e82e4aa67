//! The lane for notifications and responses, which go one at a time.

use std::collections::VecDeque;
use std::pin::pin;
use std::time::Duration;

use tokio::sync::OwnedSemaphorePermit;
use tokio::sync::mpsc::UnboundedSender;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tracing::{Instrument, Span};

use super::driver::Command;
use super::options::Hook;
use super::{Call, ChannelOptions, next};
use crate::error::TimedOut;
use crate::{Error, JsonRpcMessage};

/// How long a message that was overtaken may still take.
const LAST_CHANCE: Duration = Duration::from_secs(30);

/// A notification or response on its way.
pub(super) struct Delivery {
    pub(super) call: Call,
    pub(super) message: JsonRpcMessage,
    pub(super) initialized: bool,
    pub(super) span: Span,
    /// Of the room that it takes up until it is sent.
    pub(super) permit: OwnedSemaphorePermit,
}

pub(super) struct Lane {
    waiting: VecDeque<(u64, Delivery)>,
    /// The number of the one that is being sent.
    busy: Option<u64>,
    numbers: u64,
    deliveries: JoinSet<()>,
    driver: UnboundedSender<Command>,
    patience: Duration,
    hook: Option<Hook>,
}

impl Lane {
    pub(super) fn new(options: &ChannelOptions, driver: UnboundedSender<Command>) -> Self {
        Self {
            waiting: VecDeque::new(),
            busy: None,
            numbers: 0,
            deliveries: JoinSet::new(),
            driver,
            patience: options.patience,
            hook: options.on_send_failure.clone(),
        }
    }

    /// Sends a message when those before it are through; the lane is free for the next when the driver hears of its
    /// number.
    pub(super) fn push(&mut self, delivery: Delivery) -> u64 {
        self.numbers += 1;
        self.waiting.push_back((self.numbers, delivery));
        if self.busy.is_none() {
            self.start_next();
        }
        self.numbers
    }

    /// The message with this number no longer holds up the next.
    pub(super) fn advance(&mut self, number: u64) {
        if self.busy == Some(number) {
            self.busy = None;
            self.start_next();
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.busy.is_none()
    }

    /// Gives up what is not delivered yet.
    pub(super) async fn shutdown(&mut self) {
        self.waiting.clear();
        self.deliveries.shutdown().await;
    }

    fn start_next(&mut self) {
        while self.deliveries.try_join_next().is_some() {}
        let Some((number, delivery)) = self.waiting.pop_front() else { return };
        self.busy = Some(number);
        let turn = Turn { number, driver: self.driver.clone() };
        let span = delivery.span.clone();
        let delivering = deliver(delivery, turn, self.patience, self.hook.clone());
        self.deliveries.spawn(delivering.instrument(span));
    }
}

/// Frees the lane for the next message, whatever happens to this one.
struct Turn {
    number: u64,
    driver: UnboundedSender<Command>,
}

impl Drop for Turn {
    fn drop(&mut self) {
        let _ = self.driver.send(Command::LaneFree(self.number));
    }
}

async fn deliver(delivery: Delivery, turn: Turn, patience: Duration, hook: Option<Hook>) {
    let Delivery { call, message, initialized, permit, .. } = delivery;
    let driver = turn.driver.clone();
    let mut acceptance = pin!(accepted(call));
    let outcome = match timeout(patience, &mut acceptance).await {
        Ok(outcome) => outcome,
        Err(_) => {
            drop((turn, permit));
            let overdue = TimedOut::new("the answer to a notification or response", "patience", patience);
            timeout(LAST_CHANCE, acceptance).await.unwrap_or_else(|_| Err(Error::new(overdue)))
        }
    };
    match outcome {
        Ok(()) if initialized => drop(driver.send(Command::Initialized)),
        Ok(()) => {}
        Err(error) => {
            tracing::warn!(method = message.method(), %error, "a message was not delivered");
            if let Some(hook) = hook {
                hook(&message, &error);
            }
        }
    }
}

async fn accepted(call: Call) -> Result<(), Error> {
    let mut reply = call.await?;
    next(&mut reply).await.transpose().map(drop)
}
