//! The script of one response.

use std::future::Future;
use std::panic::Location;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use serde_json::Value;
use tokio::sync::watch;

/// A gate between a test and a script: closed at first, and open for good once someone opens it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Gate(Arc<watch::Sender<bool>>);

impl Gate {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    pub(crate) fn open(&self) {
        self.0.send_replace(true);
    }

    pub(crate) fn is_open(&self) -> bool {
        *self.0.borrow()
    }

    /// For a test that waits for the [`Answer::open`] of a script.
    #[track_caller]
    pub(crate) fn opened(&self) -> impl Future<Output = ()> {
        let at = Location::caller();
        async move { super::within("a gate to open", at, self.passed()).await }
    }

    /// Waits without a limit: a script may outlast any limit while the test is busy, and ends with its server.
    pub(crate) async fn passed(&self) {
        // It cannot fail: the sender is in `self`.
        let _ = self.0.subscribe().wait_for(|open| *open).await;
    }
}

#[derive(Debug)]
pub(super) enum Step {
    /// Written as it is, outside of the framing.
    Head(Vec<u8>),
    Raw(Bytes),
    Flush,
    Wait(Gate),
    Open(Gate),
    Delay(Duration),
    ClientGone,
    End,
    Hang,
    Close,
    Reset,
}

impl Step {
    fn is_last(&self) -> bool {
        matches!(self, Self::End | Self::Hang | Self::Close | Self::Reset)
    }
}

/// How the end of the body is marked.
#[derive(Clone, Copy, Debug)]
pub(super) enum Framing {
    /// By `content-length`; `None` declares what the script holds.
    Length(Option<usize>),
    /// By the last chunk.
    Chunked,
    /// By the end of the connection.
    UntilClose,
    /// By the author: there is no head either.
    Verbatim,
}

/// A response as a script: a status, headers, and then steps that are taken one after the other.
///
/// A script whose last step is none of `end`, `hang`, `close` and `reset` ends with `end`.
#[derive(Debug)]
#[must_use]
pub(crate) struct Answer {
    status: u16,
    headers: Vec<(String, Bytes)>,
    framing: Framing,
    before_head: Vec<Step>,
    steps: Vec<Step>,
}

/// The start of an answer.
impl Answer {
    /// An empty body with a `content-length` (without one where HTTP forbids it).
    pub(crate) fn status(status: u16) -> Self {
        let (headers, before_head, steps) = (Vec::new(), Vec::new(), Vec::new());
        Self { status, headers, framing: Framing::Length(None), before_head, steps }
    }

    pub(crate) fn json(status: u16, value: Value) -> Self {
        Self::status(status).body("application/json", value.to_string())
    }

    /// An open event stream, chunked. The head is sent at once, before the first event.
    pub(crate) fn sse() -> Self {
        Self::status(200)
            .header("content-type", "text/event-stream")
            .header("cache-control", "no-cache")
            .chunked()
    }

    /// These bytes in place of a response head. Further `raw` steps are written as they are, and `end` just goes
    /// on to the next request. `raw_response("").reset()` resets without a response.
    pub(crate) fn raw_response(bytes: impl AsRef<[u8]>) -> Self {
        Self { framing: Framing::Verbatim, ..Self::status(0) }.raw(bytes)
    }
}

/// The head of an answer; these can be called at any place in the chain.
impl Answer {
    /// Sets a header, replacing what is there under that name. Both are written verbatim, valid or not.
    pub(crate) fn header(self, name: &str, value: impl AsRef<[u8]>) -> Self {
        self.without_header(name).another_header(name, value)
    }

    /// Adds a header, beside what is there under that name.
    pub(crate) fn another_header(mut self, name: &str, value: impl AsRef<[u8]>) -> Self {
        self.headers.push((name.to_owned(), Bytes::copy_from_slice(value.as_ref())));
        self
    }

    pub(crate) fn without_header(mut self, name: &str) -> Self {
        self.headers.retain(|(present, _)| !present.eq_ignore_ascii_case(name));
        self
    }

    /// Makes each `raw` and each event a chunk of its own.
    pub(crate) fn chunked(self) -> Self {
        self.framed(Framing::Chunked)
    }

    /// Lets the end of the connection mark the end of the body.
    pub(crate) fn until_close(self) -> Self {
        self.framed(Framing::UntilClose)
    }

    /// Declares this length, whatever is sent. After less than that, `end` closes the connection.
    pub(crate) fn content_length(self, length: usize) -> Self {
        self.framed(Framing::Length(Some(length)))
    }

    /// Sends nothing, not even the head, until the gate is open.
    pub(crate) fn head_after(mut self, gate: &Gate) -> Self {
        self.before_head.push(Step::Wait(gate.clone()));
        self
    }

    /// Sends nothing, not even the head, for this long.
    pub(crate) fn head_delay(mut self, delay: Duration) -> Self {
        self.before_head.push(Step::Delay(delay));
        self
    }

    fn framed(mut self, framing: Framing) -> Self {
        assert!(!matches!(self.framing, Framing::Verbatim), "a raw response has no framing to choose");
        self.framing = framing;
        self
    }
}

