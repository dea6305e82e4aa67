//! A transport as two streams: messages in, messages out.
//!
//! [`StreamableHttp`] is for callers that send a request and wait for its reply. A host, a proxy or an SDK often has its own
//! table of requests, and wants what a stdio transport gives it: a [`Sink`] for what it sends, and a [`Stream`] of all that
//! comes back. That is a [`Channel`].
//!
//! # Example
//!
//! ```
//! use bytes::Bytes;
//! use futures_util::StreamExt;
//! use http::{Request, Response};
//! use http_body_util::Full;
//! use mcp_streamable_http::channel::Origin;
//! use mcp_streamable_http::{JsonRpcMessage, StreamableHttp};
//! use tower::{BoxError, service_fn};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let in_memory = service_fn(|_: Request<Full<Bytes>>| async {
//!     let body = Full::<Bytes>::from(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#);
//!     Ok::<_, BoxError>(Response::builder().header("content-type", "application/json").body(body)?)
//! });
//! let mut channel = StreamableHttp::with_client("http://in.memory/mcp".parse()?, in_memory).build()?.channel();
//!
//! channel.sender().send(JsonRpcMessage::request(1, "ping", ()))?;
//! let pong = channel.next().await.ok_or("the channel is closed")??;
//! assert_eq!(pong.message, JsonRpcMessage::response(1, serde_json::json!({})));
//! assert_eq!(pong.origin, Origin::Request(1.into()));
//! channel.close().await;
//! # Ok(())
//! # }
//! ```

mod delivery;
mod driver;
mod error;
mod inbox;
mod incoming;
mod lane;
mod listening;
mod options;
mod receiver;
mod request;
mod sender;
mod table;
mod ticket;

use std::future::{Future, ready};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use futures_core::Stream;
use futures_sink::Sink;
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tower::{Service, ServiceExt};

pub use self::delivery::{Delivery, Until};
pub use self::error::{SendError, TooManyInFlight};
pub use self::incoming::{Incoming, Origin};
pub use self::options::ChannelOptions;
pub use self::receiver::Receiver;
pub use self::sender::Sender;

use self::driver::Driver;
use self::error::Panicked;
use self::inbox::Inbox;
use crate::error::InvalidOption;
use crate::{Error, JsonRpcMessage, Reply, StreamableHttp};

type Call = Pin<Box<dyn Future<Output = Result<Reply, Error>> + Send>>;

/// Both directions of a connection to a server: a [`Sink`] of [`JsonRpcMessage`]s and a [`Stream`] of [`Incoming`]
/// messages. Made by [`StreamableHttp::channel`].
///
/// # What is sent
///
/// - *Requests* run side by side, each by itself. Whatever happens, each is answered under its id: with the server's
///   response, or with a JSON-RPC error that says what failed (see [`Incoming::failure`]). Two get no answer: one that its
///   sender cancelled and that has failed since, and one whose id was given to another before its answer was read.
/// - *Notifications* and *responses* go one at a time, in order. The next is sent when the server has answered the last,
///   when that failed, or after [5 s](ChannelOptions::patience). A failure is logged, and told to
///   [`on_send_failure`](ChannelOptions::on_send_failure); the reader does not see it.
///   Each is sent in the session in which it was given to the channel, or not at all.
/// - While an `initialize` waits for its answer, requests and notifications wait for it; responses do not, since the server
///   may ask something first. While `notifications/initialized` waits to be accepted, whatever is sent after it waits. The
///   clock of a [`Deadline`](crate::options::Deadline) runs, but is looked at only when the message is sent.
///
/// # What is received
///
/// Messages come in the order of their stream, and say on which they came. In the legacy era, once the server has accepted
/// `notifications/initialized`, the channel [listens](StreamableHttp::listen) too. A response on that stream is taken for
/// the answer if its request is in flight, and is dropped otherwise.
///
/// A reader that is slow, or stops, holds up the streams when [256](ChannelOptions::max_unread) messages wait for it. It
/// does not hold up what is sent: the server still gets the answers to its own requests.
///
/// # The end
///
/// The channel closes on [`close`](Self::close), when the last [`Sender`] is dropped, and when the [`Receiver`] is dropped,
/// which is in the background then. See [`close`](Self::close) for what is done. No task of its own runs on after that; what
/// layers do in the background is over within seconds.
///
/// # Spans
///
/// A message is sent in the [`tracing`] span that was current when it was given to the channel.
#[derive(Debug)]
pub struct Channel {
    sender: Sender,
    receiver: Receiver,
}

