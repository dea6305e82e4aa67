//! What its caller no longer wants is not sent again.

use mcp_streamable_http_layers::error::Superseded;
use serde_json::json;

use super::mismatch::*;
use super::subscriptions::*;
use super::*;

/// A call in a state of its own, and what it has open at the server.
struct Open {
    client: Client,
    call: Call,
    sent: Option<Arrived>,
    stream: Option<Pen>,
}

impl Open {
    fn of(client: Client, call: Call) -> Self {
        Self { client, call, sent: None, stream: None }
    }

    #[track_caller]
    fn assert_closed(&self, state: State) {
        assert!(self.sent.as_ref().is_none_or(Arrived::is_dropped), "{state:?}: the exchange is open");
        assert!(
            self.stream.as_ref().is_none_or(|pen| pen.watch().is_dropped()),
            "{state:?}: the stream is open"
        );
    }
}

#[derive(Clone, Copy, Debug)]
enum State {
    Sent,
    SentAgain,
    StreamAgain,
    Listing,
    CalledAgain,
    Subscribed,
    Waiting,
    Opening,
    Reopened,
}

const STATES: [State; 9] = [
    State::Sent,
    State::SentAgain,
    State::StreamAgain,
    State::Listing,
    State::CalledAgain,
    State::Subscribed,
    State::Waiting,
    State::Opening,
    State::Reopened,
];

impl State {
    async fn enter(self) -> Open {
        let mut client = Client::relistening();
        match self {
            Self::Sent | Self::SentAgain | Self::StreamAgain => {
                let (call, mut sent) = client.send(list(7)).await;
                if !matches!(self, Self::Sent) {
                    sent.fail("reset");
                    sent = client.inbox.next().await;
                }
                let mut open = Open::of(client, call);
                if matches!(self, Self::StreamAgain) {
                    let pen = sent.stream();
                    pen.write(event(&progress(1)));
                    open.call.message().await;
                    open.stream = Some(pen);
                } else {
                    open.sent = Some(sent);
                }
                open
            }
            Self::Listing | Self::CalledAgain => {
                let (call, _, mut sent) = client.refused().await;
                if matches!(self, Self::CalledAgain) {
                    sent.result(&tools(&[("region", "Region")]));
                    sent = client.inbox.next().await;
                }
                Open { sent: Some(sent), ..Open::of(client, call) }
            }
            Self::Subscribed | Self::Waiting | Self::Opening | Self::Reopened => {
                let (mut call, pen) = client.subscribed().await;
                if matches!(self, Self::Subscribed) {
                    return Open { stream: Some(pen), ..Open::of(client, call) };
                }
                drop(pen);
                call.assert_waiting("it waits").await;
                if matches!(self, Self::Waiting) {
                    return Open::of(client, call);
                }
                let sent = client.inbox.next().await;
                if matches!(self, Self::Opening) {
                    return Open { sent: Some(sent), ..Open::of(client, call) };
                }
                let pen = acknowledge(sent);
                call.message().await;
                Open { stream: Some(pen), ..Open::of(client, call) }
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn dropping_the_call_ends_it_whatever_it_does() {
    for state in STATES {
        let mut open = state.enter().await;
        open.call.drop_it().await;
        open.assert_closed(state);
        open.client.inbox.assert_silent(&format!("{state:?}")).await;
        assert_eq!(open.client.messages.in_flight(), 0, "{state:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_callers_cancellation_ends_it_at_once_and_is_not_posted() {
    for state in STATES {
        let mut open = state.enter().await;
        let start = tokio::time::Instant::now();
        assert!(open.client.call(cancel(7)).next().await.is_none(), "{state:?}");
        let error = open.call.failure().await;
        assert!(error.is_cancelled(), "{state:?}: {error}");
        assert_eq!(start.elapsed(), secs(0), "{state:?}");
        open.assert_closed(state);
        open.client.inbox.assert_silent(&format!("{state:?}")).await;
        assert_eq!(open.client.messages.in_flight(), 0, "{state:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn another_request_under_its_id_takes_its_place() {
    for state in STATES {
        let mut open = state.enter().await;
        let mut other = open.client.call(modern(7, "resources/list", json!({})));
        let error = open.call.failure().await;
        assert!(error.find::<Superseded>().is_some(), "{state:?}: {error}");
        open.assert_closed(state);
        // The inbox would not have the id again.
        let mut client = open.client;
        client.inbox.forget_ids();
        let sent = client.inbox.next().await;
        assert_eq!(sent.method(), "resources/list");
        sent.result(&json!({}));
        other.result(7, &json!({})).await;
        client.inbox.assert_silent(&format!("{state:?}")).await;
    }
}

#[tokio::test(start_paused = true)]
async fn the_id_of_an_attempt_is_not_the_callers_to_cancel() {
    let mut client = Client::new();
    let (mut call, sent) = client.send(list(7)).await;
    sent.fail("reset");
    let again = client.inbox.next().await;
    assert!(client.call(cancel(again.id().clone())).next().await.is_none());
    call.assert_waiting("it goes on").await;
    again.result(&json!({}));
    call.result(7, &json!({})).await;
}
