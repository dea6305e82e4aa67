//! Compressed answers: they are read as they come, and the limits count what comes out of them.

#![cfg(all(feature = "client", feature = "decompression"))]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of a test")]

use std::alloc::System;
use std::convert::Infallible;
use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use http::{HeaderMap, Request, Response, Uri};
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use mcp_streamable_http::error::TooLarge;
use mcp_streamable_http::{Error, JsonRpcMessage, JsonRpcResponse, Limits, Reply, StreamableHttp};
use serde_json::{Value, json};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::{JoinHandle, JoinSet};
use tower::ServiceExt;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

type Body = UnsyncBoxBody<Bytes, Infallible>;

const JSON: &str = "application/json";
const SSE: &str = "text/event-stream";
const PONG: &str = r#"{"jsonrpc":"2.0","id":1,"result":{"pong":true}}"#;
const PROGRESS: &str = r#"{"jsonrpc":"2.0","method":"notifications/progress"}"#;

/// Only so that a broken test fails instead of hanging.
async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(20), future).await.expect("it takes too long")
}

/// Codings, each written with its blocks for what is not compressed, so that the bytes are plain to see.
#[derive(Clone, Copy, Debug)]
enum Coding {
    Gzip,
    Deflate,
    Brotli,
    Zstd,
}

const CODINGS: [Coding; 4] = [Coding::Gzip, Coding::Deflate, Coding::Brotli, Coding::Zstd];

impl Coding {
    fn name(self) -> &'static str {
        match self {
            Self::Gzip => "gzip",
            Self::Deflate => "deflate",
            Self::Brotli => "br",
            Self::Zstd => "zstd",
        }
    }

    fn head(self) -> &'static [u8] {
        match self {
            // RFC 1952 §2.3.
            Self::Gzip => &[0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff],
            // RFC 1950 §2.2.
            Self::Deflate => &[0x78, 0x01],
            // RFC 7932 §9.1, and an empty block, after which the next begins with a byte.
            Self::Brotli => &[0x0c],
            // RFC 8878 §3.1.1: a window of 128 KiB.
            Self::Zstd => &[0x28, 0xb5, 0x2f, 0xfd, 0, 0x38],
        }
    }

    /// A block with `data`, which can be read when it is there.
    fn block(self, data: &[u8]) -> Vec<u8> {
        let length = u16::try_from(data.len()).unwrap();
        let small = |header: u32| header.to_le_bytes()[..3].to_vec();
        let mut block = match self {
            // RFC 1951 §3.2.4.
            Self::Gzip | Self::Deflate => {
                let [(a, b), (c, d)] =
                    [length, !length].map(|half| (half.to_le_bytes()[0], half.to_le_bytes()[1]));
                vec![0, a, b, c, d]
            }
            Self::Brotli => small(((u32::from(length) - 1) << 3) | (1 << 19)),
            Self::Zstd => small(u32::from(length) << 3),
        };
        block.extend_from_slice(data);
        block
    }

    /// The end of what is `all` together.
    fn tail(self, all: &[u8]) -> Vec<u8> {
        let mut tail = vec![1, 0, 0, 0xff, 0xff];
        match self {
            Self::Gzip => {
                tail.extend_from_slice(&crc32(all).to_le_bytes());
                tail.extend_from_slice(&u32::try_from(all.len()).unwrap().to_le_bytes());
            }
            Self::Deflate => {
                let (a, b) = all.iter().fold((1, 0), |(a, b), byte| {
                    let a = (a + u32::from(*byte)) % 65_521;
                    (a, (b + a) % 65_521)
                });
                tail.extend_from_slice(&((b << 16) | a).to_be_bytes());
            }
            Self::Brotli => tail = vec![3],
            Self::Zstd => tail = vec![1, 0, 0],
        }
        tail
    }

    fn encode(self, data: &str) -> Vec<u8> {
        [self.head(), &self.block(data.as_bytes()), &self.tail(data.as_bytes())].concat()
    }
}

