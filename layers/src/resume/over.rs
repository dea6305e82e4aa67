//! When a session ends under a stream.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::runtime::Handle;

use crate::Session;
use crate::error::{BoxError, BrokenStream, TimedOut};
use crate::options::Pinned;

/// Waits for the end of the session that a stream belongs to.
#[derive(Default)]
pub(crate) struct Over(Option<Pin<Box<dyn Future<Output = ()> + Send>>>);

impl Over {
    /// The session is no longer the connection's.
    pub(crate) fn poll_ended(
        &mut self,
        session: &Session,
        pinned: &Pinned,
        cx: &mut Context<'_>,
    ) -> Poll<()> {
        self.poll(cx, || {
            let (mut watch, pinned) = (session.watch(), pinned.clone());
            Box::pin(async move {
                while watch.session().is_current(&pinned) {
                    watch.changed().await;
                }
            })
        })
    }

    /// The application's `initialize` was answered, or given up for another.
    pub(crate) fn poll_begun(&mut self, session: &Session, cx: &mut Context<'_>) -> Poll<()> {
        self.poll(cx, || {
            let mut watch = session.watch();
            Box::pin(async move {
                while watch.session().is_beginning() {
                    watch.changed().await;
                }
            })
        })
    }

    /// There is another, and has been for so long.
    pub(crate) fn poll_succeeded(
        &mut self,
        session: &Session,
        pinned: &Pinned,
        grace: Duration,
        cx: &mut Context<'_>,
    ) -> Poll<()> {
        self.poll(cx, || {
            let (mut watch, pinned) = (session.watch(), pinned.clone());
            Box::pin(async move {
                while !watch.session().has_succeeded(&pinned) {
                    watch.changed().await;
                }
                // Without a runtime there is no clock.
                if !grace.is_zero() && Handle::try_current().is_ok() {
                    // Boxed, as few streams get that far, and all would have room for it.
                    Box::pin(tokio::time::sleep(grace)).await;
                }
            })
        })
    }

    /// The next wait is for something else.
    pub(crate) fn reset(&mut self) {
        self.0 = None;
    }

    fn poll(
        &mut self,
        cx: &mut Context<'_>,
        wait: impl FnOnce() -> Pin<Box<dyn Future<Output = ()> + Send>>,
    ) -> Poll<()> {
        self.0.get_or_insert_with(wait).as_mut().poll(cx)
    }
}

/// Whether an error is the end of a connection, as opposed to something that the server said.
pub(crate) fn ends(error: &BoxError) -> bool {
    error.is::<BrokenStream>() || error.is::<TimedOut>()
}
