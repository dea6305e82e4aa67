//! The task that sends what goes into a channel, in order.

use std::collections::VecDeque;

use tokio::sync::OwnedSemaphorePermit;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::timeout;
use tracing::{Instrument, Span};

use super::delivery::Watch;
use super::inbox::Inbox;
use super::lane::{Dispatch, Lane, Report};
use super::listening::Listening;
use super::ticket::{Key, Ticket};
use super::{ChannelOptions, call, request};
use crate::options::Pinned;
use crate::{Era, JsonRpcMessage, StreamableHttp};

/// What the driver is told.
pub(super) enum Command {
    Send(Box<Outgoing>),
    /// An `initialize` has its answer, or will have none.
    HandshakeOver(u64),
    /// The server has answered the lane's message, or takes its time.
    LaneFree(u64),
    /// The server has accepted `notifications/initialized`, of the handshake with this number.
    Initialized(u64),
    Close,
}

/// A message to be sent, in the span of its sender.
pub(super) struct Outgoing {
    pub(super) message: JsonRpcMessage,
    pub(super) span: Span,
    pub(super) pass: Pass,
}

pub(super) enum Pass {
    Request(Ticket),
    /// `cancels`: the request that it is to cancel.
    Ordered {
        permit: OwnedSemaphorePermit,
        cancels: Option<Key>,
        watch: Watch,
    },
}

/// What messages wait for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Barrier {
    /// The answer to the `initialize` with this number. Responses pass: the server may ask for something first.
    Handshake(u64),
    /// The acceptance of the `notifications/initialized` with this number in the lane.
    Initialized(u64),
}

/// It only ever waits for commands, so nothing that is slow delays anything else.
pub(super) struct Driver {
    transport: StreamableHttp,
    options: ChannelOptions,
    inbox: Inbox,
    commands: UnboundedReceiver<Command>,
    own: UnboundedSender<Command>,
    barrier: Option<Barrier>,
    held: VecDeque<Outgoing>,
    handshakes: u64,
    lane: Lane,
    /// The requests, and the listening stream.
    streams: JoinSet<()>,
    listening: Listening,
    listener: Option<AbortHandle>,
}

impl Driver {
    pub(super) fn new(
        transport: StreamableHttp,
        options: ChannelOptions,
        inbox: Inbox,
        commands: UnboundedReceiver<Command>,
        own: UnboundedSender<Command>,
    ) -> Self {
        Self {
            lane: Lane::new(transport.clone(), inbox.clone(), options.patience, own.clone()),
            listening: Listening::new(inbox.clone()),
            transport,
            options,
            inbox,
            commands,
            own,
            barrier: None,
            held: VecDeque::new(),
            handshakes: 0,
            streams: JoinSet::new(),
            listener: None,
        }
    }

    /// Runs until the channel is closed. Dropping it ends all that it has started.
    pub(super) async fn run(mut self) {
        while let Some(command) = self.commands.recv().await {
            while self.streams.try_join_next().is_some() {}
            match command {
                Command::Send(outgoing) => self.admit(*outgoing),
                Command::HandshakeOver(number) => self.lift(Barrier::Handshake(number)),
                Command::LaneFree(number) => self.lane_free(number),
                Command::Initialized(handshake) if handshake == self.handshakes => self.listen(),
                Command::Initialized(_) => {}
                Command::Close => break,
            }
        }
        self.close().await;
    }

    fn admit(&mut self, outgoing: Outgoing) {
        let message = &outgoing.message;
        let passes = match self.barrier {
            None => true,
            // A second `initialize` begins anew: it must not wait for one that was given up.
            Some(Barrier::Handshake(_)) => message.as_response().is_some() || is_initialize(message),
            Some(Barrier::Initialized(_)) => false,
        };
        if passes { self.send(outgoing) } else { self.held.push_back(outgoing) }
    }

    fn lift(&mut self, barrier: Barrier) {
        if self.barrier == Some(barrier) {
            self.barrier = None;
            for outgoing in std::mem::take(&mut self.held) {
                self.admit(outgoing);
            }
        }
    }

    fn lane_free(&mut self, number: u64) {
        self.lane.advance(number);
        self.lift(Barrier::Initialized(number));
    }

