//! What comes on the stream, and what becomes of it over several connections.

use std::task::Poll;

use mcp_streamable_http_layers::error::{TooLarge, Undecodable};
use tokio::time::sleep;

use super::*;

#[tokio::test(start_paused = true)]
async fn a_stream_that_ends_or_breaks_is_taken_up_after_its_last_id() {
    for breaks in [true, false] {
        let mut client = Client::in_session().await;
        let (mut listening, pen) = client.accepted(&(event("e1", "a") + &event("e2", "b"))).await;
        if breaks {
            pen.fail("reset");
        }
        drop(pen);
        let get = client.inbox.get_after(secs(1)).await;
        assert_eq!((get.last_event_id(), get.header("mcp-session-id")), (Some("e2"), Some("one")));
        // What comes again is dropped.
        let _pen = get.stream(event("e2", "b") + &event("e3", "c"));
        assert_eq!(
            [listening.heard().await, listening.heard().await, listening.heard().await],
            ["a", "b", "c"]
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_without_ids_is_asked_for_whatever_comes_next() {
    for text in ["", "data:\n\n", "id: e1\ndata:\n\nid\n\n", "id: e1\ndata:\n\nid: e\u{1}2\n\n"] {
        let mut client = Client::in_session().await;
        let (_listening, pen) = client.accepted(text).await;
        drop(pen);
        assert_eq!(client.inbox.get_after(secs(1)).await.last_event_id(), None, "{text:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn once_accepted_it_is_never_given_up() {
    let mut client = Client::in_session().await;
    let (mut listening, pen) = client.accepted("").await;
    drop(pen);
    for wait in [1, 2, 4, 8, 16, 30] {
        client.inbox.get_after(secs(wait)).await.status(503).await;
    }
    for _ in 0..200 {
        client.inbox.get_after(secs(30)).await.fail("refused");
    }
    let _pen = client.inbox.get_after(secs(30)).await.stream(event("", "a"));
    assert_eq!(listening.heard().await, "a");
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_was_open_for_ten_seconds_is_progress() {
    for (open, wait) in [(9_999, 2), (10_000, 1)] {
        let mut client = Client::in_session().await;
        let (_listening, pen) = client.accepted("").await;
        drop(pen);
        let pen = client.inbox.get_after(secs(1)).await.stream("");
        sleep(millis(open)).await;
        drop(pen);
        client.inbox.get_after(secs(wait)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn how_long_a_connection_must_be_open_to_count_can_be_set() {
    let mut client = Client::in_session().await;
    let _listening = reading(client.listening(plain()).stable_after(secs(100)));
    for wait in [0, 1, 2, 4] {
        let pen = client.inbox.get_after(secs(wait)).await.stream("");
        sleep(secs(99)).await;
        drop(pen);
    }
    let pen = client.inbox.get_after(secs(8)).await.stream("");
    sleep(secs(100)).await;
    drop(pen);
    client.inbox.get_after(secs(1)).await;
}

#[tokio::test(start_paused = true)]
async fn a_message_is_progress() {
    let mut client = Client::in_session().await;
    let (_listening, pen) = client.accepted("").await;
    drop(pen);
    for wait in [1, 2, 4] {
        drop(client.inbox.get_after(secs(wait)).await.stream(""));
    }
    drop(client.inbox.get_after(secs(8)).await.stream(event("", "a")));
    client.inbox.get_after(secs(1)).await;
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_read_is_told_and_the_stream_goes_on() {
    let mut client = Client::in_session().await;
    let text = event("e1", "a") + "id: e2\ndata: {\"jsonrpc\":\n\n" + &event("", "b");
    let (mut listening, pen) = client.accepted(&text).await;
    assert_eq!(listening.heard().await, "a");
    let error = Error::new(listening.next().await.unwrap().unwrap_err());
    assert!(error.find::<Undecodable>().is_some(), "{error}");
    assert_eq!(listening.heard().await, "b");
    drop(pen);
    assert_eq!(client.inbox.get_after(secs(1)).await.last_event_id(), Some("e2"), "it would come again");
}

#[tokio::test(start_paused = true)]
async fn too_large_an_event_ends_it_without_another_get() {
    let mut client = Client::in_session().await;
    let (mut listening, pen) = client.accepted("").await;
    let line = format!("data: {}\n", "x".repeat(1 << 20));
    for _ in 0..17 {
        pen.write(line.clone());
    }
    let error = listening.fails().await;
    assert!(error.find::<TooLarge>().is_some() && error.to_string().contains("max_event_bytes"));
    client.inbox.assert_silent("it would come again").await;
}

#[tokio::test(start_paused = true)]
async fn a_response_on_the_stream_is_handed_up_as_it_is_and_ends_nothing() {
    let mut client = Client::in_session().await;
    let (mut listening, _pen) = client.accepted(&(done("\"x\"") + &event("", "a"))).await;
    let message = listening.next().await.unwrap().unwrap().message.unwrap();
    assert_eq!(message.as_response().and_then(|response| response.id()), Some(&"x".into()));
    assert_eq!(listening.heard().await, "a");
}

#[tokio::test(start_paused = true)]
async fn several_side_by_side_have_each_their_own_connection_and_position() {
    let mut client = Client::in_session().await;
    let (mut first, first_pen) = client.accepted(&event("x1", "a")).await;
    let (mut second, second_pen) = client.accepted(&event("y1", "b")).await;
    assert_eq!((first.heard().await, second.heard().await), ("a".into(), "b".into()));
    drop(second_pen);
    let get = client.inbox.get_after(secs(1)).await;
    assert_eq!(get.last_event_id(), Some("y1"));
    let _pen = get.stream(event("x1", "not a duplicate here"));
    assert_eq!(second.heard().await, "not a duplicate here");
    drop(first_pen);
    assert_eq!(client.inbox.get_after(secs(1)).await.last_event_id(), Some("x1"));
    second.drop_it().await;
    first.assert_waiting("it is its own").await;
}

#[tokio::test(start_paused = true)]
async fn dropping_it_ends_everything() {
    let mut client = Client::in_session().await;
    let (listening, pen) = client.accepted("id: e1\ndata:\n\n").await;
    listening.drop_it().await;
    assert!(pen.watch().is_dropped());
    client.inbox.assert_silent("dropped while it was read").await;

    let (listening, pen) = client.accepted("id: e1\ndata:\n\n").await;
    drop(pen);
    settle().await;
    listening.drop_it().await;
    client.inbox.assert_silent("dropped during the wait").await;

    let listening = client.listen();
    let get = client.inbox.get_after(secs(0)).await;
    listening.drop_it().await;
    assert!(get.is_dropped());
    client.inbox.assert_silent("dropped while it was opened").await;
}

#[tokio::test(start_paused = true)]
async fn after_its_end_it_gives_nothing_and_sends_nothing() {
    let mut client = Client::in_session().await;
    client.end().await;
    let mut listening = by_hand(client.listening(plain()));
    assert!(matches!(listening.poll_next(), Poll::Ready(Some(Err(_)))));
    client.begin("two").await;
    for _ in 0..3 {
        assert!(matches!(listening.poll_next(), Poll::Ready(None)));
    }
    client.inbox.assert_silent("it has ended").await;
}

#[tokio::test(start_paused = true)]
async fn a_hundred_thousand_duplicates_at_once_let_other_tasks_have_their_turn() {
    const COUNT: usize = 100_000;
    let mut client = Client::in_session().await;
    let mut listening = by_hand(client.listening(plain()));
    assert!(listening.poll_next().is_pending());
    drop(client.inbox.next().await.stream(event("e1", "a")));
    assert!(matches!(listening.poll_next(), Poll::Ready(Some(Ok(_)))));
    assert!(listening.poll_next().is_pending());
    tokio::time::advance(secs(1)).await;
    assert!(listening.poll_next().is_pending());
    let _pen = client.inbox.next().await.stream(event("e1", "a").repeat(COUNT) + &event("e2", "b"));
    for turns in 0..=COUNT {
        match listening.poll_next() {
            Poll::Pending => assert!(listening.is_woken(), "it would never go on"),
            Poll::Ready(item) => {
                assert_eq!(item.unwrap().unwrap().id.as_deref(), Some("e2"));
                assert!(turns >= COUNT / 1000, "{turns} turns");
                return;
            }
        }
    }
    panic!("it does not come to an end");
}
