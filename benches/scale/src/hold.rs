//! Holding many streams open, in the way that a host would.

use std::time::Duration;

use futures_util::future::try_join_all;
use futures_util::stream::{SelectAll, Stream, StreamExt};
use tokio::time::timeout;

use crate::BoxError;
use crate::heap::{Growth, Snapshot};

/// So many are opened at once: not more than what any system lets wait to be accepted.
const AT_ONCE: usize = 100;

/// How long it must be quiet for the streams to count as idle.
const QUIET: Duration = Duration::from_millis(300);

/// Opens `count` streams with `open`, reads one item of each, and returns what that has added to the heap. All of them are
/// polled by one task, through a `SelectAll`, whose own cost is thus part of it, as it is for the bare client.
pub(crate) async fn hold<S, F>(count: usize, open: impl Fn(usize) -> F) -> Result<Growth, BoxError>
where
    S: Stream<Item = Result<(), BoxError>> + Unpin,
    F: Future<Output = Result<S, BoxError>>,
{
    let before = Snapshot::take();
    let mut streams = SelectAll::new();
    while streams.len() < count {
        let first = streams.len();
        let numbers = first..count.min(first + AT_ONCE);
        let opened = numbers.len();
        streams.extend(try_join_all(numbers.map(&open)).await?);
        for _ in 0..opened {
            streams.next().await.ok_or("all streams have ended")??;
        }
    }
    // Each is polled once more after its event, and waits.
    match timeout(QUIET, streams.next()).await {
        Err(_) if streams.len() == count => Ok(before.growth()),
        Err(_) => Err("some of the streams have ended".into()),
        Ok(_) => Err("there is more than one event".into()),
    }
}
