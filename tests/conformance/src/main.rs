//! The client that the official conformance suite judges.
//!
//! The suite starts it once for each scenario, as `conformance-client URL`, and tells it in the environment what to play.
//! It exits with 0 if all went well, with 1 and a reason if not, and with 2 if it does not know what to do. Nothing is
//! written on stderr unless something failed.

mod client;
mod host;
mod offers;
mod scenario;
mod schema;
mod tools;

use std::error::Error;
use std::process::ExitCode;
use std::time::Duration;

use mcp_streamable_http::ProtocolVersion;

use self::client::Client;
use self::scenario::Scenario;

/// Whatever can go wrong in a scenario: it is only ever printed.
type Failure = Box<dyn Error + Send + Sync>;

/// The suite gives up after 30 s, and would then stop the shell around this program, but not always the program.
const PATIENCE: Duration = Duration::from_secs(25);

/// What the suite says in the environment.
struct Orders {
    url: String,
    scenario: Scenario,
    version: ProtocolVersion,
    /// What only this scenario's client is told: JSON.
    context: Option<String>,
}

impl Orders {
    fn read() -> Result<Self, Failure> {
        let url = std::env::args().nth(1).ok_or("usage: conformance-client URL")?;
        let name =
            std::env::var("MCP_CONFORMANCE_SCENARIO").map_err(|_| "MCP_CONFORMANCE_SCENARIO is not set")?;
        let scenario = Scenario::named(&name).ok_or_else(|| format!("unknown scenario: {name}"))?;
        let version = match std::env::var("MCP_CONFORMANCE_PROTOCOL_VERSION") {
            Ok(version) => version.parse()?,
            // The suite before 0.2 does not say; this is the newest revision that it knows.
            Err(_) => ProtocolVersion::V2025_11_25,
        };
        Ok(Self { url, scenario, version, context: std::env::var("MCP_CONFORMANCE_CONTEXT").ok() })
    }

    async fn follow(self) -> Result<(), Failure> {
        let client = Client::connect(&self.url, self.version).await?;
        let played = self.scenario.play(&client, self.context.as_deref()).await;
        client.close().await;
        played
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let orders = match Orders::read() {
        Ok(orders) => orders,
        Err(reason) => return complain(&reason, 2),
    };
    match tokio::time::timeout(PATIENCE, orders.follow()).await {
        Ok(Ok(())) => ExitCode::SUCCESS,
        Ok(Err(reason)) => complain(&reason, 1),
        Err(elapsed) => complain(&elapsed.into(), 1),
    }
}

#[allow(clippy::print_stderr, reason = "the suite shows what a client prints")]
fn complain(reason: &Failure, code: u8) -> ExitCode {
    eprintln!("{reason}");
    let mut source = reason.source();
    while let Some(cause) = source {
        eprintln!("  because of: {cause}");
        source = cause.source();
    }
    ExitCode::from(code)
}
