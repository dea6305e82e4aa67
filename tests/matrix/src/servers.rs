//! The servers, and what to call on each to see a feature.

use crate::processes::Server;
use http::Uri;
use serde_json::json;

use crate::Result;
use crate::client::{Call, Era};
use crate::versions;

/// A row of the table, for each client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    PythonSessions,
    PythonResumable,
    PythonJson,
    PythonStateless,
    PythonModern,
    Everything,
    TypeScriptSessions,
    TypeScriptStateless,
    TypeScriptModern,
    RmcpSessions,
    RmcpStateless,
    RmcpModern,
}

/// A server, as the features see it.
#[derive(Debug)]
pub(crate) struct Profile {
    /// Which it is.
    pub(crate) kind: Kind,
    /// What it is built on.
    sdk: Sdk,
    /// How it is configured.
    mode: &'static str,
    /// How clients speak with it.
    pub(crate) era: Era,
    process: Server,
    /// What it offers.
    pub(crate) script: &'static Script,
}

#[derive(Clone, Copy, Debug)]
enum Sdk {
    Python,
    Everything,
    TypeScript,
    Rmcp,
}

/// The tools of a server that show the features.
#[derive(Debug)]
pub(crate) struct Script {
    /// Some of its tools.
    pub(crate) tools: &'static [&'static str],
    /// Says the same again.
    pub(crate) echo: fn(&str) -> Exchange,
    /// Takes a large text, and answers with one that is as large, or larger.
    pub(crate) large: fn(&str) -> Exchange,
    /// Reports its progress three times.
    pub(crate) slow: fn() -> Exchange,
    /// How it asks the client's model and its user.
    pub(crate) questions: Questions,
    /// The URI of a resource, and how its text begins.
    pub(crate) resource: (&'static str, &'static str),
    /// How long calls are made that break off meanwhile.
    pub(crate) long: Long,
}

/// How a server asks.
#[derive(Debug)]
pub(crate) struct Questions {
    /// The calls in which it does.
    pub(crate) exchanges: fn() -> Vec<Exchange>,
    /// How its questions end.
    pub(crate) asked: &'static [&'static str],
    /// Whether it asks on the listening stream, which must be open then.
    pub(crate) apart: bool,
}

/// What a call that breaks off is.
#[derive(Debug)]
pub(crate) enum Long {
    /// `travel`, which goes on when `proceed` says so: it breaks off when that is wanted.
    Steps,
    /// One that goes on by itself, with so many reports: it breaks off again and again.
    Timed(fn() -> Exchange, usize),
}

/// A call, and what the answer is.
#[derive(Debug)]
pub(crate) struct Exchange {
    /// The call.
    pub(crate) call: Call,
    answer: Answer,
}

#[derive(Debug)]
enum Answer {
    Is(String),
    Has(&'static str),
}

impl Profile {
    /// The name of the row.
    pub(crate) fn name(&self) -> String {
        let sdk = match self.sdk {
            Sdk::Python => format!("Python SDK {}", versions::python()),
            Sdk::Everything => format!("server-everything {}", versions::npm("server-everything")),
            Sdk::TypeScript => format!("TypeScript SDK {}", versions::npm("server")),
            Sdk::Rmcp => format!("rmcp {}", versions::rmcp()),
        };
        format!("{sdk}, {}", self.mode)
    }

    /// Where it listens. The first call starts it.
    pub(crate) async fn uri(&'static self) -> Result<Uri> {
        // It panics if it does not start.
        Ok(tokio::task::spawn_blocking(|| self.process.uri()).await?)
    }
}

impl Exchange {
    fn is(tool: &'static str, arguments: serde_json::Value, text: impl Into<String>) -> Self {
        Self { call: Call { tool, arguments }, answer: Answer::Is(text.into()) }
    }

    fn has(tool: &'static str, arguments: serde_json::Value, part: &'static str) -> Self {
        Self { call: Call { tool, arguments }, answer: Answer::Has(part) }
    }

