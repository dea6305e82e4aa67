//! The caller's id in place of ours.

use bytestring::ByteString;

use crate::raw_json::members;
use crate::{JsonRpcMessage, JsonRpcNotification, RawJson, RequestId};

/// MCP 2026-07-28 §Receiving Notifications.
const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";

/// What to put for what.
pub(super) struct Rename {
    pub(super) from: RequestId,
    pub(super) to: RequestId,
}

impl Rename {
    /// Gives a message the caller's id, wherever it names ours; all else stays as it is.
    pub(super) fn apply(&self, message: JsonRpcMessage) -> JsonRpcMessage {
        match message {
            JsonRpcMessage::Response(mut response) => {
                response.set_id(self.to.clone());
                let renamed = response.outcome().ok().and_then(|result| self.in_meta(result.text()));
                match renamed {
                    Some(result) => response.with_result(result).into(),
                    None => response.into(),
                }
            }
            JsonRpcMessage::Notification(notification) => {
                let params = notification.params().map(RawJson::text);
                let is_cancelled = notification.method() == "notifications/cancelled";
                let requested =
                    params.filter(|_| is_cancelled).and_then(|params| self.in_object(params, "requestId"));
                let params = requested.as_ref().map(RawJson::text).or(params);
                let renamed = params.and_then(|params| self.in_meta(params)).or_else(|| requested.clone());
                match renamed {
                    Some(params) => {
                        let mut renamed = JsonRpcNotification::new(notification.method().to_owned(), params);
                        *renamed.extensions_mut() = notification.extensions().clone();
                        renamed.into()
                    }
                    None => notification.into(),
                }
            }
            message => message,
        }
    }

    /// Renames the subscription in the `_meta` of an object.
    fn in_meta(&self, object: &ByteString) -> Option<RawJson> {
        let mut meta = None;
        members(object, |name, value| {
            if name == "_meta" {
                meta = Some(object.slice_ref(value));
            }
        })
        .ok()?;
        self.splice(object, &self.member(&meta?, SUBSCRIPTION)?)
    }

    fn in_object(&self, object: &ByteString, member: &str) -> Option<RawJson> {
        self.splice(object, &self.member(object, member)?)
    }

    /// The text of our id, where `wanted` is it.
    fn member(&self, object: &ByteString, wanted: &str) -> Option<ByteString> {
        let mut found = None;
        members(object, |name, value| {
            if name == wanted && RequestId::read(object, value).as_ref() == Some(&self.from) {
                found = Some(object.slice_ref(value));
            }
        })
        .ok()?;
        found
    }

    /// The object with the caller's id in place of the part of its text that is ours.
    fn splice(&self, object: &ByteString, ours: &ByteString) -> Option<RawJson> {
        let start = (ours.as_ptr() as usize).checked_sub(object.as_ptr() as usize)?;
        let (before, after) = (object.get(..start)?, object.get(start + ours.len()..)?);
        RawJson::parse(format!("{before}{}{after}", self.to)).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn renamed(message: &'static str) -> String {
        let rename = Rename { from: "ours".into(), to: 7.into() };
        rename.apply(JsonRpcMessage::decode(message).unwrap()).to_string()
    }

    #[test]
    fn our_id_becomes_the_callers_and_nothing_else_changes() {
        for (message, expected) in [
            (r#"{"jsonrpc":"2.0","id":"ours","result":{}}"#, r#"{"jsonrpc":"2.0","id":7,"result":{}}"#),
            (
                r#"{"jsonrpc":"2.0","id":"ours","result":{ "a" : 1.0, "_meta":{"io.modelcontextprotocol/subscriptionId": "ours" }}}"#,
                r#"{"jsonrpc":"2.0","id":7,"result":{ "a" : 1.0, "_meta":{"io.modelcontextprotocol/subscriptionId": 7 }}}"#,
            ),
            (
                r#"{"jsonrpc":"2.0","method":"m","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":"ours"},"x":"ours"}}"#,
                r#"{"jsonrpc":"2.0","method":"m","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":7},"x":"ours"}}"#,
            ),
            (
                r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"ours"}}"#,
                r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}"#,
            ),
            (
                r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":"ours"},"requestId":"ours"}}"#,
                r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":7},"requestId":7}}"#,
            ),
            (
                r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"other"}}"#,
                r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"other"}}"#,
            ),
            (r#"{"jsonrpc":"2.0","method":"m"}"#, r#"{"jsonrpc":"2.0","method":"m"}"#),
        ] {
            assert_eq!(renamed(message), expected);
        }
    }
}
