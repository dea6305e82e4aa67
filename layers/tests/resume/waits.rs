//! How long is waited before the GETs, and how many there are.

use mcp_streamable_http_layers::error::{GaveUp, RetryTooLong};
use mcp_streamable_http_layers::options::Deadline;
use mcp_streamable_http_layers::{Backoff, ResumeLayer};
use tokio::time::Instant;

use super::*;

const OWN: [u64; 5] = [1, 2, 4, 8, 16];

/// How a GET fails.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Failure {
    NoAnswer,
    Busy,
    Nothing,
    NothingNew,
    OnlyComments,
    Broken,
}

async fn fail(get: Arrived, how: Failure) {
    match how {
        Failure::NoAnswer => get.fail("reset"),
        Failure::Busy => get.status(503).await,
        Failure::Nothing => drop(get.stream("")),
        Failure::NothingNew => drop(get.stream("id: e1\ndata:\n\n")),
        Failure::OnlyComments => drop(get.stream(": alive\n\ndata:\n\n")),
        Failure::Broken => get.stream("").fail("reset"),
    }
}

#[tokio::test(start_paused = true)]
async fn the_waits_double_and_after_five_failed_attempts_it_is_given_up() {
    for how in [
        Failure::NoAnswer,
        Failure::Busy,
        Failure::Nothing,
        Failure::NothingNew,
        Failure::OnlyComments,
        Failure::Broken,
    ] {
        let mut client = Client::in_session().await;
        let mut call = client.interrupted().await;
        for wait in OWN {
            let get = client.inbox.get_after(secs(wait)).await;
            assert_eq!(get.last_event_id(), Some("e1"), "{how:?}");
            fail(get, how).await;
        }
        let error = call.fails_now().await;
        let gave_up = error.find::<GaveUp>().unwrap_or_else(|| panic!("{how:?}: {error}"));
        let was_refused = [Failure::NoAnswer, Failure::Busy].contains(&how);
        assert_eq!((gave_up.attempts(), gave_up.last().is_some()), (5, was_refused), "{how:?}");
        assert!(error.may_have_run() && !error.is_connect(), "{how:?}: the request was sent");
        assert_eq!(error.to_json_rpc().code(), -32000, "{how:?}");
        assert!(error.to_string().contains("5 attempts"), "{error}");
        client.inbox.assert_silent("it was given up").await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_new_event_is_progress_and_the_waits_and_attempts_begin_again() {
    for (what, progress) in [
        ("a message with a new id", event("e2", "a")),
        ("a message without an id", event("", "a")),
        ("a new id", "id: e2\ndata:\n\n".to_owned()),
    ] {
        let mut client = Client::in_session().await;
        let mut call = client.interrupted().await;
        for wait in [1, 2, 4, 8] {
            fail(client.inbox.get_after(secs(wait)).await, Failure::NoAnswer).await;
        }
        drop(client.inbox.get_after(secs(16)).await.stream(progress.clone()));
        for wait in OWN {
            fail(client.inbox.get_after(secs(wait)).await, Failure::NoAnswer).await;
        }
        if progress.contains("method") {
            assert_eq!(call.method().await, "a");
        }
        let error = call.fails_now().await;
        assert_eq!(error.find::<GaveUp>().map(GaveUp::attempts), Some(5), "{what}: {error}");
    }
}

#[tokio::test(start_paused = true)]
async fn after_a_break_the_server_s_wait_doubles_and_attempts_count() {
    for (retry, waits) in [
        (3000, [3000, 6000, 12_000, 24_000, 30_000]),
        (0, [50, 100, 200, 400, 800]),
        (60_000, [60_000; 5]),
        (300_000, [300_000; 5]),
    ] {
        let mut client = Client::in_session().await;
        let (mut call, pen) = client.open(&format!("id: e1\nretry: {retry}\ndata:\n\n")).await;
        pen.fail("reset");
        for wait in waits {
            fail(client.inbox.get_after(millis(wait)).await, Failure::Broken).await;
        }
        let error = call.fails_now().await;
        assert_eq!(error.find::<GaveUp>().map(GaveUp::attempts), Some(5), "{retry}: {error}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_last_wait_that_the_server_asked_for_counts_on_later_connections_too() {
    let mut client = Client::in_session().await;
    let (mut call, pen) = client.open("id: e1\nretry: 9000\ndata:\n\nretry: 2000\n\n").await;
    pen.fail("reset");
    fail(client.inbox.get_after(secs(2)).await, Failure::NoAnswer).await;
    let pen = client.inbox.get_after(secs(4)).await.stream("retry: 7000\nid: e2\ndata:\n\n");
    settle().await;
    pen.fail("reset");
    let _pen = client.inbox.get_after(secs(7)).await.stream(done("7"));
    call.response().await;
}

#[tokio::test(start_paused = true)]
async fn a_longer_wait_than_allowed_fails_the_request_and_is_named() {
    for breaks in [true, false] {
        let mut client = Client::in_session().await;
        let (mut call, pen) = client.open("id: e1\nretry: 300001\ndata:\n\n").await;
        if breaks {
            pen.fail("reset");
        }
        drop(pen);
        let error = call.fails_now().await;
        let asked = error.find::<RetryTooLong>().map(RetryTooLong::asked);
        assert_eq!(asked, Some(millis(300_001)), "{error}");
        assert!(error.to_string().contains("300.001s"), "{error}");
        assert!(error.to_json_rpc().code() == -32000 && error.may_have_run());
        client.inbox.assert_silent("so long is not waited").await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_asks_to_be_polled_is_polled_for_ever_and_ever_more_slowly() {
    let mut client = Client::in_session().await;
    let (mut call, pen) = client.open("id: e1\nretry: 3000\ndata:\n\n").await;
    drop(pen);
    for wait in [3, 3, 3, 3, 3, 6, 12, 24, 30, 30, 30] {
        drop(client.inbox.get_after(secs(wait)).await.stream(""));
    }
    // New ids are no messages.
    drop(client.inbox.get_after(secs(30)).await.stream("id: e2\ndata:\n\n"));
    drop(client.inbox.get_after(secs(30)).await.stream(event("e3", "a")));
    assert_eq!(call.method().await, "a");
    for wait in [3, 3, 3, 3, 3, 6] {
        drop(client.inbox.get_after(secs(wait)).await.stream(""));
    }
    let _pen = client.inbox.get_after(secs(12)).await.stream(done("7"));
    call.response().await;
}

#[tokio::test(start_paused = true)]
async fn polls_that_were_asked_for_more_often_or_seldom_keep_within_the_same_rule() {
    for (retry, waits) in [
        (0, [50, 50, 50, 50, 50, 100, 200, 400, 800, 1600, 3200, 6400, 12_800, 25_600, 30_000]),
        (40_000, [40_000; 15]),
    ] {
        let mut client = Client::in_session().await;
        let (mut call, pen) = client.open(&format!("id: e1\nretry: {retry}\ndata:\n\n")).await;
        drop(pen);
        for wait in waits {
            drop(client.inbox.get_after(millis(wait)).await.stream(""));
        }
        call.assert_waiting("polls are no attempts").await;
    }
}

#[tokio::test(start_paused = true)]
async fn polls_do_not_use_up_the_attempts() {
    let mut client = Client::in_session().await;
    let (mut call, pen) = client.open("id: e1\nretry: 1000\ndata:\n\n").await;
    drop(pen);
    for wait in [1, 1, 1, 1, 1, 2, 4] {
        drop(client.inbox.get_after(secs(wait)).await.stream(""));
    }
    let get = client.inbox.get_after(secs(8)).await;
    get.fail("reset");
    for _ in 0..4 {
        client.inbox.next().await.fail("reset");
    }
    assert_eq!(call.fails_now().await.find::<GaveUp>().map(GaveUp::attempts), Some(5));
}

#[tokio::test(start_paused = true)]
async fn the_caller_s_deadline_ends_the_polling() {
    let mut client = Client::in_session().await;
    let mut call = client.call(tool(7).with(Deadline::within(secs(10))));
    let start = Instant::now();
    drop(client.inbox.next().await.stream("id: e1\nretry: 3000\ndata:\n\n"));
    for _ in 0..3 {
        drop(client.inbox.get_after(secs(3)).await.stream(""));
    }
    let error = call.failure().await;
    assert!(error.is_timeout() && start.elapsed() == secs(10), "{error}");
    client.inbox.assert_silent("the caller no longer waits").await;
}

#[tokio::test(start_paused = true)]
async fn without_attempts_nothing_is_resumed() {
    for text in ["id: e1\ndata:\n\n", "id: e1\nretry: 1000\ndata:\n\n"] {
        let with = |session| ResumeLayer::new(endpoint(), session, plain().attempts(0));
        let mut client = Client::with(with).begun().await;
        let (mut call, pen) = client.open(text).await;
        drop(pen);
        let error = call.fails_now().await;
        assert!(error.may_have_run() && error.to_json_rpc().code() == -32000, "{error}");
        client.inbox.assert_silent("it is turned off").await;
    }
}

#[tokio::test(start_paused = true)]
async fn every_number_of_the_policy_can_be_set() {
    let backoff = plain().base(millis(300)).max_wait(millis(1000)).attempts(4).max_retry(secs(20));
    let with = |session| ResumeLayer::new(endpoint(), session, backoff.min_retry(millis(500)).quick_polls(2));
    let mut client = Client::with(with).begun().await;
    let mut call = client.interrupted().await;
    for wait in [300, 600, 1000, 1000] {
        fail(client.inbox.get_after(millis(wait)).await, Failure::NoAnswer).await;
    }
    assert_eq!(call.fails_now().await.find::<GaveUp>().map(GaveUp::attempts), Some(4));

    let (mut call, pen) = client.open("id: e1\nretry: 1\ndata:\n\n").await;
    drop(pen);
    for wait in [500, 500, 1000, 1000] {
        drop(client.inbox.get_after(millis(wait)).await.stream(""));
    }
    drop(client.inbox.get_after(millis(1000)).await.stream("retry: 20001\n\n"));
    assert!(call.fails_now().await.find::<RetryTooLong>().is_some());
}

#[tokio::test(start_paused = true)]
async fn a_random_part_is_added_to_the_waits_and_bounded() {
    let (mut own, mut asked) = (Vec::new(), Vec::new());
    for seed in 0..20 {
        for (text, waits) in
            [("id: e1\ndata:\n\n", &mut own), ("id: e1\nretry: 10000\ndata:\n\n", &mut asked)]
        {
            let with = |session| ResumeLayer::new(endpoint(), session, Backoff::default().seed(seed));
            let mut client = Client::with(with).begun().await;
            let _call = client.open(text).await.0;
            let start = Instant::now();
            waits.push((client.inbox.next().await.at - start).as_millis());
        }
    }
    // The clock has milliseconds, and no timer fires early.
    assert!(own.iter().all(|wait| (1000..=1501).contains(wait)), "{own:?}");
    assert!(asked.iter().all(|wait| (10_000..=11_001).contains(wait)), "{asked:?}");
    for waits in [own, asked] {
        assert!(waits.windows(2).any(|pair| pair[0] != pair[1]), "there is no random part: {waits:?}");
    }
}
