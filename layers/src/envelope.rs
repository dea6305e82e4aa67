//! From messages to HTTP envelopes and back.
//!
//! This layer is the bridge between the message floor and the envelope floor. A message becomes a POST to the
//! endpoint, the answer a [`Reply`], and whatever went wrong below an [`Error`].
//!
//! It also is where a message enters the connection's state, synchronously and in the order of the calls: a request
//! that names its version sets the connection's, an `initialize` clears what was negotiated before.
//!
//! # Example
//!
//! ```
//! use http::{Request, Response};
//! use mcp_streamable_http_layers::error::BoxError;
//! use mcp_streamable_http_layers::{Endpoint, EnvelopeLayer, Events, JsonRpcMessage, Payload, Session};
//! use serde_json::json;
//! use tower::{ServiceBuilder, ServiceExt, service_fn};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), mcp_streamable_http_layers::error::BoxError> {
//! // A server in this process: it sees the message, not its bytes.
//! let server = service_fn(|request: Request<Payload>| async move {
//!     let id = request.body().message().and_then(JsonRpcMessage::id).cloned().ok_or("no request")?;
//!     Ok::<_, BoxError>(Response::new(Events::from(JsonRpcMessage::response(id, json!({ "pong": true })))))
//! });
//! let endpoint = Endpoint::new("http://localhost/mcp".parse()?)?;
//! let service = ServiceBuilder::new().layer(EnvelopeLayer::new(endpoint, Session::new())).service(server);
//!
//! let reply = service.oneshot(JsonRpcMessage::request(1, "ping", ())).await?;
//! let pong: serde_json::Value = reply.response().await?.result()?;
//! assert_eq!(pong["pong"], true);
//! # Ok(())
//! # }
//! ```

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use http::{HeaderMap, Request, Response};
use pin_project_lite::pin_project;
use tokio::runtime::Handle;
use tower_layer::Layer;
use tower_service::Service;

use crate::endpoint::{self, reserved};
use crate::error::{BoxError, Error, InvalidMessage};
use crate::headers::{self, MCP_PROTOCOL_VERSION};
use crate::options::{Deadline, ExtraHeaders, Pinned};
use crate::refusable::Refusable;
use crate::reply::Until;
use crate::{
    Endpoint, Era, Events, Expects, JsonRpcMessage, Payload, ProtocolVersion, Reply, RequestId, Session,
};

/// Applies [`Envelope`]: see the [module's documentation](self).
#[derive(Clone, Debug)]
pub struct EnvelopeLayer {
    endpoint: Endpoint,
    session: Session,
}

impl EnvelopeLayer {
    /// Sends messages to `endpoint`, and notes in `session` what they change.
    pub fn new(endpoint: Endpoint, session: Session) -> Self {
        Self { endpoint, session }
    }
}

impl<S> Layer<S> for EnvelopeLayer {
    type Service = Envelope<S>;

    fn layer(&self, inner: S) -> Self::Service {
        Envelope { inner, endpoint: self.endpoint.clone(), session: self.session.clone() }
    }
}

/// Makes a `Service<JsonRpcMessage, Response = Reply>` of an envelope service.
///
/// Besides what fails below, a call fails with [`InvalidMessage`], and nothing is sent, if
/// - the id of a request is a number that is no integer (MCP §Requests),
/// - the versions that the message names in a header and in `_meta` disagree, or cannot be sent in a header,
/// - its [`ExtraHeaders`] have one that is the transport's own, or it has a [`Deadline`] and there is no tokio runtime,
/// - it is a response in the modern era (MCP 2026-07-28 §Sending Messages, rule 4).
///
/// A call whose answer is ready and is an error fails at once; any other error is an item of the reply.
#[derive(Clone, Debug)]
pub struct Envelope<S> {
    inner: S,
    endpoint: Endpoint,
    session: Session,
}

impl<S> Envelope<S> {
    /// Notes what the message changes, and puts it into a POST.
    fn wrap(&self, mut message: JsonRpcMessage) -> Result<Request<Payload>, InvalidMessage> {
        let ExtraHeaders(mut extra) = message.extensions_mut().remove().unwrap_or_default();
        let stamp = self.check(&message, &extra)?;
        let mut extensions = std::mem::take(message.extensions_mut());
        if message.is_initialize() {
            // MCP 2025-11-25 §Session Management: `initialize` starts afresh, without session or version.
            extensions.insert(self.session.begin());
            extra.remove(MCP_PROTOCOL_VERSION);
        } else if let Some(version) = &stamp {
            self.session.note_version(version);
        }
        headers::mark_sensitive(&mut extra);
        if !extra.is_empty() {
            // Whatever is sent again for this message has them too.
            extensions.insert(ExtraHeaders(extra));
        }
        let mut request = self.endpoint.post(message);
        endpoint::extend(&mut request, extensions);
        Ok(request)
    }

