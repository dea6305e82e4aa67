//! Where the layers are put together.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Request, Response, Uri};
use http_body::Body;
use http_body_util::Full;
use tower::layer::layer_fn;
use tower::layer::util::{Identity, Stack};
use tower::retry::RetryLayer;
use tower::util::BoxCloneSyncService;
use tower::{Layer, Service, ServiceBuilder};

use crate::StreamableHttp;
use crate::error::BoxError;
use crate::layers::first_byte_timeout::{FirstByteTimeout, FirstByteTimeoutLayer};
use crate::layers::probe::{ForgetEraLayer, ProbeCache};
use crate::layers::redirect::{Redirect, RedirectLayer};
use crate::layers::sse::Limits;
use crate::layers::{
    Backoff, Endpoint, EnvelopeLayer, Error, MirrorHeadersLayer, ReinitializeLayer, ReinitializePolicy,
    ReissueLayer, ResumeLayer, RetryPolicy, Session, SetSessionIdLayer, SseLayer, StampVersionLayer,
    ToolHeaders, TranslateCancelLayer,
};
use crate::on_demand::OnDemand;
use crate::transport::Shared;

/// An HTTP client with the transport's own layers around it, innermost of all.
pub type Wire<C> = Redirect<FirstByteTimeout<C>>;

/// Options for a [`StreamableHttp`], over the HTTP client `C` with the layers `L` around it.
///
/// ```
/// use http::header::{AUTHORIZATION, HeaderMap, HeaderValue};
/// use mcp_streamable_http::{Limits, StreamableHttp};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let mut token = HeaderValue::from_static("Bearer s3cret");
/// token.set_sensitive(true);
///
/// let transport = StreamableHttp::builder("http://localhost:8000/mcp".parse()?)
///     .headers(HeaderMap::from_iter([(AUTHORIZATION, token)]))
///     .limits(Limits::default().max_json_bytes(1 << 20))
///     .build()?;
/// # Ok(())
/// # }
/// ```
#[must_use = "a builder does nothing until `build` is called"]
pub struct Builder<C, L = Identity> {
    uri: Uri,
    /// An error waits here for `build`, so that options chain.
    client: Result<C, Error>,
    http_layers: L,
    redirect: RedirectLayer,
    first_byte_timeout: FirstByteTimeoutLayer,
    headers: HeaderMap,
    limits: Limits,
    terminate_timeout: Duration,
    listen_without_session: bool,
    backoff: Backoff,
    retry: RetryPolicy,
    reinitialize: ReinitializePolicy,
    handshake_timeout: Duration,
    tools: ToolHeaders,
    repeat_broken: bool,
    relisten: bool,
    probes: Option<ProbeCache>,
    probe_timeout: Duration,
}

impl<C> Builder<C> {
    pub(crate) fn new(uri: Uri, client: Result<C, Error>) -> Self {
        Self {
            uri,
            client,
            http_layers: Identity::new(),
            redirect: RedirectLayer::new(),
            first_byte_timeout: FirstByteTimeoutLayer::new(),
            headers: HeaderMap::new(),
            limits: Limits::default(),
            terminate_timeout: Duration::from_secs(5),
            listen_without_session: false,
            backoff: Backoff::default(),
            retry: RetryPolicy::new(),
            reinitialize: ReinitializePolicy::default(),
            handshake_timeout: Duration::from_secs(10),
            tools: ToolHeaders::new(),
            repeat_broken: true,
            relisten: false,
            probes: None,
            probe_timeout: Duration::from_secs(10),
        }
    }
}

