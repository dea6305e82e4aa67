//! Sessions that come and go under the stream.

use mcp_streamable_http_layers::error::SessionExpired;

use super::*;

#[tokio::test(start_paused = true)]
async fn in_another_session_the_old_get_is_closed_and_then_it_is_opened_anew() {
    let mut client = Client::in_session().await;
    let (mut listening, pen) = client.accepted("id: e1\nretry: 9000\ndata:\n\n").await;
    client.begin("two").await;
    let get = client.inbox.get_after(secs(0)).await;
    assert!(pen.watch().is_dropped(), "the old one is closed before");
    assert_eq!((get.header("mcp-session-id"), get.last_event_id()), (Some("two"), None));
    let pen = get.stream(event("e1", "no duplicate: ids begin anew"));
    assert_eq!(listening.heard().await, "no duplicate: ids begin anew");
    drop(pen);
    // Nor does the wait count that was asked for in the old one.
    let get = client.inbox.get_after(secs(1)).await;
    assert_eq!((get.header("mcp-session-id"), get.last_event_id()), (Some("two"), Some("e1")));
}

#[tokio::test(start_paused = true)]
async fn it_is_opened_anew_from_the_wait_and_from_an_unanswered_get_too() {
    for is_waiting in [true, false] {
        let mut client = Client::in_session().await;
        let (_listening, pen) = client.accepted("id: e1\ndata:\n\n").await;
        drop(pen);
        let unanswered = match is_waiting {
            true => None,
            false => Some(client.inbox.get_after(secs(1)).await),
        };
        // Those who renew a session replace it in one step.
        let saved = client.save().unwrap();
        let stored = serde_json::to_string(&saved).unwrap().replace("\"one\"", "\"two\"");
        client.restore(serde_json::from_str(&stored).unwrap());
        let get = client.inbox.get_after(secs(0)).await;
        assert_eq!((get.header("mcp-session-id"), get.last_event_id()), (Some("two"), None));
        assert!(unanswered.is_none_or(|get| get.is_dropped()), "two GETs at a time");
    }
}

#[tokio::test(start_paused = true)]
async fn every_one_of_several_sessions_gets_a_stream_of_its_own() {
    let mut client = Client::in_session().await;
    let (mut listening, mut pen) = client.accepted("").await;
    for id in ["two", "three", "four"] {
        client.begin(id).await;
        let get = client.inbox.get_after(secs(0)).await;
        assert!(pen.watch().is_dropped(), "{id}");
        assert_eq!(get.header("mcp-session-id"), Some(id));
        pen = get.stream(event("", id));
        assert_eq!(listening.heard().await, id);
    }
}

#[tokio::test(start_paused = true)]
async fn side_by_side_all_of_them_move_to_the_new_session() {
    let mut client = Client::in_session().await;
    let (_first, _first_pen) = client.accepted("").await;
    let (_second, _second_pen) = client.accepted("").await;
    client.begin("two").await;
    let mut pens = Vec::new();
    for _ in 0..2 {
        let get = client.inbox.get_after(secs(0)).await;
        assert_eq!(get.header("mcp-session-id"), Some("two"));
        pens.push(get.stream(""));
    }
    client.inbox.assert_silent("one each").await;
}

#[tokio::test(start_paused = true)]
async fn when_the_session_is_ended_it_ends_with_its_stream() {
    for breaks in [true, false] {
        let mut client = Client::in_session().await;
        let (mut listening, pen) = client.accepted("id: e1\ndata:\n\n").await;
        client.end().await;
        if breaks {
            pen.fail("reset");
        }
        drop(pen);
        while let Some(item) = listening.next().await {
            assert!(item.unwrap().message.is_none(), "it just ends");
        }
        client.inbox.assert_silent("there is nothing to listen to").await;
    }
}

#[tokio::test(start_paused = true)]
async fn when_the_session_is_ended_during_the_wait_or_the_opening_it_ends_at_once() {
    for is_waiting in [true, false] {
        let mut client = Client::in_session().await;
        let (mut listening, pen) = client.accepted("id: e1\ndata:\n\n").await;
        drop(pen);
        let unanswered = match is_waiting {
            true => None,
            false => Some(client.inbox.get_after(secs(1)).await),
        };
        settle().await;
        client.end().await;
        while let Some(item) = listening.next().await {
            assert!(item.unwrap().message.is_none(), "it just ends");
        }
        assert!(unanswered.is_none_or(|get| get.is_dropped()));
        client.inbox.assert_silent("there is nothing to listen to").await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_session_that_the_server_no_longer_knows_ends_it_without_another_get() {
    let mut client = Client::in_session().await;
    let (mut listening, pen) = client.accepted("id: e1\ndata:\n\n").await;
    drop(pen);
    // A GET was accepted in this session, so this is no "not offered".
    client.inbox.get_after(secs(1)).await.status(404).await;
    let error = listening.fails().await;
    assert!(error.find::<SessionExpired>().is_some() && client.is_expired(), "{error}");
    client.inbox.assert_silent("there is no session").await;
}

#[tokio::test(start_paused = true)]
async fn the_stream_of_a_session_that_has_expired_is_read_until_there_is_another() {
    let mut client = Client::in_session().await;
    let (mut listening, pen) = client.accepted("").await;
    client.expire().await;
    tokio::time::sleep(HOUR / 2).await;
    pen.write(event("", "still there"));
    assert_eq!(listening.heard().await, "still there");
    client.begin("two").await;
    let get = client.inbox.get_after(secs(0)).await;
    assert!(pen.watch().is_dropped());
    assert_eq!(get.header("mcp-session-id"), Some("two"));
}
