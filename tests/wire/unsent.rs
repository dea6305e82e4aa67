//! What is known of a request whose connection broke.

use futures_util::future::join_all;
use serde_json::json;

use crate::common::*;
use crate::support::mcp::result;
use crate::support::{Answer, Gate, Request, Server};

fn pong(request: &Request) -> Answer {
    Answer::json(200, result(request, json!({})))
}

/// Answers `ping`, and all else with `answer`.
async fn server(answer: impl Fn(&Request) -> Answer + Send + Sync + 'static) -> Server {
    Server::start(move |request| match request.rpc_method() {
        Some("ping") => pong(request),
        _ => answer(request),
    })
    .await
}

#[tokio::test]
async fn a_reset_after_the_request_was_read_is_not_unsent() {
    let server = server(|_| Answer::raw_response("").reset()).await;
    let transport = transport(server.url(), plain());
    // On a connection of its own, and then on one that was used before.
    assert_may_have_run(&fails(&transport, call(1)).await);
    works(&transport, ping(2)).await;
    let error = fails(&transport, call(3)).await;
    assert_may_have_run(&error);
    assert!(!error.is_timeout(), "{error:?}");
    let requests = server.requests();
    // Nothing was sent twice.
    assert_eq!(requests.iter().filter(|request| request.rpc_method() != Some("ping")).count(), 2);
    assert_eq!(requests[1].connection, requests[2].connection);
}

#[tokio::test]
async fn a_close_after_the_request_was_read_is_not_unsent() {
    let server = server(|_| Answer::raw_response("").close()).await;
    let transport = transport(server.url(), plain());
    works(&transport, ping(1)).await;
    assert_may_have_run(&fails(&transport, call(2)).await);
    works(&transport, ping(3)).await;
    assert_eq!(server.requests().len(), 3);
}

#[tokio::test]
async fn a_break_within_the_head_is_not_unsent() {
    for cut in ["HTTP/1.1 2", "HTTP/1.1 200 OK\r\ncontent-type: app"] {
        let server = server(move |_| Answer::raw_response(cut).close()).await;
        let transport = transport(server.url(), plain());
        assert_may_have_run(&fails(&transport, call(1)).await);
        works(&transport, ping(2)).await;
    }
}

#[tokio::test]
async fn a_break_within_the_body_is_not_unsent() {
    let gate = Gate::new();
    let held = gate.clone();
    let server = server(move |request| match request.rpc_id() == 1 {
        true => Answer::sse().event(progress()).wait(&held).reset(),
        false => Answer::json(200, result(request, json!({}))).content_length(1000).close(),
    })
    .await;
    let transport = transport(server.url(), plain());
    let reply = open(&transport, call(1)).await;
    gate.open();
    assert_may_have_run(&soon(reply.response()).await.unwrap_err());
    assert_may_have_run(&fails(&transport, call(2)).await);
    works(&transport, ping(3)).await;
}

#[tokio::test]
async fn an_answer_that_is_no_http_is_not_unsent() {
    let server = server(|_| Answer::raw_response("SSH-2.0-OpenSSH_9.6\r\n").close()).await;
    let transport = transport(server.url(), plain());
    assert_may_have_run(&fails(&transport, call(1)).await);
}

#[tokio::test]
async fn a_server_that_goes_away_fails_what_it_had_read_and_refuses_the_rest() {
    let mut server = server(|_| Answer::raw_response("").hang()).await;
    let transport = transport(server.url(), plain());
    let calls = join_all((0..10).map(|id| fails(&transport, call(id))));
    let gone = async {
        server.wait_for(10).await;
        server.shutdown().await;
    };
    let (errors, ()) = tokio::join!(calls, gone);
    errors.iter().for_each(assert_may_have_run);
    for error in join_all((0..10).map(|id| fails(&transport, ping(id)))).await {
        assert_not_sent(&error);
    }
}
