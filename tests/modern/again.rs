//! Requests that are sent again, through the whole transport.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use mcp_streamable_http::options::Gap;
use mcp_streamable_http::{Backoff, Limits};
use serde_json::{Value, json};

use crate::asked::*;
use crate::common::*;
use crate::support::*;

const LISTEN: &str = "subscriptions/listen";
const CHANGED: &str = "notifications/tools/list_changed";

fn list(id: i64) -> mcp_streamable_http::JsonRpcMessage {
    stamped(id, "tools/list", json!({}))
}

fn listen(id: i64) -> mcp_streamable_http::JsonRpcMessage {
    stamped(id, LISTEN, json!({ "notifications": { "toolsListChanged": true } }))
}

/// Breaks the first connection, and answers the others.
fn breaks_once() -> Server {
    let count = AtomicUsize::new(0);
    Server::scripted(move |seen| {
        let is_first = count.fetch_add(1, Ordering::Relaxed) == 0;
        Some(if is_first { Answer::broken() } else { Answer::json(&seen.result(json!({ "tools": [] }))) })
    })
}

#[tokio::test(start_paused = true)]
async fn what_is_repeatable_is_sent_once_more_and_no_layer_adds_to_that() {
    let server = breaks_once();
    let response = ask(&plain(&server), list(1)).await.unwrap();
    assert_eq!(response.result::<Value>().unwrap(), json!({ "tools": [] }));
    assert_eq!(server.outline(), ["tools/list"; 2]);
    assert_stateless(&server.seen());
    let ids: Vec<_> = server.seen().iter().map(|seen| seen.message["id"].clone()).collect();
    assert!(ids[0] == 1 && ids[1].is_string(), "{ids:?}");

    let server = Server::scripted(|_| Some(Answer::broken()));
    let error = ask(&plain(&server), list(1)).await.unwrap_err();
    assert!(error.may_have_run());
    pass(3600).await;
    assert_eq!(server.outline(), ["tools/list"; 2]);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_repeated_if_that_is_not_wanted() {
    let server = breaks_once();
    let transport = connect(&server, "/mcp", |builder| builder.repeat_broken(false));
    assert!(ask(&transport, list(1)).await.unwrap_err().may_have_run());
    let server = breaks_once();
    assert!(ask(&plain(&server), tool(1)).await.unwrap_err().may_have_run());
    pass(3600).await;
    assert_eq!(server.outline(), ["tools/call"]);
}

#[tokio::test(start_paused = true)]
async fn a_silent_stream_is_no_broken_one() {
    let limits = Limits::default().idle_timeout(Duration::from_secs(5));
    for message in [list(1), listen(1)] {
        let mut server = Server::manual();
        let transport = connect(&server, "/mcp", |builder| builder.limits(limits).relisten(true));
        let call = tokio::spawn(async move { ask(&transport, message).await });
        let stream = server.next().await.open();
        stream.send(&progress(1));
        assert!(in_time(call).await.unwrap().unwrap_err().is_timeout());
        settle().await;
        assert!(stream.is_dropped());
        pass(3600).await;
        assert_eq!(server.seen().len(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_subscription_in_a_channel_is_opened_again_until_the_channel_closes() {
    let mut server = Server::manual();
    let backoff = Backoff::default().jitter(0.0, 0.0);
    let transport = connect(&server, "/mcp", |builder| builder.relisten(true).backoff(backoff));
    let mut channel = transport.channel();
    send(&channel.sender(), [listen(7)]);
    for opened in 0..3 {
        let asked = if opened == 0 { server.next().await } else { server.next_in_time().await };
        let ours = asked.seen.message["id"].clone();
        assert_eq!((ours == 7, asked.seen.what()), (opened == 0, LISTEN));
        let stream = asked.open();
        let params = json!({ "_meta": { "io.modelcontextprotocol/subscriptionId": ours } });
        stream.send(&json!({ "jsonrpc": "2.0", "method": CHANGED, "params": params }));
        let item = in_time(next(&mut channel)).await;
        assert_eq!(item.message.method(), Some(CHANGED));
        let params: Value = item.message.params().unwrap().to().unwrap();
        assert_eq!(params["_meta"]["io.modelcontextprotocol/subscriptionId"], 7);
        assert_eq!(item.message.extensions().get::<Gap>().is_some(), opened > 0);
    }
    in_time(channel.close()).await;
    pass(3600).await;
    assert_eq!(server.outline(), [LISTEN; 3]);
}

#[tokio::test(start_paused = true)]
async fn a_subscription_that_a_channel_cancels_is_not_opened_again() {
    let mut server = Server::manual();
    let mut channel = connect(&server, "/mcp", |builder| builder.relisten(true)).channel();
    send(&channel.sender(), [listen(7)]);
    let stream = server.next().await.open();
    stream.send(&progress(1));
    assert_eq!(step(&next(&mut channel).await), 1);
    drop(stream);
    settle().await;
    // It waits to be opened again.
    send(&channel.sender(), [cancelled(7)]);
    pass(3600).await;
    silent(&mut channel).await;
    assert_eq!(server.outline(), [LISTEN]);
}

#[tokio::test(start_paused = true)]
async fn a_call_whose_headers_do_not_match_is_sent_with_those_of_the_tool_as_it_is_now() {
    let server = Server::scripted(|seen| match seen.what() {
        "tools/list" => {
            let region = json!({ "type": "string", "x-mcp-header": "Region" });
            let tool = json!({ "name": "add", "inputSchema": { "type": "object", "properties": { "region": region } } });
            Some(Answer::json(&seen.result(json!({ "tools": [tool] }))))
        }
        _ if seen.header("mcp-param-region").is_none() => {
            Some(refused(seen, 400, &json!({ "code": -32020, "message": "Header mismatch" })))
        }
        _ => chatty(seen),
    });
    let transport = plain(&server);
    let mut channel = transport.clone().channel();
    let call = |id| stamped(id, "tools/call", json!({ "name": "add", "arguments": { "region": "eu" } }));
    send(&channel.sender(), [call(1)]);
    let item = next(&mut channel).await;
    assert_eq!((id(&item), result(&item)), (1, json!({ "a": 1 })));
    assert_eq!(server.outline(), ["tools/call", "tools/list", "tools/call"]);
    assert_stateless(&server.seen());
    // It is known from then on, to all handles.
    ask(&transport, call(2)).await.unwrap();
    assert_eq!(server.seen().len(), 4);
    assert_eq!(transport.tool_headers().len(), 1);
    silent(&mut channel).await;
}
