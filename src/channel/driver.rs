//! The task that sends what goes into a channel, in order.

use std::collections::VecDeque;
use std::task::{Context, Poll, Waker};

use tokio::sync::OwnedSemaphorePermit;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Instant, timeout_at};
use tower::{Service, ServiceExt};
use tracing::{Instrument, Span};

use super::inbox::{Inbox, Ticket};
use super::lane::{Delivery, Lane};
use super::listening::Listening;
use super::{Call, ChannelOptions, request};
use crate::{JsonRpcMessage, StreamableHttp};

/// What the driver is told.
pub(super) enum Command {
    Send(Box<Outgoing>),
    /// An `initialize` has its answer, or will have none.
    HandshakeOver(u64),
    /// The server has answered the lane's message, or takes its time.
    LaneFree(u64),
    /// The server has accepted `notifications/initialized`.
    Initialized,
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
    Ordered(OwnedSemaphorePermit),
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
            lane: Lane::new(&options, own.clone()),
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
                Command::Initialized if self.options.listen => self.listen(),
                Command::Initialized => {}
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
            Pass::Request(ticket) => {
                let handshake = is_initialize(&message).then(|| self.begin_handshake());
                let call = span.in_scope(|| call(&self.transport, message));
                let key = ticket.key().clone();
                let task = self.streams.spawn(request::run(call, ticket, handshake).instrument(span));
                self.inbox.started(&key, task);
            }
            Pass::Ordered(permit) => {
                let initialized = message.method() == Some("notifications/initialized");
                // Called here, as the order of calls is that in which the session's state is read and changed; nothing
                // is sent before it is polled, in its turn.
                let call = span.in_scope(|| call(&self.transport, message.clone()));
                let number = self.lane.push(Delivery { call, message, initialized, span, permit });
                if initialized {
                    self.barrier = Some(Barrier::Initialized(number));
                }
            }
        }
    }

    fn begin_handshake(&mut self) -> request::Handshake {
        self.handshakes += 1;
        self.barrier = Some(Barrier::Handshake(self.handshakes));
        request::Handshake { number: self.handshakes, driver: self.own.clone() }
    }

    /// Listens, in place of the stream of an earlier session.
    fn listen(&mut self) {
        if let Some(earlier) = self.listener.take() {
            earlier.abort();
        }
        let reply = self.transport.listen();
        self.listener = Some(self.streams.spawn(self.listening.clone().run(reply)));
    }

    async fn close(&mut self) {
        let deadline = Instant::now() + self.options.close_timeout;
        self.inbox.hush();
        // Those that were not sent: their session is on its way, unless it never came to be.
        let held = std::mem::take(&mut self.held);
        if matches!(self.barrier.take(), Some(Barrier::Initialized(_))) {
            held.into_iter()
                .filter(|held| matches!(held.pass, Pass::Ordered(_)))
                .for_each(|held| self.send(held));
        }
        let closing = async {
            self.streams.shutdown().await;
            let flushed = Instant::now() + self.options.flush_timeout;
            let flush = async {
                while !self.lane.is_empty() {
                    match self.commands.recv().await {
                        Some(Command::LaneFree(number)) => self.lane.advance(number),
                        Some(_) => {}
                        None => break,
                    }
                }
            };
            if timeout_at(flushed, flush).await.is_err() {
                tracing::debug!("closed before all notifications and responses were sent");
            }
            self.lane.shutdown().await;
            if self.options.terminate {
                if let Err(error) = self.transport.terminate().await {
                    tracing::warn!(%error, "the session was not ended");
                }
            }
        };
        if timeout_at(deadline, closing).await.is_err() {
            tracing::warn!("the session may not have ended: closing took too long");
        }
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

/// Calls the transport now, or as soon as the caller's own layers let it.
fn call(transport: &StreamableHttp, message: JsonRpcMessage) -> Call {
    let mut transport = transport.clone();
    match transport.poll_ready(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(Ok(())) => transport.call(message),
        Poll::Ready(Err(error)) => Box::pin(std::future::ready(Err(error))),
        Poll::Pending => Box::pin(transport.oneshot(message)),
    }
}
