//! Failures before the server has accepted a GET, and waits that are too long after it has.

use mcp_streamable_http_layers::error::{NotSent, RetryTooLong};
use tokio::time::Instant;

use super::*;

#[tokio::test(start_paused = true)]
async fn what_may_pass_is_waited_out_five_times_and_then_handed_up() {
    for (status, waits) in [
        (408, [0, 1, 2, 4, 8]),
        (409, [0, 5, 5, 5, 8]),
        (429, [0, 1, 2, 4, 8]),
        (500, [0, 1, 2, 4, 8]),
        (503, [0, 1, 2, 4, 8]),
        (529, [0, 1, 2, 4, 8]),
    ] {
        let mut client = Client::in_session().await;
        let mut listening = client.listen();
        for wait in waits {
            client.inbox.get_after(secs(wait)).await.status(status).await;
        }
        let error = listening.fails().await;
        assert_eq!(error.status().map(|status| status.as_u16()), Some(status), "{error}");
        client.inbox.assert_silent("it was never accepted").await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_cannot_be_reached_is_tried_five_times() {
    let mut client = Client::in_session().await;
    let mut listening = client.listen();
    for wait in [0, 1, 2, 4, 8] {
        client.inbox.get_after(secs(wait)).await.fail(NotSent("refused".into()));
    }
    assert!(listening.fails().await.is_connect(), "the last failure is handed up");
    client.inbox.assert_silent("it was never accepted").await;
}

#[tokio::test(start_paused = true)]
async fn it_is_opened_by_the_last_of_the_attempts() {
    let mut client = Client::in_session().await;
    let mut listening = client.listen();
    for wait in [0, 1, 2, 4] {
        client.inbox.get_after(secs(wait)).await.status(503).await;
    }
    let _pen = client.inbox.get_after(secs(8)).await.stream(event("", "a"));
    assert_eq!(listening.heard().await, "a");
}

#[tokio::test(start_paused = true)]
async fn retry_after_is_waited_unless_it_is_beyond_the_bound() {
    let mut client = Client::in_session().await;
    let mut listening = client.listen();
    for (wait, asked) in [(0, "70"), (70, "0"), (2, "301")] {
        let refusal = with_header(answer(503, "", ""), "retry-after", asked.as_bytes());
        client.inbox.get_after(secs(wait)).await.answer(refusal).await;
    }
    let error = listening.fails().await;
    assert_eq!(error.find::<RetryTooLong>().map(RetryTooLong::asked), Some(secs(301)), "{error}");
    client.inbox.assert_silent("so long is not waited").await;
}

/// Answers every GET of an hour, and counts them.
async fn gets_in_an_hour(mut answer: impl AsyncFnMut(Arrived)) -> usize {
    let mut client = Client::in_session().await;
    let _listening = client.listen();
    let end = Instant::now() + HOUR + millis(1);
    let mut count = 0;
    while let Ok(get) = tokio::time::timeout_at(end, client.inbox.next()).await {
        count += 1;
        answer(get).await;
    }
    count
}

#[tokio::test(start_paused = true)]
async fn a_server_that_never_accepts_one_has_to_bear_five_gets_in_an_hour() {
    let busy = gets_in_an_hour(async |get| get.status(503).await).await;
    assert_eq!(busy, 5, "the attempts of the policy");
    let refused = gets_in_an_hour(async |get| get.fail(NotSent("refused".into()))).await;
    assert_eq!(refused, 5, "the attempts of the policy");
}

#[tokio::test(start_paused = true)]
async fn a_longer_wait_than_allowed_is_cut_to_the_longest() {
    let mut client = Client::in_session().await;
    let (_listening, pen) = client.accepted("retry: 300001\n\n").await;
    drop(pen);
    let refusal = with_header(answer(503, "", ""), "retry-after", b"86400");
    client.inbox.get_after(secs(300)).await.answer(refusal).await;
    client.inbox.get_after(secs(300)).await;
}
