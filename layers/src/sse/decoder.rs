//! The bytes of an event stream, decoded without any I/O.

use std::{collections::VecDeque, error::Error, fmt, mem, ops::Range};

use bytes::Bytes;
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
    /// The chunk in work.
    chunk: Bytes,
    /// How much of it is used up. To cut that off line by line would cost more than to count it.
    at: usize,
    /// Chunks pushed while `chunk` still had bytes.
    queue: VecDeque<Bytes>,
    /// The bytes that would complete a byte order mark. Empty once the stream has started in earnest.
    bom: &'static [u8],
    /// The last chunk was ended by a CR, so that an LF next is the rest of its ending.
    after_cr: bool,
    block: Block,
    failed: bool,
}

/// The block so far, apart from the chunks: its methods may borrow from one.
struct Block {
    max_event_bytes: usize,
    /// What has been used up of them.
    size: usize,
    /// The start of a line whose end has not come. Empty if there is no such line.
    carry: Vec<u8>,
    /// What its lines said, `data` only while that is a single line.
    frame: Frame,
    /// The `data` lines once there are two. Until then empty, afterwards never, as it holds an LF.
    joined: Vec<u8>,
}

impl Decoder {
    /// The limit of [`Decoder::default`]: 16 MiB.
    pub const DEFAULT_MAX_EVENT_BYTES: usize = 16 * 1024 * 1024;

