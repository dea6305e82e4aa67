//! One connection: reads requests, plays scripts.

use std::fmt;
use std::future::Future;
use std::io;
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use http::header::{CONNECTION, CONTENT_LENGTH, EXPECT, HOST, TRANSFER_ENCODING, UPGRADE};
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::answer::{Answer, Framing, Step};

/// More than any client under test sends. Without a limit a client that speaks no HTTP would just hang its test.
const MAX_HEAD: usize = 64 * 1024;

/// A request as it arrived.
#[derive(Clone)]
pub(crate) struct Request {
    pub(crate) method: Method,
    /// The path and the query.
    pub(crate) target: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    /// The number of its connection, in the order in which they were accepted, from 0.
    pub(crate) connection: usize,
    /// How many requests with the same method and the same JSON-RPC method arrived earlier: for a handler that
    /// answers the second one differently.
    pub(crate) nth: usize,
    message: Option<Value>,
}

impl Request {
    /// The body as JSON; panics if it is something else.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        self.message.clone().unwrap_or_else(|| panic!("the body is not JSON: {self:?}"))
    }

    /// The `method` of the JSON-RPC message in the body.
    pub(crate) fn rpc_method(&self) -> Option<&str> {
        self.message.as_ref()?.get("method")?.as_str()
    }

    /// The `id` of the JSON-RPC message in the body; null without one.
    pub(crate) fn rpc_id(&self) -> Value {
        self.message.as_ref().and_then(|message| message.get("id")).cloned().unwrap_or_default()
    }

    /// The only value of a header; panics if there are more, or if it is not text.
    #[track_caller]
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut values = self.headers.get_all(name).iter();
        let value = values.next()?;
        assert!(values.next().is_none(), "more than one {name}: {self:?}");
        Some(value.to_str().unwrap_or_else(|error| panic!("{name}: {error}: {self:?}")))
    }

    pub(super) fn same_kind(&self, other: &Self) -> bool {
        self.method == other.method && self.rpc_method() == other.rpc_method()
    }

    pub(super) fn asks_to_close(&self) -> bool {
        self.headers.get(CONNECTION).is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"close"))
    }

    fn parse(head: &[u8], connection: usize) -> Result<Self, String> {
        let lines = head.split_inclusive(|byte| *byte == b'\n').map(|line| line.strip_suffix(b"\r\n"));
        let lines = lines.collect::<Option<Vec<_>>>().ok_or("a line of the head ends without CR")?;
        let mut lines = lines.into_iter();
        let first = String::from_utf8_lossy(lines.next().unwrap_or_default());
        let [method, target, "HTTP/1.1"] = first.split(' ').collect::<Vec<_>>()[..] else {
            return Err(format!("no HTTP/1.1 request line: {first:?}"));
        };
        let method = Method::from_bytes(method.as_bytes()).map_err(|error| format!("{error}: {first:?}"))?;
        if !target.starts_with('/') {
            return Err(format!("the target is not a path: {target:?}"));
        }
        let mut headers = HeaderMap::new();
        for line in lines {
            let parsed = line.iter().position(|byte| *byte == b':').and_then(|colon| {
                let name = HeaderName::from_bytes(&line[..colon]).ok()?;
                Some((name, HeaderValue::from_bytes(line[colon + 1..].trim_ascii()).ok()?))
            });
            let (name, value) =
                parsed.ok_or_else(|| format!("no header: {:?}", String::from_utf8_lossy(line)))?;
            headers.append(name, value);
        }
        if headers.get_all(HOST).iter().count() != 1 {
            return Err(format!("a request needs one host: {headers:?}"));
        }
        let (target, body) = (target.to_owned(), Bytes::new());
        Ok(Self { method, target, headers, body, connection, nth: 0, message: None })
    }

    /// Refuses what this server does not implement: to ignore it would leave both sides waiting.
    fn body_length(&self) -> Result<usize, String> {
        let unsupported = [TRANSFER_ENCODING, EXPECT, UPGRADE];
        if let Some(name) = unsupported.iter().find(|name| self.headers.contains_key(*name)) {
            return Err(format!("this server does not know {name}: {self:?}"));
        }
        let lengths: Vec<_> = self.headers.get_all(CONTENT_LENGTH).iter().collect();
        let digits = match lengths[..] {
            [] => return Ok(0),
            [only] if only.as_bytes().iter().all(u8::is_ascii_digit) => only.to_str().unwrap_or_default(),
            _ => "",
        };
        digits.parse().map_err(|_| format!("bad content-length: {lengths:?}"))
    }
}

impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { method, target, headers, body, connection, nth, message: _ } = self;
        let mut all = f.debug_struct("Request");
        all.field("method", method).field("target", target).field("headers", headers).field("body", body);
        all.field("connection", connection).field("nth", nth).finish()
    }
}

impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} ({})", self.method, self.target, self.rpc_method().unwrap_or("no JSON-RPC method"))
    }
}

/// What becomes of the connection after a script.
pub(super) enum After {
    KeepAlive,
    Close,
}

/// The client has dropped the exchange.
struct Gone {
    /// The script waited for it.
    foreseen: bool,
}

pub(super) struct Wire {
    stream: TcpStream,
    connection: usize,
    /// What was read beyond the current request.
    buffer: BytesMut,
    /// Bytes of the current body.
    written: usize,
}

