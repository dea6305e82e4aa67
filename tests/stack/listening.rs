//! The listening GET.

use futures_util::FutureExt;
use mcp_streamable_http::error::{BrokenStream, NotOffered, TooLarge};
use mcp_streamable_http::{JsonRpcMessage, Limits, StreamableHttp};
use serde_json::json;

use crate::common::*;
use crate::support::mcp::{SESSION, VERSION, legacy_handshake, result};
use crate::support::{Answer, Gate, Request, Server};

/// A transport inside a session of a server that answers GET with `answer`.
async fn listening(answer: impl Fn(&Request) -> Answer + Send + Sync + 'static) -> (Server, StreamableHttp) {
    let server = server(move |request| match request.method.as_str() {
        "GET" => answer(request),
        _ => legacy_handshake(request).unwrap(),
    })
    .await;
    let limits = Limits::default().max_event_bytes(2000);
    let transport = StreamableHttp::builder(server.url()).limits(limits).build().unwrap();
    handshake(&transport).await;
    (server, transport)
}

fn gets(server: &Server) -> Vec<Request> {
    server.requests().into_iter().filter(|request| request.method == "GET").collect()
}

#[tokio::test]
async fn it_connects_when_it_is_polled() {
    let (server, transport) = listening(|_| Answer::sse().event(progress(1)).hang()).await;
    let mut listening = transport.listen();
    ping_works(&transport).await;
    assert!(gets(&server).is_empty());

    assert_eq!(step_of(&next_message(&mut listening).await), 1);
    let [get] = &gets(&server)[..] else { panic!("one GET") };
    assert_eq!(get.header("accept"), Some("text/event-stream"));
    assert_eq!(get.header("mcp-session-id"), Some(SESSION));
    assert_eq!(get.header("mcp-protocol-version"), Some(VERSION));
    assert_eq!((get.header("last-event-id"), get.header("content-type"), get.body.len()), (None, None, 0));
}

#[tokio::test]
async fn messages_are_yielded_as_they_come_until_the_server_ends_the_stream() {
    let gate = Gate::new();
    let answer = gate.clone();
    let (_server, transport) = listening(move |_| {
        Answer::sse()
            .raw("id: 0\ndata:\n\n: hi\n\n")
            .event_with("1", progress(1))
            .wait(&answer)
            .event(json!({ "jsonrpc": "2.0", "id": 1, "method": "roots/list" }))
            // An answer to somebody else, perhaps: it is for the caller to say.
            .event(json!({ "jsonrpc": "2.0", "id": 5, "result": {} }))
            .event(json!([progress(3), progress(4)]))
    })
    .await;
    let mut listening = transport.listen();
    assert_eq!(step_of(&next_message(&mut listening).await), 1);
    assert_eq!(listening.last_event_id(), Some("1"));
    gate.open();
    assert_eq!(next_message(&mut listening).await.method(), Some("roots/list"));
    assert_eq!(next_message(&mut listening).await, JsonRpcMessage::response(5, json!({})));
    assert_eq!(step_of(&next_message(&mut listening).await), 3);
    assert_eq!(step_of(&next_message(&mut listening).await), 4);
    assert!(next(&mut listening).await.is_none());
    assert!(next(&mut listening).await.is_none(), "it stays ended");
}

#[tokio::test]
async fn an_unreadable_event_is_an_error_and_the_stream_goes_on() {
    let (_server, transport) = listening(|_| {
        let stream = Answer::sse().event(progress(1)).raw("id: 2\ndata: {\"jsonrpc\":\n\n");
        stream
            .raw(b"data: \"\xff\"\n\n")
            .event(json!({ "jsonrpc": "1.0", "id": 1, "method": "x" }))
            .event(progress(2))
    })
    .await;
    let items = rest(transport.listen()).await;
    assert_eq!(outline(&items), ["notifications/progress", "!", "!", "!", "notifications/progress"]);
    for item in &items[1..4] {
        assert_eq!(item.as_ref().unwrap_err().to_json_rpc().code(), -32700);
    }
}