    /// Creates a decoder for one stream, with a limit on the size of an event.
    ///
    /// What counts are the lines of one block, each with one byte for its ending. Comments do not,
    /// however long: they are not stored, and a stream may idle on them for ever.
    pub fn new(max_event_bytes: usize) -> Self {
        let (frame, carry, joined) = (Frame::default(), Vec::new(), Vec::new());
        Self {
            chunk: Bytes::new(),
            at: 0,
            queue: VecDeque::new(),
            bom: BOM,
            after_cr: false,
            block: Block { max_event_bytes, size: 0, carry, frame, joined },
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
        if self.at == self.chunk.len() && self.queue.is_empty() {
            self.start(chunk);
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
            match self.scan() {
                Ok(true) => return Some(Ok(mem::take(&mut self.block.frame))),
                Ok(false) => {
                    (self.chunk, self.at) = (Bytes::new(), 0);
                    let chunk = self.queue.pop_front()?;
                    self.start(chunk);
                }
                Err(error) => {
                    *self = Self { failed: true, ..Self::new(error.limit) };
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
        let retry = self.block.frame.retry;
        *self = Self { failed: self.failed, ..Self::new(self.block.max_event_bytes) };
        retry.map(|_| Frame { retry, ..Frame::default() })
    }

    /// Puts a chunk in work, and uses up what is at its start of a byte order mark and of a CRLF.
    fn start(&mut self, chunk: Bytes) {
        (self.chunk, self.at) = (chunk, 0);
        // WHATWG HTML §9.2.5: one byte order mark may lead the stream. Anywhere else it is text.
        while let (Some(byte), [expected, rest @ ..]) = (self.chunk.get(self.at), self.bom) {
            if byte == expected {
                self.bom = rest;
                self.at += 1;
            } else {
                // No mark after all: what looked like one starts the first line.
                self.block.carry.extend_from_slice(BOM.strip_suffix(self.bom).unwrap_or_default());
                self.bom = &[];
            }
        }
        if !self.chunk.is_empty() && mem::take(&mut self.after_cr) {
            self.at = usize::from(self.chunk.starts_with(b"\n"));
        }
    }

    /// Uses up `chunk` to the end of a block that makes a frame, or else all of it. Says whether there was one.
    fn scan(&mut self) -> Result<bool, EventTooLarge> {
        let (chunk, mut at) = (&self.chunk[..], self.at);
        while let Some(&first) = chunk.get(at) {
            let rest = &chunk[at..];
            // Every block has a blank line, for which a search would be long.
            let is_blank = first == b'\n' || first == b'\r';
            let Some(len) = (if is_blank { Some(0) } else { memchr2(b'\r', b'\n', rest) }) else {
                self.block.carry(rest)?;
                break;
            };
            let end = at + len;
            at = end + 1;
            if rest[len] == b'\r' {
                // A CR ends its line at once. Waiting to see whether an LF follows would hold back the last
                // event of a server that then falls silent.
                match chunk.get(at) {
                    Some(b'\n') => at += 1,
                    Some(_) => {}
                    None => self.after_cr = true,
                }
            }
            if !self.block.carry.is_empty() {
                self.block.carried(&rest[..len])?;
            } else if len > 0 {
                self.block.line(&self.chunk, end - len..end)?;
            } else if self.block.end() {
                self.at = at;
                return Ok(true);
            }
        }
        Ok(false)
    }
}

impl Block {
    /// Keeps a part of a line that is not whole in one chunk.
    fn carry(&mut self, part: &[u8]) -> Result<(), EventTooLarge> {
        if self.carry.first().or(part.first()) == Some(&b':') {
            // A comment needs no more than its colon to be known as one when it ends.
            self.carry.clear();
            self.carry.push(b':');
            return Ok(());
        }
        self.size_with(self.carry.len() + part.len())?;
        append(&mut self.carry, part);
        Ok(())
    }

    /// Takes a line of which only the last part is left to carry.
    #[cold]
    fn carried(&mut self, part: &[u8]) -> Result<(), EventTooLarge> {
        self.carry(part)?;
        let line = Bytes::from(mem::take(&mut self.carry));
        self.line(&line, 0..line.len())
    }

    /// The size of the block with `bytes` more. Fails if it has no room for them.
    fn size_with(&self, bytes: usize) -> Result<usize, EventTooLarge> {
        let (size, limit) = (self.size.saturating_add(bytes), self.max_event_bytes);
        if size > limit { Err(EventTooLarge { limit }) } else { Ok(size) }
    }

    /// Takes a line that is not blank, without its ending. It lies at `range` of `owner`.
    // In an event of 120 bytes, to call this instead would be a tenth of the time.
    #[inline(always)]
    fn line(&mut self, owner: &Bytes, range: Range<usize>) -> Result<(), EventTooLarge> {
        let line = &owner[range.clone()];
        if line.starts_with(b":") {
            return Ok(());
        }
        self.size = self.size_with(line.len() + 1)?;

        // Whatever the line says, its value comes last.
        let owned = |value: &[u8]| owner.slice(range.end - value.len()..range.end);
        if let Some(value) = value_of(b"data", line) {
            if self.frame.data.is_none() && self.joined.is_empty() {
                self.frame.data = Some(owned(value));
                return Ok(());
            }
            if let Some(first) = self.frame.data.take() {
                self.joined = first.into();
            }
            self.joined.push(b'\n');
            append(&mut self.joined, value);
        } else if let Some(value) = value_of(b"event", line) {
            // The default, which most servers name.
            let is_default = value.is_empty() || value == b"message";
            self.frame.event = (!is_default).then(|| owned(value));
        } else if let Some(value) = value_of(b"id", line) {
            // WHATWG HTML §9.2.6: an id with NUL is ignored, and so does not hide an earlier one.
            if memchr(0, value).is_none() {
                self.frame.id = Some(owned(value));
            }
        } else if let Some(value) = value_of(b"retry", line) {
            self.frame.retry = milliseconds(value).or(self.frame.retry);
        }
        Ok(())
    }

    /// Ends the block, and says whether it makes a frame.
    fn end(&mut self) -> bool {
        self.size = 0;
        if !self.joined.is_empty() {
            self.frame.data = Some(mem::take(&mut self.joined).into());
        }
        let frame = &mut self.frame;
        let is_frame = frame.data.is_some() || frame.id.is_some() || frame.retry.is_some();
        if !is_frame {
            frame.event = None;
        }
        is_frame
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
            .field("max_event_bytes", &self.block.max_event_bytes)
            .field("event_bytes", &(self.block.size + self.block.carry.len()))
            .field("failed", &self.failed)
            .finish_non_exhaustive()
    }
}

/// What `line` says if that is its field: WHATWG HTML §9.2.6 has the name end at the first colon or with the
/// line, and one space after the colon not count.
fn value_of<'a>(name: &[u8], line: &'a [u8]) -> Option<&'a [u8]> {
    match line.strip_prefix(name)? {
        [b':', b' ', value @ ..] | [b':', value @ ..] => Some(value),
        [] => Some(&[]),
        _ => None,
    }
}

/// Appends in pieces that are copied by ordinary instructions. From 4 KiB on glibc takes `rep movsb`, which
/// on AMD's Zen 3 is slower by an order of magnitude where the target is up to 31 bytes after the source,
/// modulo 4 KiB.
pub(super) fn append(to: &mut Vec<u8>, bytes: &[u8]) {
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
