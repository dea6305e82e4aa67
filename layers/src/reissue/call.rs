//! What may be done for a request.

use std::sync::Arc;

use http::HeaderMap;
use tower::ServiceExt;
use tower_service::Service;

use super::Again;
use super::rename::Rename;
use super::stream::Renamed;
use crate::envelope::stamp;
use crate::error::{
    BoxError, EndedStream, Error, InvalidMessage, NoToken, NotRepeated, NotSent, SessionExpired, TimedOut,
    TooLarge, Undecodable,
};
use crate::mirror_headers::Parameter;
use crate::options::{ExtraHeaders, Once, Pinned};
use crate::retry::is_repeatable_request;
use crate::{Era, JsonRpcMessage, JsonRpcRequest, Reply, RequestId};

/// A request of the modern era, as it can be sent again.
pub(super) struct Plan<S> {
    pub(super) again: Arc<Again<S>>,
    pub(super) request: JsonRpcRequest,
    pub(super) kind: Kind,
    /// Whether it may be sent once more if its connection breaks.
    pub(super) is_repeatable: bool,
    /// What a request that names no version is sent with, whatever the connection speaks by then.
    pub(super) pinned: Option<Pinned>,
    /// Of a tool call: what was known of its headers when it was sent.
    pub(super) known: Known,
}

#[derive(Default)]
pub(super) struct Known {
    pub(super) parameters: Option<Arc<[Parameter]>>,
    pub(super) listings: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    ToolCall,
    Subscription,
    Other,
}

impl<S> Plan<S> {
    pub(super) fn of(message: &JsonRpcMessage, again: &Arc<Again<S>>) -> Option<Self> {
        let request = message.as_request().filter(|request| request.extensions().get::<Once>().is_none())?;
        let is_repeatable = again.layer.repeat && is_repeatable_request(request, message.extensions());
        let kind = match request.method() {
            "tools/call" => Kind::ToolCall,
            "subscriptions/listen" if again.layer.relisten => Kind::Subscription,
            _ if is_repeatable => Kind::Other,
            _ => return None,
        };
        let extra = request.extensions().get::<ExtraHeaders>();
        let named = match extra {
            Some(ExtraHeaders(extra)) => stamp(message, extra),
            None => stamp(message, &HeaderMap::new()),
        };
        let named = named.ok().flatten();
        let pinned = named.is_none().then(|| again.layer.session.pin());
        let era = named.map_or_else(|| again.layer.session.era(), |version| version.era());
        let is_modern = era == Era::Modern && !request.is_initialize();
        let known = || match (kind, request.mirrored_name()) {
            (Kind::ToolCall, Some(name)) => {
                let tools = &again.layer.tools;
                Known { parameters: tools.of(name), listings: tools.completed_listings() }
            }
            _ => Known::default(),
        };
        is_modern.then(|| Self {
            again: again.clone(),
            request: request.clone(),
            kind,
            is_repeatable,
            pinned,
            known: known(),
        })
    }

    pub(super) fn id(&self) -> &RequestId {
        self.request.id()
    }
}

impl<S> Plan<S>
where
    S: Service<JsonRpcMessage, Response = Reply> + Clone + Send + Sync + 'static,
    S::Error: Into<BoxError>,
    S::Future: Send,
{
    /// Sends the request once more, under a new id. What comes of it comes under its own.
    pub(super) async fn send(self: Arc<Self>) -> Result<Reply, Error> {
        let fresh = self.again.fresh_id();
        tracing::debug!(request.id = %self.id(), %fresh, "a request is sent again under another id");
        let rename = Rename { from: fresh.clone(), to: self.id().clone() };
        let mut message = JsonRpcMessage::from(self.request.clone().under(fresh));
        if let Some(pinned) = &self.pinned {
            message = message.with(pinned.clone());
        }
        let reply = self.again.service.clone().oneshot(message).await.map_err(Error::new)?;
        Ok(reply.rewrap(self.id().clone(), |reply| Renamed::new(reply, rename)))
    }

    /// The same after an attempt that broke, on which the server may have acted, whatever becomes of this one.
    pub(super) async fn send_after_break(self: Arc<Self>) -> Result<Reply, Error> {
        self.send().await.map_err(|error| match error.find::<NotSent>() {
            Some(_) => Error::new(NotRepeated::new(error.into())),
            None => error,
        })
    }
}

/// Whether an error is the end of a connection, as opposed to something that the server said, or a bound of this side's.
pub(super) fn is_break(error: &Error) -> bool {
    let is_answer =
        error.find::<EndedStream>().is_none() && error.status().is_some_and(|status| !status.is_success());
    let is_ours = error.is_timeout()
        || error.find::<TimedOut>().is_some()
        || error.find::<NotSent>().is_some()
        || error.find::<InvalidMessage>().is_some()
        || error.find::<NoToken>().is_some()
        || error.find::<SessionExpired>().is_some()
        || error.find::<Undecodable>().is_some()
        || error.find::<TooLarge>().is_some()
        || error.find::<crate::error::UnexpectedContent>().is_some()
        || error.find::<crate::error::UnexpectedStatus>().is_some();
    !is_answer && !is_ours
}
