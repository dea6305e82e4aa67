//! Each layer by itself, over a service that does next to nothing. The first of each group is that service without a layer:
//! what a layer adds is the difference. What `MirrorHeaders` does in the modern era is in a file of its own.

use std::fmt::Debug;

use bytes::Bytes;
use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, Criterion};
use futures_util::StreamExt;
use http::{Request, Response};
use http_body_util::Full;
use mcp_streamable_http::layers::{
    EnvelopeLayer, FirstByteTimeoutLayer, MirrorHeadersLayer, RedirectLayer, ReinitializeLayer, ReissueLayer,
    ResumeLayer, SetSessionIdLayer, SseLayer, StampVersionLayer, TraceLayer, TranslateCancelLayer,
};
use mcp_streamable_http::{
    Backoff, Endpoint, Events, JsonRpcMessage, Limits, Payload, Reply, RetryPolicy, Session, ToolHeaders,
};
use mcp_streamable_http_benches::memory::{Memory, Pace};
use mcp_streamable_http_benches::meter::drive;
use mcp_streamable_http_benches::noop::Noop;
use mcp_streamable_http_benches::texts;
use tower::layer::util::Identity;
use tower::retry::RetryLayer;
use tower::{Layer, Service, ServiceExt};

/// A message, and where it goes.
pub(crate) struct Call {
    message: JsonRpcMessage,
    endpoint: Endpoint,
}

impl Call {
    pub(crate) fn new(message: JsonRpcMessage) -> Self {
        Self { message: scanned(message), endpoint: endpoint() }
    }
}

/// The message, of which the transport has read what it needs: clones know it too. Otherwise that would count for whichever
/// layer is the first to ask. What it costs is measured with the messages.
fn scanned(message: JsonRpcMessage) -> JsonRpcMessage {
    message.as_request().unwrap().protocol_version().unwrap();
    message
}

fn endpoint() -> Endpoint {
    Endpoint::new(texts::URI.parse().unwrap()).unwrap()
}

fn session() -> Session {
    let session = Session::new();
    session.restore(texts::session());
    session
}

/// Makes a call on the envelope floor, and reads its answer.
pub(crate) fn call_envelopes<S>(service: &mut S, call: &Call)
where
    S: Service<Request<Payload>, Response = Response<Events>>,
    S::Error: Debug,
{
    drive(async {
        let request = call.endpoint.post(call.message.clone());
        let response = service.ready().await.unwrap().call(request).await.unwrap();
        read(response.into_body()).await;
    });
}

async fn read(mut events: Events) {
    while let Some(event) = events.next().await {
        assert!(event.is_ok());
    }
}

/// The group of a floor, and what its layers are measured with.
struct Floor<'a> {
    group: BenchmarkGroup<'a, WallTime>,
    noop: Noop,
    message: JsonRpcMessage,
}

impl<'a> Floor<'a> {
    fn new(criterion: &'a mut Criterion, name: &str, noop: Noop, message: JsonRpcMessage) -> Self {
        Self { group: criterion.benchmark_group(name), noop, message: scanned(message) }
    }

    fn message<L>(&mut self, name: &str, layer: L)
    where
        L: Layer<Noop>,
        L::Service: Service<JsonRpcMessage, Response = Reply>,
        <L::Service as Service<JsonRpcMessage>>::Error: Debug,
    {
        let mut service = layer.layer(self.noop.clone());
        let message = &self.message;
        self.group.bench_function(name, |bencher| {
            bencher.iter(|| {
                drive(async {
                    let call = service.ready().await.unwrap().call(message.clone());
                    let mut reply = call.await.unwrap();
                    while let Some(item) = reply.next().await {
                        assert!(item.is_ok());
                    }
                });
            });
        });
    }

    fn envelope<L>(&mut self, name: &str, layer: L)
    where
        L: Layer<Noop>,
        L::Service: Service<Request<Payload>, Response = Response<Events>>,
        <L::Service as Service<Request<Payload>>>::Error: Debug,
    {
        let mut service = layer.layer(self.noop.clone());
        let call = Call::new(self.message.clone());
        self.group.bench_function(name, |bencher| bencher.iter(|| call_envelopes(&mut service, &call)));
    }

