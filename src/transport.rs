//! The assembled transport.

use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::{Request, Response, Uri};
use tokio::runtime::Handle;
use tower::util::{BoxCloneSyncService, Oneshot};
use tower::{Layer, Service, ServiceExt};

use crate::Builder;
use crate::channel::{Channel, ChannelOptions};
use crate::error::{BoxError, TimedOut};
use crate::layers::probe::ProbeCache;
use crate::layers::{
    Backoff, Endpoint, Era, Error, Events, Expects, JsonRpcMessage, Listening, Payload, Reply, Session,
    ToolHeaders,
};

pub(crate) type Messages = BoxCloneSyncService<JsonRpcMessage, Reply, Error>;
pub(crate) type Envelopes = BoxCloneSyncService<Request<Payload>, Response<Events>, BoxError>;

/// A connection to one MCP server over Streamable HTTP.
///
/// It is a `Service<JsonRpcMessage>`. A call sends one message, and returns the [`Reply`] as soon as the head of the
/// HTTP answer is there: for a request the stream of messages that ends with its response, for a notification or a
/// response an empty one. Calls run side by side, and the service is always ready: there is no backpressure unless a
/// limit is put around it, such as tower's `ConcurrencyLimit`.
///
/// Clones are handles to the same connection: they share its HTTP connections, its session and its protocol version.
///
/// Building it sends nothing and needs no runtime. Calls over the client of [`StreamableHttp::new`] need a tokio runtime;
/// over another they need one only if that client does. Outside a runtime nothing has a time bound, and nothing is done in
/// the background.
///
/// # Panics
///
/// A call panics in a tokio runtime whose timer is not enabled (`Builder::enable_time`).
///
/// # Eras
///
/// In the *legacy* era (protocol versions until `2025-11-25`) send `initialize`, then `notifications/initialized`,
/// then the rest. The transport keeps the session and the negotiated version, and puts them into the headers. In the
/// *modern* era (`2026-07-28` and later) there is no handshake; each request names its version in
/// `_meta["io.modelcontextprotocol/protocolVersion"]`, and the transport mirrors what it must in headers. It never
/// changes a message.
///
/// # When something fails
///
/// What can be kept is kept, and of the rest the caller is told at once, with an [`Error`].
/// [`Error::may_have_run`] says whether the server may have acted on the message. Every number below is an option of the
/// [`Builder`].
///
#[doc = include_str!("recovery.md")]
#[derive(Clone)]
pub struct StreamableHttp {
    pub(crate) messages: Messages,
    /// Apart, so that a clone costs little: a call is often made on one.
    pub(crate) shared: Arc<Shared>,
}

/// What clones have in common.
pub(crate) struct Shared {
    pub(crate) envelopes: Envelopes,
    pub(crate) endpoint: Endpoint,
    pub(crate) session: Session,
    pub(crate) terminate_timeout: Duration,
    pub(crate) listen_without_session: bool,
    pub(crate) backoff: Backoff,
    pub(crate) tools: ToolHeaders,
    pub(crate) probes: Option<ProbeCache>,
    pub(crate) probe_timeout: Duration,
}

impl StreamableHttp {
    /// A transport to the server at `uri`, over the default [`Client`](crate::Client), with default options.
    ///
    /// # Errors
    /// The URL is not a full `http` or `https` URL, or has a user name or password; or, for `https`, the platform's
    /// certificates cannot be loaded.
    #[cfg(feature = "client")]
    pub fn new(uri: Uri) -> Result<Self, Error> {
        Self::builder(uri).build()
    }

    /// Options for a transport to the server at `uri` over the default [`Client`](crate::Client).
    #[cfg(feature = "client")]
    pub fn builder(uri: Uri) -> Builder<crate::Client> {
        let client = crate::Client::for_endpoint(&uri);
        Builder::new(uri, client)
    }

    /// Options for a transport to the server at `uri` over an HTTP client of your own: any
    /// `Service<http::Request<Full<Bytes>>>`. Around it go only the transport's own layers for redirects and for the wait
    /// for an answer's head, unless the builder is made [`bare`](Builder::bare).
    ///
    /// A client that can tell that a request was never written should fail with [`NotSent`](crate::error::NotSent).
    ///
    /// ```
    /// use bytes::Bytes;
    /// use http::{Request, Response};
    /// use http_body_util::Full;
    /// use mcp_streamable_http::{JsonRpcMessage, StreamableHttp};
    /// use tower::{BoxError, ServiceExt, service_fn};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let in_memory = service_fn(|_: Request<Full<Bytes>>| async {
    ///     let body = Full::<Bytes>::from(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#);
    ///     Ok::<_, BoxError>(Response::builder().header("content-type", "application/json").body(body)?)
    /// });
    /// let transport = StreamableHttp::with_client("http://in.memory/mcp".parse()?, in_memory).build()?;
    ///
    /// let pong = transport.oneshot(JsonRpcMessage::request(1, "ping", ())).await?.response().await?;
    /// assert_eq!(pong.result::<serde_json::Value>()?, serde_json::json!({}));
    /// # Ok(())
    /// # }
    /// ```
    pub fn with_client<S>(uri: Uri, client: S) -> Builder<S> {
        Builder::new(uri, Ok(client))
    }

