//! The events of an open stream.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf, Bytes};
use bytestring::ByteString;
use futures_core::Stream;
use http::StatusCode;
use http_body::{Body, Frame};

use super::answer::Exchange;
use super::clock::Clock;
use super::{Decoder, EventTooLarge};
use crate::correlate::{correlate, correlate_batch};
use crate::drain::FRAMES_PER_POLL;
use crate::error::{BoxError, BrokenStream, TimedOut, TooLarge};
use crate::message::{Batch, Decoded};
use crate::{Era, Event, JsonRpcMessage};

type Item = Result<Event, BoxError>;

/// Decodes the body of an answer as it arrives.
///
/// The stream of a request ends with its response, or with the first thing that may have been the response and cannot
/// be read. A listening stream goes on after what cannot be read.
pub(super) struct EventStream<B> {
    /// Boxed, because a body whose answer is out moves into a task of its own. `None`: nothing more is read.
    body: Option<Pin<Box<B>>>,
    decoder: Decoder,
    /// What one event of the wire became, but for its first item: boxed, as only a batch and an error become more.
    #[expect(clippy::box_collection, reason = "a stream that waits holds three words less")]
    queue: Option<Box<VecDeque<Item>>>,
    status: StatusCode,
    exchange: Exchange,
    idle: Option<Clock>,
}

