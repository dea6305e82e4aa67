//! Learning the tools anew after a mismatch of headers.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use http::{Extensions, HeaderMap};
use tokio::runtime::Handle;
use tower::ServiceExt;
use tower_service::Service;

use super::call::Plan;
use crate::error::{BoxError, Error};
use crate::headers::is_mirrored;
use crate::mirror_headers::{mirrored, parameter_headers};
use crate::options::ExtraHeaders;
use crate::raw_json::{members, write_string};
use crate::reply::Until;
use crate::{Events, Expects, JsonRpcMessage, JsonRpcRequest, RawJson, Reply};

/// What of a call's `_meta` goes with the listing: who asks, and in which version.
const COPIED: [&str; 3] = [
    "io.modelcontextprotocol/protocolVersion",
    "io.modelcontextprotocol/clientInfo",
    "io.modelcontextprotocol/clientCapabilities",
];

/// A server that always has another page must not keep a call waiting for ever.
const MAX_PAGES: usize = 1000;

impl<S> Plan<S>
where
    S: Service<JsonRpcMessage, Response = Reply> + Clone + Send + Sync + 'static,
    S::Error: Into<BoxError>,
    S::Future: Send,
{
    /// MCP 2026-07-28 §Client Behavior: after a mismatch of headers, lists the tools, and sends the call once more if its
    /// headers are others then. `refusal` is what the server has said to it.
    pub(super) async fn refresh_and_send(self: Arc<Self>, refusal: JsonRpcMessage) -> Result<Reply, Error> {
        let until = self.request.extensions().get().copied().and_then(Until::new);
        if before(until, self.changes_headers()).await? {
            return self.send().await;
        }
        Ok(Reply::new(Expects::Response(self.id().clone()), Events::from(refusal)))
    }

    /// Lists the tools. Returns whether the headers of the call are others then.
    async fn changes_headers(&self) -> bool {
        let tools = &self.again.layer.tools;
        let none = HeaderMap::new();
        let own = self.request.extensions().get::<ExtraHeaders>().map_or(&none, |ExtraHeaders(own)| own);
        let known = self.known.parameters.as_ref();
        let before = known.map_or(Ok(Vec::new()), |known| mirrored(&self.request, own, known)).ok();
        let timeout = self.again.layer.refresh_timeout;
        let is_listed = match Handle::try_current() {
            Ok(_) => tokio::time::timeout(timeout, self.refresh()).await.is_ok_and(|listed| listed.is_ok()),
            Err(_) => self.refresh().await.is_ok(),
        };
        let after = parameter_headers(&self.request, own, tools).ok();
        is_listed && after.is_some() && before != after
    }

    /// Lists the tools, unless somebody else has done so since this call was sent.
    async fn refresh(&self) -> Result<(), Error> {
        let tools = &self.again.layer.tools;
        let _turn = self.again.refreshing.lock().await;
        if tools.completed_listings() != self.known.listings {
            return Ok(());
        }
        let mut cursor = None;
        for _ in 0..MAX_PAGES {
            let list =
                JsonRpcRequest::new(self.again.fresh_id(), "tools/list", self.listing(cursor.as_deref()));
            let mut list = JsonRpcMessage::from(list);
            *list.extensions_mut() = self.options();
            let reply = self.again.service.clone().oneshot(list).await.map_err(Error::new)?;
            cursor = next_cursor(
                reply.response().await?.outcome().map_err(|error| Error::new(error.to_string()))?,
            );
            if cursor.is_none() {
                break;
            }
        }
        Ok(())
    }

    /// The options of the call, without the headers that tell of it.
    fn options(&self) -> Extensions {
        let mut options = self.request.extensions().clone();
        if let Some(ExtraHeaders(extra)) = options.get_mut() {
            let own: Vec<_> = extra.keys().filter(|name| is_mirrored(name)).cloned().collect();
            own.iter().for_each(|name| drop(extra.remove(name)));
        }
        if let Some(pinned) = &self.pinned {
            options.insert(pinned.clone());
        }
        options
    }

    /// The `params` of a listing.
    fn listing(&self, cursor: Option<&str>) -> Option<RawJson> {
        let mut params = b"{".to_vec();
        if let Some(cursor) = cursor {
            params.extend_from_slice(br#""cursor":"#);
            write_string(&mut params, cursor);
            params.push(b',');
        }
        params.extend_from_slice(br#""_meta":{"#);
        let mut copied = Vec::new();
        let _ = members(self.request.params()?.as_str(), |name, meta| {
            if name == "_meta" {
                copied.clear();
                let _ = members(meta, |key, value| copied.push((key.to_owned(), value.to_owned())));
            }
        });
        copied.retain(|(key, _)| COPIED.contains(&&**key));
        for (at, (key, value)) in copied.iter().enumerate() {
            if at > 0 {
                params.push(b',');
            }
            write_string(&mut params, key);
            params.push(b':');
            params.extend_from_slice(value.as_bytes());
        }
        params.extend_from_slice(b"}}");
        RawJson::parse(params).ok()
    }
}

/// Waits for `step`, unless it is too late.
async fn before<T>(until: Option<Box<Until>>, step: impl Future<Output = T>) -> Result<T, Error> {
    let (mut until, mut step) = (until, pin!(step));
    poll_fn(|cx| match step.as_mut().poll(cx) {
        Poll::Ready(done) => Poll::Ready(Ok(done)),
        Poll::Pending => match &mut until {
            Some(until) => until.poll_missed(cx).map(Err),
            None => Poll::Pending,
        },
    })
    .await
}

fn next_cursor(result: &RawJson) -> Option<String> {
    let mut cursor = None;
    members(result.as_str(), |name, value| {
        if name == "nextCursor" {
            cursor = serde_json::from_str::<Option<String>>(value).ok().flatten();
        }
    })
    .ok()?;
    cursor
}
