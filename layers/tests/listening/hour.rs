//! How many GETs a server has to bear in an hour, whatever it does.

use std::time::Duration;

use mcp_streamable_http_layers::error::NotSent;
use tokio::time::{Instant, sleep_until};

use super::*;

/// Answers every GET of an hour, the number of which it gets, and counts them. The clock has no random part.
async fn gets_in_an_hour(mut answer: impl AsyncFnMut(Arrived, usize)) -> usize {
    let mut client = Client::in_session().await;
    let _listening = client.listen();
    // What is due in the last instant counts.
    let end = Instant::now() + HOUR + millis(1);
    let mut count = 0;
    loop {
        tokio::select! {
            biased;
            get = client.inbox.next() => {
                count += 1;
                assert!(count <= 10_000, "it spins");
                answer(get, count).await;
            }
            () = sleep_until(end) => break,
        }
    }
    count
}

/// One GET at once, and then one after each of the waits, as far as they fit into an hour.
fn bound(waits: impl IntoIterator<Item = Duration>) -> usize {
    let mut at = Duration::ZERO;
    1 + waits
        .into_iter()
        .take_while(|wait| {
            at += *wait;
            at <= HOUR
        })
        .count()
}

/// `base`, doubled up to the longest wait of the default, for ever.
fn doubling(base: Duration) -> impl Iterator<Item = Duration> {
    let limit = base.max(secs(30));
    std::iter::successors(Some(base), move |wait| Some((*wait * 2).min(limit)))
}

#[tokio::test(start_paused = true)]
async fn that_ends_every_stream_at_once() {
    let expected = bound(doubling(secs(1)));
    assert_eq!(expected, 6 + (3600 - 31) / 30, "1, 2, 4, 8, 16 s, then every 30 s");
    let count = gets_in_an_hour(async |get, _| drop(get.stream(""))).await;
    assert_eq!(count, expected);
    let count = gets_in_an_hour(async |get, _| get.stream("").fail("reset")).await;
    assert_eq!(count, expected);
}

#[tokio::test(start_paused = true)]
async fn that_sends_the_same_event_each_time() {
    let same = "id: e1\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"a\"}\n\n";
    let count = gets_in_an_hour(async |get, _| drop(get.stream(same))).await;
    // The first is progress, and so is no attempt that has failed.
    assert_eq!(count, bound(doubling(secs(1))));
}

#[tokio::test(start_paused = true)]
async fn that_sends_a_new_event_each_time() {
    let count = gets_in_an_hour(async |get, n| drop(get.stream(format!("id: e{n}\ndata:\n\n")))).await;
    assert_eq!(count, bound(std::iter::repeat(secs(1))));
}

#[tokio::test(start_paused = true)]
async fn that_asks_to_be_polled_at_once_and_has_nothing_to_say() {
    let shortest = millis(50);
    let expected = bound(std::iter::repeat_n(shortest, 4).chain(doubling(shortest)));
    assert!(expected < 140, "{expected}");
    for text in ["retry: 0\n\n", "retry: 0\nid: e1\ndata:\n\n"] {
        let count = gets_in_an_hour(async |get, _| drop(get.stream(text))).await;
        assert_eq!(count, expected);
    }
    // New ids are no messages.
    let text = |n| format!("retry: 0\nid: e{n}\ndata:\n\n");
    let count = gets_in_an_hour(async |get, n| drop(get.stream(text(n)))).await;
    assert_eq!(count, expected);
}

#[tokio::test(start_paused = true)]
async fn that_asks_to_be_polled_at_once_and_breaks_every_stream() {
    let count = gets_in_an_hour(async |get, _| {
        let pen = get.stream("retry: 0\n\n");
        settle().await;
        pen.fail("reset");
    })
    .await;
    assert_eq!(count, bound(doubling(millis(50))));
}

#[tokio::test(start_paused = true)]
async fn that_answers_with_text() {
    let count = gets_in_an_hour(async |get, _| get.answer(answer(200, "text/plain", "hello")).await).await;
    assert_eq!(count, 1);
    // The same after it was accepted.
    let count = gets_in_an_hour(async |get, n| match n {
        1 => drop(get.stream("")),
        _ => get.answer(answer(200, "text/plain", "hello")).await,
    })
    .await;
    assert_eq!(count, 2);
}

#[tokio::test(start_paused = true)]
async fn that_is_unavailable_after_it_has_accepted_one() {
    let count = gets_in_an_hour(async |get, n| match n {
        1 => drop(get.stream("")),
        _ => get.status(503).await,
    })
    .await;
    assert_eq!(count, bound(doubling(secs(1))));
}

#[tokio::test(start_paused = true)]
async fn that_asks_for_a_longer_wait() {
    let count = gets_in_an_hour(async |get, n| match n {
        1 => drop(get.stream("")),
        _ => get.answer(with_header(answer(429, "", ""), "retry-after", b"300")).await,
    })
    .await;
    assert_eq!(count, bound([secs(1)].into_iter().chain(std::iter::repeat(secs(300)))));
}

#[tokio::test(start_paused = true)]
async fn that_refuses_the_connection_after_it_has_accepted_one() {
    let refused = || NotSent(std::io::Error::from(std::io::ErrorKind::ConnectionRefused).into());
    let count = gets_in_an_hour(async |get, n| match n {
        1 => drop(get.stream("")),
        _ => get.fail(refused()),
    })
    .await;
    assert_eq!(count, bound(doubling(secs(1))));
}
