//! Reading a whole body within a limit.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Buf, Bytes};
use http_body::Body;
use pin_project_lite::pin_project;
use tokio::time::Sleep;

use crate::drain::FRAMES_PER_POLL;
use crate::error::BoxError;

pin_project! {
    /// Reads `body` to its end, to its limit, or until `timeout`, whichever comes first.
    #[derive(Debug)]
    pub(super) struct Collect<B> {
        #[pin]
        body: B,
        limit: usize,
        timeout: Option<Pin<Box<Sleep>>>,
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
    TimedOut,
    Broken(BoxError),
}

impl<B> Collect<B> {
    pub(super) fn new(body: B, limit: usize, timeout: Option<Pin<Box<Sleep>>>) -> Self {
        Self { body, limit, timeout, read: Read::Piece(Bytes::new()) }
    }
}

impl Read {
    fn len(&self) -> usize {
        match self {
            Self::Piece(bytes) => bytes.len(),
            Self::Joined(bytes) => bytes.len(),
        }
    }

    fn append(&mut self, mut data: impl Buf) {
        match self {
            Self::Piece(first) if first.is_empty() => *first = data.copy_to_bytes(data.remaining()),
            Self::Piece(first) => {
                let mut joined = Vec::with_capacity(2 * (first.len() + data.remaining()));
                joined.extend_from_slice(first);
                append(&mut joined, data);
                *self = Self::Joined(joined);
            }
            Self::Joined(joined) => append(joined, data),
        }
    }

    fn take(&mut self) -> Bytes {
        match std::mem::replace(self, Self::Piece(Bytes::new())) {
            Self::Piece(bytes) => bytes,
            Self::Joined(bytes) => bytes.into(),
        }
    }
}

fn append(joined: &mut Vec<u8>, mut data: impl Buf) {
    while data.has_remaining() {
        let chunk = data.chunk();
        joined.extend_from_slice(chunk);
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
                    let Ok(data) = frame.into_data() else { continue };
                    let room = *this.limit - this.read.len();
                    if data.remaining() <= room {
                        this.read.append(data);
                        continue;
                    }
                    this.read.append(data.take(room));
                    End::OverLimit
                }
                Poll::Pending => match this.timeout.as_mut().map(|timeout| timeout.as_mut().poll(cx)) {
                    Some(Poll::Ready(())) => End::TimedOut,
                    Some(Poll::Pending) | None => return Poll::Pending,
                },
            };
            return Poll::Ready(Collected { bytes: this.read.take(), end });
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}