impl Channel {
    pub(crate) fn new(transport: StreamableHttp, options: ChannelOptions) -> Self {
        let (commands, driver_commands) = mpsc::unbounded_channel();
        let (queue, reader_queue) = mpsc::unbounded_channel();
        let inbox = Inbox::new(&options, commands.clone(), queue);
        let driver = Driver::new(transport, options, inbox.clone(), driver_commands, commands.clone());
        match Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn(driver.run())),
            Err(_) => {
                inbox.refuse(Error::new(InvalidOption::new("a channel needs a tokio runtime")));
                drop(driver);
            }
        }
        Self { sender: Sender::new(inbox.clone(), commands), receiver: Receiver::new(reader_queue, inbox) }
    }

    /// Another handle to the write half. It takes messages without waiting: see [`Sender::send`].
    pub fn sender(&self) -> Sender {
        self.sender.clone()
    }

    /// Both halves, for two tasks. When either is dropped the channel closes.
    pub fn split(self) -> (Sender, Receiver) {
        (self.sender, self.receiver)
    }

    /// Closes the channel, and waits until that is done: 5 s at most, or what
    /// [`close_timeout`](ChannelOptions::close_timeout) says.
    ///
    /// Requests and streams are aborted at once, without a word to the server; their answers are lost. Notifications and
    /// responses that wait are sent, for up to [2 s](ChannelOptions::flush_timeout). Then the session is
    /// [terminated](StreamableHttp::terminate), unless the [options](ChannelOptions::terminate) say otherwise; if that
    /// fails it is logged. Messages that were not read are dropped; to read them, [`split`](Self::split) the channel and
    /// [close the sender](Sender::close).
    pub async fn close(self) {
        self.sender.close().await;
    }
}

impl Stream for Channel {
    type Item = Result<Incoming, Error>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        Pin::new(&mut self.receiver).poll_next(cx)
    }
}

/// That of the [`Sender`].
impl Sink<JsonRpcMessage> for Channel {
    type Error = SendError;

    fn poll_ready(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), SendError>> {
        Pin::new(&mut self.sender).poll_ready(cx)
    }

    fn start_send(mut self: Pin<&mut Self>, message: JsonRpcMessage) -> Result<(), SendError> {
        Pin::new(&mut self.sender).start_send(message)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), SendError>> {
        Pin::new(&mut self.sender).poll_flush(cx)
    }

    fn poll_close(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), SendError>> {
        Pin::new(&mut self.sender).poll_close(cx)
    }
}

/// Calls the transport now, or as soon as the caller's own layers let it.
fn call(transport: &StreamableHttp, message: JsonRpcMessage) -> Call {
    let mut transport = transport.clone();
    let called = catch_unwind(AssertUnwindSafe(|| {
        match transport.poll_ready(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(Ok(())) => transport.call(message),
            Poll::Ready(Err(error)) => Box::pin(ready(Err(error))),
            Poll::Pending => Box::pin(transport.oneshot(message)),
        }
    }));
    // A layer of the caller's that panics must not take the other calls with it.
    called.unwrap_or_else(|_| Box::pin(ready(Err(Error::new(Panicked)))))
}

/// The next item of a reply.
async fn next(reply: &mut Reply) -> Option<Result<JsonRpcMessage, Error>> {
    std::future::poll_fn(|cx| Pin::new(&mut *reply).poll_next(cx)).await
}
