//! The clients, all on the transport: by hand, through the bridge, and in rmcp.

mod bridge;
mod direct;
mod host;
mod json;
mod rmcp;

use std::future::Future;
use std::sync::Arc;

use http::Uri;
use serde_json::Value;

pub(crate) use self::bridge::Bridge;
pub(crate) use self::direct::Direct;
pub(crate) use self::host::Host;
pub(crate) use self::json::Json;
pub(crate) use self::rmcp::Rmcp;
use crate::Result;

/// Which of the two protocols a client speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Era {
    /// 2025-11-25: `initialize`, sessions if the server has them, a listening stream.
    Legacy,
    /// 2026-07-28.
    Modern,
}

/// A call of a tool.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    /// Its name.
    pub(crate) tool: &'static str,
    /// An object.
    pub(crate) arguments: Value,
}

/// What the features need of a client.
///
/// The futures are `Send`, which `async fn` would not say.
pub(crate) trait Client: Sized + Send + Sync {
    /// Whether it hands reports on in the order in which they come.
    const KEEPS_ORDER: bool;

    /// Connects, and makes the handshake of the era. What the server wants of it, and tells it, goes to `host`.
    fn connect(uri: Uri, era: Era, host: Arc<Host>) -> impl Future<Output = Result<Self>> + Send;

    /// The names of the tools.
    fn tools(&self) -> impl Future<Output = Result<Vec<String>>> + Send;

    /// Calls a tool that may report its progress, and returns its text.
    fn call(&self, call: Call) -> impl Future<Output = Result<String>> + Send;

    /// Reads the text of a resource.
    fn read(&self, uri: &str) -> impl Future<Output = Result<String>> + Send;

    /// Calls a tool, and cancels the call once `when` is done.
    fn cancel(
        &self,
        call: Call,
        when: impl Future<Output = Result<()>> + Send,
    ) -> impl Future<Output = Result<()>> + Send;

    /// Ends the connection.
    fn close(self) -> impl Future<Output = Result<()>> + Send;
}

/// The texts of a tool's content, if the tool has not failed.
fn text_of(result: &Value) -> Result<String> {
    let contents = result["content"].as_array().ok_or_else(|| format!("no content: {result}"))?;
    let text: String = contents.iter().filter_map(|content| content["text"].as_str()).collect();
    if result["isError"] == true { Err(format!("the tool fails: {text}").into()) } else { Ok(text) }
}