fn crc32(data: &[u8]) -> u32 {
    !data.iter().fold(!0, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| (crc >> 1) ^ (0xedb8_8320 & (crc & 1).wrapping_neg()))
    })
}

/// `count` bytes of zero, about, in a 150th of the space: a literal, and then copies of the 258 bytes before (RFC 1951 §3.2.6).
fn bomb(count: usize) -> Vec<u8> {
    let mut bits = Bits::default();
    // The last block, with the fixed codes; codes are written from their highest bit.
    bits.push([true, true, false]);
    bits.push("00110000".chars().map(|bit| bit == '1'));
    for _ in 0..count / 258 {
        bits.push("1100010100000".chars().map(|bit| bit == '1'));
    }
    [Coding::Gzip.head(), &bits.bytes].concat()
}

#[derive(Default)]
struct Bits {
    bytes: Vec<u8>,
    used: u32,
}

impl Bits {
    fn push(&mut self, bits: impl IntoIterator<Item = bool>) {
        for bit in bits {
            if self.used % 8 == 0 {
                self.bytes.push(0);
            }
            *self.bytes.last_mut().unwrap() |= u8::from(bit) << (self.used % 8);
            self.used += 1;
        }
    }
}

/// A server on the loopback interface, which notes the headers that it is sent.
struct Server {
    uri: Uri,
    seen: Arc<Mutex<Vec<HeaderMap>>>,
    accepting: JoinHandle<()>,
}

