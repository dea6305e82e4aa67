//! Repeatable requests whose connection breaks.

use mcp_streamable_http_layers::options::Idempotent;
use mcp_streamable_http_layers::{JsonRpcMessage, RequestId};
use serde_json::json;

use super::*;

/// The ways in which a connection breaks.
pub(crate) const BREAKS: [Way; 5] = [
    ("before the head", |sent| sent.fail("reset")),
    ("a stream, broken", |sent| sent.stream().fail("reset")),
    ("a stream, in the middle of its response", |sent| {
        let response = event(&sent.response(&json!({ "half": true })));
        sent.stream().write(response.split_at(response.len() / 2).0.to_owned());
    }),
    ("a stream, ended properly without a response", |sent| drop(sent.stream())),
    ("JSON, cut", |sent| {
        let response = sent.response(&json!({ "half": true })).to_string();
        let pen = sent.open(200, "application/json");
        pen.write(response.split_at(response.len() / 2).0.to_owned());
        pen.fail("reset");
    }),
];

#[tokio::test(start_paused = true)]
async fn it_is_sent_once_more_under_another_id_and_answered_under_its_own() {
    for (how, breaks) in BREAKS {
        let mut client = Client::new();
        let (mut call, sent) = client.send(list(7)).await;
        let first = sent.message.clone();
        assert_eq!(first["id"], 7);
        breaks(sent);
        let again = client.inbox.again(&first).await;
        assert_eq!(
            (again.header("mcp-method"), again.header("mcp-protocol-version")),
            (Some("prompts/list"), Some(MODERN))
        );
        again.result(&json!({ "prompts": [how] }));
        call.result(7, &json!({ "prompts": [how] })).await;
        client.inbox.assert_silent(how).await;
    }
}

