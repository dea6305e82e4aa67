//! Lets a program that speaks MCP over its standard streams use a server that is reached over HTTP.
//!
//! ```text
//! bridge URL [--header 'Name: value']...
//! ```
//!
//! Each line on the standard input is a JSON-RPC message to the server, each line on the standard output one from it. At the
//! end of the input what is unanswered is given up, the session is ended, and the program exits with 0: keep the input open
//! as long as answers are wanted. What there is to log goes to the standard error; `RUST_LOG` is `debug` for more of it, or
//! `off`.

#[path = "bridge/lines.rs"]
mod lines;

use std::error::Error;
use std::fmt;
use std::io::{self, Write};
use std::process::ExitCode;

use futures_util::{SinkExt, StreamExt};
use http::{HeaderMap, HeaderName, HeaderValue, Uri};
use mcp_streamable_http::channel::{Receiver, Sender};
use mcp_streamable_http::{JsonRpcError, JsonRpcMessage, StreamableHttp};
use tokio::io::{AsyncWrite, AsyncWriteExt, BufReader, stdin, stdout};
use tokio::sync::mpsc;
use tracing::level_filters::LevelFilter;

use lines::{Lines, id_of, line_of};

/// A line may be as long as an answer of the server's; more is refused, and read past.
const MAX_LINE_BYTES: usize = 64 << 20;

/// So many answers to lines that were not sent may wait to be written.
const MAX_REFUSALS: usize = 64;

fn main() -> ExitCode {
    let level = std::env::var("RUST_LOG").ok().and_then(|level| level.parse().ok());
    tracing_subscriber::fmt()
        .with_max_level(level.unwrap_or(LevelFilter::WARN))
        .with_writer(io::stderr)
        .with_ansi(false)
        // Nobody may be there to read it, and that must not stop anything.
        .log_internal_errors(false)
        .init();
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            complain(error);
            ExitCode::FAILURE
        }
    }
}

/// Says on the standard error what went wrong, if anybody listens.
fn complain(trouble: impl fmt::Display) {
    let _ = writeln!(io::stderr(), "bridge: {trouble}");
}

fn run() -> Result<(), Box<dyn Error>> {
    let (url, headers) = arguments(std::env::args().skip(1))?;
    let transport = StreamableHttp::builder(url).headers(headers).build()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let outcome = runtime.block_on(bridge(transport));
    // A read of the standard input cannot be interrupted, and is not worth waiting for.
    runtime.shutdown_background();
    Ok(outcome?)
}

async fn bridge(transport: StreamableHttp) -> io::Result<()> {
    let (sender, receiver) = transport.channel().split();
    // To a line that is no message the answer comes from here.
    let (refuser, refusals) = mpsc::channel(MAX_REFUSALS);
    let reading = tokio::spawn(read(sender.clone(), refuser));
    let written = write(receiver, refusals, stdout()).await;
    // If nobody reads what is written, the input may go on; there is no point in it.
    reading.abort();
    sender.close().await;
    written
}

/// Sends what comes in, until its end; then closes the channel.
async fn read(mut sender: Sender, answers: mpsc::Sender<JsonRpcMessage>) {
    let mut lines = Lines::new(BufReader::new(stdin()), MAX_LINE_BYTES);
    loop {
        let line = match lines.next().await {
            Ok(Some(line)) => line,
            Ok(None) => break,
            Err(error) => {
                complain(format_args!("the standard input cannot be read: {error}"));
                break;
            }
        };
        if line.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        match JsonRpcMessage::decode(line.clone()) {
            // The message that does not fit waits here for its turn, and all that follow behind it.
            Ok(message) => match sender.feed(message).await {
                Ok(()) => {}
                Err(error) if error.is_closed() => break,
                Err(error) => {
                    complain(format_args!("a message was not sent: {error}"));
                    let error = JsonRpcError::new(JsonRpcError::CONNECTION_CLOSED, error.to_string());
                    refuse(&answers, &line, error).await;
                }
            },
            Err(error) => {
                complain(format_args!("a line was not sent: {error}"));
                let error = JsonRpcError::new(JsonRpcError::PARSE_ERROR, error.to_string());
                refuse(&answers, &line, error).await;
            }
        }
    }
    sender.close().await;
}

async fn refuse(answers: &mpsc::Sender<JsonRpcMessage>, line: &[u8], error: JsonRpcError) {
    if let Some(id) = id_of(line) {
        let _ = answers.send(JsonRpcMessage::error(id, error)).await;
    }
}

/// Writes what arrives, until the channel is closed.
async fn write(
    mut receiver: Receiver,
    mut refusals: mpsc::Receiver<JsonRpcMessage>,
    mut output: impl AsyncWrite + Unpin,
) -> io::Result<()> {
    loop {
        let message = tokio::select! {
            incoming = receiver.next() => match incoming {
                Some(Ok(incoming)) => incoming.message,
                Some(Err(error)) => {
                    complain(format_args!("the server sent what cannot be read: {error}"));
                    continue;
                }
                None => break,
            },
            Some(refusal) = refusals.recv() => refusal,
        };
        output.write_all(&line_of(&message)).await?;
        output.flush().await?;
    }
    while let Ok(refusal) = refusals.try_recv() {
        output.write_all(&line_of(&refusal)).await?;
    }
    output.flush().await
}

fn arguments(mut arguments: impl Iterator<Item = String>) -> Result<(Uri, HeaderMap), Box<dyn Error>> {
    let usage = "usage: bridge URL [--header 'Name: value']...";
    let mut url = None;
    let mut headers = HeaderMap::new();
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--header" => {
                let header = arguments.next().ok_or(usage)?;
                let (name, value) = header.split_once(':').ok_or("a header is written as 'Name: value'")?;
                let mut value: HeaderValue = value.trim().parse()?;
                // It is likely to be a token.
                value.set_sensitive(true);
                headers.append(name.trim().parse::<HeaderName>()?, value);
            }
            _ if url.is_none() && !argument.starts_with('-') => url = Some(argument.parse()?),
            _ => return Err(usage.into()),
        }
    }
    Ok((url.ok_or(usage)?, headers))
}
