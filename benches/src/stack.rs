//! The calls that are measured, on the whole transport over a server in memory.

use bytes::Bytes;
use futures_util::StreamExt;
use http::header::{ACCEPT, CONTENT_TYPE, HeaderValue};
use http::{HeaderName, Request};
use http_body_util::{BodyExt, Full};
use mcp_streamable_http::{JsonRpcMessage, StreamableHttp};
use tower::{Service, ServiceExt};

use crate::memory::{Memory, Pace};
use crate::texts;

/// What is done, and what of it is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Case {
    /// How it is called on the command line.
    pub name: &'static str,
    /// What it is, in words.
    pub what: &'static str,
    /// What the count is divided by.
    pub per: Unit,
    kind: Kind,
}

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// One call after the other.
    Call,
    /// The events of one call, but for its first and its answer.
    Event,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Bare,
    Json { era: Era, answer: Answer },
    Sse { era: Era, with_ids: bool, in_one: bool, pace: Pace },
    Notification,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Era {
    Legacy,
    Modern,
    /// Modern, with arguments that are mirrored in headers.
    Mirrored,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    Small,
    Large,
    Waiting,
}

use Era::{Legacy, Mirrored, Modern};
use Pace::{AtOnce, Waiting};
use Unit::{Call, Event};

const LARGE: usize = 64 << 10;

const fn case(name: &'static str, what: &'static str, per: Unit, kind: Kind) -> Case {
    Case { name, what, per, kind }
}

const fn json(era: Era, answer: Answer) -> Kind {
    Kind::Json { era, answer }
}

const fn sse(era: Era, pace: Pace) -> Kind {
    Kind::Sse { era, with_ids: false, in_one: false, pace }
}

/// All that there is.
pub const CASES: [Case; 13] = [
    case("bare", "the exchange of `json-legacy` by hand, without the transport", Call, Kind::Bare),
    case("json-legacy", "a call in a session, answered with JSON", Call, json(Legacy, Answer::Small)),
    case("json-modern", "a modern call, answered with JSON", Call, json(Modern, Answer::Small)),
    case("json-mirrored", "the same, two arguments mirrored in headers", Call, json(Mirrored, Answer::Small)),
    case("json-waiting", "`json-legacy`, head and body waited for", Call, json(Legacy, Answer::Waiting)),
    case("json-64k", "`json-legacy`, an answer of 64 KiB", Call, json(Legacy, Answer::Large)),
    case("sse-legacy", "a call in a session, answered with one event", Call, sse(Legacy, AtOnce)),
    case("sse-modern", "a modern call, answered with one event", Call, sse(Modern, AtOnce)),
    case("sse-waiting", "`sse-legacy`, head and event waited for", Call, sse(Legacy, Waiting)),
    case("notification", "a notification in a session, accepted", Call, Kind::Notification),
    case(
        "events",
        "an event of 150 bytes, of many in one chunk",
        Event,
        Kind::Sse { era: Legacy, with_ids: false, in_one: true, pace: AtOnce },
    ),
    case(
        "events-ids",
        "the same, with ids to resume after",
        Event,
        Kind::Sse { era: Legacy, with_ids: true, in_one: true, pace: AtOnce },
    ),
    case("events-waiting", "an event of 150 bytes, each waited for", Event, sse(Legacy, Waiting)),
];

/// The transport, or what stands in for it, and what is sent with it.
#[derive(Debug)]
pub struct Stack {
    service: Sender,
    message: JsonRpcMessage,
    items: usize,
}

#[derive(Debug)]
enum Sender {
    Transport(StreamableHttp),
    Bare(Memory),
}

impl Stack {
    /// Sets `case` up. `events` are those before the answer, of cases that count events.
    pub fn new(case: &Case, events: usize) -> Self {
        let events = if case.per == Event { events } else { 0 };
        let (memory, era) = match case.kind {
            Kind::Bare => {
                let memory = Memory::json(texts::RESULT, AtOnce);
                return Self { service: Sender::Bare(memory), message: texts::legacy_call(), items: 1 };
            }
            Kind::Json { era, answer } => (Self::json(answer), era),
            Kind::Sse { era, with_ids, in_one, pace } => {
                let chunks = texts::stream(events, with_ids);
                let chunks = if in_one { vec![chunks.concat().into()] } else { chunks };
                (Memory::events(chunks, pace), era)
            }
            Kind::Notification => (Memory::accepting(), Legacy),
        };
        let mut builder = StreamableHttp::with_client(texts::URI.parse().unwrap(), memory);
        if era == Mirrored {
            builder = builder.tool_headers(texts::mirrored_tool());
        }
        let transport = builder.build().unwrap();
        if era == Legacy {
            transport.session().restore(texts::session());
        }
        let (message, items) = match (case.kind, era) {
            (Kind::Notification, _) => (JsonRpcMessage::notification("notifications/initialized", ()), 0),
            (_, Legacy) => (texts::legacy_call(), events + 1),
            (_, Modern | Mirrored) => (texts::modern_call(), events + 1),
        };
        Self { service: Sender::Transport(transport), message, items }
    }

    fn json(answer: Answer) -> Memory {
        match answer {
            Answer::Small => Memory::json(texts::RESULT, AtOnce),
            Answer::Large => Memory::json(texts::result(LARGE), AtOnce),
            Answer::Waiting => Memory::json(texts::RESULT, Waiting),
        }
    }

    /// Sends the message once, and reads the whole answer.
    ///
    /// # Panics
    /// The answer is not what it should be.
    pub async fn call(&mut self) {
        let message = self.message.clone();
        let items = match &mut self.service {
            Sender::Bare(client) => bare(client, &message).await,
            Sender::Transport(transport) => {
                let mut reply = transport.ready().await.unwrap().call(message).await.unwrap();
                let mut items = 0;
                while let Some(item) = reply.next().await {
                    item.unwrap();
                    items += 1;
                }
                items
            }
        };
        assert_eq!(items, self.items);
    }
}

/// The same exchange as a careful user of the bare client would write it.
async fn bare(client: &mut Memory, message: &JsonRpcMessage) -> usize {
    let mut request = Request::post(texts::URI).body(Full::new(message.encode())).unwrap();
    let headers = request.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
    for (name, value) in
        [("mcp-session-id", "3f2c9a7e-5b1d-4c8e-9f60-1a2b3c4d5e6f"), ("mcp-protocol-version", "2025-11-25")]
    {
        headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    let response = client.ready().await.unwrap().call(request).await.unwrap();
    let body: Bytes = response.into_body().collect().await.unwrap().to_bytes();
    let answer = JsonRpcMessage::decode(body).unwrap();
    usize::from(answer.as_response().is_some())
}
