//! Send a modern request again, under a new id, when its stream breaks or its headers do not match.
//!
//! In the modern era nothing is resumed: a stream that breaks takes its request with it (MCP 2026-07-28 §Receiving Messages).
//! What does no harm twice can be asked for once more; and what a server refuses because the client knew an old definition
//! of the tool can be sent with the headers of the new one.
//!
//! # Example
//!
//! ```
//! use mcp_streamable_http_layers::{ReissueLayer, Session, ToolHeaders, TranslateCancelLayer};
//! use tower::ServiceBuilder;
//!
//! let (session, tools) = (Session::new(), ToolHeaders::new());
//! let layers = ServiceBuilder::new()
//!     .layer(TranslateCancelLayer::new(session.clone()))
//!     .layer(ReissueLayer::new(session, tools));
//! # let _ = layers;
//! ```
//!
//! With subscriptions that are opened again, and nothing else sent twice:
//!
//! ```
//! use mcp_streamable_http_layers::{ReissueLayer, Session, ToolHeaders};
//!
//! let layer = ReissueLayer::new(Session::new(), ToolHeaders::new()).repeat(false).relisten(true);
//! # let _ = layer;
//! ```

mod call;
mod future;
mod refresh;
mod rename;
mod stream;

use std::collections::hash_map::RandomState;
use std::fmt;
use std::hash::BuildHasher;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::sync::Mutex;
use tower_layer::Layer;
use tower_service::Service;

pub use self::future::ResponseFuture;

use self::call::Plan;
use crate::error::{BoxError, Error};
use crate::{Backoff, JsonRpcMessage, Reply, RequestId, Session, ToolHeaders};

/// Applies [`Reissue`]: see the [module's documentation](self).
#[derive(Clone, Debug)]
pub struct ReissueLayer {
    session: Session,
    tools: ToolHeaders,
    backoff: Backoff,
    repeat: bool,
    relisten: bool,
    refresh_timeout: Duration,
}

impl ReissueLayer {
    /// Tells the era of a request that names none by `session`. `tools` is what the layer that mirrors headers knows.
    pub fn new(session: Session, tools: ToolHeaders) -> Self {
        Self {
            session,
            tools,
            backoff: Backoff::default(),
            repeat: true,
            relisten: false,
            refresh_timeout: Duration::from_secs(10),
        }
    }

    /// Whether a repeatable request whose connection breaks is sent once more; `true` by default.
    #[must_use]
    pub fn repeat(self, repeat: bool) -> Self {
        Self { repeat, ..self }
    }

    /// Whether a `subscriptions/listen` whose stream breaks is sent again, for as long as it takes; `false` by default, since
    /// what happened meanwhile is lost, and the application must look for itself.
    #[must_use]
    pub fn relisten(self, relisten: bool) -> Self {
        Self { relisten, ..self }
    }

    /// The waits before a subscription is opened again; [`Backoff::default`] by default.
    #[must_use]
    pub fn backoff(self, backoff: Backoff) -> Self {
        Self { backoff, ..self }
    }

    /// How long it may take to list the tools again after a mismatch of headers; 10 s by default.
    #[must_use]
    pub fn refresh_timeout(self, timeout: Duration) -> Self {
        Self { refresh_timeout: timeout, ..self }
    }
}

impl<S: Clone> Layer<S> for ReissueLayer {
    type Service = Reissue<S>;

    fn layer(&self, inner: S) -> Self::Service {
        let again = Arc::new(Again {
            service: inner.clone(),
            layer: self.clone(),
            refreshing: Mutex::new(()),
            chance: RandomState::new().hash_one("reissue"),
            count: AtomicU64::new(0),
        });
        Reissue { inner, again }
    }
}

/// Sends requests of the modern era again, under ids of its own making. The caller only ever sees its own id: in responses, in
/// the `_meta` of a subscription's messages, and in a server's `notifications/cancelled`.
///
/// | request | what happens | what is done |
/// |---|---|---|
/// | repeatable: see [`RetryPolicy`](crate::RetryPolicy) | its connection breaks, before the head or after | it is sent once more |
/// | `tools/call` | the answer is a HeaderMismatch (-32020) | the tools are listed, all pages, with the version, client and capabilities of the call's `_meta`; if the headers are others then, it is sent once more |
/// | `subscriptions/listen`, with [`relisten`](ReissueLayer::relisten) | its stream breaks | it is sent again after the waits of a [`Backoff`]; the first message of the new stream is marked with [`Gap`](crate::options::Gap) |
/// | anything else | its stream breaks | it fails, and may have run |
///
/// A subscription that the server ends, with a response or a `notifications/cancelled`, is not opened again. In the legacy era
/// this layer does nothing.
///
/// It sits on the message floor, inside of [`TranslateCancel`](crate::TranslateCancel), to which a request is one request under
/// whichever id, and outside of [`Envelope`](crate::Envelope).
#[derive(Clone)]
pub struct Reissue<S> {
    inner: S,
    /// Shared, as most calls have no use for it.
    again: Arc<Again<S>>,
}

/// What it takes to send a request again.
struct Again<S> {
    service: S,
    layer: ReissueLayer,
    /// Is held by whoever is listing the tools.
    refreshing: Mutex<()>,
    chance: u64,
    count: AtomicU64,
}

impl<S> Again<S> {
    /// By chance no id of the caller's, which knows nothing of these requests.
    fn fresh_id(&self) -> RequestId {
        let count = self.count.fetch_add(1, Ordering::Relaxed);
        RequestId::from(format!("mcp-streamable-http:{:016x}:{count}", self.chance))
    }
}

impl<S> Service<JsonRpcMessage> for Reissue<S>
where
    S: Service<JsonRpcMessage, Response = Reply> + Clone + Send + Sync + 'static,
    S::Error: Into<BoxError>,
    S::Future: Send,
{
    type Response = Reply;
    type Error = Error;
    type Future = ResponseFuture<S>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        self.inner.poll_ready(cx).map_err(Error::new)
    }

    fn call(&mut self, message: JsonRpcMessage) -> Self::Future {
        let plan = Plan::of(&message, &self.again);
        ResponseFuture::new(self.inner.call(message), plan)
    }
}

impl<S: fmt::Debug> fmt::Debug for Reissue<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reissue")
            .field("inner", &self.inner)
            .field("layer", &self.again.layer)
            .finish_non_exhaustive()
    }
}
