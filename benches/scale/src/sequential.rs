//! Many calls in a row: how fast they are, and whether anything is left behind.

use std::fmt::Write;
use std::time::{Duration, Instant};

use mcp_streamable_http::JsonRpcMessage;
use serde_json::json;

use crate::server::{Protocol, Server};
use crate::{BoxError, bare, heap, measure, ours, report};

pub(crate) const DEFAULT: usize = 1_000_000;

/// When the heap is looked at, in hundredths of the calls.
const MARKS: [usize; 4] = [1, 10, 50, 100];

/// What may come onto the heap after the first of them.
const ALLOWED: isize = 64 << 10;

/// The bare client makes fewer, as it is there for its speed only.
const FEWER: usize = 10;

/// What was found after so many calls.
struct Mark {
    calls: usize,
    bytes: usize,
    /// How long these took, and the fewer ones of the bare client.
    time: Duration,
    bare: Duration,
}

pub(crate) fn run(count: usize) -> Result<String, BoxError> {
    // In each hundredth there are calls of the bare client too.
    let hundredth = count.div_ceil(100).next_multiple_of(FEWER);
    let marks = marks(hundredth)?;
    let mut text = String::from("## Calls in a row\n\n");
    let count = report::number(hundredth * 100);
    writeln!(text, "{count} calls, one after the other, over HTTP/1.1, answered with JSON.\n")?;
    writeln!(text, "| calls | bytes of heap | since the first mark | calls/s so far | of the bare client |")?;
    writeln!(text, "|--:|--:|--:|--:|--:|")?;
    let first = marks.first().map_or(0, |mark| mark.bytes);
    for Mark { calls, bytes, time, bare } in &marks {
        let grown = heap::difference(*bytes, first);
        if grown >= ALLOWED {
            return Err(format!("after {calls} calls the heap has grown by {grown} bytes").into());
        }
        let (ours, bare) = (rate(*calls, *time), rate(calls / FEWER, *bare));
        writeln!(text, "| {} | {bytes} | {grown} | {ours} | {bare} |", report::number(*calls))?;
    }
    text.push_str(
        "\nThe two take turns, so that whatever else the machine does hits both; they have a server each. That every \
         allocation is counted takes its time in both. The heap is that of both.\n",
    );
    Ok(text)
}

#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a rate need not be exact"
)]
fn rate(calls: usize, time: Duration) -> String {
    report::number((calls as f64 / time.as_secs_f64()) as usize)
}

fn message(number: usize) -> Result<JsonRpcMessage, BoxError> {
    let params = json!({ "name": "add", "arguments": { "a": number, "b": 2 } });
    Ok(JsonRpcMessage::request(i64::try_from(number)?, "tools/call", params))
}

fn marks(hundredth: usize) -> Result<Vec<Mark>, BoxError> {
    let protocol = Protocol::Http1;
    let (server, other) = (Server::start(protocol, 1)?, Server::start(protocol, 1)?);
    let (uri, others) = (server.uri()?, other.uri()?);
    measure(async {
        let mut transport = ours::transport(uri, protocol)?;
        ours::initialize(&mut transport).await?;
        let client = bare::plain(protocol);
        let (mut time, mut bare) = (Duration::ZERO, Duration::ZERO);
        let mut marks = Vec::with_capacity(MARKS.len());
        for done in 1..=100 {
            let start = Instant::now();
            for number in 0..hundredth {
                drop(ours::call(&mut transport, message(number)?).await?);
            }
            time += start.elapsed();
            let start = Instant::now();
            for number in 0..hundredth / FEWER {
                bare::call(&client, &others, &message(number)?).await?;
            }
            bare += start.elapsed();
            if MARKS.contains(&done) {
                marks.push(Mark { calls: hundredth * done, bytes: heap::in_use(), time, bare });
            }
        }
        Ok(marks)
    })
}
