//! The work that every client does.

use crate::answers;

/// One kind of exchange, over one kind of connection, so many at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Work {
    /// What it is called in `--only`, and in the document.
    pub(crate) letter: char,
    pub(crate) title: &'static str,
    pub(crate) shape: Shape,
    pub(crate) wire: Wire,
    pub(crate) in_flight: usize,
    /// Exchanges a round: enough for a few hundredths of a second.
    pub(crate) calls: usize,
}

/// What is asked for, and in which form it is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// `tools/call`, answered with a small JSON body.
    Call,
    /// `tools/call`, answered with an event stream that holds nothing but the response.
    OneEvent,
    /// `tools/call`, answered with an event stream of many notifications, then the response.
    Events,
    /// `tools/list`, answered with a JSON body.
    List,
    /// `tools/call`, answered with a large JSON body.
    Large,
}

/// What is below the messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wire {
    /// HTTP/1.1 over TCP.
    Plain,
    /// HTTP/1.1 over TLS.
    Tls,
    /// HTTP/2 over TCP, with prior knowledge.
    Http2,
}

const fn work(letter: char, title: &'static str, shape: Shape, in_flight: usize, calls: usize) -> Work {
    Work { letter, title, shape, wire: Wire::Plain, in_flight, calls }
}

pub(crate) const WORKS: [Work; 10] = [
    work('a', "JSON call, one after the other", Shape::Call, 1, 512),
    work('a', "JSON call, 64 in flight", Shape::Call, 64, 1_024),
    work('b', "SSE call, one event", Shape::OneEvent, 1, 512),
    work('c', "SSE call, 1,000 events of 150 B and the response", Shape::Events, 1, 16),
    work('d', "`tools/list` of 33 KB", Shape::List, 1, 128),
    work('e', "JSON call, a result of 1 MiB", Shape::Large, 1, 16),
    Work { wire: Wire::Tls, ..work('f', "JSON call over TLS, one after the other", Shape::Call, 1, 256) },
    Work { wire: Wire::Tls, ..work('f', "JSON call over TLS, 64 in flight", Shape::Call, 64, 512) },
    Work {
        wire: Wire::Http2,
        ..work('g', "JSON call over HTTP/2, one after the other", Shape::Call, 1, 512)
    },
    Work { wire: Wire::Http2, ..work('g', "JSON call over HTTP/2, 64 in flight", Shape::Call, 64, 1_024) },
];

impl Work {
    /// What the figures are per: an exchange, or an event if there are many in one.
    pub(crate) fn units(&self) -> usize {
        if self.shape == Shape::Events { self.calls * answers::EVENTS } else { self.calls }
    }

    pub(crate) fn unit(&self) -> &'static str {
        if self.shape == Shape::Events { "event" } else { "call" }
    }
}

impl Shape {
    /// The tool that is called. Its name tells the server what to answer.
    pub(crate) fn tool(self) -> &'static str {
        match self {
            Self::Call | Self::List => "call",
            Self::OneEvent => "one_event",
            Self::Events => "events",
            Self::Large => "large",
        }
    }

    pub(crate) fn of_tool(name: &str) -> Option<Self> {
        [Self::Call, Self::OneEvent, Self::Events, Self::Large].into_iter().find(|shape| shape.tool() == name)
    }

    pub(crate) fn method(self) -> &'static str {
        if self == Self::List { "tools/list" } else { "tools/call" }
    }

    /// The `params` of the request.
    pub(crate) fn params(self) -> serde_json::Value {
        match self {
            Self::List => serde_json::json!({}),
            Self::Events => serde_json::json!({
                "name": self.tool(),
                "arguments": { "a": 1, "b": 2 },
                "_meta": { "progressToken": 1 },
            }),
            _ => serde_json::json!({ "name": self.tool(), "arguments": { "a": 1, "b": 2 } }),
        }
    }
}

/// What a client got to see of an answer. It is compared with what the server sent, so that no client can be quick by not
/// looking.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    /// Messages before the response.
    pub(crate) notifications: usize,
    /// The size of the response, as far as the client takes it apart.
    pub(crate) size: usize,
}

/// How far a client takes an answer apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Depth {
    /// Not at all: [`Seen::size`] is that of the body, and there are no notifications.
    Body,
    /// To messages: the size is that of the `result`, which stays JSON text.
    Message,
    /// To Rust types: the size is that of the text in the result, or how many tools there are.
    Types,
}