impl<C, L> Builder<C, L> {
    /// Puts a layer around the HTTP client: authorization, tracing, whatever tower-http has. It sees every request that
    /// goes to the server (POST, GET and DELETE) as plain HTTP, with all headers set; not the hops of a redirect.
    ///
    /// The last layer added is the outermost, unlike in a tower `ServiceBuilder`, where it is the first.
    ///
    /// ```
    /// use bytes::Bytes;
    /// use http::{HeaderValue, Request};
    /// use http_body_util::Full;
    /// use mcp_streamable_http::StreamableHttp;
    /// use tower::util::MapRequestLayer;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let tenant = MapRequestLayer::new(|mut request: Request<Full<Bytes>>| {
    ///     request.headers_mut().insert("x-tenant", HeaderValue::from_static("blue"));
    ///     request
    /// });
    /// let transport = StreamableHttp::builder("http://localhost:8000/mcp".parse()?).http_layer(tenant).build()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn http_layer<N>(self, layer: N) -> Builder<C, Stack<L, N>> {
        Builder {
            uri: self.uri,
            client: self.client,
            http_layers: Stack::new(self.http_layers, layer),
            redirect: self.redirect,
            first_byte_timeout: self.first_byte_timeout,
            headers: self.headers,
            limits: self.limits,
            terminate_timeout: self.terminate_timeout,
            listen_without_session: self.listen_without_session,
            backoff: self.backoff,
            retry: self.retry,
            reinitialize: self.reinitialize,
            handshake_timeout: self.handshake_timeout,
            tools: self.tools,
            repeat_broken: self.repeat_broken,
            relisten: self.relisten,
            probes: self.probes,
            probe_timeout: self.probe_timeout,
        }
    }

    /// Lets the server compress its answers (gzip, deflate, brotli, zstd), with tower-http's layer; off by default, as a stream
    /// of events is held back by what compresses it. The [`limits`](Self::limits) count what comes out of it. It is a layer like
    /// those of [`http_layer`](Self::http_layer), outside of those that were added before. Feature `decompression`.
    ///
    /// ```
    /// use mcp_streamable_http::StreamableHttp;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let transport = StreamableHttp::builder("http://localhost:8000/mcp".parse()?).decompression().build()?;
    /// # Ok(())
    /// # }
    /// ```
    #[cfg(feature = "decompression")]
    pub fn decompression(self) -> Builder<C, Stack<L, tower_http::decompression::DecompressionLayer>> {
        self.http_layer(tower_http::decompression::DecompressionLayer::new())
    }

    /// How many redirects of one request are followed; 10 by default, 0 follows none. They are followed within the
    /// origin, and from `http` to `https` on the same host's default ports. See [`Redirect`].
    pub fn max_redirects(self, redirects: usize) -> Self {
        Self { redirect: self.redirect.max_redirects(redirects), ..self }
    }

    /// How long to wait for the head of the answer to a request; 300 s by default, `None` waits for ever. It begins anew
    /// with each redirect that is followed. For notifications and responses there is
    /// [`Limits::acceptance_timeout`]. See [`FirstByteTimeout`].
    ///
    /// For a single message there are [`FirstByte`](crate::options::FirstByte) and
    /// [`Deadline`](crate::options::Deadline).
    pub fn first_byte_timeout(self, timeout: impl Into<Option<Duration>>) -> Self {
        Self { first_byte_timeout: self.first_byte_timeout.timeout(timeout), ..self }
    }

    /// Leaves the handling of redirects and of the wait for an answer's head to the client:
    /// [`max_redirects`](Self::max_redirects) 0, no [`first_byte_timeout`](Self::first_byte_timeout), no
    /// [`Limits::acceptance_timeout`].
    pub fn bare(self) -> Self {
        let limits = self.limits.acceptance_timeout(None);
        self.max_redirects(0).first_byte_timeout(None).limits(limits)
    }

    /// Headers for every request; none by default. They replace those set by an earlier call. `accept` and
    /// `content-type` are overwritten; what is the transport's own is an error in [`build`](Self::build).
    ///
    /// For a single message there is [`ExtraHeaders`](crate::options::ExtraHeaders).
    pub fn headers(self, headers: HeaderMap) -> Self {
        Self { headers, ..self }
    }

    /// How much of an answer is read, and for how long; [`Limits::default`] by default.
    pub fn limits(self, limits: Limits) -> Self {
        Self { limits, ..self }
    }

    /// How long [`StreamableHttp::terminate`] waits for an answer; 5 s by default.
    pub fn terminate_timeout(self, timeout: Duration) -> Self {
        Self { terminate_timeout: timeout, ..self }
    }

    /// Whether to listen to a server that has issued no session id, too; `false` by default, as such a server has no way
    /// to tell whom a message is for. It counts for [`StreamableHttp::listen`] and for the channel.
    pub fn listen_without_session(self, listen: bool) -> Self {
        Self { listen_without_session: listen, ..self }
    }

    /// How long to wait before a broken stream is taken up again, and how often; [`Backoff::default`] by default. It counts
    /// for the streams of requests (see [`Resume`](crate::layers::Resume)) and for listening.
    pub fn backoff(self, backoff: Backoff) -> Self {
        Self { backoff, ..self }
    }

    /// What is sent again that was not answered; [`RetryPolicy::new`] by default.
    /// `RetryPolicy::new().backoff(Backoff::default().attempts(0))` sends nothing again.
    pub fn retry(self, policy: RetryPolicy) -> Self {
        Self { retry: policy, ..self }
    }

    /// What to do when the server no longer knows the session; [`ReinitializePolicy::Replay`] by default. See
    /// [`Reinitialize`](crate::layers::Reinitialize).
    pub fn reinitialize(self, policy: ReinitializePolicy) -> Self {
        Self { reinitialize: policy, ..self }
    }

    /// How long the handshake may take when a new session is started in place of one that has expired; 10 s by default.
    pub fn handshake_timeout(self, timeout: Duration) -> Self {
        Self { handshake_timeout: timeout, ..self }
    }

    /// What is known of the headers of the server's tools; nothing by default. The transport adds what it learns.
    pub fn tool_headers(self, tools: ToolHeaders) -> Self {
        Self { tools, ..self }
    }

    /// Modern era: whether a repeatable request whose connection breaks is sent once more, under a new id; `true` by
    /// default. See [`Reissue`](crate::layers::Reissue).
    pub fn repeat_broken(self, repeat: bool) -> Self {
        Self { repeat_broken: repeat, ..self }
    }

    /// Modern era: whether a `subscriptions/listen` whose stream breaks is sent again; `false` by default. What the server
    /// sent in between is lost, which [`Gap`](crate::options::Gap) marks.
    pub fn relisten(self, relisten: bool) -> Self {
        Self { relisten, ..self }
    }

    /// Where [`StreamableHttp::probe`] looks before it asks the server for its era, and keeps what it finds; nowhere by
    /// default. An entry is forgotten when the server turns out to be of the other era.
    pub fn probe_cache(self, cache: ProbeCache) -> Self {
        Self { probes: Some(cache), ..self }
    }

    /// How long [`StreamableHttp::probe`] waits for the whole answer; 10 s by default.
    pub fn probe_timeout(self, timeout: Duration) -> Self {
        Self { probe_timeout: timeout, ..self }
    }

    /// Puts the transport together. Nothing is sent, and no runtime is needed.
    ///
    /// # Errors
    /// An option cannot be honoured: the URL lacks scheme or host, or has a user name or password; a header is the
    /// transport's own; the default client cannot be made.
    pub fn build<B>(self) -> Result<StreamableHttp, Error>
    where
        L: Layer<Wire<C>>,
        L::Service: Service<Request<Full<Bytes>>, Response = Response<B>> + Clone + Send + Sync + 'static,
        <L::Service as Service<Request<Full<Bytes>>>>::Error: Into<BoxError>,
        <L::Service as Service<Request<Full<Bytes>>>>::Future: Send + 'static,
        B: Body + Send + 'static,
        B::Error: Into<BoxError>,
    {
        let endpoint = Endpoint::new(self.uri)
            .and_then(|endpoint| endpoint.with_headers(self.headers))
            .map_err(Error::new)?;
        let session = Session::new();
        let reinitialize = ReinitializeLayer::new(endpoint.clone(), session.clone())
            .policy(self.reinitialize)
            .timeout(self.handshake_timeout);
        let envelopes = ServiceBuilder::new()
            // Whatever sends again sits outside of what stamps, so that every attempt is stamped anew.
            .layer(RetryLayer::new(self.retry.for_session(session.clone())))
            // `Retry` keeps a clone of all below for each request.
            .layer(layer_fn(OnDemand::new))
            // Inside of `Retry`, to which a request is one request, in whichever session it is answered.
            .layer(reinitialize)
            // Inside of `Reinitialize`: a stream is never taken up again in another session.
            .layer(ResumeLayer::new(endpoint.clone(), session.clone(), self.backoff.clone()))
            // Outside of the rest, as it must see an answer as it is handed up: what it commits is then in force.
            .layer(SetSessionIdLayer::new(session.clone()))
            // Outside of `MirrorHeaders`, which tells the era by the stamp.
            .layer(StampVersionLayer::new(session.clone()))
            .layer(MirrorHeadersLayer::new().tools(self.tools.clone()))
            .layer(SseLayer::new(self.limits))
            // From here on down there are bytes.
            .layer(self.http_layers)
            // Inside of the user's layers, so that one which adds credentials adds them once, to the first URL.
            .layer(self.redirect)
            // Innermost, so that each hop has a bound of its own.
            .layer(self.first_byte_timeout)
            .service(self.client?);
        let reissue = ReissueLayer::new(session.clone(), self.tools.clone())
            .repeat(self.repeat_broken)
            .relisten(self.relisten)
            .backoff(self.backoff.clone());
        let messages = ServiceBuilder::new()
            // Outside of all that could send a request again: whatever becomes of it, it is one request to the caller.
            .layer(TranslateCancelLayer::new(session.clone()))
            // Outside of `Envelope`: what it sends again is another message, under another id.
            .layer(reissue)
            .layer(EnvelopeLayer::new(endpoint.clone(), session.clone()))
            .service(envelopes.clone());
        let messages = match self.probes.clone() {
            Some(cache) => {
                BoxCloneSyncService::new(ForgetEraLayer::new(cache, endpoint.clone()).layer(messages))
            }
            // Only if there is something to forget.
            None => BoxCloneSyncService::new(messages),
        };
        let shared = Shared {
            envelopes: BoxCloneSyncService::new(envelopes),
            endpoint,
            session,
            terminate_timeout: self.terminate_timeout,
            listen_without_session: self.listen_without_session,
            backoff: self.backoff,
            tools: self.tools,
            probes: self.probes,
            probe_timeout: self.probe_timeout,
        };
        // Erased side by side: one inside the other would cost every call the boxes of both.
        Ok(StreamableHttp { messages, shared: Arc::new(shared) })
    }
}

/// Without the values of headers, and without the query of the URL.
impl<C, L> fmt::Debug for Builder<C, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.headers.keys().collect();
        f.debug_struct("Builder")
            .field("host", &self.uri.host())
            .field("headers", &names)
            .field("redirect", &self.redirect)
            .field("first_byte_timeout", &self.first_byte_timeout)
            .field("limits", &self.limits)
            .field("terminate_timeout", &self.terminate_timeout)
            .field("listen_without_session", &self.listen_without_session)
            .field("backoff", &self.backoff)
            .field("retry", &self.retry)
            .field("reinitialize", &self.reinitialize)
            .field("handshake_timeout", &self.handshake_timeout)
            .field("tools", &self.tools)
            .field("repeat_broken", &self.repeat_broken)
            .field("relisten", &self.relisten)
            .finish_non_exhaustive()
    }
}