#[tokio::test]
async fn an_event_over_the_limit_ends_it() {
    let large = json!({ "jsonrpc": "2.0", "method": "x", "params": { "text": "word ".repeat(1000) } });
    let (server, transport) =
        listening(move |_| Answer::sse().event(progress(1)).event(large.clone()).event(progress(2)).hang())
            .await;
    let items = rest(transport.listen()).await;
    assert_eq!(outline(&items), ["notifications/progress", "!"]);
    assert!(items[1].as_ref().unwrap_err().find::<TooLarge>().is_some());
    server.gone().await;
    ping_works(&transport).await;
}

#[tokio::test]
async fn a_server_without_the_stream_is_told_once() {
    type Script = fn(&Request) -> Answer;
    let answers: [(u16, Script); 8] = [
        (405, |_| Answer::status(405)),
        (404, |_| Answer::status(404).text("no")),
        (400, |request| Answer::json(400, json!({ "oops": request.target }))),
        (406, |_| Answer::status(406)),
        (401, |_| Answer::status(401)),
        (200, |_| Answer::status(200).text("MCP server is running")),
        (200, |_| Answer::json(200, json!({ "jsonrpc": "2.0", "id": 1, "result": {} }))),
        (204, |_| Answer::status(204)),
    ];
    for (status, answer) in answers {
        let (server, transport) = listening(answer).await;
        let items = rest(transport.listen()).await;
        assert_eq!(outline(&items), ["!"], "{status}");
        let error = items[0].as_ref().unwrap_err();
        assert_eq!(error.find::<NotOffered>().unwrap().status().unwrap(), status);
        assert!(!error.is_session_expired() && error.to_string().contains(&status.to_string()), "{error}");
        ping_works(&transport).await;
        assert_eq!(server.requests().last().unwrap().header("mcp-session-id"), Some(SESSION), "{status}");
        assert_eq!(gets(&server).len(), 1, "{status}");
    }
}

#[tokio::test]
async fn trouble_that_may_pass_is_another_error() {
    for status in [408, 409, 429, 500, 503] {
        let answer = move |_: &Request| Answer::status(status).header("retry-after", "9").text("later");
        let (_server, transport) = listening(answer).await;
        let items = rest(transport.listen()).await;
        assert_eq!(outline(&items), ["!"], "{status}");
        let error = items[0].as_ref().unwrap_err();
        assert!(error.find::<NotOffered>().is_none(), "{error:?}");
        assert_eq!((error.status().unwrap().as_u16(), error.retry_after().unwrap().as_secs()), (status, 9));
        ping_works(&transport).await;
    }
}

#[tokio::test]
async fn a_challenge_is_handed_up() {
    for status in [401, 403] {
        let (_server, transport) =
            listening(move |_| Answer::status(status).header("www-authenticate", "Bearer")).await;
        let items = rest(transport.listen()).await;
        assert_eq!(outline(&items), ["!"]);
        let error = items[0].as_ref().unwrap_err();
        assert!(error.find::<NotOffered>().is_none());
        assert_eq!((error.status().unwrap().as_u16(), error.challenges().len()), (status, 1));
    }
}

