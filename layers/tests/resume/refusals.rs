//! Answers to the GET that are no stream.

use std::time::SystemTime;

use http::HeaderValue;
use mcp_streamable_http_layers::error::{
    GaveUp, NotSent, RetryTooLong, SessionExpired, UnexpectedContent, UnexpectedStatus,
};

use super::*;

#[tokio::test(start_paused = true)]
async fn what_may_pass_is_waited_out() {
    // A conflict says that the server still takes the old stream for open, so it has a longer wait.
    for (status, wait) in
        [(408, 2), (409, 5), (429, 2), (500, 2), (501, 2), (502, 2), (503, 2), (504, 2), (529, 2)]
    {
        let mut client = Client::in_session().await;
        let mut call = client.interrupted().await;
        client.inbox.get_after(secs(1)).await.status(status).await;
        let get = client.inbox.get_after(secs(wait)).await;
        assert_eq!(get.last_event_id(), Some("e1"), "{status}");
        let _pen = get.stream(done("7"));
        call.response().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_conflict_waits_no_shorter_than_any_other_failure() {
    let mut client = Client::in_session().await;
    let mut call = client.interrupted().await;
    client.inbox.get_after(secs(1)).await.status(409).await;
    for wait in [5, 5, 8, 16] {
        client.inbox.get_after(secs(wait)).await.status(409).await;
    }
    let error = call.fails_now().await;
    assert_eq!(error.status().map(|status| status.as_u16()), Some(409), "{error}");
    assert_eq!(error.to_json_rpc().code(), -32000);
}

#[tokio::test(start_paused = true)]
async fn what_cannot_heal_stops_it_at_once_with_the_status() {
    for status in [301, 302, 303, 304, 307, 308, 400, 401, 402, 403, 404, 405, 406, 410, 415, 422] {
        let mut client = Client::in_session().await;
        let mut call = client.interrupted().await;
        client.inbox.get_after(secs(1)).await.status(status).await;
        let error = call.fails_now().await;
        let gave_up = error.find::<GaveUp>().unwrap_or_else(|| panic!("{status}: {error}"));
        assert!(gave_up.last().is_some_and(|last| last.is::<UnexpectedStatus>()), "{status}");
        assert_eq!(error.status().map(|status| status.as_u16()), Some(status));
        assert!(error.may_have_run(), "{status}: it is an answer to the GET, not to the request");
        assert_eq!(error.to_json_rpc().code(), -32000, "{status}");
        assert!(error.to_string().contains(&status.to_string()), "{error}");
        assert!(!client.is_expired(), "{status}");
        client.inbox.assert_silent("it cannot heal").await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_success_that_is_no_event_stream_stops_it_at_once() {
    for (status, content_type, body) in [
        (200, "text/plain", "ok"),
        (200, "application/json", r#"{"jsonrpc":"2.0","id":7,"result":{}}"#),
        (200, "application/json", "{}"),
        (200, "text/event-streams", "data:\n\n"),
        (200, "", ""),
        (202, "", ""),
        (204, "", ""),
    ] {
        let mut client = Client::in_session().await;
        let mut call = client.interrupted().await;
        client.inbox.get_after(secs(1)).await.answer(answer(status, content_type, body)).await;
        let error = call.fails_now().await;
        let gave_up = error.find::<GaveUp>().unwrap_or_else(|| panic!("{content_type}: {error}"));
        let content = gave_up.last().and_then(|last| last.downcast_ref::<UnexpectedContent>());
        assert_eq!(content.map(|content| content.status().as_u16()), Some(status), "{content_type}");
        assert_eq!(error.to_json_rpc().code(), -32000, "{content_type}");
        client.inbox.assert_silent(content_type).await;
    }
}

#[tokio::test(start_paused = true)]
async fn the_challenges_of_a_refused_get_reach_the_caller() {
    for status in [401, 403] {
        let mut client = Client::in_session().await;
        let mut call = client.interrupted().await;
        let refusal = with_header(answer(status, "", ""), "www-authenticate", b"Bearer realm=\"a\"");
        let refusal = with_header(refusal, "www-authenticate", b"Basic");
        client.inbox.get_after(secs(1)).await.answer(refusal).await;
        let error = call.fails_now().await;
        assert_eq!(error.status().map(|status| status.as_u16()), Some(status));
        assert_eq!(error.challenges(), ["Bearer realm=\"a\"", "Basic"].map(HeaderValue::from_static));
        assert!(error.may_have_run());
        client.inbox.assert_silent("credentials are the caller's business").await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_error_in_the_body_of_a_refused_get_is_not_the_answer_to_the_request() {
    for status in [400, 404, 500] {
        let mut client = Client::in_session().await;
        let mut call = client.interrupted().await;
        let body = r#"{"jsonrpc":"2.0","id":7,"error":{"code":-32602,"message":"no such event"}}"#;
        client.inbox.get_after(secs(1)).await.answer(answer(status, "application/json", body)).await;
        if status == 500 {
            let _pen = client.inbox.get_after(secs(2)).await.stream(done("7"));
            assert!(call.response().await.outcome().is_ok());
        } else {
            let error = call.fails_now().await;
            assert!(error.find::<GaveUp>().is_some(), "{status}: {error}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_server_s_retry_after_is_waited_if_it_is_longer() {
    for status in [408, 429, 503, 500] {
        for (asked, wait) in [("20", 20), ("1", 2), ("0", 2), ("300", 300), ("soon", 2)] {
            let mut client = Client::in_session().await;
            let _call = client.interrupted().await;
            let refusal = with_header(answer(status, "", ""), "retry-after", asked.as_bytes());
            client.inbox.get_after(secs(1)).await.answer(refusal).await;
            client.inbox.get_after(secs(wait)).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_retry_after_can_be_a_date() {
    let mut client = Client::in_session().await;
    let _call = client.interrupted().await;
    let date = httpdate::fmt_http_date(SystemTime::now() + secs(100));
    let refusal = with_header(answer(503, "", ""), "retry-after", date.as_bytes());
    let get = client.inbox.get_after(secs(1)).await;
    let start = get.at;
    get.answer(refusal).await;
    let wait = client.inbox.next().await.at - start;
    // A date has no fractions of a second, and the real clock goes on.
    assert!(secs(90) < wait && wait <= secs(100), "{wait:?}");
}

#[tokio::test(start_paused = true)]
async fn a_retry_after_beyond_the_bound_fails_the_request_and_is_named() {
    for status in [429, 503] {
        let mut client = Client::in_session().await;
        let mut call = client.interrupted().await;
        let refusal = with_header(answer(status, "", ""), "retry-after", b"301");
        client.inbox.get_after(secs(1)).await.answer(refusal).await;
        let error = call.fails_now().await;
        assert_eq!(error.find::<RetryTooLong>().map(RetryTooLong::asked), Some(secs(301)), "{error}");
        assert!(error.to_string().contains("Retry-After"), "{error}");
        assert!(error.may_have_run() && error.to_json_rpc().code() == -32000);
        client.inbox.assert_silent("so long is not waited").await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_get_that_could_not_be_sent_does_not_mean_that_the_request_was_not() {
    let mut client = Client::in_session().await;
    let mut call = client.interrupted().await;
    for wait in [1, 2, 4, 8, 16] {
        let refused = std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
        client.inbox.get_after(secs(wait)).await.fail(NotSent(refused.into()));
    }
    let error = call.fails_now().await;
    assert!(error.may_have_run() && !error.is_connect(), "{error}");
    let last = error.find::<GaveUp>().and_then(GaveUp::last).unwrap();
    assert!(last.is::<NotSent>());
}

#[tokio::test(start_paused = true)]
async fn a_404_ends_the_session_only_where_a_get_was_accepted_before() {
    let mut client = Client::in_session().await;
    let mut call = client.interrupted().await;
    client.inbox.get_after(secs(1)).await.status(404).await;
    assert!(call.fails_now().await.find::<GaveUp>().is_some());
    assert!(!client.is_expired(), "it may just offer no GET");

    let mut call = client.interrupted().await;
    drop(client.inbox.get_after(secs(1)).await.stream("id: e2\ndata:\n\n"));
    client.inbox.get_after(secs(1)).await.status(404).await;
    let error = call.fails_now().await;
    assert!(client.is_expired());
    assert!(error.find::<SessionExpired>().is_some_and(SessionExpired::was_in_flight), "{error}");
    assert!(error.may_have_run());
    client.inbox.assert_silent("there is no session to resume in").await;
}
