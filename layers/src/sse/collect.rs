//! Reading a whole body within a limit.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf, Bytes};
use http_body::Body;
use pin_project_lite::pin_project;

use super::clock::Clock;
use super::decoder::append;
use crate::drain::FRAMES_PER_POLL;
use crate::error::BoxError;

/// So much room is made for a body that has only announced itself.
const MAX_BELIEVED: usize = 1 << 20;

pin_project! {
    /// Reads `body` to its end, to its limit, or until a clock runs out, whichever comes first.
    #[derive(Debug)]
    pub(super) struct Collect<B> {
        #[pin]
        body: B,
        limit: usize,
        clock: Option<Clock>,
        // Whether the clock bounds the silence between two frames, or the whole body.
        restarts: bool,
        read: Read,
    }
}

/// Most bodies arrive in one piece, which is then not copied.
#[derive(Debug)]
enum Read {
    Piece(Bytes),
    Joined(Vec<u8>),
}

/// What was read, and why no more.
#[derive(Debug)]
pub(super) struct Collected {
    pub(super) bytes: Bytes,
    pub(super) end: End,
}

#[derive(Debug)]
pub(super) enum End {
    Complete,
    OverLimit,
    TimedOut(Duration),
    Broken(BoxError),
}

impl<B> Collect<B> {
    /// `clock` bounds the whole body.
    pub(super) fn within(body: B, limit: usize, clock: Option<Clock>) -> Self {
        Self { body, limit, clock, restarts: false, read: Read::Piece(Bytes::new()) }
    }

    /// `clock` bounds every silence of the body.
    pub(super) fn while_alive(body: B, limit: usize, clock: Option<Clock>) -> Self {
        Self { restarts: true, ..Self::within(body, limit, clock) }
    }
}

impl Read {
    fn len(&self) -> usize {
        match self {
            Self::Piece(bytes) => bytes.len(),
            Self::Joined(bytes) => bytes.len(),
        }
    }

    /// `rest`: how much more the body says that it has.
    fn append(&mut self, mut data: impl Buf, rest: u64) {
        match self {
            Self::Piece(first) if first.is_empty() => *first = data.copy_to_bytes(data.remaining()),
            Self::Piece(first) => {
                // What a body says of itself need not be true.
                let rest = usize::try_from(rest).unwrap_or(usize::MAX).min(MAX_BELIEVED);
                let here = first.len() + data.remaining();
                let mut joined = Vec::with_capacity(here + rest.max(here));
                append(&mut joined, first);
                append_all(&mut joined, data);
                *self = Self::Joined(joined);
            }
            Self::Joined(joined) => append_all(joined, data),
        }
    }

    fn take(&mut self) -> Bytes {
        match std::mem::replace(self, Self::Piece(Bytes::new())) {
            Self::Piece(bytes) => bytes,
            Self::Joined(bytes) => bytes.into(),
        }
    }
}

fn append_all(joined: &mut Vec<u8>, mut data: impl Buf) {
    while data.has_remaining() {
        let chunk = data.chunk();
        append(joined, chunk);
        data.advance(chunk.len());
    }
}

impl<B> Future for Collect<B>
where
    B: Body,
    B::Error: Into<BoxError>,
{
    type Output = Collected;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Collected> {
        let mut this = self.project();
        for _ in 0..FRAMES_PER_POLL {
            let end = match this.body.as_mut().poll_frame(cx) {
                Poll::Ready(None) => End::Complete,
                Poll::Ready(Some(Err(error))) => End::Broken(error.into()),
                Poll::Ready(Some(Ok(frame))) => {
                    if let (true, Some(clock)) = (*this.restarts, this.clock.as_mut()) {
                        clock.restart();
                    }
                    let Ok(data) = frame.into_data() else { continue };
                    let room = *this.limit - this.read.len();
                    let rest = this.body.size_hint().lower();
                    if data.remaining() <= room {
                        this.read.append(data, rest);
                        continue;
                    }
                    this.read.append(data.take(room), rest);
                    End::OverLimit
                }
                Poll::Pending => match this.clock {
                    Some(clock) => {
                        ready!(clock.poll(cx));
                        End::TimedOut(clock.timeout)
                    }
                    None => return Poll::Pending,
                },
            };
            return Poll::Ready(Collected { bytes: this.read.take(), end });
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}
