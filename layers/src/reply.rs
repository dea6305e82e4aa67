//! The stream of messages that a call returns.

use std::any::Any;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytestring::ByteString;
use futures_core::Stream;
use http::response::Parts;
use tokio::time::{Instant, Sleep};

use crate::cancellation;
use crate::error::{BoxError, EndedStream, Error, NoResponseDue};
use crate::headers::detached;
use crate::options::Deadline;
use crate::{Event, Events, Expects, JsonRpcMessage, JsonRpcResponse, RequestId};

/// The messages that the server answers one message with, as they arrive: a [`Stream`] of
/// `Result<JsonRpcMessage, Error>`.
///
/// - To a *request*: notifications and requests of the server's, if it sends any, then exactly one last item: the
///   response, or one `Err`. It never just ends.
/// - To a *notification* or *response*: nothing, or one `Err`.
/// - To a listening GET: messages, and `Err` items for those that could not be read, until the server ends it.
///
/// Dropping a reply before its response gives the request up. The order of messages is that of the wire.
///
/// ```
/// use mcp_streamable_http_layers::{Events, Expects, JsonRpcMessage, Reply};
/// use serde_json::json;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// // What a service of your own would return to the request with the id 1.
/// let reply = Reply::new(Expects::Response(1.into()), Events::from(JsonRpcMessage::response(1, json!({ "sum": 5 }))));
///
/// let result: serde_json::Value = reply.response().await?.result()?;
/// assert_eq!(result["sum"], 5);
/// # Ok(())
/// # }
/// ```
#[must_use = "dropping a reply before its response cancels the request"]
pub struct Reply {
    /// Before the guards: fields drop in this order, and whoever holds a guard wants to see the stream closed.
    events: Events,
    in_flight: Option<cancellation::Guard>,
    guard: Option<Box<dyn Any + Send>>,
    expects: Expects,
    ended: bool,
    map: Option<Map>,
    last_event_id: Option<ByteString>,
    /// The connection has ended, and the next is not open yet.
    is_interrupted: bool,
    head: Option<Box<Parts>>,
    /// Whether nothing else is kept alive by the head.
    is_head_detached: bool,
    until: Option<Box<Until>>,
}

/// On a response that no HTTP answer stands behind: its stream is opened when it is read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unopened;

/// A deadline with its clock running.
#[derive(Debug)]
pub(crate) struct Until {
    deadline: Deadline,
    clock: Pin<Box<Sleep>>,
}

impl Until {
    pub(crate) fn new(deadline: Deadline) -> Option<Box<Self>> {
        Some(Box::new(Self { deadline, clock: Box::pin(deadline.clock()?) }))
    }

    /// Ready when it is too late.
    pub(crate) fn poll_missed(&mut self, cx: &mut Context<'_>) -> Poll<Error> {
        self.clock.as_mut().poll(cx).map(|()| self.missed())
    }

    fn has_passed(&self) -> bool {
        self.clock.deadline() <= Instant::now()
    }

    fn missed(&self) -> Error {
        Error::new(self.deadline.missed())
    }
}

type Item = Result<JsonRpcMessage, Error>;
type Map = Box<dyn FnMut(Item) -> Item + Send>;

/// So many events without a message may pass before other tasks get their turn: a server can send a hundred thousand
/// priming events in one chunk.
const UNSEEN_EVENTS: usize = 64;

impl Reply {
    /// The reply that `events` make to a message whose answer is what `expects` says.
    pub fn new(expects: Expects, events: Events) -> Self {
        Self {
            events,
            in_flight: None,
            guard: None,
            expects,
            ended: false,
            map: None,
            last_event_id: None,
            is_interrupted: false,
            head: None,
            is_head_detached: false,
            until: None,
        }
    }

    /// Notes the head of the HTTP answer.
    pub fn with_head(mut self, head: Parts) -> Self {
        self.set_head(head);
        self
    }

    pub(crate) fn set_head(&mut self, head: Parts) {
        self.head = (head.extensions.get::<Unopened>().is_none()).then(|| Box::new(head));
    }