    fn send(&mut self, Outgoing { message, span, pass }: Outgoing) {
        match pass {
            Pass::Request(ticket) if ticket.inbox().is_waiting(ticket.key()) => {
                let handshake = is_initialize(&message).then(|| self.begin_handshake());
                let call = span.in_scope(|| call(&self.transport, message));
                let key = ticket.key().clone();
                let task = self.streams.spawn(request::run(call, ticket, handshake).instrument(span));
                self.inbox.started(&key, task);
            }
            // Its id was given to another while it was held.
            Pass::Request(_) => {}
            Pass::Ordered { cancels, mut watch, .. } if self.is_modern_cancel(&message) => {
                // MCP 2026-07-28 §Transport-Specific Cancellation: nothing is sent, so it waits for nobody's layers.
                cancels.inspect(|request| self.inbox.cancel(request));
                watch.done();
            }
            Pass::Ordered { permit, cancels, watch } => {
                let initialized = message.method() == Some("notifications/initialized");
                let initialized = initialized.then_some(self.handshakes);
                let report = self.report(message, watch);
                let number = self.lane.push(Dispatch { report, cancels, initialized, span, permit });
                if initialized.is_some() {
                    self.barrier = Some(Barrier::Initialized(number));
                }
            }
        }
    }

    /// A message for the lane, of the session and the version that there are now, whatever else is sent before it.
    fn report(&self, message: JsonRpcMessage, watch: Watch) -> Report {
        let message = match message.extensions().get::<Pinned>() {
            None => message.with(self.transport.session().pin()),
            Some(_) => message,
        };
        Report::new(message, &self.options, watch)
    }

    fn is_modern_cancel(&self, message: &JsonRpcMessage) -> bool {
        message.method() == Some("notifications/cancelled") && self.transport.session().era() == Era::Modern
    }

    fn begin_handshake(&mut self) -> request::Handshake {
        self.handshakes += 1;
        self.barrier = Some(Barrier::Handshake(self.handshakes));
        // What is left of the old session must not answer to the new one.
        self.stop_listening();
        request::Handshake { number: self.handshakes, driver: self.own.clone() }
    }

    fn listen(&mut self) {
        if self.options.listen {
            self.stop_listening();
            let reply = self.transport.listen();
            self.listener = Some(self.streams.spawn(self.listening.clone().run(reply)));
        }
    }

    fn stop_listening(&mut self) {
        if let Some(listener) = self.listener.take() {
            listener.abort();
        }
    }

    async fn close(&mut self) {
        self.inbox.hush();
        // Those that were not sent: their session is on its way, unless it never came to be.
        let has_session = matches!(self.barrier.take(), Some(Barrier::Initialized(_)));
        for Outgoing { message, span, pass } in std::mem::take(&mut self.held) {
            if let Pass::Ordered { permit, cancels, watch } = pass {
                // One that is not sent says so as it is dropped.
                let report = self.report(message, watch);
                let dispatch = Dispatch { report, cancels, initialized: None, span, permit };
                has_session.then(|| self.lane.push(dispatch));
            }
        }
        let (within, options) = (self.options.close_timeout, self.options.clone());
        let closing = async {
            self.streams.shutdown().await;
            if timeout(options.flush_timeout, self.flush()).await.is_err() {
                tracing::debug!("closed before all notifications and responses were sent");
            }
            self.lane.shutdown().await;
            if options.terminate {
                if let Err(error) = self.transport.terminate().await {
                    tracing::warn!(%error, "the session was not ended");
                }
            }
        };
        if timeout(within, closing).await.is_err() {
            tracing::warn!("the session may not have ended: closing took too long");
        }
    }

    async fn flush(&mut self) {
        while !self.lane.is_idle() {
            match self.commands.recv().await {
                Some(Command::LaneFree(number)) => self.lane.advance(number),
                Some(_) => {}
                None => return,
            }
        }
        self.lane.finish().await;
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.inbox.end();
    }
}

fn is_initialize(message: &JsonRpcMessage) -> bool {
    message.as_request().is_some_and(|request| request.method() == "initialize")
}
