//! Whether the stream is opened, and what the first answers mean.

use http::HeaderValue;
use mcp_streamable_http_layers::error::{NotOffered, UnexpectedStatus};

use super::*;

#[tokio::test(start_paused = true)]
async fn it_is_opened_in_the_session_when_it_is_first_read() {
    let mut client = Client::in_session().await;
    let listening = client.listening(plain());
    client.inbox.assert_silent("nobody reads it").await;
    let mut listening = reading(listening);
    let get = client.inbox.get_after(secs(0)).await;
    assert_eq!((get.header("mcp-session-id"), get.last_event_id()), (Some("one"), None));
    assert_eq!(get.header("mcp-protocol-version"), Some(LEGACY));
    assert_eq!(get.header("accept"), Some("text/event-stream"));
    assert!(get.message.is_null());
    // A server may send the head with the first event, an hour later.
    tokio::time::sleep(HOUR).await;
    let _pen = get.stream(event("", "a"));
    assert_eq!(listening.heard().await, "a");
}

#[tokio::test(start_paused = true)]
async fn without_a_session_or_in_the_modern_era_nothing_is_sent() {
    let assert_not_offered = async |client: &mut Client| {
        let error = client.listen().fails().await;
        assert_eq!(error.find::<NotOffered>().map(NotOffered::status), Some(None), "{error}");
        assert!(!error.may_have_run());
        client.inbox.assert_empty("a GET was sent");
    };
    let mut client = Client::new();
    assert_not_offered(&mut client).await;

    client.begin("one").await;
    client.end().await;
    assert_not_offered(&mut client).await;

    client.begin("two").await;
    let _call = client.call(versioned("ping", MODERN));
    drop(client.inbox.next().await);
    assert_not_offered(&mut client).await;
    // Nor if it may listen without a session.
    let error = reading(client.listening(plain()).needs_session(false)).fails().await;
    assert!(error.find::<NotOffered>().is_some());
    client.inbox.assert_empty("a GET was sent");
}

#[tokio::test(start_paused = true)]
async fn it_may_listen_without_a_session_if_told_to() {
    let mut client = Client::new();
    let mut listening = reading(client.listening(plain()).needs_session(false));
    let get = client.inbox.get_after(secs(0)).await;
    assert_eq!(get.header("mcp-session-id"), None);
    drop(get.stream(event("e1", "a")));
    assert_eq!(listening.heard().await, "a");
    assert_eq!(client.inbox.get_after(secs(1)).await.last_event_id(), Some("e1"));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_does_not_offer_it_is_asked_once() {
    let statuses = [400, 401, 402, 403, 404, 405, 406, 410, 415, 422, 451];
    let refused = statuses.map(|status| (status, "", ""));
    let content = [
        (200, "text/plain", "hello"),
        (200, "application/json", "{}"),
        (200, "text/html", "<p>"),
        (200, "", ""),
        (202, "", ""),
        (204, "", ""),
    ];
    for (status, content_type, body) in refused.into_iter().chain(content) {
        let mut client = Client::in_session().await;
        let mut listening = client.listen();
        client.inbox.get_after(secs(0)).await.answer(answer(status, content_type, body)).await;
        let error = listening.fails().await;
        let found = error.find::<NotOffered>().and_then(NotOffered::status);
        assert_eq!(found.map(|status| status.as_u16()), Some(status), "{content_type}: {error}");
        client.inbox.assert_silent("it is not offered").await;
        assert_eq!(client.id().unwrap(), "one", "{status}: nothing else is affected");
    }
}

#[tokio::test(start_paused = true)]
async fn a_challenge_reaches_the_listener() {
    for status in [401, 403] {
        let mut client = Client::in_session().await;
        let mut listening = client.listen();
        let refusal = with_header(answer(status, "", ""), "www-authenticate", b"Bearer");
        client.inbox.get_after(secs(0)).await.answer(refusal).await;
        let error = listening.fails().await;
        assert!(error.find::<NotOffered>().is_none() && error.find::<UnexpectedStatus>().is_some());
        assert_eq!(error.status().map(|status| status.as_u16()), Some(status));
        assert_eq!(error.challenges(), [HeaderValue::from_static("Bearer")]);
        client.inbox.assert_silent("credentials are somebody else's business").await;
    }
}

#[tokio::test(start_paused = true)]
async fn redirects_that_nobody_follows_end_it() {
    for status in [301, 307] {
        let mut client = Client::in_session().await;
        let mut listening = client.listen();
        client.inbox.get_after(secs(0)).await.status(status).await;
        assert_eq!(listening.fails().await.status().map(|status| status.as_u16()), Some(status));
        client.inbox.assert_silent("the next would be redirected too").await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_stops_offering_it_is_asked_no_more() {
    let mut client = Client::in_session().await;
    let (mut listening, pen) = client.accepted("").await;
    drop(pen);
    client.inbox.get_after(secs(1)).await.status(405).await;
    let error = listening.fails().await;
    assert_eq!(error.status().map(|status| status.as_u16()), Some(405), "{error}");
    client.inbox.assert_silent("it is no longer offered").await;
}