#[tokio::test(start_paused = true)]
async fn it_is_sent_again_at_once() {
    for (how, breaks) in BREAKS {
        let mut client = Client::new();
        let (_call, sent) = client.send(list(7)).await;
        let broken = sent.at;
        breaks(sent);
        assert_eq!(client.inbox.next().await.at, broken, "{how}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_second_break_is_the_error() {
    for (first, breaks) in BREAKS {
        for (second, breaks_again) in BREAKS {
            let why = format!("{first}, then {second}");
            let mut client = Client::new();
            let (mut call, sent) = client.send(list(7)).await;
            breaks(sent);
            let again = client.inbox.next().await;
            let ours = again.message["id"].as_str().unwrap().to_owned();
            breaks_again(again);
            let error = call.failure().await;
            assert_eq!(error.to_json_rpc().code(), -32000, "{why}");
            assert!(error.may_have_run() && !error.is_timeout() && !error.is_connect(), "{why}");
            assert!(!format!("{error} {error:?}").contains(&ours), "{why}: an id that is not the caller's");
            client.inbox.assert_silent(&why).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn every_repeatable_method_is_and_what_is_marked() {
    let listed = [
        "ping",
        "server/discover",
        "tools/list",
        "prompts/list",
        "resources/list",
        "resources/templates/list",
        "resources/read",
        "prompts/get",
        "completion/complete",
        "tasks/get",
        "tasks/list",
    ];
    let listed = listed.map(|method| modern(7, method, json!({ "name": "n", "uri": "u", "taskId": "t" })));
    let marked = modern(7, "vendor/method", json!({})).with(Idempotent);
    for message in listed.into_iter().chain([marked]) {
        let why = message.to_string();
        let mut client = Client::new();
        let (mut call, sent) = client.send(message).await;
        let first = sent.message.clone();
        drop(sent.stream());
        client.inbox.again(&first).await.result(&json!({ "a": 1 }));
        call.result(7, &json!({ "a": 1 })).await;
        client.inbox.assert_silent(&why).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_tool_call_that_is_marked_is_sent_once_more() {
    for (how, breaks) in BREAKS {
        let mut client = Client::new();
        let (mut call, sent) = client.send(tool(7).with(Idempotent)).await;
        let first = sent.message.clone();
        breaks(sent);
        client.inbox.again(&first).await.result(&json!({}));
        call.result(7, &json!({})).await;
        client.inbox.assert_silent(how).await;
    }
}

#[tokio::test(start_paused = true)]
async fn the_callers_id_may_be_any() {
    for id in
        [RequestId::from("7"), RequestId::from(-7), RequestId::from(i64::MAX), RequestId::from("\"\\\u{1}ü")]
    {
        for (_, breaks) in BREAKS {
            let mut client = Client::new();
            let (mut call, sent) = client.send(list(id.clone())).await;
            breaks(sent);
            client.inbox.next().await.result(&json!({}));
            call.result(id.clone(), &json!({})).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_came_before_the_break_stays_and_what_comes_after_follows() {
    let mut client = Client::new();
    let (mut call, sent) = client.send(list(7)).await;
    let pen = sent.stream();
    pen.write(event(&progress(1)));
    assert_eq!(call.read().await, progress(1));
    pen.fail("reset");
    let again = client.inbox.next().await;
    let response = again.response(&json!({ "a": [1.0, "x"] }));
    let pen = again.stream();
    pen.write(event(&progress(2)));
    assert_eq!(call.read().await, progress(2));
    pen.write(event(&response));
    call.result(7, &json!({ "a": [1.0, "x"] })).await;
    client.inbox.assert_silent("answered").await;
}

#[tokio::test(start_paused = true)]
async fn an_error_of_the_servers_is_an_answer_to_the_second_too() {
    for (status, error) in [
        (200, r#"{"code":-32602,"message":"no","data":{ "n" : 1.0 }}"#),
        (404, r#"{"code":-32601,"message":"no"}"#),
    ] {
        for (_, breaks) in BREAKS {
            let mut client = Client::new();
            let (mut call, sent) = client.send(list("x")).await;
            breaks(sent);
            client.inbox.next().await.error(status, error);
            assert_eq!(call.response("x").await.outcome().unwrap_err().as_raw().as_str(), error);
            client.inbox.assert_silent("answered").await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_status_is_the_error_of_the_second() {
    let mut client = Client::new();
    let (mut call, sent) = client.send(list(7)).await;
    drop(sent.stream());
    client.inbox.next().await.status(500, None);
    let error = call.failure().await;
    assert_eq!(error.status().unwrap(), 500);
    assert!(error.may_have_run());
    client.inbox.assert_silent("refused").await;
}

#[tokio::test(start_paused = true)]
async fn a_response_under_another_id_is_the_response() {
    for wrong in [json!(null), json!("server-error"), json!(8), json!(1.0)] {
        let mut client = Client::new();
        let (mut call, sent) = client.send(list(7)).await;
        drop(sent.stream());
        client.inbox.next().await.json(200, &json!({ "jsonrpc": "2.0", "id": wrong, "result": { "a": 1 } }));
        call.result(7, &json!({ "a": 1 })).await;
    }
}

#[tokio::test(start_paused = true)]
async fn many_break_side_by_side_and_no_id_is_used_twice() {
    let mut client = Client::new();
    let (mut calls, mut sent) = (Vec::new(), Vec::new());
    for id in 0..50 {
        let (call, arrived) = client.send(list(id)).await;
        calls.push((id, call));
        sent.push(arrived);
    }
    for (arrived, (_, breaks)) in sent.into_iter().zip(BREAKS.into_iter().cycle()) {
        breaks(arrived);
    }
    // The inbox asserts that no id comes twice.
    for _ in 0..50 {
        client.inbox.next().await.result(&json!({}));
    }
    for (id, mut call) in calls {
        call.result(id, &json!({})).await;
    }
}

#[tokio::test(start_paused = true)]
async fn two_clients_do_not_use_the_same_ids() {
    let mut ids = Vec::new();
    for _ in 0..2 {
        let mut client = Client::new();
        let (_call, sent) = client.send(list(7)).await;
        sent.fail("reset");
        ids.push(client.inbox.next().await.message["id"].clone());
    }
    assert_ne!(ids[0], ids[1]);
}

#[tokio::test(start_paused = true)]
async fn a_request_that_names_no_version_is_of_the_connections_era() {
    let bare = || JsonRpcMessage::request(1, "ping", ());
    let mut client = Client::new();
    let (mut call, sent) = client.send(bare()).await;
    sent.fail("reset");
    assert!(call.failure().await.may_have_run());
    client.inbox.assert_silent("legacy").await;

    let mut client = Client::new();
    client.turn_modern().await;
    let (mut call, sent) = client.send(bare()).await;
    assert_eq!(sent.header("mcp-protocol-version"), Some(MODERN));
    sent.fail("reset");
    client.inbox.next().await.result(&json!({}));
    call.result(1, &json!({})).await;

    // So is one that names it in a header.
    let mut client = Client::new();
    let stamped = bare().with(extra(&[("mcp-protocol-version", MODERN)]));
    let (mut call, sent) = client.send(stamped).await;
    sent.fail("reset");
    let again = client.inbox.next().await;
    assert_eq!(again.header("mcp-protocol-version"), Some(MODERN));
    again.result(&json!({}));
    call.result(1, &json!({})).await;
}
