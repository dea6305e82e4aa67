//! A message that wants no answer.

use std::borrow::Cow;

use http::Extensions;

use super::{JsonRpcNotification, Params, RequestId, text};
use crate::RawJson;
use crate::raw_json::members;

impl JsonRpcNotification {
    /// A notification.
    pub fn new(method: impl Into<Cow<'static, str>>, params: impl Into<Params>) -> Self {
        Self { method: text(method.into()), params: params.into().0, extensions: Extensions::new() }
    }

    /// The id of the request that a `notifications/cancelled` names. `None`: it is another notification, or malformed.
    pub fn cancelled_request(&self) -> Option<RequestId> {
        let params = self.params().filter(|_| self.method() == "notifications/cancelled")?.text();
        let mut id = None;
        members(params, |member, value| {
            if member == "requestId" {
                id = RequestId::read(params, value);
            }
        })
        .ok()?;
        id
    }

    /// The method's name, such as `notifications/progress`.
    pub fn method(&self) -> &str {
        &self.method
    }

    /// The parameters, if there are any.
    pub fn params(&self) -> Option<&RawJson> {
        self.params.as_ref()
    }

    /// The options that travel with this message inside the process: see [`options`](crate::options).
    pub fn extensions(&self) -> &Extensions {
        &self.extensions
    }

    /// The options, to be changed.
    pub fn extensions_mut(&mut self) -> &mut Extensions {
        &mut self.extensions
    }
}
