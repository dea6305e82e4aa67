//! The answer to a request.

use std::fmt;

use http::Extensions;
use serde::de::DeserializeOwned;

use super::{JsonRpcError, RequestId};
use crate::RawJson;

/// The answer to a request: a result or an error.
#[derive(Clone)]
pub struct JsonRpcResponse {
    id: Option<RequestId>,
    /// The error is boxed, as it is large and rare.
    outcome: Result<RawJson, Box<JsonRpcError>>,
    extensions: Extensions,
}

impl JsonRpcResponse {
    /// A successful answer.
    pub fn success(id: impl Into<RequestId>, result: impl Into<RawJson>) -> Self {
        Self::new(Some(id.into()), Ok(result.into()))
    }

    /// A failed answer. `id` is `None` only where the request could not be read (JSON-RPC 2.0 §5).
    pub fn failure(id: Option<RequestId>, error: JsonRpcError) -> Self {
        Self::new(id, Err(error))
    }

    pub(crate) fn new(id: Option<RequestId>, outcome: Result<RawJson, JsonRpcError>) -> Self {
        Self { id, outcome: outcome.map_err(Box::new), extensions: Extensions::new() }
    }

    /// The id of the request that this answers.
    pub fn id(&self) -> Option<&RequestId> {
        self.id.as_ref()
    }

    /// The same response with another result.
    pub(crate) fn with_result(self, result: RawJson) -> Self {
        Self { outcome: Ok(result), ..self }
    }

    pub(crate) fn set_id(&mut self, id: RequestId) -> Option<RequestId> {
        self.id.replace(id)
    }

    /// The result, read as a `T`.
    ///
    /// ```
    /// # use mcp_streamable_http_layers::{JsonRpcResponse, ResultError};
    /// # use serde_json::json;
    /// let response = JsonRpcResponse::success(1, json!({ "sum": 5 }));
    /// let result: serde_json::Value = response.result()?;
    /// assert_eq!(result["sum"], 5);
    /// # Ok::<(), ResultError>(())
    /// ```
    ///
    /// # Errors
    /// The server answered with an error, or the result is not a `T`.
    pub fn result<T: DeserializeOwned>(&self) -> Result<T, ResultError> {
        match &self.outcome {
            Ok(result) => result.to().map_err(ResultError::Unexpected),
            Err(error) => Err(ResultError::Server(JsonRpcError::clone(error))),
        }
    }

    /// The result or the error, as they travelled.
    pub fn outcome(&self) -> Result<&RawJson, &JsonRpcError> {
        self.outcome.as_ref().map_err(|error| &**error)
    }

    /// The result or the error, taken out.
    ///
    /// # Errors
    /// The error that the server answered with.
    pub fn into_outcome(self) -> Result<RawJson, JsonRpcError> {
        self.outcome.map_err(|error| *error)
    }

    /// What the transport noted about the answer, such as [`WireId`](crate::options::WireId).
    pub fn extensions(&self) -> &Extensions {
        &self.extensions
    }

    /// The same, to be changed.
    pub fn extensions_mut(&mut self) -> &mut Extensions {
        &mut self.extensions
    }
}

impl PartialEq for JsonRpcResponse {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id && self.outcome == other.outcome
    }
}

/// Without what the extensions hold.
impl fmt::Debug for JsonRpcResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JsonRpcResponse").field("id", &self.id).field("outcome", &self.outcome).finish()
    }
}

/// Why [`JsonRpcResponse::result`] has no result to give.
#[derive(Debug)]
pub enum ResultError {
    /// The server answered with this error.
    Server(JsonRpcError),
    /// The server answered with a result that is not of the wanted type.
    Unexpected(serde_json::Error),
}

impl fmt::Display for ResultError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Server(error) => write!(f, "the server answered: {error}"),
            Self::Unexpected(error) => write!(f, "the server's result is not of the expected type: {error}"),
        }
    }
}

impl std::error::Error for ResultError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Server(error) => Some(error),
            Self::Unexpected(error) => Some(error),
        }
    }
}
