//! The listening GET.

use futures_util::{FutureExt, StreamExt};
use mcp_streamable_http::error::{NotOffered, TooLarge};
use mcp_streamable_http::{JsonRpcMessage, Limits, ReinitializePolicy, StreamableHttp};
use serde_json::json;

use crate::common::*;
use crate::support::mcp::{SESSION, VERSION, legacy_handshake, result};
use crate::support::{Answer, Gate, Request, Server};

/// A transport inside a session of a server that answers GET with `answer`.
pub(crate) async fn listening(
    answer: impl Fn(&Request) -> Answer + Send + Sync + 'static,
) -> (Server, StreamableHttp) {
    let server = server(move |request| match request.method.as_str() {
        "GET" => answer(request),
        _ => legacy_handshake(request).unwrap(),
    })
    .await;
    let limits = Limits::default().max_event_bytes(2000);
    let transport = StreamableHttp::builder(server.url()).limits(limits).backoff(brief()).build().unwrap();
    handshake(&transport).await;
    (server, transport)
}

fn gets(server: &Server) -> Vec<Request> {
    server.requests().into_iter().filter(|request| request.method == "GET").collect()
}

/// The `Last-Event-ID` of each GET.
pub(crate) fn positions(server: &Server) -> Vec<Option<String>> {
    gets(server).iter().map(|get| get.header("last-event-id").map(str::to_owned)).collect()
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
async fn messages_are_yielded_as_they_come() {
    let gate = Gate::new();
    let answer = gate.clone();
    let (server, transport) = listening(move |_| {
        Answer::sse()
            .raw("id: 0\ndata:\n\n: hi\n\n")
            .event_with("1", progress(1))
            .wait(&answer)
            .event(json!({ "jsonrpc": "2.0", "id": 1, "method": "roots/list" }))
            // An answer to somebody else, perhaps: it is for the caller to say.
            .event(json!({ "jsonrpc": "2.0", "id": 5, "result": {} }))
            .event(json!([progress(3), progress(4)]))
            .hang()
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
    assert!(listening.next_is_pending());
    assert_eq!(gets(&server).len(), 1);
}

#[tokio::test]
async fn a_stream_that_the_server_ends_is_taken_up_again() {
    let (server, transport) = listening(|request| match request.nth {
        0 => Answer::sse().raw("id: 0\ndata:\n\n").event_with("1", progress(1)).event(progress(2)),
        // The first comes a second time.
        1 => Answer::sse().event_with("1", progress(1)).event_with("2", progress(3)),
        // An id that is taken back is none.
        2 => Answer::sse().raw(format!("id\ndata: {}\n\n", progress(4))),
        _ => Answer::sse().event(progress(5)).hang(),
    })
    .await;
    let mut listening = transport.listen();
    for step in 1..=5 {
        assert_eq!(step_of(&next_message(&mut listening).await), step);
    }
    assert!(listening.next_is_pending());
    assert_eq!(positions(&server), [None, Some("1".to_owned()), Some("2".to_owned()), None]);
    for get in gets(&server) {
        assert_eq!(get.header("mcp-session-id"), Some(SESSION));
        assert_eq!(get.header("mcp-protocol-version"), Some(VERSION));
        assert_eq!(get.header("accept"), Some("text/event-stream"));
    }
    ping_works(&transport).await;
}

#[tokio::test]
async fn an_unreadable_event_is_an_error_and_the_stream_goes_on() {
    let (server, transport) = listening(|_| {
        let stream = Answer::sse().event(progress(1)).raw("id: 2\ndata: {\"jsonrpc\":\n\n");
        stream
            .raw(b"data: \"\xff\"\n\n")
            .event(json!({ "jsonrpc": "1.0", "id": 1, "method": "x" }))
            .event(progress(2))
            .hang()
    })
    .await;
    let mut listening = transport.listen();
    assert_eq!(step_of(&next_message(&mut listening).await), 1);
    for _ in 0..3 {
        assert_eq!(next_error(&mut listening).await.to_json_rpc().code(), -32700);
    }
    assert_eq!(step_of(&next_message(&mut listening).await), 2);
    assert!(listening.next_is_pending());
    assert_eq!((gets(&server).len(), server.gone_count()), (1, 0));
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
        Answer::sse().event(progress(step)).wait(&answer[nth]).event(progress(step + 1)).hang()
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
    assert!(first.next_is_pending());
    gates[0].open();
    assert_eq!(step_of(&next_message(&mut first).await), 1);
    assert!(first.next_is_pending() && second.next_is_pending());
    assert_eq!(gets(&server).len(), 2);
}

trait Pending {
    fn next_is_pending(&mut self) -> bool;
}

impl Pending for mcp_streamable_http::Reply {
    fn next_is_pending(&mut self) -> bool {
        self.next().now_or_never().is_none()
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
async fn a_broken_connection_is_no_error_and_the_stream_is_taken_up_again() {
    let gates = [Gate::new(), Gate::new()];
    let read = gates.clone();
    let (server, transport) = listening(move |request| match request.nth {
        0 => Answer::sse().event_with("a", progress(1)).wait(&read[0]).close(),
        1 => Answer::sse().event_with("b", progress(2)).wait(&read[1]).reset(),
        _ => Answer::sse().event(progress(3)).hang(),
    })
    .await;
    let mut listening = transport.listen();
    for (step, gate) in (1..).zip(&gates) {
        assert_eq!(step_of(&next_message(&mut listening).await), step);
        gate.open();
    }
    assert_eq!(step_of(&next_message(&mut listening).await), 3);
    assert_eq!(positions(&server), [None, Some("a".to_owned()), Some("b".to_owned())]);
    assert_eq!(transport.session().id().unwrap(), SESSION);
    ping_works(&transport).await;
}

/// A transport with this policy, and a server that ends its first listening stream and the session with it. Each session has
/// an id of its own: `s-0`, `s-1`, and so on.
async fn forgetful(policy: ReinitializePolicy) -> (Server, StreamableHttp) {
    let server = server(|request| match (request.method.as_str(), request.rpc_method()) {
        ("GET", _) => match (request.nth, request.header("mcp-session-id")) {
            (0, Some("s-0")) => Answer::sse().event_with("1", progress(1)),
            (_, Some("s-0")) => Answer::status(404),
            _ => Answer::sse().event_with("1", progress(2)).hang(),
        },
        (_, Some("initialize")) => {
            legacy_handshake(request).unwrap().header("mcp-session-id", format!("s-{}", request.nth))
        }
        _ => legacy_handshake(request).unwrap(),
    })
    .await;
    let builder = StreamableHttp::builder(server.url()).backoff(brief());
    let transport = builder.reinitialize(policy).build().unwrap();
    handshake(&transport).await;
    (server, transport)
}

/// What each request was, with its session and position.
fn traffic(server: &Server) -> Vec<String> {
    let requests = server.requests().into_iter();
    requests
        .map(|request| {
            let what = request.rpc_method().unwrap_or(request.method.as_str());
            let header = |name| request.header(name).unwrap_or("-");
            format!("{what} {} {}", header("mcp-session-id"), header("last-event-id"))
        })
        .collect()
}

#[tokio::test]
async fn after_a_404_it_listens_in_a_new_session() {
    let (server, transport) = forgetful(ReinitializePolicy::Replay).await;
    let mut listening = transport.listen();
    for step in 1..=2 {
        // Not even the event id of the old session counts in the new one.
        assert_eq!(step_of(&next_message(&mut listening).await), step);
    }
    assert!(listening.next_is_pending());
    assert_eq!(
        traffic(&server),
        [
            "initialize - -",
            "notifications/initialized s-0 -",
            "GET s-0 -",
            "GET s-0 1",
            "initialize - -",
            "notifications/initialized s-1 -",
            "GET s-1 -",
        ]
    );
    assert_eq!(transport.session().id().unwrap(), "s-1");
}

#[tokio::test]
async fn a_404_after_it_was_accepted_is_expiry() {
    let (server, transport) = forgetful(ReinitializePolicy::Fail).await;
    let items = rest(transport.listen()).await;
    assert_eq!(outline(&items), ["notifications/progress", "!"]);
    assert!(items[1].as_ref().unwrap_err().is_session_expired());
    assert!(transport.session().is_expired());
    // The 404 is the last that was sent.
    assert_eq!(traffic(&server)[2..], ["GET s-0 -", "GET s-0 1"]);
}

#[tokio::test]
async fn it_survives_layers_around_the_messages() {
    let (server, transport) = listening(|request| match request.nth {
        0 => Answer::sse().event(progress(1)),
        _ => Answer::sse().event(progress(2)).hang(),
    })
    .await;
    let transport = transport.layer(tower::limit::ConcurrencyLimitLayer::new(1));
    let mut listening = transport.listen();
    for step in 1..=2 {
        assert_eq!(step_of(&next_message(&mut listening).await), step);
        ping_works(&transport).await;
    }
    assert_eq!(gets(&server).len(), 2);
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
