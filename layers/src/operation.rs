//! What is told of a call to whoever observes it, in the words of OpenTelemetry's conventions for MCP.

use std::borrow::Cow;

use crate::error::{Cancelled, Error, SessionExpired, Superseded};
use crate::{JsonRpcMessage, JsonRpcRequest};

/// A request or notification that is observed.
#[derive(Clone, Debug)]
pub(crate) struct Operation {
    /// `mcp.method.name`
    pub(crate) method: String,
    /// `gen_ai.tool.name`
    pub(crate) tool: Option<String>,
    /// `gen_ai.prompt.name`
    pub(crate) prompt: Option<String>,
}

impl Operation {
    /// `None`: a response has no method.
    pub(crate) fn of(message: &JsonRpcMessage) -> Option<Self> {
        let method = message.method()?.to_owned();
        let name =
            message.as_request().and_then(JsonRpcRequest::mirrored_name).map(|name| (**name).to_owned());
        let (tool, prompt) = match &*method {
            "tools/call" => (name, None),
            "prompts/get" => (None, name),
            _ => (None, None),
        };
        Some(Self { method, tool, prompt })
    }

    /// What the method is about, if it names that.
    pub(crate) fn target(&self) -> Option<&str> {
        self.tool.as_deref().or(self.prompt.as_deref())
    }
}

/// `error.type`, if the item is a failure: the code of the server's error, the status of the answer, or a word.
pub(crate) fn error_type(item: &Result<JsonRpcMessage, Error>) -> Option<Cow<'static, str>> {
    match item {
        Ok(message) => {
            let error = message.as_response()?.outcome().err()?;
            Some(error.code().to_string().into())
        }
        Err(error) => Some(kind(error)),
    }
}

/// The kind of an error, as one of few values.
pub(crate) fn kind(error: &Error) -> Cow<'static, str> {
    if error.find::<SessionExpired>().is_some() {
        "session_expired".into()
    } else if error.is_timeout() {
        "timeout".into()
    } else if error.find::<Cancelled>().is_some() {
        "cancelled".into()
    } else if error.find::<Superseded>().is_some() {
        "superseded".into()
    } else if error.is_connect() {
        "connect".into()
    } else {
        match error.status().filter(|status| !status.is_success()) {
            Some(status) => status.as_str().to_owned().into(),
            // What OpenTelemetry says where no other value fits.
            None => "_OTHER".into(),
        }
    }
}