/// The steps of an answer, taken in the order of the calls.
impl Answer {
    pub(crate) fn text(self, text: impl AsRef<[u8]>) -> Self {
        self.body("text/plain; charset=utf-8", text)
    }

    pub(crate) fn body(self, content_type: &str, bytes: impl AsRef<[u8]>) -> Self {
        self.header("content-type", content_type).raw(bytes)
    }

    /// Writes a piece of the body: one chunk if chunked, and one write in any case. An empty piece writes nothing,
    /// as an empty chunk would be the last.
    pub(crate) fn raw(self, bytes: impl AsRef<[u8]>) -> Self {
        self.then(Step::Raw(Bytes::copy_from_slice(bytes.as_ref())))
    }

    /// An event without an id.
    pub(crate) fn event(self, data: Value) -> Self {
        self.raw(format!("data: {data}\n\n"))
    }

    pub(crate) fn event_with(self, id: &str, data: Value) -> Self {
        self.raw(format!("id: {id}\ndata: {data}\n\n"))
    }

    /// Lets other tasks run, so that the client as a rule reads what was written apart from what follows. Where
    /// a test depends on it, it opens a gate of a `wait` after having read instead.
    pub(crate) fn flush(self) -> Self {
        self.then(Step::Flush)
    }

    /// Waits until the gate is open. The script breaks off if the client drops the exchange before.
    pub(crate) fn wait(self, gate: &Gate) -> Self {
        self.then(Step::Wait(gate.clone()))
    }

    /// Opens a gate, to tell the test that the script has come this far.
    pub(crate) fn open(self, gate: &Gate) -> Self {
        self.then(Step::Open(gate.clone()))
    }

    /// Waits on the clock of tokio. The script breaks off if the client drops the exchange before.
    pub(crate) fn delay(self, delay: Duration) -> Self {
        self.then(Step::Delay(delay))
    }

    /// Waits until the client has dropped the exchange: closed the connection, reset it, or ended its own side.
    /// `Server::gone` sees that, as it does when a `wait`, a `delay`, a `hang` or a write finds the client gone.
    /// Only `open` can usefully follow.
    pub(crate) fn client_gone(self) -> Self {
        self.then(Step::ClientGone)
    }

    /// Ends the body. The connection then serves the next request, unless its end is what ends the body.
    pub(crate) fn end(self) -> Self {
        self.then(Step::End)
    }

    /// Sends no more, and keeps the connection until the client has dropped it.
    pub(crate) fn hang(self) -> Self {
        self.then(Step::Hang)
    }

    /// Closes the connection in the middle of the body (FIN).
    pub(crate) fn close(self) -> Self {
        self.then(Step::Close)
    }

    /// Resets the connection in the middle of the body (RST).
    pub(crate) fn reset(self) -> Self {
        self.then(Step::Reset)
    }

    fn then(mut self, step: Step) -> Self {
        let last = self.steps.last().filter(|last| last.is_last());
        assert!(last.is_none(), "{step:?} would never be reached after {last:?}");
        self.steps.push(step);
        self
    }
}

/// What the connection needs.
impl Answer {
    pub(super) fn closes(&self) -> bool {
        let close =
            |(name, value): &(String, Bytes)| name.eq_ignore_ascii_case("connection") && value == "close";
        self.headers.iter().any(close)
    }

    /// How to frame the pieces, and the steps with the head in its place.
    pub(super) fn into_script(mut self) -> (Framing, Vec<Step>) {
        if let Framing::Length(None) = self.framing {
            let body =
                self.steps.iter().map(|step| if let Step::Raw(piece) = step { piece.len() } else { 0 });
            self.framing = Framing::Length(Some(body.sum()));
        }
        if !self.steps.last().is_some_and(Step::is_last) {
            self.steps.push(Step::End);
        }
        let head = Step::Head(self.head());
        let mut script = self.before_head;
        script.push(head);
        script.append(&mut self.steps);
        (self.framing, script)
    }

    fn head(&self) -> Vec<u8> {
        let reason = StatusCode::from_u16(self.status).ok().and_then(|status| status.canonical_reason());
        let mut head = format!("HTTP/1.1 {} {}\r\n", self.status, reason.unwrap_or_default()).into_bytes();
        for (name, value) in &self.headers {
            head.extend_from_slice(name.as_bytes());
            head.extend_from_slice(b": ");
            head.extend_from_slice(value);
            head.extend_from_slice(b"\r\n");
        }
        let framing = match self.framing {
            Framing::Verbatim => return Vec::new(),
            Framing::Length(Some(0)) if matches!(self.status, 100..=199 | 204 | 304) => String::new(),
            Framing::Length(length) => format!("content-length: {}\r\n", length.unwrap_or_default()),
            Framing::Chunked => "transfer-encoding: chunked\r\n".to_owned(),
            Framing::UntilClose => "connection: close\r\n".to_owned(),
        };
        head.extend_from_slice(framing.as_bytes());
        head.extend_from_slice(b"\r\n");
        head
    }
}
