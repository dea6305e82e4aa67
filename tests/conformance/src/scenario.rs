//! The scenarios: what a client does in each, once it is connected.

use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;

use crate::client::Client;
use crate::{Failure, offers, tools};

/// Many scenarios want the same of a client, and differ in what the server does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scenario {
    /// Nothing more than to be connected.
    Connect,
    /// List the tools.
    ListTools,
    /// List the tools, and call each.
    CallTools,
    /// The same, with the resources and prompts.
    UseAll,
    /// Make the calls that the context has, for their arguments are what is tested.
    CallAsTold,
    /// Hand the schema of one tool to another.
    EchoSchema,
}

impl Scenario {
    pub(crate) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "initialize" => Self::Connect,
            // The list has a reference to a document elsewhere, which is not to be followed; the server knows no calls.
            "json-schema-ref-no-deref" | "request-metadata" => Self::ListTools,
            // The servers: one of two numbers; one that asks the client for a form; one that breaks the stream off; one
            // whose invalid tools the transport takes out of the list; one that answers in rounds.
            "tools_call"
            | "elicitation-sep1034-client-defaults"
            | "sse-retry"
            | "http-invalid-tool-headers"
            | "sep-2322-client-request-state" => Self::CallTools,
            "http-standard-headers" => Self::UseAll,
            "http-custom-headers" => Self::CallAsTold,
            "json-schema-2020-12-preservation" => Self::EchoSchema,
            _ => return None,
        })
    }

    pub(crate) async fn play(self, client: &Client, context: Option<&str>) -> Result<(), Failure> {
        match self {
            // The answer to this tells that the server has accepted the handshake.
            Self::Connect => client.call("ping", json!({})).await.map(drop),
            Self::ListTools => tools::list(client).await.map(drop),
            Self::CallTools => tools::call_all(client).await,
            Self::UseAll => offers::use_all(client).await,
            Self::CallAsTold => call_as_told(client, context.ok_or("there is no context")?).await,
            Self::EchoSchema => echo_schema(client).await,
        }
    }
}

async fn call_as_told(client: &Client, context: &str) -> Result<(), Failure> {
    #[derive(Deserialize)]
    struct Context {
        #[serde(rename = "toolCalls")]
        calls: Vec<Call>,
    }
    #[derive(Deserialize)]
    struct Call {
        name: String,
        arguments: Box<RawValue>,
    }

    let context: Context = serde_json::from_str(context)?;
    // The transport learns from the list which arguments are to be in headers.
    let tools = tools::list(client).await?;
    for call in context.calls {
        if !tools.iter().any(|tool| tool.name == call.name) {
            return Err(format!("the server has no tool {}", call.name).into());
        }
        tools::call(client, &call.name, &call.arguments).await?;
    }
    Ok(())
}

async fn echo_schema(client: &Client) -> Result<(), Failure> {
    #[derive(serde::Serialize)]
    struct Echo<'a> {
        schema: &'a RawValue,
    }

    let tools = tools::list(client).await?;
    let tool = tools.iter().find(|tool| tool.name == "json_schema_2020_12_tool");
    let schema = &tool.ok_or("the server does not have the tool whose schema is tested")?.schema;
    tools::call(client, "json_schema_echo", Echo { schema }).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_known_is_not_played() {
        assert_eq!(Scenario::named("sse-retry"), Some(Scenario::CallTools));
        assert_eq!(Scenario::named("auth/basic-cimd"), None);
        assert_eq!(Scenario::named(""), None);
    }
}
