//! Events that a server sends again, and the end of a stream.

use std::task::Poll;

use mcp_streamable_http_layers::JsonRpcMessage;
use mcp_streamable_http_layers::options::WireId;
use tokio_test::{assert_ready, task};
use tower::ServiceExt;

use super::*;

#[tokio::test(start_paused = true)]
async fn an_event_that_was_delivered_before_is_dropped_when_it_comes_again() {
    let mut client = Client::in_session().await;
    let (mut call, pen) = client.open(&(event("e1", "a") + &event("e2", "b"))).await;
    drop(pen);
    // A server that begins too early, and then sends one of them once more.
    let text = [event("e1", "a"), event("e2", "b"), event("e3", "c"), event("e1", "a"), done("7")].concat();
    let _pen = client.inbox.get_after(secs(1)).await.stream(text);
    assert_eq!([call.method().await, call.method().await, call.method().await], ["a", "b", "c"]);
    call.response().await;
}

#[tokio::test(start_paused = true)]
async fn a_duplicate_still_says_where_the_stream_is() {
    let mut client = Client::in_session().await;
    let (_call, pen) = client.open(&(event("e1", "a") + &event("e2", "b"))).await;
    drop(pen);
    drop(client.inbox.get_after(secs(1)).await.stream("id: e1\nretry: 4000\ndata:\n\n"));
    assert_eq!(client.inbox.get_after(secs(4)).await.last_event_id(), Some("e1"));
}

#[tokio::test(start_paused = true)]
async fn on_the_first_connection_nothing_is_a_duplicate() {
    let mut client = Client::in_session().await;
    let text = [event("same", "a"), event("same", "b"), done("7")].concat();
    let (mut call, _pen) = client.open(&text).await;
    assert_eq!([call.method().await, call.method().await], ["a", "b"]);
    call.response().await;
}

#[tokio::test(start_paused = true)]
async fn an_event_without_an_id_of_its_own_is_no_duplicate() {
    let mut client = Client::in_session().await;
    let (mut call, pen) = client.open(&event("e1", "a")).await;
    drop(pen);
    // The last id is still e1 when the second event comes, but it is not the event's own.
    let text = [event("e1", "a"), event("", "b"), event("", "b")].concat();
    let _pen = client.inbox.get_after(secs(1)).await.stream(text);
    assert_eq!([call.method().await, call.method().await, call.method().await], ["a", "b", "b"]);
    call.assert_waiting("nothing else").await;
}

#[tokio::test(start_paused = true)]
async fn a_response_is_never_a_duplicate() {
    let mut client = Client::in_session().await;
    let mut call = client.interrupted().await;
    let _pen = client.inbox.get_after(secs(1)).await.stream(format!("id: e1\n{}", done("7")));
    call.response().await;
}

#[tokio::test(start_paused = true)]
async fn the_last_1024_events_are_known_again_and_no_more() {
    let mut client = Client::in_session().await;
    let text: String = (0..=1024).map(|n| event(&format!("e{n}"), "first")).collect();
    let (mut call, pen) = client.open(&text).await;
    for _ in 0..=1024 {
        assert_eq!(call.method().await, "first");
    }
    drop(pen);
    let text = [event("e1", "kept"), event("e1024", "kept"), event("e0", "forgotten"), done("7")].concat();
    let _pen = client.inbox.get_after(secs(1)).await.stream(text);
    assert_eq!(call.method().await, "forgotten");
    call.response().await;
}

#[tokio::test(start_paused = true)]
async fn the_response_gets_the_id_of_the_request_whatever_it_had_on_the_wire() {
    for (wire, noted) in [
        ("7", None),
        ("\"7\"", Some(Some("7".into()))),
        ("null", Some(None)),
        ("99", Some(Some(99.into()))),
        ("\"resumed-1\"", Some(Some("resumed-1".into()))),
    ] {
        let mut client = Client::in_session().await;
        let mut call = client.interrupted().await;
        let _pen = client.inbox.get_after(secs(1)).await.stream(done(wire));
        let response = call.response().await;
        assert_eq!(response.id(), Some(&7.into()), "{wire}");
        assert_eq!(response.extensions().get::<WireId>().cloned(), noted.map(WireId), "{wire}");
    }
}

#[tokio::test(start_paused = true)]
async fn after_the_response_nothing_more_is_sent_or_read() {
    for resumed in [false, true] {
        let mut client = Client::in_session().await;
        let text =
            [event("e2", "a"), format!("id: e3\nretry: 10\n{}", done("7")), event("e4", "late")].concat();
        let (mut call, pen) = match resumed {
            false => client.open(&text).await,
            true => {
                let call = client.interrupted().await;
                (call, client.inbox.get_after(secs(1)).await.stream(text))
            }
        };
        assert_eq!(call.method().await, "a");
        call.response().await;
        assert!(call.next().await.is_none(), "the response is the end");
        client.inbox.assert_silent("it is answered").await;
        assert!(pen.watch().is_dropped(), "the server keeps it open, but nobody reads");
    }
}

#[tokio::test(start_paused = true)]
async fn events_that_are_read_after_their_end_give_nothing() {
    let mut client = Client::in_session().await;
    let posted = tokio::spawn(client.envelopes.clone().oneshot(endpoint().post(tool(7))));
    let _pen = client.inbox.next().await.stream(done("7"));
    let mut events = task::spawn(posted.await.unwrap().unwrap().into_body());
    let response = assert_ready!(events.poll_next()).unwrap().unwrap().message;
    assert!(matches!(response, Some(JsonRpcMessage::Response(_))));
    for _ in 0..3 {
        assert!(assert_ready!(events.poll_next()).is_none());
    }

    let posted = tokio::spawn(client.envelopes.clone().oneshot(endpoint().post(tool(7))));
    drop(client.inbox.next().await.stream("id: e1\nretry: 600000\n\n"));
    let items = all(posted.await.unwrap().unwrap().into_body());
    assert!(items.last().is_some_and(Result::is_err), "and after an error it ends");
}

#[tokio::test(start_paused = true)]
async fn a_hundred_thousand_duplicates_at_once_let_other_tasks_have_their_turn() {
    const COUNT: usize = 100_000;
    let mut client = Client::in_session().await;
    let posted = tokio::spawn(client.envelopes.clone().oneshot(endpoint().post(tool(7))));
    drop(client.inbox.next().await.stream(event("e1", "a")));
    let mut events = task::spawn(posted.await.unwrap().unwrap().into_body());
    // The message, then the break.
    assert!(assert_ready!(events.poll_next()).unwrap().unwrap().message.is_some());
    assert!(assert_ready!(events.poll_next()).unwrap().unwrap().message.is_none());
    assert!(events.poll_next().is_pending());
    tokio::time::advance(secs(1)).await;
    assert!(events.poll_next().is_pending());
    let _pen = client.inbox.next().await.stream(event("e1", "a").repeat(COUNT) + &done("7"));

    let (mut turns, mut messages) = (0, 0);
    loop {
        match events.poll_next() {
            Poll::Ready(Some(item)) => messages += usize::from(item.unwrap().message.is_some()),
            Poll::Ready(None) => break,
            Poll::Pending => {
                assert!(events.is_woken(), "it would never go on");
                turns += 1;
            }
        }
        assert!(turns + messages <= COUNT, "it does not end");
    }
    assert_eq!(messages, 1, "only the response is new");
    assert!(turns >= COUNT / 1000, "{turns} turns");
}
