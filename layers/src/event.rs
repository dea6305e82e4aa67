//! The typed body of a response on the envelope floor.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytestring::ByteString;
use futures_core::Stream;

use crate::JsonRpcMessage;
use crate::error::BoxError;

/// One decoded SSE event, or the JSON body of an answer.
///
/// A batch (revision 2025-03-26) becomes several, with `id` and `retry` on the last, so that they count when all of
/// it was delivered.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Event {
    /// The event's own `id:` field, for `Last-Event-ID`. Empty: the server takes the last id back. `None`: the event
    /// had no such field, and the last id stays.
    pub id: Option<ByteString>,
    /// The event's own `retry:` field: how long to wait before reconnecting.
    pub retry: Option<Duration>,
    /// The message. `None`: the event carries only an id or a waiting time, as a priming event does.
    pub message: Option<JsonRpcMessage>,
    /// The connection has ended, and another is to go on with the stream; whoever no longer needs it may leave it at that.
    pub(crate) is_break: bool,
    /// The id of the batch that the message is part of, where that counts after a later one.
    pub(crate) within: Option<Box<ByteString>>,
}

impl Event {
    pub(crate) const BREAK: Self =
        Self { id: None, retry: None, message: None, is_break: true, within: None };
}

impl From<JsonRpcMessage> for Event {
    fn from(message: JsonRpcMessage) -> Self {
        Self { message: Some(message), ..Self::default() }
    }
}

type Item = Result<Event, BoxError>;

/// The body of a response on the envelope floor: events that are all there, or that arrive one by one.
///
/// A [`Stream`] of `Result<Event, BoxError>`. What of an answer fits into memory within the limits (a JSON body, an
/// error) is *ready*, and a layer can look at it without waiting: [`Events::ready`].
///
/// ```
/// use mcp_streamable_http_layers::{Events, JsonRpcMessage};
/// use serde_json::json;
///
/// let events = Events::from(JsonRpcMessage::response(1, json!({})));
/// assert_eq!(events.ready().map(<[_]>::len), Some(1));
/// ```
#[must_use = "dropping the events of a request's answer gives the answer up"]
pub struct Events(Inner);

enum Inner {
    /// Boxed, as it is large, and moves through all layers.
    One(Option<Box<Item>>),
    Many(std::vec::IntoIter<Item>),
    Stream(Pin<Box<dyn Stream<Item = Item> + Send>>),
}

impl Events {
    /// No event at all.
    pub const EMPTY: Self = Self(Inner::One(None));

    /// Events that arrive one by one. Boxes the stream.
    pub fn new(stream: impl Stream<Item = Item> + Send + 'static) -> Self {
        Self(Inner::Stream(Box::pin(stream)))
    }

    /// Events that are all there.
    pub fn all(events: Vec<Item>) -> Self {
        Self(Inner::Many(events.into_iter()))
    }

    /// One error, and nothing else.
    pub fn error(error: impl Into<BoxError>) -> Self {
        Self(Inner::One(Some(Box::new(Err(error.into())))))
    }

    /// The events that are left, if they are all there; `None` for a stream.
    pub fn ready(&self) -> Option<&[Result<Event, BoxError>]> {
        match &self.0 {
            Inner::One(item) => Some(item.as_deref().map_or(&[], std::slice::from_ref)),
            Inner::Many(items) => Some(items.as_slice()),
            Inner::Stream(_) => None,
        }
    }

    /// As a stream, which is smaller to hold than what may be there already.
    pub(crate) fn into_stream(self) -> Pin<Box<dyn Stream<Item = Item> + Send>> {
        match self.0 {
            Inner::Stream(stream) => stream,
            ready => Box::pin(Self(ready)),
        }
    }

    /// The first event, if all are there.
    pub(crate) fn into_ready(self) -> Option<Result<Event, BoxError>> {
        match self.0 {
            Inner::One(item) => item.map(|item| *item),
            Inner::Many(mut items) => items.next(),
            Inner::Stream(_) => None,
        }
    }

    /// The error, if that is all there is.
    pub(crate) fn ready_error(self) -> Option<BoxError> {
        self.into_ready()?.err()
    }

    /// Whether these are the events of an open stream, as opposed to events that are all there.
    pub fn is_stream(&self) -> bool {
        matches!(self.0, Inner::Stream(_))
    }

    /// Changes every event: those of a stream as they pass, those that are ready at once, whether or not they are read.
    /// Boxes a stream once more.
    pub fn map<F>(self, mut f: F) -> Self
    where
        F: FnMut(Result<Event, BoxError>) -> Result<Event, BoxError> + Send + 'static,
    {
        match self.0 {
            Inner::One(item) => Self(Inner::One(item.map(|item| Box::new(f(*item))))),
            Inner::Many(items) => Self::all(items.map(f).collect()),
            Inner::Stream(stream) => Self::new(Map { stream, f }),
        }
    }
}

impl From<JsonRpcMessage> for Events {
    fn from(message: JsonRpcMessage) -> Self {
        Self(Inner::One(Some(Box::new(Ok(message.into())))))
    }
}

impl Stream for Events {
    type Item = Item;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Item>> {
        match &mut self.get_mut().0 {
            Inner::One(item) => Poll::Ready(item.take().map(|item| *item)),
            Inner::Many(items) => Poll::Ready(items.next()),
            Inner::Stream(stream) => stream.as_mut().poll_next(cx),
        }
    }
}

impl fmt::Debug for Events {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.ready() {
            Some(items) => f.debug_tuple("Events").field(&items).finish(),
            None => f.write_str("Events(..)"),
        }
    }
}

struct Map<F> {
    stream: Pin<Box<dyn Stream<Item = Item> + Send>>,
    f: F,
}

/// Nothing in it is pinned but what the box holds.
impl<F> Unpin for Map<F> {}

impl<F: FnMut(Item) -> Item> Stream for Map<F> {
    type Item = Item;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Item>> {
        let this = self.get_mut();
        this.stream.as_mut().poll_next(cx).map(|item| item.map(&mut this.f))
    }
}
