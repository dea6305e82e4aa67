//! The decoders of event streams alone: no HTTP, no JSON, the same chunks.

use std::convert::Infallible;
use std::fmt::{self, Display, Formatter};

use bytes::Bytes;
use eventsource_stream::Eventsource;
use futures_util::{FutureExt, Stream, StreamExt, stream};
use mcp_streamable_http::JsonRpcMessage;
use mcp_streamable_http::layers::sse::Decoder;
use tower::BoxError;

use crate::answers::{Answers, EVENTS};
use crate::meter::metered;
use crate::statistics::Spread;
use crate::table::Short;

/// Sizes of an event's data.
pub(crate) const SIZES: [usize; 4] = [120, 1 << 10, 64 << 10, 1 << 20];
const CHUNK: usize = 16 << 10;
/// What is decoded at a time. Much more would be a measure of the memory: what has just been received is in the caches.
const BYTES: usize = 1 << 20;
/// How often it is decoded a round.
const PASSES: usize = 8;

/// Decodes the chunks, and says how many events they held and how much data in them.
type Decode = fn(&[Bytes]) -> Result<(usize, usize), BoxError>;

/// By their names in the table, ours first.
const DECODERS: [(&str, Decode); 5] = [
    (OURS, ours),
    ("the same, data checked as UTF-8", ours_checked),
    (SSE_STREAM, sse_stream),
    ("sseer", sseer),
    ("eventsource-stream", eventsource_stream),
];
pub(crate) const OURS: &str = "this transport's `Decoder`";
pub(crate) const SSE_STREAM: &str = "sse-stream";

/// MB/s of processor time.
#[derive(Debug)]
pub(crate) struct Decoders {
    /// For each size, in the order of [`SIZES`], the rounds of each decoder, in the order of [`DECODERS`].
    throughput: Vec<Vec<Vec<f64>>>,
    /// Microseconds to decode the envelope of one notification, and the allocations that takes.
    pub(crate) envelope: Option<Spread>,
    pub(crate) envelope_allocations: f64,
    /// Microseconds to find one notification in a stream of them.
    pub(crate) frame: Option<Spread>,
}

pub(crate) fn run(rounds: usize) -> Result<Decoders, BoxError> {
    let mut throughput = Vec::new();
    for size in SIZES {
        let events = BYTES / size;
        let event = format!("data: {}\n\n", "x".repeat(size));
        let chunks = chunks(&Bytes::from(event.repeat(events)));
        let mut results = vec![Vec::new(); DECODERS.len()];
        for round in 0..=rounds {
            for turn in 0..DECODERS.len() {
                let index = (round + turn) % DECODERS.len();
                let (name, decode) = DECODERS[index];
                let (cost, found) =
                    metered(|| (0..PASSES).map(|_| decode(&chunks)).collect::<Result<Vec<_>, _>>());
                if found? != vec![(events, events * size); PASSES] {
                    return Err(format!("{name} does not find the events of {size} B").into());
                }
                if round > 0 {
                    let megabytes = (PASSES * events * event.len()) as f64 / 1e6;
                    results[index].push(megabytes / cost.cpu.as_secs_f64());
                }
            }
        }
        throughput.push(results);
    }
    let (envelope, envelope_allocations) = envelopes(rounds)?;
    Ok(Decoders { throughput, envelope, envelope_allocations, frame: frames(rounds)? })
}

impl Decoders {
    /// How many times as quick one is as the other.
    pub(crate) fn ratio(&self, size: usize, one: &str, other: &str) -> Option<Spread> {
        let results = self.throughput.get(SIZES.iter().position(|candidate| *candidate == size)?)?;
        let of = |name| DECODERS.iter().position(|(candidate, _)| *candidate == name);
        let pairs = results.get(of(one)?)?.iter().zip(results.get(of(other)?)?);
        Spread::of(pairs.map(|(one, other)| one / other))
    }
}

fn chunks(stream: &Bytes) -> Vec<Bytes> {
    (0..stream.len()).step_by(CHUNK).map(|at| stream.slice(at..stream.len().min(at + CHUNK))).collect()
}

