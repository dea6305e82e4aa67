//! What servers answer that is no result.

use mcp_streamable_http::error::{EndedStream, TooLarge, UnexpectedContent};
use rmcp::service::ServiceError;
use serde_json::{Value, json};

use crate::common::*;
use crate::support::Answer;

const JSON: &str = "application/json";

#[tokio::test(start_paused = true)]
async fn an_error_of_the_server_keeps_its_code_and_data() {
    let mut server = either();
    let client = connect(&server).await;
    for (status, id) in
        [(200, None), (400, None), (500, None), (400, Some(Value::Null)), (400, Some("x".into()))]
    {
        let calling = call(&client, "add");
        let tool = server.expect("tools/call").await;
        let mut answer = refusal(&tool.seen, -32099, json!({ "a": [1.50] }));
        if let Some(id) = id {
            answer["id"] = id;
        }
        tool.answer(Answer::of(status, JSON, answer.to_string()));
        let error = server_error(came_to(calling).await.unwrap_err());
        assert_eq!((error.code.0, &*error.message), (-32099, "no"));
        assert_eq!(error.data.unwrap(), json!({ "a": [1.50] }));
    }
}

#[tokio::test(start_paused = true)]
async fn an_error_without_an_id_on_its_stream_is_the_answer() {
    let mut server = either();
    let client = connect(&server).await;
    let calling = call(&client, "add");
    let events = server.expect("tools/call").await.open();
    events.send(&json!({ "jsonrpc": "2.0", "error": { "code": -32700, "message": "what?" } }));
    assert_eq!(server_error(came_to(calling).await.unwrap_err()).message, "what?");
}

#[tokio::test(start_paused = true)]
async fn a_result_under_the_id_as_text_is_the_answer() {
    let mut server = either();
    let client = connect(&server).await;
    let calling = call(&client, "add");
    let tool = server.expect("tools/call").await;
    let mut answer = tool.seen.result(said("3"));
    answer["id"] = answer["id"].to_string().into();
    tool.answer(Answer::json(&answer));
    assert_eq!(came_to(calling).await.unwrap(), "3");
}

#[tokio::test(start_paused = true)]
async fn what_is_no_answer_fails_its_call_alone() {
    let mut server = either();
    let client = connect(&server).await;
    let other = call(&client, "other");
    let held = server.expect("tools/call").await;
    let answers = [
        (Answer::status(500), Some(500)),
        (Answer::status(429), Some(429)),
        (Answer::of(400, "text/plain", "what?"), Some(400)),
        (Answer::of(200, JSON, "{}"), Some(200)),
        (Answer::of(200, JSON, "{"), Some(200)),
        (Answer::of(200, JSON, ""), Some(200)),
        (Answer::of(200, "text/html", "<html>"), Some(200)),
        (Answer::status(202), Some(202)),
        (Answer::status(302), Some(302)),
        (Answer::broken(), None),
    ];
    for (answer, status) in answers {
        let calling = call(&client, "add");
        server.expect("tools/call").await.answer(answer);
        let error = came_to(calling).await.unwrap_err();
        assert_eq!(cause(&error).status().map(|status| status.as_u16()), status, "{error}");
        assert!(matches!(error, ServiceError::TransportSend(_)));
    }
    held.result(said("still here"));
    assert_eq!(came_to(other).await.unwrap(), "still here");
}

#[tokio::test(start_paused = true)]
async fn its_beginning_is_in_the_error() {
    let mut server = either();
    let client = connect(&server).await;
    let calling = call(&client, "add");
    server.expect("tools/call").await.answer(Answer::of(200, "text/html", "<html>a login page"));
    let error = came_to(calling).await.unwrap_err();
    assert!(error.to_string().contains("a login page"), "{error}");
    assert!(cause(&error).find::<UnexpectedContent>().is_some());
}

#[tokio::test(start_paused = true)]
async fn what_is_too_large_fails() {
    let mut server = either();
    let client = connect(&server).await;
    let calling = call(&client, "add");
    server.expect("tools/call").await.answer(Answer::of(200, JSON, vec![b' '; 65 << 20]));
    assert!(cause(&came_to(calling).await.unwrap_err()).find::<TooLarge>().is_some());
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_ends_early_says_that_the_call_may_have_run() {
    let mut server = either();
    let client = connect(&server).await;
    for has_begun in [false, true] {
        let calling = call(&client, "add");
        let events = server.expect("tools/call").await.open();
        if has_begun {
            events.send(&log());
            settle().await;
        }
        drop(events);
        let error = came_to(calling).await.unwrap_err();
        assert!(cause(&error).find::<EndedStream>().is_some() && cause(&error).may_have_run(), "{error:?}");
    }
}
