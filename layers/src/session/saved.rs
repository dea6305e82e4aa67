//! A session that outlives its transport.

use std::fmt;

use http::HeaderValue;
use serde::de::Error as _;
use serde::ser::SerializeStruct;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use crate::{JsonRpcMessage, JsonRpcRequest, ProtocolVersion};

/// A session as it can be stored: its id, the negotiated version, and the `initialize` that it began with.
///
/// It serializes as a map. The id in it is a secret, like a password: whoever has it can act in the session. It is not in
/// the `Debug` output.
///
/// ```
/// use mcp_streamable_http_layers::{SavedSession, Session};
///
/// # fn main() -> Result<(), serde_json::Error> {
/// # let stored = r#"{"id":"s-1","expired":false,"protocolVersion":"2025-11-25","initialize":null}"#;
/// let saved: SavedSession = serde_json::from_str(stored)?;
/// let session = Session::new();
/// session.restore(saved);
/// assert_eq!(session.id().unwrap(), "s-1");
/// assert_eq!(serde_json::to_string(&session.save())?, stored);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct SavedSession {
    pub(super) id: Option<HeaderValue>,
    pub(super) has_expired: bool,
    pub(super) version: Option<ProtocolVersion>,
    pub(super) handshake: Option<JsonRpcRequest>,
}

impl Serialize for SavedSession {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // A header may hold any byte, each of which is a character of its own here.
        let id = self.id.as_ref().map(|id| id.as_bytes().iter().copied().map(char::from).collect::<String>());
        let initialize = self.handshake.clone().map(|request| JsonRpcMessage::from(request).to_string());
        let mut map = serializer.serialize_struct("SavedSession", 4)?;
        map.serialize_field("id", &id)?;
        map.serialize_field("expired", &self.has_expired)?;
        map.serialize_field("protocolVersion", &self.version.as_ref().map(ProtocolVersion::as_str))?;
        map.serialize_field("initialize", &initialize)?;
        map.end()
    }
}

impl<'de> Deserialize<'de> for SavedSession {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // What it is instead is not shown: it may be a bare id.
        let map = serde_json::Map::deserialize(deserializer)
            .map_err(|_| D::Error::custom("what is stored is no session"))?;
        let text = |name: &str| match map.get(name) {
            Some(Value::String(text)) => Ok(Some(text.as_str())),
            Some(Value::Null) | None => Ok(None),
            _ => Err(D::Error::custom(format_args!("`{name}` is not a string"))),
        };
        let bytes = |id: &str| id.chars().map(u8::try_from).collect::<Result<Vec<_>, _>>().ok();
        let id = text("id")?
            .filter(|id| !id.is_empty())
            .map(|id| {
                let header = bytes(id).and_then(|id| HeaderValue::from_bytes(&id).ok());
                // Not shown: it is a secret even so.
                header.ok_or_else(|| D::Error::custom("the id cannot be sent in a header"))
            })
            .transpose()?;
        let id = id.map(|mut id| {
            id.set_sensitive(true);
            id
        });
        let version = text("protocolVersion")?.map(str::parse).transpose().map_err(D::Error::custom)?;
        let handshake =
            match text("initialize")?.map(|text| JsonRpcMessage::decode(text.to_owned())).transpose() {
                Ok(Some(JsonRpcMessage::Request(request))) if request.is_initialize() => Some(request),
                Ok(None) => None,
                _ => return Err(D::Error::custom("`initialize` is not such a request")),
            };
        let has_expired = map.get("expired").and_then(Value::as_bool).unwrap_or_default();
        Ok(Self { id, has_expired, version, handshake })
    }
}

/// Without the id.
impl fmt::Debug for SavedSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SavedSession")
            .field("has_id", &self.id.is_some())
            .field("has_expired", &self.has_expired)
            .field("version", &self.version)
            .finish_non_exhaustive()
    }
}