/// What it takes to read a notification of the long stream as a message.
fn envelopes(rounds: usize) -> Result<(Option<Spread>, f64), BoxError> {
    let texts: Vec<Bytes> = (1..=EVENTS).map(Answers::notification).collect();
    let (mut times, mut allocations) = (Vec::new(), 0);
    for round in 0..=rounds {
        let (cost, done) =
            metered(|| texts.iter().try_for_each(|text| JsonRpcMessage::decode(text.clone()).map(drop)));
        done?;
        if round > 0 {
            times.push(cost.cpu.as_secs_f64() * 1e6 / EVENTS as f64);
            allocations = cost.allocations;
        }
    }
    Ok((Spread::of(times), allocations as f64 / EVENTS as f64))
}

/// What it takes to find it, in chunks that hold one each, as they arrive from a server that writes event by event.
fn frames(rounds: usize) -> Result<Option<Spread>, BoxError> {
    let chunks: Vec<Bytes> = (1..=EVENTS)
        .map(|number| [b"data: ", &Answers::notification(number)[..], b"\n\n"].concat().into())
        .collect();
    let mut times = Vec::new();
    for round in 0..=rounds {
        let (cost, found) = metered(|| ours(&chunks));
        if found?.0 != EVENTS {
            return Err("not all notifications were found".into());
        }
        if round > 0 {
            times.push(cost.cpu.as_secs_f64() * 1e6 / EVENTS as f64);
        }
    }
    Ok(Spread::of(times))
}

fn ours_with(chunks: &[Bytes], check: bool) -> Result<(usize, usize), BoxError> {
    let (mut decoder, mut events, mut bytes) = (Decoder::default(), 0, 0);
    for chunk in chunks {
        decoder.push(chunk.clone());
        while let Some(frame) = decoder.next() {
            let data = frame?.data.unwrap_or_default();
            bytes += if check { std::str::from_utf8(&data)?.len() } else { data.len() };
            events += 1;
        }
    }
    Ok((events, bytes))
}

fn ours(chunks: &[Bytes]) -> Result<(usize, usize), BoxError> {
    ours_with(chunks, false)
}

fn ours_checked(chunks: &[Bytes]) -> Result<(usize, usize), BoxError> {
    ours_with(chunks, true)
}

fn source(chunks: &[Bytes]) -> impl Stream<Item = Result<Bytes, Infallible>> + Unpin {
    stream::iter(chunks.iter().cloned().map(Ok))
}

/// Takes all events of a stream that never has to wait.
fn all<T, E: Into<BoxError>>(
    mut events: impl Stream<Item = Result<T, E>> + Unpin,
    length: impl Fn(&T) -> usize,
) -> Result<(usize, usize), BoxError> {
    let (mut count, mut bytes) = (0, 0);
    while let Some(event) = events.next().now_or_never().ok_or("it waits for bytes that are there")? {
        bytes += length(&event.map_err(Into::into)?);
        count += 1;
    }
    Ok((count, bytes))
}

fn sse_stream(chunks: &[Bytes]) -> Result<(usize, usize), BoxError> {
    all(sse_stream::SseByteStream::new(source(chunks)), |event| event.data.as_ref().map_or(0, String::len))
}

fn sseer(chunks: &[Bytes]) -> Result<(usize, usize), BoxError> {
    let events =
        sseer::EventStream::new(source(chunks)).map(|event| event.map_err(|error| error.to_string()));
    all(events, |event| event.data.len())
}

fn eventsource_stream(chunks: &[Bytes]) -> Result<(usize, usize), BoxError> {
    let events = source(chunks).eventsource().map(|event| event.map_err(|error| error.to_string()));
    all(events, |event| event.data.len())
}

impl Display for Decoders {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, "| MB/s, events of | 120 B | 1 KiB | 64 KiB | 1 MiB |\n|---|--:|--:|--:|--:|")?;
        for (index, (name, _)) in DECODERS.iter().enumerate() {
            write!(f, "| {name} |")?;
            for results in &self.throughput {
                match Spread::of(results[index].iter().copied()) {
                    Some(spread) => write!(f, " {spread} |")?,
                    None => write!(f, " – |")?,
                }
            }
            writeln!(f)?;
        }
        writeln!(f, "\nOne notification of (c), alone:\n\n| | CPU µs | allocations |\n|---|--:|--:|")?;
        if let (Some(frame), Some(envelope)) = (self.frame, self.envelope) {
            let allocations = Short(self.envelope_allocations);
            writeln!(f, "| to find it in the stream, by `Decoder` | {frame} | |")?;
            writeln!(
                f,
                "| to read its envelope, by `JsonRpcMessage::decode` | {envelope} | {allocations} |"
            )?;
        }
        Ok(())
    }
}
