//! The body of an answer, which a restart can cut off.

use std::collections::VecDeque;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame};
use tokio::time::Sleep;
use tower::BoxError;

use crate::record::{Open, Shared};

#[derive(Debug)]
pub(crate) enum Step {
    Wait(Duration),
    Write(String),
    /// The last of the answer.
    Finish(String),
    Break,
    /// There was no answer to be completed.
    End,
}

/// Plays its steps, and ends.
#[derive(Debug)]
pub(crate) struct Playback {
    server: Shared,
    nonce: u64,
    epoch: u64,
    steps: VecDeque<Step>,
    wait: Option<Pin<Box<Sleep>>>,
    is_over: bool,
    _open: Open,
}

impl Playback {
    pub(crate) fn new(server: &Shared, open: Open, nonce: u64, epoch: u64, steps: Vec<Step>) -> Self {
        Self {
            server: server.clone(),
            nonce,
            epoch,
            steps: steps.into(),
            wait: None,
            is_over: false,
            _open: open,
        }
    }

    /// It ends before the answer was complete.
    fn cut(&mut self) {
        self.is_over = true;
        self.server.lock().of(self.nonce).cuts += 1;
    }
}

pub(crate) fn reset() -> BoxError {
    io::Error::from(io::ErrorKind::ConnectionReset).into()
}

impl Body for Playback {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = self.get_mut();
        loop {
            if this.is_over {
                return Poll::Ready(None);
            }
            if let Some(wait) = &mut this.wait {
                ready!(wait.as_mut().poll(cx));
                this.wait = None;
            }
            if this.server.lock().epoch != this.epoch {
                this.cut();
                return Poll::Ready(Some(Err(reset())));
            }
            match this.steps.pop_front() {
                Some(Step::Wait(time)) => this.wait = Some(Box::pin(tokio::time::sleep(time))),
                Some(Step::Write(text)) => return Poll::Ready(Some(Ok(Frame::data(text.into())))),
                Some(Step::Finish(text)) => {
                    this.is_over = true;
                    this.server.lock().of(this.nonce).answered = true;
                    return Poll::Ready(Some(Ok(Frame::data(text.into()))));
                }
                Some(Step::Break) => {
                    this.cut();
                    return Poll::Ready(Some(Err(reset())));
                }
                Some(Step::End) => this.is_over = true,
                None => this.cut(),
            }
        }
    }
}
