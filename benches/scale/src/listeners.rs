//! Many idle streams: what each takes up.

use std::collections::BTreeSet;
use std::fmt::Write;

use bytes::Bytes;
use futures_util::stream::TryStreamExt;
use http::response::Parts;
use http::{Request, Response, Uri};
use http_body_util::{BodyStream, Full};
use hyper::body::Incoming;
use hyper_util::client::legacy::Client as Bare;
use hyper_util::client::legacy::connect::Connect;
use mcp_streamable_http::layers::sse::Decoder;
use mcp_streamable_http::layers::{Endpoint, Events, Listening, Payload};
use mcp_streamable_http::{JsonRpcMessage, Limits, Reply, StreamableHttp};
use serde_json::json;
use tower::ServiceExt;
use tower::util::BoxCloneSyncService;

use crate::heap::{Growth, signed};
use crate::hold::hold;
use crate::server::{Protocol, Server};
use crate::{BoxError, bare, measure, ours, report, room, serving};

pub(crate) const DEFAULT: usize = 10_000;

/// What one more idle stream may take up beyond the bare client.
const TARGET: isize = 2 << 10;

/// How the streams come to be.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// `listen()`: the GET of the legacy era, in a session.
    Listen,
    /// `subscriptions/listen`, a POST of the modern era.
    Subscribe,
    /// A call in a session of the legacy era that is not answered yet: a stream that could be resumed.
    Call,
}

/// What the tables show.
const COLUMNS: &str = "The bare client is hyper-util's, with the same requests, and the bodies of their answers held. \
    With TLS possible it has hyper-rustls's connector, as the transport's own client has: that makes every connection \
    larger, those without TLS too. The transport over the bare client shows what the layers take, and only them. All streams are \
    in one `SelectAll`, the same for all. The target is at most 2,048 bytes more than the bare client.\n";

const KINDS: [Kind; 3] = [Kind::Listen, Kind::Subscribe, Kind::Call];

/// What holds the streams.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Holder {
    Plain,
    WithTls,
    /// The transport over the same client as `Plain`: what it has more are the layers.
    Layers,
    Default,
}

const HOLDERS: [Holder; 4] = [Holder::Plain, Holder::WithTls, Holder::Layers, Holder::Default];

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Listen => "`listen()` (GET)",
            Self::Subscribe => "`subscriptions/listen` (POST, modern)",
            Self::Call => "unanswered `tools/call` (POST, legacy)",
        }
    }

    fn message(self, number: usize) -> Option<JsonRpcMessage> {
        let id = i64::try_from(number).unwrap_or_default();
        let (method, params) = match self {
            Self::Listen => return None,
            Self::Subscribe => (
                serving::SUBSCRIBE,
                json!({ "notifications": {}, "_meta": {
                "io.modelcontextprotocol/protocolVersion": "2026-07-28"
            } }),
            ),
            Self::Call => ("tools/call", json!({ "name": serving::STREAMING_TOOL, "arguments": {} })),
        };
        Some(JsonRpcMessage::request(id, method, params))
    }

    /// The headers that the transport sends, for the bare client to send too.
    fn headers(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Subscribe => &[("mcp-protocol-version", "2026-07-28"), ("mcp-method", serving::SUBSCRIBE)],
            Self::Listen | Self::Call => &[
                ("mcp-protocol-version", "2025-11-25"),
                ("mcp-session-id", "5f1d7a0e-8c5b-4d5e-9a51-7d3e2f9c1b64"),
            ],
        }
    }
}

impl Holder {
    fn name(self) -> &'static str {
        match self {
            Self::Plain => "bare client",
            Self::WithTls => "bare client, TLS possible",
            Self::Layers => "transport over the bare client",
            Self::Default => "transport",
        }
    }
}

pub(crate) fn run(wanted: usize) -> Result<String, BoxError> {
    let count = room::for_connections(wanted)?;
    let mut text = String::from("## Idle streams\n\n");
    writeln!(text, "{} streams at once, each of which has brought one event.\n", report::number(count))?;
    text.push_str(&room::shortage(wanted, count));
    text.push_str(COLUMNS);
    for protocol in [Protocol::Http1, Protocol::Http2] {
        let mut growths = Vec::new();
        for kind in KINDS {
            let [plain, with_tls, layers, default] =
                HOLDERS.map(|holder| measure_one(protocol, kind, holder, count));
            growths.push([plain?, with_tls?, layers?, default?]);
        }
        section(&mut text, protocol, count, &growths)?;
    }
    sizes(&mut text)?;
    Ok(text)
}

fn measure_one(protocol: Protocol, kind: Kind, holder: Holder, count: usize) -> Result<Growth, BoxError> {
    let server = Server::start(protocol, 1)?;
    let uri = server.uri()?;
    measure(async {
        match holder {
            Holder::Plain => with_bare(&bare::plain(protocol), &uri, kind, count).await,
            Holder::WithTls => with_bare(&bare::with_tls(protocol), &uri, kind, count).await,
            Holder::Layers => {
                with_transport(StreamableHttp::with_client(uri, bare::plain(protocol)).build()?, kind, count)
                    .await
            }
            Holder::Default => with_transport(ours::transport(uri, protocol)?, kind, count).await,
        }
    })
}