    pub(crate) fn set_until(&mut self, until: Option<Box<Until>>) {
        self.until = until;
    }

    pub(crate) fn set_in_flight(&mut self, guard: Option<cancellation::Guard>) {
        self.in_flight = guard;
    }

    /// Whether its answer is a stream that is open, as opposed to one that is all there.
    pub(crate) fn is_stream(&self) -> bool {
        self.events.is_stream()
    }

    /// The code of the JSON-RPC error that is the whole answer.
    pub(crate) fn ready_error_code(&self) -> Option<i64> {
        match self.events.ready()? {
            [Ok(Event { message: Some(JsonRpcMessage::Response(response)), .. })] => {
                response.outcome().err().map(crate::JsonRpcError::code)
            }
            _ => None,
        }
    }

    /// Takes the message that is the whole answer.
    pub(crate) fn take_ready(&mut self) -> Option<JsonRpcMessage> {
        std::mem::replace(&mut self.events, Events::EMPTY).into_ready()?.ok()?.message
    }

    /// Puts `stream` around a reply to the request `id`; the head stays.
    pub(crate) fn rewrap<S>(mut self, id: RequestId, stream: impl FnOnce(Self) -> S) -> Self
    where
        S: Stream<Item = Result<Event, BoxError>> + Send + 'static,
    {
        let (head, until) = (self.head.take(), self.until.take());
        Self { head, until, ..Self::new(Expects::Response(id), Events::new(stream(self))) }
    }

    /// Shows every item to `f`, the last one included, and passes on what it returns. Allocates once.
    ///
    /// This is how a layer sees the end of a call. Whether an item ends the reply is decided before `f` sees it, so
    /// turning a response into something else does not prolong the reply. A reply that is dropped early drops `f`.
    pub fn map<F>(mut self, mut f: F) -> Self
    where
        F: FnMut(Result<JsonRpcMessage, Error>) -> Result<JsonRpcMessage, Error> + Send + 'static,
    {
        self.map = Some(match self.map.take() {
            Some(mut first) => Box::new(move |item| f(first(item))),
            None => Box::new(f),
        });
        self
    }

    /// Keeps `guard` until the reply has ended or is dropped, whichever is first; then drops it, after the stream of
    /// the answer. Guards added later are dropped later. Allocates once.
    pub fn guarded(mut self, guard: impl Any + Send) -> Self {
        self.guard = Some(match self.guard.take() {
            Some(first) => Box::new((first, guard)),
            None => Box::new(guard),
        });
        self
    }

    /// The head of the HTTP answer: its status and headers. `None` if no HTTP answer stands behind it, and for a
    /// listening stream, which is opened when it is read.
    pub fn head(&self) -> Option<&Parts> {
        self.head.as_deref()
    }

    /// The id of the last event that had one: what `Last-Event-ID` would name. `None`: no event had an id, or the
    /// server took it back. Legacy era only.
    pub fn last_event_id(&self) -> Option<&str> {
        self.last_event_id.as_deref()
    }

    /// Waits for the response to a request, and drops what comes before it: progress, and also *requests* of the
    /// server's, which then go unanswered. Read the reply as a stream if the server may ask for something: it may not
    /// answer before it is answered.
    ///
    /// # Errors
    /// The one `Err` that the reply ends with; or the reply is none to a request, so no response will come.
    pub async fn response(mut self) -> Result<JsonRpcResponse, Error> {
        if self.expects == Expects::Messages {
            // Its stream may stay open for ever.
            return Err(self.no_response());
        }
        loop {
            match std::future::poll_fn(|cx| Pin::new(&mut self).poll_next(cx)).await {
                Some(Ok(JsonRpcMessage::Response(response))) => return Ok(response),
                Some(Ok(_)) => tracing::trace!("a message before the response was dropped"),
                Some(Err(error)) => return Err(error),
                None => return Err(self.no_response()),
            }
        }
    }

    fn no_response(&self) -> Error {
        match self.expects {
            Expects::Response(_) | Expects::Rest(_) => Error::new(EndedStream),
            Expects::Acceptance | Expects::Messages => Error::new(NoResponseDue),
        }
    }

