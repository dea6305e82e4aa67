//! What differs between the servers.

use mcp_streamable_http_interop::{Client, Server};
use serde_json::{Value, json};

/// A server, and what it says to the same questions.
pub(crate) struct Profile {
    pub(crate) server: Server,
    pub(crate) name: &'static str,
    /// What `clients/python_client.py` calls it.
    pub(crate) key: &'static str,
    pub(crate) era: Era,
    /// Some of its tools.
    pub(crate) tools: &'static [&'static str],
    pub(crate) echo: fn(&str) -> Exchange,
    pub(crate) add: fn() -> Exchange,
    /// Reports progress in three steps.
    pub(crate) slow: fn() -> Exchange,
    /// How many of these reports arrive.
    pub(crate) reports: usize,
    /// What it says to a call of the tool `zzz`, in a result that is an error.
    pub(crate) unknown_tool: &'static str,
    /// The URI of a resource, and how its text begins.
    pub(crate) resource: (&'static str, &'static str),
    pub(crate) prompt: fn() -> Exchange,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Era {
    Modern,
    Sessions,
    NoSessions,
}

/// A name, the arguments, and the text of the answer.
pub(crate) struct Exchange {
    pub(crate) name: &'static str,
    pub(crate) arguments: Value,
    pub(crate) text: String,
}

impl Exchange {
    fn new(name: &'static str, arguments: Value, text: impl Into<String>) -> Self {
        Self { name, arguments, text: text.into() }
    }
}

impl Profile {
    /// A client of the legacy era that has said nothing yet.
    pub(crate) fn legacy(&self) -> Client {
        Client::legacy(self.server.uri())
    }

    /// A client that is ready to call: in the legacy era after the handshake.
    pub(crate) async fn connect(&self) -> Client {
        if self.era == Era::Modern {
            return Client::modern(self.server.uri());
        }
        let client = self.legacy();
        client.handshake("2025-11-25", json!({ "sampling": {} })).await;
        client
    }
}

pub(crate) static SSE: Profile = python("sse", Era::Sessions, 3);
pub(crate) static JSON: Profile = python("json", Era::Sessions, 0);
pub(crate) static STATELESS: Profile = python("stateless", Era::NoSessions, 3);
pub(crate) static RESUME: Profile = python("resume", Era::Sessions, 3);
pub(crate) static MODERN: Profile = python("modern", Era::Modern, 3);

const fn python(mode: &'static str, era: Era, reports: usize) -> Profile {
    Profile {
        server: Server::python(mode),
        name: "interop-python",
        key: mode,
        era,
        tools: &["echo", "add", "slow", "locate", "announce", "grüße", " padded ", "=?base64?ZWNobw==?="],
        echo: |text| Exchange::new("echo", json!({ "text": text }), text),
        add: || Exchange::new("add", json!({ "a": 2, "b": 3 }), "5"),
        slow: || Exchange::new("slow", json!({ "steps": 3 }), "done after 3 steps"),
        reports,
        unknown_tool: "Unknown tool: zzz",
        resource: ("memo://grüße", "Grüße aus dem Memo"),
        prompt: || Exchange::new("begrüßen", json!({ "name": "Ada" }), "Sage Ada guten Tag."),
    }
}

pub(crate) static EVERYTHING: Profile = Profile {
    server: Server::everything(),
    name: "mcp-servers/everything",
    key: "everything",
    era: Era::Sessions,
    tools: &["echo", "get-sum", "trigger-long-running-operation", "trigger-sampling-request"],
    echo: |text| Exchange::new("echo", json!({ "message": text }), format!("Echo: {text}")),
    add: || Exchange::new("get-sum", json!({ "a": 2, "b": 3 }), "The sum of 2 and 3 is 5."),
    slow: || {
        let text = "Long running operation completed. Duration: 0.15 seconds, Steps: 3.";
        Exchange::new("trigger-long-running-operation", json!({ "duration": 0.15, "steps": 3 }), text)
    },
    reports: 3,
    unknown_tool: "MCP error -32602: Tool zzz not found",
    resource: ("demo://resource/dynamic/text/1", "Resource 1: "),
    prompt: || Exchange::new("args-prompt", json!({ "city": "Ulm" }), "What's weather in Ulm?"),
};
