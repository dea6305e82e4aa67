//! Servers that want other credentials.

use rmcp::service::ServiceError;
use rmcp::transport::streamable_http_client::InsufficientScopeError;
use serde_json::json;

use crate::common::*;
use crate::support::{Answer, Server, legacy};

const BEARER: &str = r#"Bearer resource_metadata="https://a.example/prm", scope="files:read""#;

fn challenged(status: u16) -> Answer {
    Answer::status(status).header("www-authenticate", "Basic realm=\"a\"").another("www-authenticate", BEARER)
}

/// The first error of this type in the chain.
fn find<E: std::error::Error + 'static>(error: &ServiceError) -> Option<&E> {
    let mut next = std::error::Error::source(error);
    while let Some(error) = next {
        if let Some(found) = error.downcast_ref() {
            return Some(found);
        }
        next = error.source();
    }
    None
}

#[tokio::test(start_paused = true)]
async fn a_call_that_needs_a_token_brings_every_challenge() {
    let mut server = either();
    let client = connect(&server).await;
    let calling = call(&client, "add");
    server.expect("tools/call").await.answer(challenged(401));
    let error = came_to(calling).await.unwrap_err();
    assert!(error.is_authorization_required());
    assert_eq!(error.auth_challenge(), Some(&*format!("Basic realm=\"a\", {BEARER}")));
    assert!(!cause(&error).may_have_run());
    assert!(!format!("{error} {error:?}").contains("files:read"), "{error:?}");

    // The next one goes on as ever.
    let calling = call(&client, "add");
    server.expect("tools/call").await.result(said("3"));
    assert_eq!(came_to(calling).await.unwrap(), "3");
}

#[tokio::test(start_paused = true)]
async fn a_call_whose_token_is_too_weak_brings_the_scope() {
    let mut server = either();
    let client = connect(&server).await;
    let calling = call(&client, "add");
    server.expect("tools/call").await.answer(challenged(403));
    let error = came_to(calling).await.unwrap_err();
    assert!(!error.is_authorization_required());
    assert!(error.auth_challenge().unwrap().ends_with(BEARER));
    let scope: &InsufficientScopeError = find(&error).unwrap();
    assert_eq!(scope.get_required_scope(), Some("files:read"));
}

#[tokio::test(start_paused = true)]
async fn without_a_challenge_it_is_a_status_like_another() {
    let mut server = either();
    let client = connect(&server).await;
    for status in [401, 403] {
        let calling = call(&client, "add");
        server.expect("tools/call").await.answer(Answer::status(status));
        let error = came_to(calling).await.unwrap_err();
        assert_eq!((error.auth_challenge(), error.is_authorization_required()), (None, false));
        assert_eq!(cause(&error).status().unwrap().as_u16(), status);

        // Unless it says what is wrong in its own words.
        let calling = call(&client, "add");
        let tool = server.expect("tools/call").await;
        let refusal = refusal(&tool.seen, -1, json!(null)).to_string();
        tool.answer(Answer::of(status, "application/json", refusal));
        assert_eq!(server_error(came_to(calling).await.unwrap_err()).message, "no");
    }
}

#[tokio::test(start_paused = true)]
async fn every_lifecycle_brings_the_challenge_and_goes_no_further() {
    use rmcp::service::ClientLifecycleMode::Initialize;
    for (lifecycle, first) in
        [(Initialize, "initialize"), (discover(), "server/discover"), (auto(), "server/discover")]
    {
        let server = Server::scripted(|_| Some(challenged(401)));
        let error = soon(discovering(&server, lifecycle)).await.unwrap_err();
        assert!(error.is_authorization_required());
        assert!(error.auth_challenge().unwrap().ends_with(BEARER));
        assert_eq!(server.outline(), [first]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_handshake_after_the_question_brings_it_too() {
    let server = Server::scripted(|seen| match seen.what() {
        "server/discover" => Some(Answer::status(404)),
        _ => Some(challenged(401)),
    });
    let error = soon(discovering(&server, auto())).await.unwrap_err();
    assert!(error.auth_challenge().unwrap().ends_with(BEARER));
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_cannot_be_taken_up_for_want_of_a_token_brings_it_too() {
    let mut server = Server::scripted(|seen| match seen.what() {
        "GET" if seen.header("last-event-id").is_some() => Some(challenged(401)),
        "GET" => Some(Answer::status(405)),
        _ => legacy(seen),
    });
    let client = connect(&server).await;
    let calling = call(&client, "add");
    let events = server.expect("tools/call").await.open();
    events.send_text("id: 1\ndata:\n\n");
    drop(events);
    let error = in_time(calling).await.unwrap().unwrap_err();
    assert!(error.is_authorization_required(), "{error:?}");
    assert!(cause(&error).may_have_run());
}
