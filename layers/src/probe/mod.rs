//! Tell of which era a server is.
//!
//! A client that speaks both eras asks with `server/discover`, a request of the modern era, and falls back to `initialize` if the
//! server does not understand it (MCP 2026-07-28 §Backward Compatibility). [`classify`] reads the answer; the crate
//! `mcp-streamable-http` has the asking, as `StreamableHttp::probe`.
//!
//! # Example
//!
//! ```
//! use http::StatusCode;
//! use mcp_streamable_http_layers::JsonRpcResponse;
//! use mcp_streamable_http_layers::probe::{Probe, classify};
//! use serde_json::json;
//!
//! # fn main() -> Result<(), mcp_streamable_http_layers::Error> {
//! let discovered = JsonRpcResponse::success(1, json!({ "supportedVersions": ["2026-07-28"], "capabilities": {} }));
//! let probe = classify(Some(StatusCode::OK), Ok(discovered))?;
//! assert!(matches!(probe, Probe::Modern { versions, .. } if versions.len() == 1));
//! # Ok(())
//! # }
//! ```

mod cache;
mod forget;

use http::StatusCode;

pub use self::cache::ProbeCache;
pub use self::forget::{ForgetEra, ForgetEraLayer, ResponseFuture};

use crate::error::{EndedStream, Error, TooLarge, Undecodable, UnexpectedContent, UnexpectedStatus};
use crate::raw_json::members;
use crate::{Era, JsonRpcError, JsonRpcResponse, ProtocolVersion, RawJson};

/// MCP 2026-07-28 §Error Codes: those that only a modern server gives.
const HEADER_MISMATCH: i64 = -32020;
const MISSING_CAPABILITY: i64 = -32021;
const UNSUPPORTED_VERSION: i64 = -32022;

/// Whether the error says that the server understands the modern era, "method not found" included.
fn is_modern_error(code: i64) -> bool {
    [HEADER_MISMATCH, MISSING_CAPABILITY, UNSUPPORTED_VERSION, JsonRpcError::METHOD_NOT_FOUND].contains(&code)
}

/// What is known of a server's era.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Probe {
    /// It speaks the modern era.
    Modern {
        /// The versions that it says it supports, in its order; empty if it did not say.
        versions: Vec<ProtocolVersion>,
        /// The result of `server/discover`, if that was the answer and not an error.
        discovered: Option<RawJson>,
    },
    /// It speaks the legacy era: send `initialize`.
    Legacy,
    /// It did not let itself be asked (it is busy, say, or in trouble): try `initialize`, and ask again another time.
    Unknown,
}

/// Reads the era of a server off its answer to a `server/discover`: `status` is that of the HTTP answer, if there was one,
/// and `outcome` what [`Reply::response`](crate::Reply::response) gave.
///
/// | answer | era |
/// |---|---|
/// | a result; an error -32020 or -32021; an error -32022 whose `supported` has a modern version, or is missing | modern |
/// | 401, 403, 407, 429, 5xx, whatever the body says | unknown |
/// | any other answer: another JSON-RPC error, a 4xx without one, 202, a body that cannot be read, an empty stream | legacy |
///
/// # Errors
/// The error in `outcome`, if it is a challenge for other credentials, or if there was no complete answer.
pub fn classify(status: Option<StatusCode>, outcome: Result<JsonRpcResponse, Error>) -> Result<Probe, Error> {
    let response = match outcome {
        Err(error) if !error.challenges().is_empty() => return Err(error),
        outcome => outcome,
    };
    let status = status.or_else(|| response.as_ref().err().and_then(Error::status));
    if status.is_some_and(is_undecided) {
        return Ok(Probe::Unknown);
    }
    match response {
        Ok(response) => Ok(match response.into_outcome() {
            Ok(result) => {
                Probe::Modern { versions: versions(&result, "supportedVersions"), discovered: Some(result) }
            }
            Err(error) => of_error(&error),
        }),
        Err(error) if is_answer(&error) => Ok(Probe::Legacy),
        Err(error) => Err(error),
    }
}

/// Whether a `server/discover` that failed was answered as a server of the legacy era does it: the third row of the table of
/// [`classify`], for callers that must decide what to make of the error first.
pub fn shows_legacy(error: &Error) -> bool {
    error.challenges().is_empty() && !error.status().is_some_and(is_undecided) && is_answer(error)
}

/// Whether an answer with this status says nothing of the era.
fn is_undecided(status: StatusCode) -> bool {
    status.is_server_error() || [401, 403, 407, 429].contains(&status.as_u16())
}

fn of_error(error: &JsonRpcError) -> Probe {
    match error.code() {
        HEADER_MISMATCH | MISSING_CAPABILITY => Probe::Modern { versions: Vec::new(), discovered: None },
        UNSUPPORTED_VERSION => {
            let supported = error.data().map(|data| versions(data, "supported")).unwrap_or_default();
            if !supported.is_empty() && supported.iter().all(|version| version.era() == Era::Legacy) {
                return Probe::Legacy;
            }
            Probe::Modern { versions: supported, discovered: None }
        }
        _ => Probe::Legacy,
    }
}

/// Whether the server has answered, if with something of no use.
fn is_answer(error: &Error) -> bool {
    error.find::<UnexpectedStatus>().is_some()
        || error.find::<UnexpectedContent>().is_some()
        || error.find::<Undecodable>().is_some()
        || error.find::<TooLarge>().is_some()
        || error.find::<EndedStream>().is_some()
}

/// The versions in a member of an object; what is none is left out.
fn versions(object: &RawJson, member: &str) -> Vec<ProtocolVersion> {
    let mut versions = Vec::new();
    let _ = members(object.as_str(), |name, value| {
        if name == member {
            let texts: Vec<String> = serde_json::from_str(value).unwrap_or_default();
            versions = texts.iter().filter_map(|text| text.parse().ok()).collect();
        }
    });
    versions
}