    fn wire<L>(&mut self, name: &str, layer: L)
    where
        L: Layer<Noop>,
        L::Service: Service<Request<Full<Bytes>>, Response = Response<Full<Bytes>>>,
        <L::Service as Service<Request<Full<Bytes>>>>::Error: Debug,
    {
        let mut service = layer.layer(self.noop.clone());
        self.group.bench_function(name, |bencher| {
            bencher.iter(|| {
                drive(async {
                    let request = Request::post(texts::URI).body(Full::default());
                    service.ready().await.unwrap().call(request.unwrap()).await.unwrap();
                });
            });
        });
    }
}

pub(crate) fn run(criterion: &mut Criterion) {
    messages(criterion);
    let noop = || Noop::new(texts::RESULT);
    let floors = [
        ("envelopes, legacy", noop(), texts::legacy_call(), session as fn() -> Session),
        ("envelopes, legacy, a stream", Noop::streaming(), texts::legacy_call(), session),
        ("envelopes, modern", noop(), texts::modern_call(), Session::new),
        ("envelopes, modern, a stream", Noop::streaming(), texts::modern_call(), Session::new),
    ];
    for (name, noop, message, session) in floors {
        envelopes(Floor::new(criterion, name, noop, message), session);
    }
    bridges(criterion);

    let mut floor = Floor::new(criterion, "wire", noop(), texts::legacy_call());
    floor.wire("(no layer)", Identity::new());
    floor.wire("Redirect", RedirectLayer::new());
    floor.wire("FirstByteTimeout", FirstByteTimeoutLayer::new());
    floor.group.finish();
}

fn messages(criterion: &mut Criterion) {
    for (name, message, session) in [
        ("messages, legacy", texts::legacy_call(), session as fn() -> Session),
        ("messages, modern", texts::modern_call(), Session::new),
    ] {
        let mut floor = Floor::new(criterion, name, Noop::new(texts::RESULT), message);
        floor.message("(no layer)", Identity::new());
        floor.message("Trace (no subscriber)", TraceLayer::new());
        floor.message("TranslateCancel", TranslateCancelLayer::new(session()));
        floor.message("Reissue", ReissueLayer::new(session(), ToolHeaders::new()));
        // Its base is not the first of the group, as what it makes of a message is half of it.
        floor.message("Envelope", EnvelopeLayer::new(endpoint(), session()));
        floor.group.finish();
    }
}

fn envelopes(mut floor: Floor<'_>, session: fn() -> Session) {
    floor.envelope("(no layer)", Identity::new());
    floor.envelope("Retry", RetryLayer::new(RetryPolicy::new().for_session(session())));
    floor.envelope("Reinitialize", ReinitializeLayer::new(endpoint(), session()));
    floor.envelope("Resume", ResumeLayer::new(endpoint(), session(), Backoff::default()));
    floor.envelope("SetSessionId", SetSessionIdLayer::new(session()));
    floor.envelope("StampVersion", StampVersionLayer::new(session()));
    if floor.message == texts::legacy_call() {
        floor.envelope("MirrorHeaders", MirrorHeadersLayer::new());
    }
    floor.group.finish();
}

/// The bridge from envelopes to bytes, which does the encoding and decoding.
fn bridges(criterion: &mut Criterion) {
    let json = Memory::json(texts::RESULT, Pace::AtOnce);
    let sse = Memory::events(texts::stream(0, false), Pace::AtOnce);
    let mut group = criterion.benchmark_group("from envelopes to bytes");
    for (name, memory) in [("Sse, a JSON body", json), ("Sse, one event", sse)] {
        let mut service = SseLayer::new(Limits::default()).layer(memory);
        let call = Call::new(texts::legacy_call());
        group.bench_function(name, |bencher| bencher.iter(|| call_envelopes(&mut service, &call)));
    }
    group.finish();
}
