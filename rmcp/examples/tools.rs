//! Lists the tools of a server and calls one, with a token in every request and the time of every call taken.
//!
//! ```text
//! cargo run -p mcp-streamable-http-rmcp --example tools                        # starts a server of rmcp's own
//! cargo run -p mcp-streamable-http-rmcp --example tools -- URL TOOL ARGUMENTS  # calls a tool of the server at URL
//! ```
//!
//! The token is that in `MCP_TOKEN`.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "printing is what an example is for")]

#[path = "support/mod.rs"]
mod support;

use std::error::Error;
use std::process::ExitCode;

use http::Uri;
use mcp_streamable_http::StreamableHttp;
use mcp_streamable_http::layers::{BearerLayer, MetricsLayer};
use mcp_streamable_http_rmcp::{IntoRmcp, TransportError};
use metrics_util::debugging::{DebugValue, DebuggingRecorder, Snapshotter};
use rmcp::model::{CallToolRequestParams, ClientConfig, ProtocolVersion};
use rmcp::service::{ClientLifecycleMode, ClientServiceExt};
use tower::BoxError;

#[tokio::main]
async fn main() -> ExitCode {
    match run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

async fn run() -> Result<(), Box<dyn Error>> {
    let recorder = DebuggingRecorder::new();
    let times = recorder.snapshotter();
    recorder.install()?;

    let token = std::env::var("MCP_TOKEN").unwrap_or_else(|_| "a secret".to_owned());
    let mut arguments = std::env::args().skip(1);
    let uri: Uri = match arguments.next() {
        Some(uri) => uri,
        None => support::serve(&token).await?,
    }
    .parse()?;
    let tool = arguments.next().unwrap_or_else(|| "add".to_owned());
    let input = arguments.next().unwrap_or_else(|| r#"{"a":1,"b":2}"#.to_owned());

    // What is particular to HTTP is here; from `into_rmcp` on it is rmcp as ever.
    let token = move |_| std::future::ready(Ok::<_, BoxError>(token.clone()));
    let transport = StreamableHttp::builder(uri.clone())
        .http_layer(BearerLayer::new(&uri, token))
        .build()?
        .layer(MetricsLayer::new());
    let lifecycle = ClientLifecycleMode::Auto {
        preferred_versions: vec![ProtocolVersion::V_2026_07_28],
        legacy_version: None,
    };
    let client = ClientConfig::default().serve_with_lifecycle(transport.into_rmcp(), lifecycle).await?;

    for tool in client.list_all_tools().await? {
        println!("{:<24} {}", tool.name, tool.description.as_deref().unwrap_or_default());
    }
    let mut call = CallToolRequestParams::new(tool);
    call.arguments = Some(serde_json::from_str(&input)?);
    let result = client.call_tool(call).await?;
    for text in result.content.iter().filter_map(|content| content.as_text()) {
        println!("It says: {}", text.text);
    }

    if let Err(error) = client.call_tool(CallToolRequestParams::new("no such tool")).await {
        match TransportError::of_call(&error) {
            Some(failed) => println!("It failed: {failed} (may have run: {})", failed.error().may_have_run()),
            None => println!("It refuses: {error}"),
        }
    }
    client.cancel().await?;
    print(&times);
    Ok(())
}

fn print(times: &Snapshotter) {
    for (key, _, _, value) in times.snapshot().into_vec() {
        let labels: Vec<_> = key.key().labels().filter(|label| label.key() == "mcp.method.name").collect();
        if let (DebugValue::Histogram(seconds), [method]) = (value, &labels[..]) {
            let milliseconds: Vec<_> =
                seconds.iter().map(|seconds| format!("{:.1} ms", **seconds * 1e3)).collect();
            println!("{:<24} {}", method.value(), milliseconds.join(", "));
        }
    }
}
