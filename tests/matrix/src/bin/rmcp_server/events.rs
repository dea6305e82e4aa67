//! Where events are kept.

use std::sync::Mutex;

use futures_util::stream;
use rmcp::transport::streamable_http_server::session::{
    EventId, EventStore, EventStoreError, EventStream, ServerSseMessage,
};

use crate::lock;

/// Keeps every event of every stream; an event's id is its position.
///
/// rmcp keeps events itself, too, but not the last: an answer for which nobody listened is lost then.
#[derive(Default)]
pub(crate) struct Events {
    events: Mutex<Vec<(String, ServerSseMessage)>>,
}

#[async_trait::async_trait]
impl EventStore for Events {
    async fn store_event(&self, stream: &str, event: &ServerSseMessage) -> Result<EventId, EventStoreError> {
        let mut events = lock(&self.events);
        let id = events.len().to_string();
        let mut event = event.clone();
        event.event_id = Some(id.clone());
        events.push((stream.to_owned(), event));
        Ok(id)
    }

    /// What was kept is all of it: who wants what comes later asks again.
    async fn replay_events_after(&self, last: &str) -> Result<EventStream, EventStoreError> {
        let last: usize = last.parse()?;
        let events = lock(&self.events);
        let (stream, _) = events.get(last).ok_or("no such event")?;
        let later = events[last + 1..].iter().filter(|(other, _)| other == stream);
        let later: Vec<_> = later.map(|(_, event)| event.clone()).collect();
        Ok(Box::pin(stream::iter(later)))
    }
}
