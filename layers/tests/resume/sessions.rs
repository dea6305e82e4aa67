//! Sessions that end under a stream.

use mcp_streamable_http_layers::error::SessionExpired;
use mcp_streamable_http_layers::{Error, ResumeLayer};
use tokio::time::{Instant, sleep};

use super::*;

/// How a session ends.
#[derive(Clone, Copy, Debug)]
enum End {
    Expired,
    Deleted,
    Replaced,
}

const ENDS: [End; 3] = [End::Expired, End::Deleted, End::Replaced];

impl Client {
    async fn lose_session(&mut self, how: End) {
        match how {
            End::Expired => self.expire().await,
            End::Deleted => self.end().await,
            End::Replaced => self.begin("two").await,
        }
    }
}

#[track_caller]
fn assert_expired_in_flight(error: &Error, why: End) {
    let expired = error.find::<SessionExpired>().unwrap_or_else(|| panic!("{why:?}: {error}"));
    assert!(expired.was_in_flight() && expired.status().is_none(), "{why:?}");
    assert!(error.is_session_expired() && error.may_have_run(), "{why:?}");
    assert_eq!(error.to_json_rpc().code(), -32600, "{why:?}");
}

#[tokio::test(start_paused = true)]
async fn a_session_that_ends_during_the_wait_fails_the_request_at_once_and_without_a_get() {
    for how in ENDS {
        let mut client = Client::in_session().await;
        let mut call = client.interrupted().await;
        call.assert_waiting("there is a second to wait").await;
        client.lose_session(how).await;
        assert_expired_in_flight(&call.fails_now().await, how);
        client.inbox.assert_silent("its ids mean nothing elsewhere").await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_session_that_ends_while_the_get_is_under_way_fails_the_request_and_closes_it() {
    for how in ENDS {
        let mut client = Client::in_session().await;
        let mut call = client.interrupted().await;
        let get = client.inbox.get_after(secs(1)).await;
        client.lose_session(how).await;
        assert_expired_in_flight(&call.fails_now().await, how);
        settle().await;
        assert!(get.is_dropped(), "{how:?}");
        client.inbox.assert_silent("its ids mean nothing elsewhere").await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_open_stream_may_still_answer_shortly_after_its_session() {
    for how in ENDS {
        for resumed in [false, true] {
            let mut client = Client::in_session().await;
            let (mut call, pen) = match resumed {
                false => client.open("id: e1\ndata:\n\n").await,
                true => {
                    let call = client.interrupted().await;
                    (call, client.inbox.get_after(secs(1)).await.stream("id: e2\ndata:\n\n"))
                }
            };
            client.lose_session(how).await;
            sleep(millis(4900)).await;
            call.assert_waiting("it has five seconds").await;
            pen.write(event("e3", "late"));
            assert_eq!(call.method().await, "late", "{how:?}");
            pen.write(done("7"));
            call.response().await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_open_stream_fails_five_seconds_after_another_session_has_begun() {
    let mut client = Client::in_session().await;
    let (mut call, pen) = client.open("id: e1\ndata:\n\n").await;
    client.expire().await;
    sleep(HOUR / 2).await;
    call.assert_waiting("without another session nobody is in a hurry").await;
    client.begin("two").await;
    let start = Instant::now();
    // Talking does not prolong it.
    sleep(secs(3)).await;
    pen.write(event("e2", "late"));
    assert_eq!(call.method().await, "late");
    let error = call.failure().await;
    assert_eq!(start.elapsed(), secs(5));
    assert_expired_in_flight(&error, End::Replaced);
    assert!(pen.watch().is_dropped());
    client.inbox.assert_silent("the session is over").await;
}

#[tokio::test(start_paused = true)]
async fn how_long_it_may_still_answer_can_be_set() {
    let with = |session| ResumeLayer::new(endpoint(), session, plain()).grace(secs(60));
    let mut client = Client::with(with).begun().await;
    let (mut call, _pen) = client.open("id: e1\ndata:\n\n").await;
    client.begin("two").await;
    let start = Instant::now();
    assert_expired_in_flight(&call.failure().await, End::Replaced);
    assert_eq!(start.elapsed(), secs(60));
}

#[tokio::test(start_paused = true)]
async fn an_open_stream_of_a_session_that_is_over_is_not_resumed_when_it_ends() {
    for how in ENDS {
        for (text, breaks) in [("id: e1\ndata:\n\n", false), ("id: e1\nretry: 10\n\n", true), ("", false)] {
            let mut client = Client::in_session().await;
            let (mut call, pen) = client.open(text).await;
            client.lose_session(how).await;
            call.assert_waiting("it may still answer").await;
            if breaks {
                pen.fail("reset");
            }
            drop(pen);
            assert_expired_in_flight(&call.fails_now().await, how);
            client.inbox.assert_silent("its ids mean nothing elsewhere").await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_stream_of_the_new_session_goes_on_in_it() {
    let mut client = Client::in_session().await;
    let mut old = client.interrupted().await;
    client.begin("two").await;
    assert!(old.failure().await.is_session_expired());
    let mut call = client.interrupted().await;
    let get = client.inbox.get_after(secs(1)).await;
    assert_eq!((get.header("mcp-session-id"), get.last_event_id()), (Some("two"), Some("e1")));
    let _pen = get.stream(done("7"));
    call.response().await;
}