    /// Puts a layer around the message floor. [`listen`](Self::listen), [`terminate`](Self::terminate) and
    /// [`session`](Self::session) stay as they are; they do not pass through it. What a [`channel`](Self::channel) sends does.
    ///
    /// The last layer added is the outermost, unlike in a tower `ServiceBuilder`, where it is the first. What it makes must be
    /// `Clone`: a layer that is not, such as tower's `RateLimit`, goes in together with a `Buffer`, in one `ServiceBuilder`.
    ///
    /// ```
    /// use mcp_streamable_http::StreamableHttp;
    /// use tower::limit::ConcurrencyLimitLayer;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// // At most eight calls wait for the head of their answer at a time.
    /// let transport = StreamableHttp::new("http://localhost:8000/mcp".parse()?)?.layer(ConcurrencyLimitLayer::new(8));
    /// # Ok(())
    /// # }
    /// ```
    pub fn layer<L>(self, layer: L) -> Self
    where
        L: Layer<BoxCloneSyncService<JsonRpcMessage, Reply, Error>>,
        L::Service: Service<JsonRpcMessage, Response = Reply> + Clone + Send + Sync + 'static,
        <L::Service as Service<JsonRpcMessage>>::Error: Into<BoxError>,
        <L::Service as Service<JsonRpcMessage>>::Future: Send + 'static,
    {
        let layered = layer.layer(self.messages).map_err(Error::new);
        Self { messages: BoxCloneSyncService::new(layered), ..self }
    }

    /// Listens for the messages that the server sends of its own accord: the GET of the legacy era (MCP 2025-11-25
    /// §Listening for Messages from the Server). It connects when the reply is first polled, so poll it after
    /// `notifications/initialized` was sent.
    ///
    /// The reply yields messages as they come, and an `Err` for each that cannot be read. When the stream ends or breaks it
    /// connects again, for as long as there is a session, and in the next session if that expires: see [`Listening`]. If
    /// there is nothing to listen to (no session, a modern server, a server without this stream) it yields one
    /// [`NotOffered`](crate::error::NotOffered) and ends. Several may be open side by side. Dropping it closes the stream.
    pub fn listen(&self) -> Reply {
        let Shared { endpoint, session, backoff, listen_without_session, .. } = &*self.shared;
        let envelopes = ClonedToCall(self.shared.clone());
        let listening = Listening::new(envelopes, endpoint.clone(), session.clone(), backoff.clone())
            .needs_session(!listen_without_session);
        Reply::new(Expects::Messages, Events::new(listening))
    }

    /// Ends the session on the server with a DELETE (MCP 2025-11-25 §Session Management, rule 5), and forgets it.
    /// Without a session there is nothing to do.
    ///
    /// Any answer will do, since a server need not support this. Calls in flight go on, and may be answered still.
    ///
    /// # Errors
    /// There was no answer within the [`terminate_timeout`](Builder::terminate_timeout). The session is then kept, so
    /// that this can be tried again.
    pub async fn terminate(&self) -> Result<(), Error> {
        if self.shared.session.id().is_none() || self.shared.session.era() == Era::Modern {
            return Ok(());
        }
        let mut delete = self.shared.endpoint.delete();
        // A later session must not be ended in place of this one.
        delete.extensions_mut().insert(self.shared.session.pin());
        let delete = self.shared.envelopes.clone().oneshot(delete);
        // Without a runtime there is no timer, and tokio's would panic.
        let answer = match Handle::try_current() {
            Ok(_) => tokio::time::timeout(self.shared.terminate_timeout, delete).await.map_err(|_| {
                Error::new(TimedOut::new(
                    "ending the session",
                    "terminate_timeout",
                    self.shared.terminate_timeout,
                ))
            })?,
            Err(_) => delete.await,
        };
        match answer.map_err(Error::new) {
            // It is over already.
            Err(error) if !error.is_session_expired() => Err(error),
            _ => Ok(()),
        }
    }

    /// Both directions of the connection, as a sink and a stream, with default options: see [`Channel`].
    ///
    /// It needs a tokio runtime, on which it runs. Outside of one it is closed from the start, and its stream yields one `Err`
    /// that says so.
    pub fn channel(self) -> Channel {
        self.channel_with(ChannelOptions::default())
    }

    /// The same, with [`ChannelOptions`].
    pub fn channel_with(self, options: ChannelOptions) -> Channel {
        Channel::new(self, options)
    }

    /// What is known of the headers of the server's tools: to be stored, or shared with another transport to this server.
    pub fn tool_headers(&self) -> &ToolHeaders {
        &self.shared.tools
    }

    /// The state that the layers of this connection share.
    pub fn session(&self) -> &Session {
        &self.shared.session
    }
}

impl Service<JsonRpcMessage> for StreamableHttp {
    type Response = Reply;
    type Error = Error;
    type Future = <Messages as Service<JsonRpcMessage>>::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        self.messages.poll_ready(cx)
    }

    fn call(&mut self, message: JsonRpcMessage) -> Self::Future {
        self.messages.call(message)
    }
}

/// The envelope stack, of which a stream that is open needs no copy.
#[derive(Clone)]
struct ClonedToCall(Arc<Shared>);

impl Service<Request<Payload>> for ClonedToCall {
    type Response = Response<Events>;
    type Error = BoxError;
    type Future = Oneshot<Envelopes, Request<Payload>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Payload>) -> Self::Future {
        self.0.envelopes.clone().oneshot(request)
    }
}

impl fmt::Debug for StreamableHttp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StreamableHttp")
            .field("endpoint", &self.shared.endpoint)
            .field("session", &self.shared.session)
            .finish_non_exhaustive()
    }
}