#[tokio::test]
async fn without_a_session_nothing_is_sent() {
    let server = server(|_| Answer::sse().event(progress(1))).await;
    let transport = transport(&server);
    ping_works(&transport).await;
    let items = rest(transport.listen()).await;
    assert_eq!(outline(&items), ["!"]);
    assert_eq!(items[0].as_ref().unwrap_err().find::<NotOffered>().unwrap().status(), None);
    assert!(!items[0].as_ref().unwrap_err().may_have_run());
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn two_of_them_listen_side_by_side() {
    let gates = [Gate::new(), Gate::new()];
    let answer = gates.clone();
    let (server, transport) = listening(move |request| {
        let nth = request.nth;
        let step = i64::try_from(nth).unwrap() * 10;
        Answer::sse().event(progress(step)).wait(&answer[nth]).event(progress(step + 1))
    })
    .await;
    let mut first = transport.listen();
    assert_eq!(step_of(&next_message(&mut first).await), 0);
    let mut second = transport.listen();
    assert_eq!(step_of(&next_message(&mut second).await), 10);
    // Neither holds up the other, or a call.
    ping_works(&transport).await;
    gates[1].open();
    assert_eq!(step_of(&next_message(&mut second).await), 11);
    assert!(next(&mut second).await.is_none());
    assert!(first.next_is_pending());
    gates[0].open();
    assert_eq!(step_of(&next_message(&mut first).await), 1);
    assert!(next(&mut first).await.is_none());
    assert_eq!(gets(&server).len(), 2);
}

trait Pending {
    fn next_is_pending(&mut self) -> bool;
}

impl Pending for mcp_streamable_http::Reply {
    fn next_is_pending(&mut self) -> bool {
        futures_util::StreamExt::next(self).now_or_never().is_none()
    }
}

#[tokio::test]
async fn dropping_it_closes_the_stream() {
    let (server, transport) = listening(|_| Answer::sse().event(progress(1)).hang()).await;
    let mut listening = transport.listen();
    next_message(&mut listening).await;
    assert_eq!(server.gone_count(), 0);
    drop(listening);
    server.gone().await;
    ping_works(&transport).await;
}

#[tokio::test]
async fn a_broken_connection_is_an_error_and_the_end() {
    let (_server, transport) = listening(|request| match request.nth {
        0 => Answer::sse().event(progress(1)).close(),
        _ => Answer::sse().event(progress(1)).reset(),
    })
    .await;
    for _ in 0..2 {
        let items = rest(transport.listen()).await;
        assert_eq!(items.len(), 2, "{items:?}");
        assert!(items[1].as_ref().unwrap_err().find::<BrokenStream>().is_some());
        ping_works(&transport).await;
    }
}

#[tokio::test]
async fn a_404_after_it_was_accepted_is_expiry() {
    let (_server, transport) = listening(|request| match request.nth {
        0 => Answer::sse().event(progress(1)),
        _ => Answer::status(404),
    })
    .await;
    assert_eq!(rest(transport.listen()).await.len(), 1);
    let items = rest(transport.listen()).await;
    assert_eq!(outline(&items), ["!"]);
    assert!(items[0].as_ref().unwrap_err().is_session_expired());
    assert!(transport.session().is_expired());
}

#[tokio::test]
async fn it_survives_layers_around_the_messages() {
    let (_server, transport) = listening(|_| Answer::sse().event(progress(1))).await;
    let transport = transport.layer(tower::limit::ConcurrencyLimitLayer::new(1));
    assert_eq!(rest(transport.listen()).await.len(), 1);
}

#[tokio::test]
async fn a_server_without_sessions_is_listened_to_only_on_demand() {
    let server = server(|request| match request.method.as_str() {
        "GET" => Answer::sse().event(progress(1)),
        _ => {
            let value = json!({ "protocolVersion": VERSION, "capabilities": {}, "serverInfo": {} });
            if is(request, "initialize") {
                Answer::json(200, result(request, value))
            } else {
                Answer::status(202)
            }
        }
    })
    .await;
    let cautious = transport(&server);
    handshake(&cautious).await;
    assert!(next_error(&mut cautious.listen()).await.find::<NotOffered>().is_some());
    assert!(gets(&server).is_empty());

    let curious = StreamableHttp::builder(server.url()).listen_without_session(true).build().unwrap();
    handshake(&curious).await;
    assert_eq!(step_of(&next_message(&mut curious.listen()).await), 1);
    let [get] = &gets(&server)[..] else { panic!("one GET") };
    assert_eq!((get.header("mcp-session-id"), get.header("mcp-protocol-version")), (None, Some(VERSION)));
}