    /// Fails if the answer is another.
    pub(crate) fn check(&self, text: &str) -> Result<()> {
        let agrees = match &self.answer {
            Answer::Is(answer) => text == answer,
            Answer::Has(part) => text.contains(part),
        };
        if agrees {
            return Ok(());
        }
        let beginning: String = text.chars().take(200).collect();
        Err(format!("{} answers with {} bytes: {beginning:?}", self.call.tool, text.len()).into())
    }
}

/// That of all servers but one: they have the same tools.
const fn common(apart: bool) -> Script {
    let exchanges = if apart {
        || vec![Exchange::is("consult_apart", json!({ "topic": "MCP" }), CONSULTED)]
    } else {
        || vec![Exchange::is("consult", json!({ "topic": "MCP" }), CONSULTED)]
    };
    Script {
        tools: &["echo", "repeat", "slow", "consult", "linger", "fate", "travel", "proceed"],
        echo: |text| Exchange::is("echo", json!({ "text": text }), text),
        large: |text| Exchange::is("repeat", json!({ "text": text, "times": 2 }), text.repeat(2)),
        slow: || Exchange::is("slow", json!({ "steps": 3 }), "done after 3 steps"),
        questions: Questions { exchanges, asked: &["what is MCP?", "who asks about MCP?"], apart },
        resource: ("memo://grüße", "Grüße aus dem Memo"),
        long: Long::Steps,
    }
}

const CONSULTED: &str = "a protocol, grüezi, says none to Ada Łovelace";

static COMMON: Script = common(false);
static APART: Script = common(true);

static EVERYTHING: Script = Script {
    tools: &["echo", "get-sum", "trigger-long-running-operation", "trigger-sampling-request"],
    echo: |text| Exchange::is("echo", json!({ "message": text }), format!("Echo: {text}")),
    large: |text| Exchange::is("echo", json!({ "message": text }), format!("Echo: {text}")),
    slow: || operation(0.15, 3),
    questions: Questions {
        exchanges: || {
            vec![
                Exchange::has(
                    "trigger-sampling-request",
                    json!({ "prompt": "what is MCP?" }),
                    "a protocol, grüezi",
                ),
                Exchange::has("trigger-elicitation-request", json!({}), "Name: Ada Łovelace"),
            ]
        },
        asked: &["what is MCP?", "Please provide inputs for the following fields:"],
        apart: false,
    },
    resource: ("demo://resource/dynamic/text/1", "Resource 1: "),
    long: Long::Timed(|| operation(1.0, 10), 10),
};

fn operation(duration: f64, steps: usize) -> Exchange {
    let text = format!("Long running operation completed. Duration: {duration} seconds, Steps: {steps}.");
    Exchange::is("trigger-long-running-operation", json!({ "duration": duration, "steps": steps }), text)
}

const fn python(kind: Kind, mode: &'static str, era: Era, process: &'static str) -> Profile {
    let script = if matches!(kind, Kind::PythonJson) { &APART } else { &COMMON };
    Profile { kind, sdk: Sdk::Python, mode, era, process: Server::python(process), script }
}

const fn typescript(kind: Kind, mode: &'static str, era: Era, process: &'static str) -> Profile {
    Profile { kind, sdk: Sdk::TypeScript, mode, era, process: Server::typescript(process), script: &COMMON }
}

const fn rmcp(kind: Kind, mode: &'static str, era: Era, process: &'static str) -> Profile {
    let process = Server::named("INTEROP_RMCP_SERVER", process);
    Profile { kind, sdk: Sdk::Rmcp, mode, era, process, script: &COMMON }
}

const SESSIONS: &str = "sessions";
const RESUMABLE: &str = "sessions and event ids";
const JSON: &str = "sessions, JSON bodies";
const STATELESS: &str = "no sessions";
const MODERN: &str = "2026-07-28";

/// All of them.
pub(crate) static SERVERS: [Profile; 12] = [
    python(Kind::PythonSessions, SESSIONS, Era::Legacy, "sse"),
    python(Kind::PythonResumable, RESUMABLE, Era::Legacy, "resume"),
    python(Kind::PythonJson, JSON, Era::Legacy, "json"),
    python(Kind::PythonStateless, STATELESS, Era::Legacy, "stateless"),
    python(Kind::PythonModern, MODERN, Era::Modern, "modern"),
    Profile {
        kind: Kind::Everything,
        sdk: Sdk::Everything,
        mode: RESUMABLE,
        era: Era::Legacy,
        process: Server::everything(),
        script: &EVERYTHING,
    },
    typescript(Kind::TypeScriptSessions, RESUMABLE, Era::Legacy, "sessions"),
    typescript(Kind::TypeScriptStateless, STATELESS, Era::Legacy, "stateless"),
    typescript(Kind::TypeScriptModern, MODERN, Era::Modern, "modern"),
    rmcp(Kind::RmcpSessions, RESUMABLE, Era::Legacy, "sessions"),
    rmcp(Kind::RmcpStateless, STATELESS, Era::Legacy, "stateless"),
    rmcp(Kind::RmcpModern, MODERN, Era::Modern, "modern"),
];