async fn with_bare<C>(
    client: &Bare<C, Full<Bytes>>,
    uri: &Uri,
    kind: Kind,
    count: usize,
) -> Result<Growth, BoxError>
where
    C: Connect + Clone + Send + Sync + 'static,
{
    // What is set up with the first call of all is no part of a stream.
    bare::call(client, uri, &JsonRpcMessage::request("first", "ping", ())).await?;
    hold(count, |number| async move {
        let request = bare::request(uri, kind.message(number).as_ref(), kind.headers());
        Ok(BodyStream::new(bare::send(client, request).await?).map_ok(drop).map_err(BoxError::from))
    })
    .await
}

async fn with_transport(mut transport: StreamableHttp, kind: Kind, count: usize) -> Result<Growth, BoxError> {
    match kind {
        Kind::Listen | Kind::Call => ours::initialize(&mut transport).await?,
        Kind::Subscribe => {
            drop(ours::call(&mut transport, JsonRpcMessage::request("first", "ping", ())).await?);
        }
    }
    hold(count, |number| {
        let transport = transport.clone();
        async move {
            let reply = match kind.message(number) {
                None => transport.listen(),
                Some(message) => transport.oneshot(message).await?,
            };
            Ok(reply.map_ok(drop).map_err(BoxError::from))
        }
    })
    .await
}

/// The figures of one protocol, by kind and holder.
fn section(
    text: &mut String,
    protocol: Protocol,
    count: usize,
    growths: &[[Growth; 4]],
) -> Result<(), BoxError> {
    let names = HOLDERS.map(Holder::name).join(" | ");
    let per_stream = |bytes: isize| bytes / signed(count);
    writeln!(text, "\n### {}\n", protocol.name())?;
    writeln!(text, "| bytes of heap for each | {names} | **transport − bare client** |")?;
    writeln!(text, "|---|--:|--:|--:|--:|--:|")?;
    for (kind, growths) in KINDS.iter().zip(growths) {
        let each = growths.each_ref().map(|growth| per_stream(growth.bytes));
        let more = each[3] - each[0];
        let verdict = if more <= TARGET { "" } else { " (over the target)" };
        let each = each.map(|bytes| bytes.to_string()).join(" | ");
        writeln!(text, "| {} | {each} | **{more}**{verdict} |", kind.name())?;
    }
    if protocol == Protocol::Http2 {
        text.push_str("\nThe blocks are those of HTTP/1.1, but for those of the connection and of the heads that came over it.\n");
        return Ok(());
    }
    for (kind, growths) in KINDS.iter().zip(growths) {
        writeln!(text, "\nBlocks for each stream, {}, of the sizes in which they differ:\n", kind.name())?;
        writeln!(text, "| bytes | {names} |\n|--:|--:|--:|--:|--:|")?;
        blocks(text, count, growths)?;
    }
    Ok(())
}

/// How many blocks of each size there are for each stream, where the holders do not all have the same.
fn blocks(text: &mut String, count: usize, growths: &[Growth; 4]) -> Result<(), BoxError> {
    let each = |growth: &Growth, size: usize| {
        let found = growth.blocks.iter().find(|(found, _)| *found == size);
        // Whole blocks: what only a few streams have is no part of a stream.
        found.map_or(0, |(_, more)| (more + signed(count) / 2).div_euclid(signed(count)))
    };
    let sizes = growths.iter().flat_map(|growth| &growth.blocks).map(|(size, _)| *size);
    for size in sizes.collect::<BTreeSet<_>>() {
        let counts = growths.each_ref().map(|growth| each(growth, size));
        if counts.iter().any(|count| *count != counts[0]) {
            writeln!(text, "| {size} | {} |", counts.map(|count| count.to_string()).join(" | "))?;
        }
    }
    let shared = growths.each_ref().map(|growth| (growth.large_bytes / signed(count)).to_string());
    writeln!(
        text,
        "| larger ones, such as tables, shared by all: bytes for each | {} |",
        shared.join(" | ")
    )?;
    Ok(())
}

/// The sizes of the types that are held, by which the blocks above can be told.
fn sizes(text: &mut String) -> Result<(), BoxError> {
    type Stack = BoxCloneSyncService<Request<Payload>, Response<Events>, BoxError>;
    writeln!(text, "\n### What is held\n\n| type | bytes |\n|---|--:|")?;
    let sizes = [
        ("`Reply`", size_of::<Reply>()),
        ("`Events`", size_of::<Events>()),
        ("`Listening`", size_of::<Listening<Stack>>()),
        ("`Endpoint`", size_of::<Endpoint>()),
        ("`Limits`", size_of::<Limits>()),
        ("`sse::Decoder`", size_of::<Decoder>()),
        ("`http::response::Parts`", size_of::<Parts>()),
        ("`hyper::body::Incoming`", size_of::<Incoming>()),
    ];
    for (name, size) in sizes {
        writeln!(text, "| {name} | {size} |")?;
    }
    Ok(())
}