impl Server {
    async fn start(answer: impl Fn() -> Response<Body> + Clone + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let uri = format!("http://{}/mcp", listener.local_addr().unwrap()).parse().unwrap();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let notes = seen.clone();
        let accepting = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let (answer, notes) = (answer.clone(), notes.clone());
                let service = service_fn(move |request: Request<Incoming>| {
                    notes.lock().unwrap().push(request.headers().clone());
                    let answer = answer();
                    async move {
                        request.into_body().collect().await?;
                        Ok::<_, hyper::Error>(answer)
                    }
                });
                connections.spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
            }
        });
        Self { uri, seen, accepting }
    }

    fn transport(&self) -> StreamableHttp {
        StreamableHttp::builder(self.uri.clone()).decompression().build().unwrap()
    }

    /// The `accept-encoding` of the only request.
    fn accepted(&self) -> Option<String> {
        let seen = self.seen.lock().unwrap();
        assert_eq!(seen.len(), 1);
        seen[0].get("accept-encoding").map(|value| value.to_str().unwrap().to_owned())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

fn answer(status: u16, content_type: &str, coding: Option<Coding>, body: impl Into<Bytes>) -> Response<Body> {
    let body = Full::new(body.into()).boxed_unsync();
    head(Response::builder().status(status), content_type, coding).body(body).unwrap()
}

fn head(
    response: http::response::Builder,
    content_type: &str,
    coding: Option<Coding>,
) -> http::response::Builder {
    let response = response.header("content-type", content_type);
    match coding {
        Some(coding) => response.header("content-encoding", coding.name()),
        None => response,
    }
}

async fn send(transport: &StreamableHttp) -> Result<Reply, Error> {
    let message = JsonRpcMessage::request(1, "tools/call", json!({ "name": "add" }));
    soon(transport.clone().oneshot(message)).await
}

async fn ask(transport: &StreamableHttp) -> Result<JsonRpcResponse, Error> {
    soon(send(transport).await?.response()).await
}

#[tokio::test]
async fn answers_are_decoded_whatever_their_coding() {
    for coding in CODINGS.map(Some).into_iter().chain([None]) {
        for (content_type, text) in [(JSON, PONG.to_owned()), (SSE, format!("data: {PONG}\n\n"))] {
            let body = coding.map_or(text.clone().into_bytes(), |coding| coding.encode(&text));
            let server = Server::start(move || answer(200, content_type, coding, body.clone())).await;
            let response = ask(&server.transport()).await.unwrap();
            assert_eq!(response.result::<Value>().unwrap(), json!({ "pong": true }), "{coding:?}");
            let accepted = server.accepted().unwrap();
            for coding in CODINGS {
                assert!(accepted.contains(coding.name()), "{accepted:?}");
            }
        }
    }
}

#[tokio::test]
async fn events_are_there_as_soon_as_they_are_flushed() {
    for coding in CODINGS {
        let (frames, receiver) = mpsc::unbounded_channel::<Vec<u8>>();
        let receiver = Arc::new(Mutex::new(Some(receiver)));
        let server = Server::start(move || {
            let receiver = receiver.lock().unwrap().take().expect("it was called twice");
            let frames = stream::unfold(receiver, |mut receiver| async {
                let frame = receiver.recv().await?;
                Some((Ok(Frame::data(Bytes::from(frame))), receiver))
            });
            head(Response::builder(), SSE, Some(coding)).body(StreamBody::new(frames).boxed_unsync()).unwrap()
        })
        .await;
        frames.send(coding.head().to_vec()).unwrap();
        let mut reply = send(&server.transport()).await.unwrap();
        let event = format!("data: {PROGRESS}\n\n");
        for _ in 0..3 {
            // The next is sent only when this one has been read.
            frames.send(coding.block(event.as_bytes())).unwrap();
            let message = soon(reply.next()).await.unwrap().unwrap();
            assert_eq!(message.method(), Some("notifications/progress"), "{coding:?}");
        }
        frames.send(coding.block(format!("data: {PONG}\n\n").as_bytes())).unwrap();
        let message = soon(reply.next()).await.unwrap().unwrap();
        assert!(message.as_response().is_some(), "{coding:?}");
        assert!(soon(reply.next()).await.is_none(), "the rest need not come");
    }
}

#[tokio::test]
async fn limits_count_what_comes_out() {
    let bomb = Bytes::from(bomb(200 << 20));
    assert!(bomb.len() < 2 << 20, "it is small on the wire");
    for content_type in [JSON, SSE] {
        let body = bomb.clone();
        let server = Server::start(move || answer(200, content_type, Some(Coding::Gzip), body.clone())).await;
        let limits = Limits::default().max_json_bytes(1 << 20).max_event_bytes(1 << 20);
        let builder = StreamableHttp::builder(server.uri.clone()).decompression().limits(limits);
        let transport = builder.build().unwrap();
        let region = Region::new(ALLOCATOR);
        let error = ask(&transport).await.unwrap_err();
        // All that was ever taken, so that it is more than was held at a time.
        let taken = region.change().bytes_allocated;
        assert_eq!(error.find::<TooLarge>().expect("it is too large").limit(), 1 << 20, "{error}");
        assert!(taken < 40 << 20, "{content_type}: {taken} bytes");
    }
}

#[tokio::test]
async fn an_error_of_the_servers_is_decoded_too() {
    let refusal = r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32042,"message":"no"}}"#;
    let body = Coding::Gzip.encode(refusal);
    let server = Server::start(move || answer(400, JSON, Some(Coding::Gzip), body.clone())).await;
    let response = ask(&server.transport()).await.unwrap();
    assert_eq!(response.outcome().unwrap_err().code(), -32042);
}

#[tokio::test]
async fn what_cannot_be_decoded_is_an_error() {
    let whole = Coding::Gzip.encode(PONG);
    let mut wrong = whole.clone();
    // Of the checksum.
    let at = wrong.len() - 6;
    wrong[at] ^= 1;
    let cut = whole[..whole.len() - 30].to_vec();
    for body in [b"plain".to_vec(), cut, wrong] {
        let server = Server::start(move || answer(200, JSON, Some(Coding::Gzip), body.clone())).await;
        let error = ask(&server.transport()).await.unwrap_err();
        assert!(error.may_have_run(), "{error:?}");
        server.accepted();
    }
}

#[tokio::test]
async fn nothing_is_asked_for_without_the_option() {
    let server = Server::start(|| answer(200, JSON, None, PONG)).await;
    let transport = StreamableHttp::builder(server.uri.clone()).build().unwrap();
    ask(&transport).await.unwrap();
    assert_eq!(server.accepted(), None);
}
