//! The lane for notifications and responses, which go one at a time.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::time::Duration;

use tokio::sync::OwnedSemaphorePermit;
use tokio::sync::mpsc::UnboundedSender;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tracing::{Instrument, Span};

use super::delivery::Watch;
use super::driver::Command;
use super::error::Undelivered;
use super::inbox::Inbox;
use super::options::Hook;
use super::ticket::Key;
use super::{Call, ChannelOptions, call, next};
use crate::error::TimedOut;
use crate::{Error, JsonRpcMessage, StreamableHttp};

/// How long a message that was overtaken may still take.
const LAST_CHANCE: Duration = Duration::from_secs(30);

/// A notification or response on its way.
pub(super) struct Dispatch {
    pub(super) report: Report,
    /// The request that it cancels.
    pub(super) cancels: Option<Key>,
    /// The number of the handshake that it ends.
    pub(super) initialized: Option<u64>,
    pub(super) span: Span,
    /// Of the room that it takes up until it is delivered.
    pub(super) permit: OwnedSemaphorePermit,
}

pub(super) struct Lane {
    transport: StreamableHttp,
    inbox: Inbox,
    waiting: VecDeque<(u64, Dispatch)>,
    /// The number of the one that is being sent.
    busy: Option<u64>,
    numbers: u64,
    deliveries: JoinSet<()>,
    driver: UnboundedSender<Command>,
    patience: Duration,
}

impl Lane {
    pub(super) fn new(
        transport: StreamableHttp,
        inbox: Inbox,
        patience: Duration,
        driver: UnboundedSender<Command>,
    ) -> Self {
        Self {
            transport,
            inbox,
            waiting: VecDeque::new(),
            busy: None,
            numbers: 0,
            deliveries: JoinSet::new(),
            driver,
            patience,
        }
    }

    /// Sends a message when those before it are through; the lane is free for the next when the driver hears of its
    /// number.
    pub(super) fn push(&mut self, dispatch: Dispatch) -> u64 {
        self.numbers += 1;
        self.waiting.push_back((self.numbers, dispatch));
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

    pub(super) fn is_idle(&self) -> bool {
        self.busy.is_none()
    }

    /// Waits for those that were overtaken.
    pub(super) async fn finish(&mut self) {
        while self.deliveries.join_next().await.is_some() {}
    }

    /// Gives up what is not delivered yet.
    pub(super) async fn shutdown(&mut self) {
        self.waiting.clear();
        self.deliveries.shutdown().await;
    }

    fn start_next(&mut self) {
        while self.deliveries.try_join_next().is_some() {}
        let Some((number, dispatch)) = self.next() else { return };
        self.busy = Some(number);
        let driver = self.driver.clone();
        let turn = Turn { number, driver: driver.clone() };
        let Dispatch { mut report, initialized, span, permit, .. } = dispatch;
        let call = span.in_scope(|| call(&self.transport, report.message.clone()));
        let patience = self.patience;
        let delivering = async move {
            let mut acceptance = pin!(accepted(call));
            let mut turn = Some(turn);
            let outcome = match timeout(patience, &mut acceptance).await {
                Ok(outcome) => outcome,
                Err(_) => {
                    turn.take();
                    timeout(LAST_CHANCE, acceptance).await.unwrap_or_else(|_| Err(overdue(patience)))
                }
            };
            match outcome {
                Ok(()) => {
                    report.settle();
                    // Before the turn passes on, so that the driver hears of it first.
                    if let Some(handshake) = initialized {
                        let _ = driver.send(Command::Initialized(handshake));
                    }
                }
                Err(error) => report.fail(error),
            }
            drop((turn, permit));
        };
        self.deliveries.spawn(delivering.instrument(span));
    }
}

impl Lane {
    /// The next that is to be sent: not the cancellation of a request whose id another has now.
    fn next(&mut self) -> Option<(u64, Dispatch)> {
        loop {
            let (number, mut dispatch) = self.waiting.pop_front()?;
            match &dispatch.cancels {
                Some(cancelled) if self.inbox.is_used_again(cancelled) => dispatch.report.settle(),
                _ => return Some((number, dispatch)),
            }
        }
    }
}

/// Tells of a message that was not delivered, even if it is dropped on its way.
pub(super) struct Report {
    message: JsonRpcMessage,
    hook: Option<Hook>,
    watch: Watch,
    is_settled: bool,
}

impl Report {
    pub(super) fn new(message: JsonRpcMessage, options: &ChannelOptions, watch: Watch) -> Self {
        Self { message, hook: options.on_send_failure.clone(), watch, is_settled: false }
    }

    fn settle(&mut self) {
        self.is_settled = true;
        self.watch.done();
    }

    fn fail(&mut self, error: Error) {
        self.is_settled = true;
        tracing::warn!(method = self.message.method(), %error, "a message was not delivered");
        if let Some(hook) = &self.hook {
            // This may be in a `Drop`, where a panic would end the process.
            let _ = catch_unwind(AssertUnwindSafe(|| hook(&self.message, &error)));
        }
        let _ = self.watch.failed(error);
    }
}

impl Drop for Report {
    fn drop(&mut self) {
        if !self.is_settled {
            self.fail(Error::new(Undelivered));
        }
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

fn overdue(patience: Duration) -> Error {
    Error::new(TimedOut::new(
        "the answer to a notification or response",
        "patience",
        patience.saturating_add(LAST_CHANCE),
    ))
}

async fn accepted(call: Call) -> Result<(), Error> {
    let mut reply = call.await?;
    next(&mut reply).await.transpose().map(drop)
}
