//! The time that reading a body may take.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::time::{Instant, Sleep};

/// Runs out a while after it was made, or after it was last restarted.
#[derive(Debug)]
pub(super) struct Clock {
    pub(super) timeout: Duration,
    sleep: Pin<Box<Sleep>>,
}

impl Clock {
    /// `None`: without a bound, or without the runtime of the call, as the answer may be polled outside of it.
    pub(super) fn new(timeout: Option<Duration>, runtime: Option<&Handle>) -> Option<Self> {
        let (timeout, runtime) = (timeout?, runtime?);
        let _entered = runtime.enter();
        Some(Self { timeout, sleep: Box::pin(tokio::time::sleep(timeout)) })
    }

    pub(super) fn restart(&mut self) {
        // A bound beyond what the clock can tell stays where it is, decades away.
        if let Some(end) = Instant::now().checked_add(self.timeout) {
            self.sleep.as_mut().reset(end);
        }
    }

    /// Ready when the time is over.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.sleep.as_mut().poll(cx)
    }
}