    /// Refuses what cannot be sent. Returns the version that the message names itself.
    fn check(
        &self,
        message: &JsonRpcMessage,
        extra: &HeaderMap,
    ) -> Result<Option<ProtocolVersion>, InvalidMessage> {
        if let (JsonRpcMessage::Request(_), Some(RequestId::Other(id))) = (message, message.id()) {
            return Err(InvalidMessage::new(format!("its id {id} is neither a string nor an integer")));
        }
        if message.extensions().get::<Deadline>().is_some() && Handle::try_current().is_err() {
            return Err(InvalidMessage::new("its deadline needs a tokio runtime"));
        }
        if let Some(name) = extra.keys().find(|name| headers::is_reserved(name)) {
            return Err(InvalidMessage::new(reserved(name)));
        }
        let stamp = stamp(message, extra)?;
        let era = || match (&stamp, message.extensions().get::<Pinned>()) {
            (Some(version), _) => version.era(),
            (None, Some(pinned)) => pinned.era(),
            (None, None) => self.session.era(),
        };
        if message.as_response().is_some() && era() == Era::Modern {
            return Err(InvalidMessage::new("the modern era has no responses from client to server"));
        }
        Ok(stamp)
    }
}

/// The version that a message names itself, in its `_meta` or in a header of the caller's.
pub(crate) fn stamp(
    message: &JsonRpcMessage,
    extra: &HeaderMap,
) -> Result<Option<ProtocolVersion>, InvalidMessage> {
    let bad = |error| InvalidMessage::new(format!("its protocol version cannot be sent: {error}"));
    let meta = match message {
        JsonRpcMessage::Request(request) => request.protocol_version().map_err(bad)?.cloned(),
        _ => None,
    };
    let header =
        extra.get(MCP_PROTOCOL_VERSION).map(ProtocolVersion::from_header).transpose().map_err(bad)?;
    match (meta, header) {
        (Some(meta), Some(header)) if meta != header => Err(InvalidMessage::new(format!(
            "its `_meta` names the protocol version {meta}, its header {header}"
        ))),
        (meta, header) => Ok(header.or(meta)),
    }
}

impl<S> Service<JsonRpcMessage> for Envelope<S>
where
    S: Service<Request<Payload>, Response = Response<Events>>,
    S::Error: Into<BoxError>,
{
    type Response = Reply;
    type Error = Error;
    type Future = ResponseFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        self.inner.poll_ready(cx).map_err(|error| Error::from(error.into()))
    }

    fn call(&mut self, message: JsonRpcMessage) -> Self::Future {
        match self.wrap(message) {
            Ok(request) => ResponseFuture {
                expects: Some(Expects::of(&request)),
                until: request.extensions().get().copied().and_then(Until::new),
                inner: Refusable::Called { future: self.inner.call(request) },
            },
            Err(error) => ResponseFuture { expects: None, until: None, inner: Refusable::refused(error) },
        }
    }
}

pin_project! {
    /// The response future of [`Envelope`].
    #[derive(Debug)]
    #[must_use = "futures do nothing unless polled"]
    pub struct ResponseFuture<F> {
        #[pin]
        inner: Refusable<F>,
        expects: Option<Expects>,
        until: Option<Box<Until>>,
    }
}

impl<F, E> Future for ResponseFuture<F>
where
    F: Future<Output = Result<Response<Events>, E>>,
    E: Into<BoxError>,
{
    type Output = Result<Reply, Error>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let Poll::Ready(response) = this.inner.poll(cx) else {
            return match this.until {
                Some(until) => until.poll_missed(cx).map(Err),
                None => Poll::Pending,
            };
        };
        let (head, mut events) = response.map_err(Error::from)?.into_parts();
        if let Some([Err(_), ..]) = events.ready() {
            // Of an error that is there already, middleware above should learn now, not when the reply is read.
            if let Poll::Ready(Some(Err(error))) = futures_core::Stream::poll_next(Pin::new(&mut events), cx)
            {
                return Poll::Ready(Err(Error::from(error).in_answer(head.status)));
            }
        }
        let expects = this.expects.take().unwrap_or(Expects::Acceptance);
        let mut reply = Reply::new(expects, events);
        reply.set_head(head);
        reply.set_until(this.until.take());
        Poll::Ready(Ok(reply))
    }
}
