//! Reading on after the answer is out.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Buf;
use http_body::Body;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;

/// A server can send any number of empty or tiny frames; so many are taken before other tasks get their turn.
pub(crate) const FRAMES_PER_POLL: usize = 64;

/// How many bodies are read on in the background at a time, by all transports of the process.
static TASKS: Semaphore = Semaphore::const_new(1024);

/// How much of a body to read that nobody wants, and for how long.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Drain {
    pub(crate) max_bytes: usize,
    pub(crate) timeout: Duration,
}

impl Drain {
    /// Reads `body` to its end, so that its HTTP/1 connection returns to the pool: dropping an unfinished body closes
    /// it.
    ///
    /// What is there already is read at once. For the rest a task waits, a short time only, since a server may keep the
    /// stream of an answered request open for ever.
    pub(crate) fn drain<B>(self, mut body: Pin<Box<B>>, runtime: Option<&Handle>, cx: &mut Context<'_>)
    where
        B: Body + Send + 'static,
    {
        let mut room = self.max_bytes;
        if body.is_end_stream() || self.timeout.is_zero() || read_on(&mut body, &mut room, cx).is_ready() {
            return;
        }
        // Beyond the bound a connection is lost, which is only slower.
        if let (Some(runtime), Ok(permit)) = (runtime, TASKS.try_acquire()) {
            runtime.spawn(async move {
                let _permit = permit;
                let rest = std::future::poll_fn(|cx| read_on(&mut body, &mut room, cx));
                let _ = tokio::time::timeout(self.timeout, rest).await;
            });
        }
    }
}

/// Ready when the body has ended, broken, or brought more than there is `room` for.
fn read_on<B: Body>(body: &mut Pin<Box<B>>, room: &mut usize, cx: &mut Context<'_>) -> Poll<()> {
    for _ in 0..FRAMES_PER_POLL {
        match std::task::ready!(body.as_mut().poll_frame(cx)) {
            Some(Ok(frame)) => {
                let size = frame.data_ref().map_or(0, Buf::remaining);
                match room.checked_sub(size) {
                    Some(left) => *room = left,
                    None => return Poll::Ready(()),
                }
            }
            Some(Err(_)) | None => return Poll::Ready(()),
        }
    }
    cx.waker().wake_by_ref();
    Poll::Pending
}
