//! Many calls at once: how long they take, how much they need, and whether each gets its own answer.

use std::fmt::Write;
use std::time::{Duration, Instant};

use futures_util::future::try_join_all;
use mcp_streamable_http::{JsonRpcMessage, JsonRpcResponse};
use serde_json::{Value, json};

use crate::server::{Protocol, Server};
use crate::{BoxError, bare, heap, measure, ours, report, room, serving};

pub(crate) const DEFAULT: usize = 1_000;

/// The first round makes the connections, so it is told apart from the rest.
const ROUNDS: usize = 10;

/// What a measurement has found.
struct Found {
    first: Duration,
    /// Of the rounds after the first.
    median: Duration,
    slowest: Duration,
    /// The most bytes that were on the heap beyond what there was before, over all rounds.
    peak: isize,
    connections: u64,
}

/// Who makes the calls.
#[derive(Clone, Copy)]
enum Caller {
    Bare,
    Transport,
}

pub(crate) fn run(wanted: usize) -> Result<String, BoxError> {
    let count = room::for_connections(wanted)?;
    let mut text = String::from("## Calls at once\n\n");
    writeln!(
        text,
        "{} calls at once, {ROUNDS} times over. The server answers none before all of a round have arrived; each answer \
         is compared with what its call has asked for.\n",
        report::number(count)
    )?;
    text.push_str(&room::shortage(wanted, count));
    writeln!(
        text,
        "| | first round | median of the others | slowest of them | peak of heap | for each call | connections |"
    )?;
    writeln!(text, "|---|--:|--:|--:|--:|--:|--:|")?;
    for protocol in [Protocol::Http1, Protocol::Http2] {
        for (name, caller) in [("bare client", Caller::Bare), ("transport", Caller::Transport)] {
            let Found { first, median, slowest, peak, connections } = measure_one(protocol, caller, count)?;
            let each = peak / heap::signed(count);
            writeln!(
                text,
                "| {name}, {} | {} | {} | {} | {} KiB | {each} bytes | {connections} |",
                protocol.name(),
                milliseconds(first),
                milliseconds(median),
                milliseconds(slowest),
                peak / 1024,
            )?;
        }
    }
    text.push_str(
        "\nOver HTTP/1.1 each call of a round needs a connection of its own, and 64 are kept from one round to the next: so \
         most connections are new ones in every round.\n",
    );
    Ok(text)
}

fn milliseconds(time: Duration) -> String {
    format!("{:.1} ms", time.as_secs_f64() * 1e3)
}

fn measure_one(protocol: Protocol, caller: Caller, count: usize) -> Result<Found, BoxError> {
    let server = Server::start(protocol, count)?;
    let uri = server.uri()?;
    measure(async {
        match caller {
            Caller::Bare => {
                let client = bare::plain(protocol);
                let call = async |message| {
                    let body = bare::call(&client, &uri, &message).await?;
                    match JsonRpcMessage::decode(body)? {
                        JsonRpcMessage::Response(response) => Ok(response),
                        _ => Err("the answer is no response".into()),
                    }
                };
                rounds(count, call).await
            }
            Caller::Transport => {
                let mut transport = ours::transport(uri, protocol)?;
                ours::initialize(&mut transport).await?;
                rounds(count, async |message| ours::call(&mut transport.clone(), message).await).await
            }
        }
    })
}

async fn rounds<C>(count: usize, call: C) -> Result<Found, BoxError>
where
    C: AsyncFn(JsonRpcMessage) -> Result<JsonRpcResponse, BoxError>,
{
    // What is set up with the first call of all is not part of it.
    let connections = JsonRpcMessage::request("before", serving::CONNECTIONS, ());
    call(connections).await?;
    let before = heap::in_use();
    heap::restart_peak();
    let mut times = Vec::new();
    for round in 0..ROUNDS {
        let start = Instant::now();
        try_join_all((0..count).map(|number| one(&call, round * count + number))).await?;
        times.push(start.elapsed());
    }
    let peak = heap::difference(heap::peak(), before);
    let connections = call(JsonRpcMessage::request("after", serving::CONNECTIONS, ())).await?;
    let connections = connections.result::<Value>()?["connections"].as_u64().unwrap_or_default();
    let first = times.remove(0);
    times.sort_unstable();
    let median = times.get(times.len() / 2).copied().unwrap_or_default();
    Ok(Found { first, median, slowest: times.last().copied().unwrap_or_default(), peak, connections })
}

/// One call, and whether its answer is its own.
async fn one<C>(call: &C, number: usize) -> Result<(), BoxError>
where
    C: AsyncFn(JsonRpcMessage) -> Result<JsonRpcResponse, BoxError>,
{
    let arguments = json!({ "number": number });
    let params = json!({ "name": serving::GATHERING_TOOL, "arguments": arguments });
    let response = call(JsonRpcMessage::request(i64::try_from(number)?, "tools/call", params)).await?;
    let result: Value = response.result()?;
    if result["structuredContent"] != arguments {
        return Err(format!("call {number} is answered with {result}").into());
    }
    Ok(())
}
