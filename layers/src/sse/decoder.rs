//! The bytes of an event stream, decoded without any I/O.

use std::{collections::VecDeque, error::Error, fmt, mem};

use bytes::{Buf, Bytes};
use memchr::{memchr, memchr2};

const BOM: &[u8] = b"\xEF\xBB\xBF";

/// One block of an event stream: what its fields said before a blank line ended it.
///
/// A frame may carry no data (a block of only `id` or `retry`), its `id` is the block's own rather than the
/// stream's last one, and nothing in it has been checked to be UTF-8.
///
/// Values that arrived in one piece are slices of the pushed chunk and keep all of it alive: copy what
/// is to be held for long.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Frame {
    /// The last `id` line without NUL, `None` if there was none. Empty resets the stream's last event id.
    pub id: Option<Bytes>,
    /// The event type, never empty. `None` stands for the default type, `message`, whether it was named or not.
    pub event: Option<Bytes>,
    /// The `data` lines joined with LF, `None` if there were none. A browser ignores an event of empty data.
    pub data: Option<Bytes>,
    /// The reconnection time in milliseconds. Values beyond 64 bits saturate.
    pub retry: Option<u64>,
}

/// The error of a [`Decoder`] whose stream sent an event above its limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventTooLarge {
    /// The limit that was exceeded, in bytes.
    pub limit: usize,
}

impl fmt::Display for EventTooLarge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the server sent an SSE event larger than `max_event_bytes`, {} bytes", self.limit)
    }
}

impl Error for EventTooLarge {}

/// A decoder for `text/event-stream`, as WHATWG HTML §9.2.5 and §9.2.6 define it.
///
/// Bytes go in with [`push`](Self::push), cut anywhere, and [`Frame`]s come out of [`next`](Self::next): the
/// same ones however the stream was cut. The decoder does no I/O, does not validate UTF-8, and does not
/// remember the last event id from one block to the next.
///
/// The work is linear in the bytes pushed. A line that lies whole in one chunk is not copied, unless several
/// `data` lines have to be joined.
///
/// ```
/// use bytes::Bytes;
/// use mcp_streamable_http_layers::sse::Decoder;
///
/// let mut decoder = Decoder::default();
/// decoder.push(Bytes::from_static(b": keep-alive\n\nid: 7\nda"));
/// assert_eq!(decoder.next(), None);
///
/// decoder.push(Bytes::from_static(b"ta: {}\n\nretry: 500\n"));
/// let frame = decoder.next().unwrap()?;
/// assert_eq!((frame.id, frame.data), (Some("7".into()), Some("{}".into())));
/// assert_eq!(decoder.next(), None);
///
/// // The body ends inside a block.
/// let rest = decoder.finish().unwrap();
/// assert_eq!((rest.data, rest.retry), (None, Some(500)));
/// # Ok::<_, mcp_streamable_http_layers::sse::EventTooLarge>(())
/// ```
pub struct Decoder {
    max_event_bytes: usize,
    /// What is left of the chunk in work.
    chunk: Bytes,
    /// Chunks pushed while `chunk` still had bytes.
    queue: VecDeque<Bytes>,
    /// The bytes that would complete a byte order mark. Empty once the stream has started in earnest.
    bom: &'static [u8],
    /// The last line was ended by a CR, so that an LF next is the rest of its ending.
    after_cr: bool,
    /// The start of a line whose end has not come. Empty if there is no such line.
    carry: Vec<u8>,
    /// The block so far, its `data` only while that is a single line.
    frame: Frame,
    /// The `data` lines once there are two. Until then empty, afterwards never, as it holds an LF.
    joined: Vec<u8>,
    /// What the block has used up of `max_event_bytes`.
    size: usize,
    failed: bool,
}

impl Decoder {
    /// The limit of [`Decoder::default`]: 16 MiB.
    pub const DEFAULT_MAX_EVENT_BYTES: usize = 16 * 1024 * 1024;

