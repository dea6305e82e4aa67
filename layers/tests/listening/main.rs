//! The listening stream: when it is opened, opened again, and given up.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "in a test a panic is how it fails, in its helpers too"
)]

mod attempts;
#[path = "../common/mod.rs"]
mod common;
mod events;
mod hour;
mod opening;
mod sessions;
#[path = "../resume/wire.rs"]
mod wire;

use common::*;
use futures_util::StreamExt as _;
use mcp_streamable_http_layers::error::BoxError;
use mcp_streamable_http_layers::{Backoff, Error, Event, Listening};
use tokio_test::task;
use wire::*;

type Item = Result<Event, BoxError>;

impl Client {
    fn listening(&self, backoff: Backoff) -> Listening<Floor> {
        Listening::new(self.floor.clone(), endpoint(), self.session.clone(), backoff)
    }

    fn listen(&self) -> Reading<Item> {
        reading(self.listening(plain()))
    }

    /// Listens, and the server has accepted it with a stream that begins with `text`.
    async fn accepted(&mut self, text: &str) -> (Reading<Item>, Pen) {
        let listening = self.listen();
        let get = self.inbox.get_after(secs(0)).await;
        assert_eq!(get.last_event_id(), None);
        let pen = get.stream(text.to_owned());
        settle().await;
        (listening, pen)
    }
}

fn reading(listening: Listening<Floor>) -> Reading<Item> {
    Reading::of(async { listening })
}

impl Reading<Item> {
    /// The method of the next message.
    async fn heard(&mut self) -> String {
        loop {
            if let Some(message) = self.next().await.unwrap().unwrap().message {
                return message.method().unwrap().to_owned();
            }
        }
    }

    /// What it fails with, which must be its last item.
    async fn fails(&mut self) -> Error {
        let error = loop {
            match self.next().await.unwrap() {
                Ok(event) => assert!(event.message.is_none()),
                Err(error) => break Error::new(error),
            }
        };
        assert!(self.next().await.is_none(), "it goes on after {error}");
        error
    }
}

/// Polls the stream that is not read in a task.
fn by_hand(listening: Listening<Floor>) -> task::Spawn<futures_util::stream::BoxStream<'static, Item>> {
    task::spawn(listening.boxed())
}