    /// What `event` means to the caller: `None` if it carries no message.
    fn next_item(&mut self, event: Option<Result<Event, BoxError>>) -> Option<Option<Item>> {
        let item = match event {
            Some(Ok(event)) => {
                self.is_interrupted = event.is_break;
                if let Some(id) = event.id {
                    self.last_event_id = (!id.is_empty()).then_some(id);
                }
                let message = event.message?;
                let late = |until: &&Until| message.as_response().is_none() && until.has_passed();
                match self.until.as_deref().filter(late) {
                    // While the server talks there may never be a pause in which the clock is looked at.
                    Some(until) => Err(until.missed()),
                    None => Ok(message),
                }
            }
            Some(Err(error)) => Err(Error::from(error)),
            None if self.expects.awaited().is_some() => Err(Error::new(EndedStream)),
            None => {
                self.end();
                self.map = None;
                return Some(None);
            }
        };
        let mut item = match &mut self.in_flight {
            Some(guard) => guard.pass(item),
            None => item,
        };
        if let Some(head) = &self.head {
            item = item.map_err(|error| error.in_answer(head.status));
        }
        let last = match (&self.expects, &item) {
            (Expects::Messages, _) => false,
            (_, Ok(message)) => message.as_response().is_some(),
            (_, Err(_)) => true,
        };
        if last {
            self.end();
        }
        let item = match &mut self.map {
            Some(map) => map(item),
            None => item,
        };
        if last {
            // What it holds is not needed by a reply that is over.
            self.map = None;
        }
        Some(Some(item))
    }

    /// Waits, without reading on, until the request is given up: it was cancelled or superseded, or its deadline has passed.
    /// That is the last item then. For readers that have no room for more at the moment; reading tells it too.
    pub fn poll_given_up(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<JsonRpcMessage, Error>>> {
        if self.ended { Poll::Pending } else { self.poll_cut(cx) }
    }

    /// While there is nothing to hand out: the error of a request that was cancelled, or of a deadline that has passed.
    fn poll_cut(&mut self, cx: &mut Context<'_>) -> Poll<Option<Item>> {
        let is_interrupted = self.is_interrupted;
        let severed = match &mut self.in_flight {
            Some(guard) => guard.poll_severed(is_interrupted, cx),
            None => Poll::Pending,
        };
        let cut = match (severed, &mut self.until) {
            (Poll::Pending, Some(until)) => until.poll_missed(cx),
            (severed, _) => severed,
        };
        cut.map(|error| self.next_item(Some(Err(error.into()))).flatten())
    }

    /// For a reply that waits, perhaps for long: values that the client has sliced out of its read buffer keep all of that
    /// alive.
    fn detach_head(&mut self) {
        if let Some(head) = self.head.as_mut().filter(|_| !self.is_head_detached) {
            head.headers = detached(&head.headers);
            self.is_head_detached = true;
        }
    }

    fn end(&mut self) {
        self.until = None;
        self.ended = true;
        self.events = Events::EMPTY;
        self.in_flight = None;
        self.guard = None;
    }
}

impl Stream for Reply {
    type Item = Item;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Item>> {
        let this = self.get_mut();
        if let Some(error) = this.in_flight.as_ref().and_then(cancellation::Guard::severed) {
            return Poll::Ready(this.next_item(Some(Err(error.into()))).flatten());
        }
        for _ in 0..UNSEEN_EVENTS {
            if this.ended {
                return Poll::Ready(None);
            }
            let Poll::Ready(event) = Pin::new(&mut this.events).poll_next(cx) else {
                this.detach_head();
                return this.poll_cut(cx);
            };
            if let Some(item) = this.next_item(event) {
                return Poll::Ready(item);
            }
        }
        cx.waker().wake_by_ref();
        this.poll_cut(cx)
    }
}

impl fmt::Debug for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reply")
            .field("expects", &self.expects)
            .field("status", &self.head.as_ref().map(|head| head.status))
            .field("ended", &self.ended)
            .finish_non_exhaustive()
    }
}
