//! A server that would have a modern client keep state, and connections that change eras.

use futures_util::StreamExt;
use mcp_streamable_http::channel::ChannelOptions;
use mcp_streamable_http::error::NotOffered;
use mcp_streamable_http::options::ExtraHeaders;
use mcp_streamable_http::{Era, JsonRpcMessage};
use serde_json::json;

use crate::asked::*;
use crate::common::*;
use crate::support::*;

#[tokio::test(start_paused = true)]
async fn nothing_that_such_a_server_hands_out_is_given_back() {
    let server = Server::scripted(chatty);
    let transport = plain(&server);
    for id in 0..3 {
        let mut reply = post(&transport, tool(id)).await.unwrap();
        assert!(in_time(reply.next()).await.unwrap().is_ok());
        assert!(in_time(reply.next()).await.is_none());
    }
    accepted(&transport, notification("notifications/progress")).await;
    let items: Vec<_> = in_time(transport.listen().collect()).await;
    let [Err(error)] = &items[..] else { panic!("{items:?}") };
    assert!(error.find::<NotOffered>().is_some());
    in_time(transport.terminate()).await.unwrap();
    assert_eq!(transport.session().id(), None);
    assert_eq!(server.seen().len(), 4);
    assert_stateless(&server.seen());
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_breaks_is_not_resumed() {
    for id in ["id: e1\n", ""] {
        let mut server = Server::manual();
        let transport = plain(&server);
        let call = tokio::spawn(async move { ask(&transport, tool(1)).await });
        let stream = server.expect("tools/call").await.open();
        stream.send_text(format!("{id}retry: 10\ndata: {}\n\n", progress(1)));
        settle().await;
        drop(stream);
        let error = in_time(call).await.unwrap().unwrap_err();
        assert_eq!(error.to_json_rpc().code(), -32000);
        assert!(error.may_have_run());
        pass(3600).await;
        assert_eq!(server.outline(), ["tools/call"]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_channel_opens_and_ends_nothing_either() {
    let server = Server::scripted(chatty);
    let (options, told) = with_hook(ChannelOptions::default());
    let mut channel = plain(&server).channel_with(options);
    send(&channel.sender(), [tool(1)]);
    assert_eq!(id(&next(&mut channel).await), 1);
    send(&channel.sender(), [notification("notifications/progress"), response(9), tool(2)]);
    assert_eq!(id(&next(&mut channel).await), 2);
    settle().await;
    assert_eq!(told_of(&told), ["="], "a response has no place in this era");
    in_time(channel.close()).await;
    pass(3600).await;
    assert_eq!(server.outline(), ["tools/call", "notifications/progress", "tools/call"]);
    assert_stateless(&server.seen());
}

#[tokio::test(start_paused = true)]
async fn what_is_given_up_is_closed_and_nothing_is_posted() {
    let mut server = Server::manual();
    let transport = plain(&server);
    let waits = tokio::spawn({
        let transport = transport.clone();
        async move { ask(&transport, tool(1)).await }
    });
    let before_the_head = server.expect("tools/call").await;
    waits.abort();
    settle().await;
    assert!(before_the_head.is_dropped());
    let reads = tokio::spawn({
        let transport = transport.clone();
        async move { ask(&transport, tool(2)).await }
    });
    let stream = server.expect("tools/call").await.open();
    settle().await;
    accepted(&transport, cancelled(2)).await;
    assert!(in_time(reads).await.unwrap().unwrap_err().is_cancelled());
    settle().await;
    assert!(stream.is_dropped());
    accepted(&transport, cancelled(99)).await;
    pass(60).await;
    assert_eq!(server.outline(), ["tools/call", "tools/call"]);
}

#[tokio::test(start_paused = true)]
async fn a_request_of_the_servers_is_dropped() {
    let question = json!({ "jsonrpc": "2.0", "id": 1, "method": "sampling/createMessage", "params": {} });
    let server = Server::scripted(move |seen| {
        Some(Answer::events(&[question.clone(), progress(1), question.clone(), seen.result(json!({}))]))
    });
    let items: Vec<_> = in_time(post(&plain(&server), tool(1)).await.unwrap().collect()).await;
    let methods: Vec<_> = items.iter().map(|item| item.as_ref().unwrap().method().unwrap_or("=")).collect();
    assert_eq!(methods, ["notifications/progress", "="]);
    // Nor does it get an answer.
    assert_eq!(server.outline(), ["tools/call"]);
}

#[tokio::test(start_paused = true)]
async fn a_response_is_refused_before_it_is_sent() {
    let server = Server::scripted(chatty);
    let transport = plain(&server);
    ask(&transport, tool(1)).await.unwrap();
    let failed = JsonRpcMessage::error(3, mcp_streamable_http::JsonRpcError::new(-32601, "no"));
    for message in [response(1), failed] {
        let error = post(&transport, message).await.unwrap_err();
        assert!(!error.may_have_run() && error.to_json_rpc().code() == -32600, "{error}");
    }
    // Before there is an era, a header can say so.
    let fresh = plain(&server);
    let headers = ExtraHeaders(
        [("mcp-protocol-version".parse().unwrap(), MODERN.parse().unwrap())].into_iter().collect(),
    );
    assert!(!post(&fresh, response(1).with(headers)).await.unwrap_err().may_have_run());
    assert_eq!(server.outline(), ["tools/call"]);
    ask(&transport, tool(2)).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn each_message_has_the_headers_of_its_era() {
    let server = Server::scripted(|seen| match seen.what() {
        "ping" if seen.header("mcp-method").is_none() => Some(Answer::json(&seen.result(json!({})))),
        "notifications/progress" => Some(Answer::status(202)),
        _ => chatty(seen).or_else(|| legacy(seen)),
    });
    let transport = plain(&server);
    for _ in 0..2 {
        ask(&transport, tool(1)).await.unwrap();
        ask(&transport, request(2)).await.unwrap();
        accepted(&transport, notification("notifications/progress")).await;
        assert_eq!(transport.session().era(), Era::Modern);
        ask(&transport, initialize(3)).await.unwrap();
        accepted(&transport, initialized()).await;
        ask(&transport, request(4)).await.unwrap();
        assert_eq!(transport.session().era(), Era::Legacy);
        // One in between does not disturb those that name their version.
        ask(&transport, stamped(5, "tools/list", json!({}))).await.unwrap();
        let in_legacy = json!({ "_meta": { KEY: VERSION } });
        ask(&transport, JsonRpcMessage::request(6, "ping", in_legacy)).await.unwrap();
        accepted(&transport, notification("notifications/progress")).await;
    }
    let modern = |what| (what, Some(MODERN), Some(what), None);
    let legacy = |what| (what, Some(VERSION), None, Some(SESSION));
    let round = [
        modern("tools/call"),
        modern("ping"),
        modern("notifications/progress"),
        ("initialize", None, None, None),
        legacy("notifications/initialized"),
        legacy("ping"),
        modern("tools/list"),
        legacy("ping"),
        legacy("notifications/progress"),
    ];
    let requests = server.seen();
    let seen: Vec<_> = requests
        .iter()
        .map(|seen| {
            let [version, method, session] =
                ["mcp-protocol-version", "mcp-method", "mcp-session-id"].map(|name| seen.header(name));
            (seen.what(), version, method, session)
        })
        .collect();
    assert_eq!(seen[..9], round);
    assert_eq!(seen[9..], round);
    let names: Vec<_> = requests.iter().filter_map(|seen| seen.header("mcp-name")).collect();
    assert_eq!(names, ["add", "add"], "of the modern calls, and of nothing else");
    let no_meta = |seen: &Seen| seen.what() != "tools/call" || seen.message["params"]["_meta"] == meta();
    assert!(requests.iter().all(no_meta), "no message is changed");
}
