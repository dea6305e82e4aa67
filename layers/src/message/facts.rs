//! What the transport itself needs to know of a request's `params`.

use bytestring::ByteString;

use crate::raw_json::{members, string};
use crate::version::InvalidProtocolVersion;
use crate::{ProtocolVersion, RawJson};

/// `_meta` key of the version that a modern request names (MCP 2026-07-28 §Protocol Version Header).
const VERSION_KEY: &str = "io.modelcontextprotocol/protocolVersion";

/// Found in one pass over `params` and kept with the request.
#[derive(Clone, Debug)]
pub(super) struct Facts {
    pub(super) version: Result<Option<ProtocolVersion>, InvalidProtocolVersion>,
    pub(super) name: Option<ByteString>,
    pub(super) task: bool,
    /// It goes on with an exchange that the server keeps the state of, so it is no repetition of anything.
    pub(super) continues: bool,
    /// Of a `tools/call`: not read yet, as most tools want none of them in headers.
    pub(super) arguments: Option<ByteString>,
}

impl Facts {
    /// Of a member that occurs twice the last one counts, as in most readers of JSON. `params` that are no object
    /// tell nothing: it is for the server to refuse them.
    pub(super) fn read(method: &str, params: Option<&RawJson>) -> Self {
        let mut facts =
            Self { version: Ok(None), name: None, task: false, continues: false, arguments: None };
        let Some(params) = params else { return facts };
        let (text, mirrored, is_call) = (params.text(), mirrored_member(method), method == "tools/call");
        let _ = members(text, |name, value| match name {
            "_meta" => {
                if let Some(version) = version(text, value) {
                    facts.version = version;
                }
            }
            "task" => facts.task = value != "null",
            "requestState" | "inputResponses" => facts.continues = true,
            "arguments" if is_call => facts.arguments = Some(text.slice_ref(value)),
            name if Some(name) == mirrored => facts.name = string(text, value),
            _ => {}
        });
        facts
    }
}

/// The version in a `_meta`, if there is one.
fn version(text: &ByteString, meta: &str) -> Option<Result<Option<ProtocolVersion>, InvalidProtocolVersion>> {
    let mut version = None;
    let _ = members(meta, |key, value| {
        if key == VERSION_KEY {
            version = Some(string(text, value).map(|version| version.parse()).transpose());
        }
    });
    version
}

/// The member of `params` that `Mcp-Name` mirrors: MCP 2026-07-28 §Standard Request Headers, and for tasks SEP-2243.
fn mirrored_member(method: &str) -> Option<&'static str> {
    match method {
        "tools/call" | "prompts/get" => Some("name"),
        "resources/read" => Some("uri"),
        "tasks/get" | "tasks/update" | "tasks/cancel" => Some("taskId"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(method: &str, params: &'static str) -> Facts {
        Facts::read(method, Some(&RawJson::parse(params).unwrap()))
    }

    #[test]
    fn the_name_is_that_of_the_method() {
        let params = r#"{"name":"n","uri":"u","taskId":"t","arguments":{"name":"inner"}}"#;
        for (method, name) in [
            ("tools/call", Some("n")),
            ("prompts/get", Some("n")),
            ("resources/read", Some("u")),
            ("tasks/get", Some("t")),
            ("tasks/update", Some("t")),
            ("tasks/cancel", Some("t")),
            ("resources/subscribe", None),
            ("ping", None),
        ] {
            assert_eq!(read(method, params).name.as_deref(), name, "{method}");
        }
    }

    #[test]
    fn the_version_is_read_from_meta_only() {
        let facts = read("ping", r#"{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}"#);
        assert_eq!(facts.version, Ok(Some(ProtocolVersion::V2026_07_28)));
        let facts = read("initialize", r#"{"protocolVersion":"2025-11-25","_meta":{"protocolVersion":"x"}}"#);
        assert_eq!(facts.version, Ok(None));
        let facts = read("ping", r#"{"_meta":{"io.modelcontextprotocol/protocolVersion":"a\r\nb"}}"#);
        assert_eq!(facts.version, Err(InvalidProtocolVersion));
    }

    #[test]
    fn odd_params_tell_nothing() {
        for params in ["[]", "1", r#"{"name":1,"_meta":[]}"#, r#"{"name":null,"_meta":{"a":1}}"#] {
            let facts = read("tools/call", params);
            assert_eq!((facts.version, facts.name), (Ok(None), None), "{params}");
        }
    }

    #[test]
    fn the_last_of_two_counts_and_escapes_are_decoded() {
        let facts = read("tools/call", r#"{"name":"a","n\u0061me":"gr\u00fc\u00dfe"}"#);
        assert_eq!(facts.name.as_deref(), Some("grüße"));
    }
}
