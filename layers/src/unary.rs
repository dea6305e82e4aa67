//! Make a call one future, from the message to its response.
//!
//! A service of the message floor is done when the *head* of an answer is there; the response comes later, in the reply.
//! Middleware that times or counts calls would see the first half only. Over this layer tower's `Timeout`,
//! `ConcurrencyLimit` and whatever measures calls cover all of it.
//!
//! # Example
//!
//! ```
//! use mcp_streamable_http_layers::error::Error;
//! use mcp_streamable_http_layers::{Events, Expects, JsonRpcMessage, Reply, UnaryLayer};
//! use serde_json::json;
//! use tower::{ServiceBuilder, ServiceExt, service_fn};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let server = service_fn(|_: JsonRpcMessage| async {
//!     let progress = JsonRpcMessage::notification("notifications/progress", json!({ "progress": 1 }));
//!     let response = JsonRpcMessage::response(1, json!({ "sum": 5 }));
//!     let events = Events::all(vec![Ok(progress.into()), Ok(response.into())]);
//!     Ok::<_, Error>(Reply::new(Expects::Response(1.into()), events))
//! });
//! // What comes before the response goes to a channel.
//! let (earlier, mut messages) = tokio::sync::mpsc::unbounded_channel();
//! let sink = move |message| drop(earlier.send(message));
//! let service = ServiceBuilder::new().layer(UnaryLayer::new(sink)).service(server);
//!
//! let response = service.oneshot(JsonRpcMessage::request(1, "tools/call", ())).await?.ok_or("no response")?;
//! assert_eq!(response.result::<serde_json::Value>()?["sum"], 5);
//! assert_eq!(messages.recv().await.unwrap().method(), Some("notifications/progress"));
//! # Ok(())
//! # }
//! ```
//!
//! With a time bound on the whole call, which cancels it on the server when it runs out:
//!
//! ```
//! use std::time::Duration;
//!
//! use mcp_streamable_http_layers::{Session, TranslateCancelLayer, UnaryLayer};
//! use tower::ServiceBuilder;
//! use tower::timeout::TimeoutLayer;
//!
//! let layers = ServiceBuilder::new()
//!     .layer(TimeoutLayer::new(Duration::from_secs(30)))
//!     .layer(UnaryLayer::new(drop))
//!     .layer(TranslateCancelLayer::new(Session::new()));
//! # let _ = layers;
//! ```

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures_core::Stream;
use pin_project_lite::pin_project;
use tower_layer::Layer;
use tower_service::Service;

use crate::error::{BoxError, Error};
use crate::{JsonRpcMessage, JsonRpcResponse, Reply};

/// Applies [`Unary`]: see the [module's documentation](self).
#[derive(Clone)]
pub struct UnaryLayer<F> {
    sink: F,
}

impl<F> UnaryLayer<F> {
    /// Hands every message that comes before a response to `sink`. Give it `drop` where nothing is wanted of them; but a
    /// server that asks for something may not answer before it is answered.
    pub fn new(sink: F) -> Self
    where
        F: FnMut(JsonRpcMessage) + Clone,
    {
        Self { sink }
    }
}

impl<S, F: Clone> Layer<S> for UnaryLayer<F> {
    type Service = Unary<S, F>;

    fn layer(&self, inner: S) -> Self::Service {
        Unary { inner, sink: self.sink.clone() }
    }
}

impl<F> fmt::Debug for UnaryLayer<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UnaryLayer").finish_non_exhaustive()
    }
}

/// Turns a message service into one whose future is ready with the response: `Some` to a request, `None` to a
/// notification or response that the server has accepted.
///
/// The messages before the response are handed to a sink, in order, while the future is polled. A call fails with what
/// the call or its reply fails with. Dropping the future drops the call or the reply, and so cancels the request.
#[derive(Clone)]
pub struct Unary<S, F> {
    inner: S,
    sink: F,
}

impl<S, F> Service<JsonRpcMessage> for Unary<S, F>
where
    S: Service<JsonRpcMessage, Response = Reply>,
    S::Error: Into<BoxError>,
    F: FnMut(JsonRpcMessage) + Clone,
{
    type Response = Option<JsonRpcResponse>;
    type Error = Error;
    type Future = ResponseFuture<S::Future, F>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        self.inner.poll_ready(cx).map_err(Error::new)
    }

    fn call(&mut self, message: JsonRpcMessage) -> Self::Future {
        ResponseFuture { state: State::Head { call: self.inner.call(message) }, sink: self.sink.clone() }
    }
}

impl<S: fmt::Debug, F> fmt::Debug for Unary<S, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Unary").field("inner", &self.inner).finish_non_exhaustive()
    }
}

pin_project! {
    /// The response future of [`Unary`].
    #[must_use = "futures do nothing unless polled"]
    pub struct ResponseFuture<C, F> {
        #[pin]
        state: State<C>,
        sink: F,
    }
}

pin_project! {
    #[project = StateProj]
    enum State<C> {
        Head { #[pin] call: C },
        Reply { reply: Reply },
    }
}

/// So many messages are handed to the sink before other tasks get their turn.
const MESSAGES_PER_POLL: usize = 64;

impl<C, F, E> Future for ResponseFuture<C, F>
where
    C: Future<Output = Result<Reply, E>>,
    E: Into<BoxError>,
    F: FnMut(JsonRpcMessage),
{
    type Output = Result<Option<JsonRpcResponse>, Error>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        for _ in 0..MESSAGES_PER_POLL {
            let reply = match this.state.as_mut().project() {
                StateProj::Head { call } => {
                    let reply = ready!(call.poll(cx)).map_err(Error::new)?;
                    this.state.set(State::Reply { reply });
                    continue;
                }
                StateProj::Reply { reply } => reply,
            };
            match ready!(Pin::new(reply).poll_next(cx)).transpose()? {
                Some(JsonRpcMessage::Response(response)) => return Poll::Ready(Ok(Some(response))),
                Some(message) => (this.sink)(message),
                None => return Poll::Ready(Ok(None)),
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

impl<C, F> fmt::Debug for ResponseFuture<C, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseFuture").finish_non_exhaustive()
    }
}