impl<B> EventStream<B>
where
    B: Body + Send + 'static,
    B::Error: Into<BoxError>,
{
    pub(super) fn new(body: B, status: StatusCode, exchange: Exchange) -> Self {
        let decoder = Decoder::new(exchange.limits.max_event_bytes);
        let idle = exchange.idle_clock();
        Self { body: Some(Box::pin(body)), decoder, queue: None, status, exchange, idle }
    }

    /// What a block of the stream means: its first item, if it has any. Further ones are queued.
    fn read(&mut self, frame: super::Frame) -> Option<Item> {
        let super::Frame { id, event, data, retry } = frame;
        // MCP 2026-07-28 §Receiving Messages: nothing is resumed, so these mean nothing.
        let is_legacy = self.exchange.era == Era::Legacy;
        let (id, retry) = (id.filter(|_| is_legacy), retry.filter(|_| is_legacy));
        let position =
            Event { id: id.map(text), retry: retry.map(Duration::from_millis), ..Event::default() };
        // WHATWG HTML §9.2.6: without an `event:` field the type is "message". MCP gives no other a meaning.
        let data = match event {
            Some(kind) if kind != "message" => {
                tracing::debug!("skipped an event of another type");
                None
            }
            _ => data.filter(|data| !data.is_empty()),
        };
        let max_batch = self.exchange.limits.max_batch_messages;
        match data.as_ref().map(|data| Decoded::read(data, max_batch)).transpose() {
            Ok(Some(Decoded::Message(message))) if self.exchange.admits(&message) => {
                Some(Ok(Event { message: Some(self.correlate(message)), ..position }))
            }
            Ok(Some(Decoded::Batch(batch))) => {
                self.queue_batch(batch, position, &data.unwrap_or_default());
                self.queued()
            }
            Ok(decoded) => {
                if matches!(decoded, Some(Decoded::Nothing)) {
                    tracing::debug!("skipped an event that is no message");
                }
                (position.id.is_some() || position.retry.is_some()).then_some(Ok(position))
            }
            Err(error) => {
                // Its position counts nonetheless: a stream that is resumed before it would bring it again.
                self.queue.get_or_insert_default().push_back(Ok(position));
                let preview = self.exchange.preview(data.as_deref().unwrap_or_default());
                Some(Err(error.in_answer(self.status, preview).into()))
            }
        }
    }

    fn queued(&mut self) -> Option<Item> {
        self.queue.as_mut()?.pop_front()
    }

    fn correlate(&self, mut message: JsonRpcMessage) -> JsonRpcMessage {
        if let (JsonRpcMessage::Response(response), Some(id)) =
            (&mut message, self.exchange.expects.awaited())
        {
            correlate(response, id);
        }
        message
    }

    fn queue_batch(&mut self, mut batch: Batch, position: Event, text: &Bytes) {
        if let Some(id) = self.exchange.expects.awaited() {
            correlate_batch(&mut batch, id);
        }
        let items = self.exchange.items(self.status, batch, text);
        let queue = self.queue.get_or_insert_default();
        queue.extend(
            items.map(|item| item.map(|event| Event { within: position.id.clone().map(Box::new), ..event })),
        );
        // The position counts when all of the batch was delivered.
        match queue.back_mut() {
            Some(Ok(last)) => (last.id, last.retry) = (position.id, position.retry),
            _ => queue.push_back(Ok(position)),
        }
    }

    /// Hands an item out. If it is the end of a request's answer, nothing more is read for the caller.
    fn pass(&mut self, item: Item, cx: &mut Context<'_>) -> Poll<Option<Item>> {
        if self.exchange.expects.awaited().is_some() {
            let is_response =
                |event: &Event| event.message.as_ref().is_some_and(|m| m.as_response().is_some());
            match &item {
                Ok(event) if !is_response(event) => {}
                Ok(_) => {
                    self.queue = None;
                    if let Some(body) = self.body.take() {
                        self.exchange.drain(body, cx);
                    }
                }
                Err(_) => self.close(),
            }
        }
        Poll::Ready(Some(item))
    }

    fn close(&mut self) {
        self.queue = None;
        self.body = None;
    }

    /// The next frame of the body, or the end of the wait for it. Data comes first: a clock that ran out while the
    /// caller was busy says nothing of the server.
    fn poll_frame(
        body: Pin<&mut B>,
        idle: &mut Option<Clock>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, BoxError>>> {
        match (body.poll_frame(cx), idle) {
            (Poll::Ready(frame), idle) => {
                idle.iter_mut().for_each(Clock::restart);
                Poll::Ready(frame.map(|frame| frame.map_err(|error| BrokenStream(error.into()).into())))
            }
            (Poll::Pending, Some(clock)) => {
                clock.poll(cx).map(|()| Some(Err(TimedOut::idle(clock.timeout).into())))
            }
            (Poll::Pending, None) => Poll::Pending,
        }
    }
}

/// WHATWG HTML §9.2.6 decodes the stream with replacement characters. A copy: it is kept for longer than the event, and a
/// slice would keep a whole buffer of the client's alive.
fn text(bytes: Bytes) -> ByteString {
    ByteString::from(&*String::from_utf8_lossy(&bytes))
}

impl<B> Stream for EventStream<B>
where
    B: Body + Send + 'static,
    B::Error: Into<BoxError>,
{
    type Item = Item;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Item>> {
        let this = self.get_mut();
        for _ in 0..FRAMES_PER_POLL {
            if let Some(item) = this.queued() {
                return this.pass(item, cx);
            }
            let item = match (this.decoder.next(), &mut this.body) {
                (_, None) => return Poll::Ready(None),
                (Some(Ok(frame)), _) => this.read(frame),
                (Some(Err(EventTooLarge { limit })), _) => {
                    this.close();
                    Some(Err(TooLarge { what: "an event", limit, knob: "max_event_bytes" }.into()))
                }
                (None, Some(body)) => match ready!(Self::poll_frame(body.as_mut(), &mut this.idle, cx)) {
                    Some(Ok(frame)) => {
                        if let Ok(mut data) = frame.into_data() {
                            this.decoder.push(data.copy_to_bytes(data.remaining()));
                        }
                        None
                    }
                    Some(Err(error)) => {
                        this.close();
                        Some(Err(error))
                    }
                    // WHATWG HTML §9.2.6: what no blank line has ended is discarded.
                    None => {
                        this.body = None;
                        this.decoder.finish().and_then(|frame| this.read(frame))
                    }
                },
            };
            if let Some(item) = item {
                return this.pass(item, cx);
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}