    /// Creates a decoder for one stream, with a limit on the size of an event.
    ///
    /// What counts are the lines of one block, each with one byte for its ending. Comments do not,
    /// however long: they are not stored, and a stream may idle on them for ever.
    pub fn new(max_event_bytes: usize) -> Self {
        Self {
            max_event_bytes,
            chunk: Bytes::new(),
            queue: VecDeque::new(),
            bom: BOM,
            after_cr: false,
            carry: Vec::new(),
            frame: Frame::default(),
            joined: Vec::new(),
            size: 0,
            failed: false,
        }
    }

    /// Adds the next bytes of the stream.
    ///
    /// Chunks queue up without bound until [`next`](Self::next) takes them: call it until it returns `None`
    /// before pushing more. After an error they are dropped.
    pub fn push(&mut self, chunk: Bytes) {
        if self.failed {
            return;
        }
        if self.chunk.is_empty() && self.queue.is_empty() {
            self.chunk = chunk;
        } else {
            self.queue.push_back(chunk);
        }
    }

    /// Returns the next complete block that has `data`, `id` or `retry`, `None` if that takes more bytes.
    ///
    /// # Errors
    ///
    /// [`EventTooLarge`], once, as soon as a block exceeds the limit. The decoder then holds nothing
    /// any more, and returns `None` for ever.
    #[allow(clippy::should_implement_trait, reason = "`None` is not the end: an iterator would mislead")]
    pub fn next(&mut self) -> Option<Result<Frame, EventTooLarge>> {
        loop {
            let mut chunk = mem::take(&mut self.chunk);
            match self.scan(&mut chunk) {
                Ok(Some(frame)) => {
                    self.chunk = chunk;
                    return Some(Ok(frame));
                }
                Ok(None) => self.chunk = self.queue.pop_front()?,
                Err(error) => {
                    *self = Self { failed: true, ..Self::new(self.max_event_bytes) };
                    return Some(Err(error));
                }
            }
        }
    }

    /// Ends the stream, and makes the decoder ready for another one, unless it had failed.
    ///
    /// A block without its blank line is discarded (WHATWG HTML §9.2.6), and so is what [`next`](Self::next)
    /// has not taken yet. But a `retry` line counts when it ends, not with the blank line: the block's last
    /// one is returned, in a frame of its own.
    pub fn finish(&mut self) -> Option<Frame> {
        let retry = self.frame.retry;
        *self = Self { failed: self.failed, ..Self::new(self.max_event_bytes) };
        retry.map(|_| Frame { retry, ..Frame::default() })
    }

    /// Consumes `chunk` up to the end of a block that makes a frame, or else all of it.
    fn scan(&mut self, chunk: &mut Bytes) -> Result<Option<Frame>, EventTooLarge> {
        self.skip_bom(chunk);
        while let Some(&first) = chunk.first() {
            if mem::take(&mut self.after_cr) && first == b'\n' {
                chunk.advance(1);
                continue;
            }
            // Every block has a blank line, for which a search would be long.
            let is_blank = first == b'\n' || first == b'\r';
            let Some(end) = (if is_blank { Some(0) } else { memchr2(b'\r', b'\n', chunk) }) else {
                self.carry(chunk)?;
                break;
            };
            // A CR ends its line at once. Waiting to see whether an LF follows would hold back the last event
            // of a server that then falls silent.
            self.after_cr = chunk[end] == b'\r';
            if !self.carry.is_empty() {
                self.carry(&chunk[..end])?;
                let line = Bytes::from(mem::take(&mut self.carry));
                self.line(&line, &line)?;
            } else if end > 0 {
                self.line(chunk, &chunk[..end])?;
            } else if let Some(frame) = self.dispatch() {
                chunk.advance(1);
                return Ok(Some(frame));
            }
            chunk.advance(end + 1);
        }
        Ok(None)
    }

    /// WHATWG HTML §9.2.5: one byte order mark may lead the stream. Anywhere else it is text.
    fn skip_bom(&mut self, chunk: &mut Bytes) {
        while let (Some(byte), [expected, rest @ ..]) = (chunk.first(), self.bom) {
            if byte == expected {
                self.bom = rest;
                chunk.advance(1);
            } else {
                // No mark after all: what looked like one starts the first line.
                self.carry.extend_from_slice(BOM.strip_suffix(self.bom).unwrap_or_default());
                self.bom = &[];
            }
        }
    }

