//! The JSON-RPC error that stands for an [`Error`].

use http::StatusCode;
use serde_json::json;

use super::{
    ContentProblem, Error, ForeignResponse, InvalidMessage, SessionExpired, Undecodable, UnexpectedContent,
    UnexpectedStatus,
};
use crate::JsonRpcError;

impl Error {
    /// The error as a JSON-RPC error object, for callers that must answer everything in JSON-RPC.
    ///
    /// If the server refused the request with a challenge (401 or 403) *and* a JSON-RPC error, that error is
    /// returned as it is. Everything else gets `data` with `"source": "mcp-streamable-http"` and, where there was
    /// one, the `status`, so that it cannot be mistaken for the server's own.
    ///
    /// | what happened | code |
    /// |---|---|
    /// | 404 to a request without a session | -32601 |
    /// | 404 to one with a session; 202, 204, 205; an empty body; an unexpected content type; a redirect; a message that cannot be sent | -32600 |
    /// | any other status | -32603 |
    /// | an answer that cannot be read, JSON without a response, the response to another request | -32700 |
    /// | no connection, a broken or ended stream, a limit, a timeout, cancelled, superseded, anything else | -32000 |
    pub fn to_json_rpc(&self) -> JsonRpcError {
        let refused = self.find::<UnexpectedStatus>().filter(|error| !error.challenges().is_empty());
        if let Some(error) = refused.and_then(UnexpectedStatus::json_rpc) {
            return error.clone();
        }
        let (code, message) = self.code();
        let message = message.map_or_else(|| self.to_string(), str::to_owned);
        let mut data = json!({ "source": "mcp-streamable-http" });
        if let Some(status) = self.status() {
            data["status"] = status.as_u16().into();
        }
        JsonRpcError::new(code, message).with_data(data)
    }

    /// The code, and the message where it is not this error's own text.
    fn code(&self) -> (i64, Option<&'static str>) {
        const TERMINATED: (i64, Option<&str>) = (JsonRpcError::INVALID_REQUEST, Some("Session terminated"));
        if let Some(error) = self.find::<UnexpectedStatus>() {
            let status = error.status();
            return match status {
                StatusCode::NOT_FOUND if error.had_session() => TERMINATED,
                StatusCode::NOT_FOUND => (JsonRpcError::METHOD_NOT_FOUND, Some("Not Found")),
                _ if status.is_success() || status.is_redirection() => (JsonRpcError::INVALID_REQUEST, None),
                _ => (JsonRpcError::INTERNAL_ERROR, None),
            };
        }
        if let Some(error) = self.find::<UnexpectedContent>() {
            return match error.problem() {
                ContentProblem::NoResponse => (JsonRpcError::PARSE_ERROR, None),
                ContentProblem::Empty | ContentProblem::ContentType(_) => {
                    (JsonRpcError::INVALID_REQUEST, None)
                }
            };
        }
        if self.find::<SessionExpired>().is_some() {
            TERMINATED
        } else if self.find::<Undecodable>().is_some() || self.find::<ForeignResponse>().is_some() {
            (JsonRpcError::PARSE_ERROR, None)
        } else if self.find::<InvalidMessage>().is_some() {
            (JsonRpcError::INVALID_REQUEST, None)
        } else {
            (JsonRpcError::CONNECTION_CLOSED, None)
        }
    }
}