impl Wire {
    pub(super) fn new(stream: TcpStream, connection: usize) -> Self {
        // Or the kernel would hold back a small piece until the one before it is acknowledged. Some systems refuse
        // it once the client has gone, which the first read finds out as well.
        let _ = stream.set_nodelay(true);
        Self { stream, connection, buffer: BytesMut::new(), written: 0 }
    }

    /// The next request, or `None` once the client has no more. A client that leaves amid a request has none
    /// either: that is what cancelling a request looks like, not a failure.
    pub(super) async fn request(&mut self) -> Result<Option<Request>, String> {
        let head = loop {
            if let Some(end) = self.buffer.windows(4).position(|window| window == b"\r\n\r\n") {
                break end + 2;
            }
            let speaks = self.buffer.first().is_none_or(u8::is_ascii_alphabetic);
            if !speaks || self.buffer.len() > MAX_HEAD {
                return Err(format!("no HTTP/1.1 request: {:?}", &self.buffer[..self.buffer.len().min(256)]));
            }
            if !self.read().await {
                return Ok(None);
            }
        };
        let mut request = Request::parse(&self.buffer[..head], self.connection)?;
        let length = request.body_length()?;
        self.buffer.advance(head + 2);
        while self.buffer.len() < length {
            if !self.read().await {
                return Ok(None);
            }
        }
        request.body = self.buffer.split_to(length).freeze();
        request.message = serde_json::from_slice(&request.body).ok();
        Ok(Some(request))
    }

    /// Plays a script; `gone` is called, once at most, when the client turns out to have dropped the exchange.
    pub(super) async fn play(&mut self, answer: Answer, close: bool, gone: impl Fn()) -> After {
        let close = close || answer.closes();
        let (framing, steps) = answer.into_script();
        self.written = 0;
        let mut steps = steps.into_iter();
        match self.take(steps.by_ref(), framing, close).await {
            Ok(after) => after,
            Err(Gone { foreseen }) => {
                gone();
                // There is no one left to write to, but the test may be listening.
                for step in steps.take_while(|_| foreseen) {
                    if let Step::Open(gate) = step {
                        gate.open();
                    }
                }
                After::Close
            }
        }
    }

    async fn take(
        &mut self,
        steps: impl Iterator<Item = Step>,
        framing: Framing,
        close: bool,
    ) -> Result<After, Gone> {
        for step in steps {
            match step {
                Step::Head(head) => self.write(&head).await?,
                Step::Raw(piece) => self.piece(&piece, framing).await?,
                Step::Flush => step_aside().await,
                Step::Wait(gate) => self.while_there(gate.passed()).await?,
                Step::Open(gate) => gate.open(),
                Step::Delay(delay) => self.while_there(tokio::time::sleep(delay)).await?,
                Step::ClientGone => {
                    self.client_gone().await;
                    return Err(Gone { foreseen: true });
                }
                Step::End => return self.end(framing, close).await,
                Step::Hang => self.while_there(std::future::pending()).await?,
                Step::Close => break,
                Step::Reset => {
                    self.reset();
                    break;
                }
            }
        }
        Ok(After::Close)
    }

    async fn piece(&mut self, piece: &[u8], framing: Framing) -> Result<(), Gone> {
        self.written += piece.len();
        if piece.is_empty() || !matches!(framing, Framing::Chunked) {
            return self.write(piece).await;
        }
        let chunk = [format!("{:x}\r\n", piece.len()).as_bytes(), piece, b"\r\n"].concat();
        self.write(&chunk).await
    }

    async fn end(&mut self, framing: Framing, close: bool) -> Result<After, Gone> {
        let close = match framing {
            Framing::Chunked => {
                self.write(b"0\r\n\r\n").await?;
                close
            }
            Framing::Length(length) => close || length.is_some_and(|length| self.written < length),
            Framing::UntilClose => true,
            Framing::Verbatim => close,
        };
        Ok(if close { After::Close } else { After::KeepAlive })
    }

    /// Makes the drop that follows send a RST.
    fn reset(&self) {
        #[allow(deprecated, reason = "`set_zero_linger` takes its place, but only from tokio 1.50 on")]
        let _ = self.stream.set_linger(Some(Duration::ZERO));
    }

    async fn write(&mut self, bytes: &[u8]) -> Result<(), Gone> {
        self.stream.write_all(bytes).await.map_err(|_: io::Error| Gone { foreseen: false })
    }

    /// Waits for `future`, but only while the client is there.
    async fn while_there(&mut self, future: impl Future<Output = ()>) -> Result<(), Gone> {
        tokio::select! {
            biased;
            () = self.client_gone() => Err(Gone { foreseen: false }),
            () = future => Ok(()),
        }
    }

    /// Keeps what it reads: a client may send its next request early.
    async fn client_gone(&mut self) {
        while self.read().await {}
    }

    /// Whether there was something to read. An error (a reset, as a rule) is an end like any other.
    async fn read(&mut self) -> bool {
        matches!(self.stream.read_buf(&mut self.buffer).await, Ok(count) if count > 0)
    }
}

/// Several yields: the client wakes its connection task, which then wakes the task of the test.
async fn step_aside() {
    for _ in 0..8 {
        tokio::task::yield_now().await;
    }
}