    /// Keeps a part of a line that is not whole in one chunk.
    fn carry(&mut self, part: &[u8]) -> Result<(), EventTooLarge> {
        if self.carry.first().or(part.first()) == Some(&b':') {
            // A comment needs no more than its colon to be known as one when it ends.
            self.carry.clear();
            self.carry.push(b':');
            return Ok(());
        }
        self.check(self.carry.len() + part.len())?;
        append(&mut self.carry, part);
        Ok(())
    }

    /// Fails if the block has no room for `bytes` more.
    fn check(&self, bytes: usize) -> Result<(), EventTooLarge> {
        let limit = self.max_event_bytes;
        if self.size.saturating_add(bytes) > limit { Err(EventTooLarge { limit }) } else { Ok(()) }
    }

    /// Takes a line that is not blank, without its ending. It lies in `owner`.
    fn line(&mut self, owner: &Bytes, line: &[u8]) -> Result<(), EventTooLarge> {
        if line.starts_with(b":") {
            return Ok(());
        }
        self.check(line.len() + 1)?;
        self.size += line.len() + 1;

        let colon = if line.starts_with(b"data:") { Some(4) } else { memchr(b':', line) };
        let (name, value) = line.split_at(colon.unwrap_or(line.len()));
        let value = value.strip_prefix(b":").unwrap_or_default();
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match name {
            b"data" => self.data(owner, value),
            // The default, which most servers name.
            b"event" if value.is_empty() || value == b"message" => self.frame.event = None,
            b"event" => self.frame.event = Some(owner.slice_ref(value)),
            // WHATWG HTML §9.2.6: an id with NUL is ignored, and so does not hide an earlier one.
            b"id" if memchr(0, value).is_none() => self.frame.id = Some(owner.slice_ref(value)),
            b"retry" => self.frame.retry = milliseconds(value).or(self.frame.retry),
            _ => {}
        }
        Ok(())
    }

    fn data(&mut self, owner: &Bytes, value: &[u8]) {
        if let Some(first) = self.frame.data.take() {
            self.joined = first.into();
        } else if self.joined.is_empty() {
            self.frame.data = Some(owner.slice_ref(value));
            return;
        }
        self.joined.push(b'\n');
        append(&mut self.joined, value);
    }

    /// Ends the block.
    fn dispatch(&mut self) -> Option<Frame> {
        self.size = 0;
        let mut frame = mem::take(&mut self.frame);
        if !self.joined.is_empty() {
            frame.data = Some(mem::take(&mut self.joined).into());
        }
        (frame.data.is_some() || frame.id.is_some() || frame.retry.is_some()).then_some(frame)
    }
}

impl Default for Decoder {
    /// A decoder with the limit [`DEFAULT_MAX_EVENT_BYTES`](Self::DEFAULT_MAX_EVENT_BYTES).
    fn default() -> Self {
        Self::new(Self::DEFAULT_MAX_EVENT_BYTES)
    }
}

/// Shows sizes only: the payload may be confidential.
impl fmt::Debug for Decoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Decoder")
            .field("max_event_bytes", &self.max_event_bytes)
            .field("event_bytes", &(self.size + self.carry.len()))
            .field("failed", &self.failed)
            .finish_non_exhaustive()
    }
}

/// Appends in pieces that are copied by ordinary instructions. From 4 KiB on glibc takes `rep movsb`, which is
/// slower by an order of magnitude on AMD's Zen 3 where the target is 1 to 31 bytes after the source modulo 4 KiB.
fn append(to: &mut Vec<u8>, bytes: &[u8]) {
    to.reserve(bytes.len());
    for piece in bytes.chunks(2048) {
        to.extend_from_slice(piece);
    }
}

/// The value of a `retry` line, if it is ASCII digits and nothing else.
fn milliseconds(value: &[u8]) -> Option<u64> {
    value.first()?;
    value.iter().try_fold(0_u64, |sum, byte| {
        byte.is_ascii_digit().then(|| sum.saturating_mul(10).saturating_add(u64::from(byte - b'0')))
    })
}
