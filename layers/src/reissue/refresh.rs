//! Learning the tools anew after a mismatch of headers.

use std::sync::Arc;

use http::HeaderMap;
use serde_json::value::RawValue;
use tokio::runtime::Handle;
use tower::ServiceExt;
use tower_service::Service;

use super::call::Plan;
use crate::error::{BoxError, Error};
use crate::mirror_headers::{mirrored, parameter_headers};
use crate::options::ExtraHeaders;
use crate::raw_json::{members, write_string};
use crate::{JsonRpcMessage, JsonRpcRequest, RawJson, Reply};

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
    /// MCP 2026-07-28 §Client Behavior: lists the tools, and sends the call once more if its headers are others then.
    /// `refusal` is what the server has said to it.
    pub(super) async fn refresh_and_send(self: Arc<Self>, refusal: Reply) -> Result<Reply, Error> {
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
        if !is_listed || after.is_none() || before == after {
            return Ok(refusal);
        }
        drop(refusal);
        self.send().await
    }

    /// Lists the tools, unless somebody else has done so since this call was sent.
    async fn refresh(&self) -> Result<(), Error> {
        let tools = &self.again.layer.tools;
        let _turn = self.again.refreshing.lock().await;
        if tools.listings() != self.known.listings {
            return Ok(());
        }
        let mut cursor = None;
        for _ in 0..MAX_PAGES {
            let list =
                JsonRpcRequest::new(self.again.fresh_id(), "tools/list", self.listing(cursor.as_deref()));
            let mut list = JsonRpcMessage::from(list);
            *list.extensions_mut() = self.request.extensions().clone();
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
                let _ =
                    members(meta.get(), |key, value| copied.push((key.to_owned(), value.get().to_owned())));
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

fn next_cursor(result: &RawJson) -> Option<String> {
    let mut cursor = None;
    members(result.as_str(), |name, value: &RawValue| {
        if name == "nextCursor" {
            cursor = serde_json::from_str::<Option<String>>(value.get()).ok().flatten();
        }
    })
    .ok()?;
    cursor
}
