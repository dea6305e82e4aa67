//! The stream of a request, as time passes.

use mcp_streamable_http::{JsonRpcMessage, Limits, StreamableHttp};
use serde_json::{Value, json};

use crate::common::*;
use crate::support::mcp::result;
use crate::support::{Answer, Gate};

#[tokio::test]
async fn events_are_delivered_as_they_come() {
    let gates = [Gate::new(), Gate::new()];
    let [second, last] = gates.clone();
    let server = server(move |request| {
        Answer::sse()
            .event(progress(1))
            .wait(&second)
            .event(progress(2))
            .wait(&last)
            .event(result(request, json!({ "sum": 5 })))
    })
    .await;
    let mut reply = send(&transport(&server), call(1)).await.unwrap();
    for (step, gate) in (1..).zip(&gates) {
        assert_eq!(step_of(&next_message(&mut reply).await), step);
        gate.open();
    }
    assert_eq!(next_message(&mut reply).await, JsonRpcMessage::response(1, json!({ "sum": 5 })));
    assert!(next(&mut reply).await.is_none());
    assert!(next(&mut reply).await.is_none(), "it stays ended");
}

#[tokio::test]
async fn the_head_is_there_before_the_first_event() {
    let gate = Gate::new();
    let answer = gate.clone();
    let server = server(move |request| {
        Answer::sse().header("x-trace", "7").wait(&answer).event(result(request, json!({})))
    })
    .await;
    let reply = send(&transport(&server), call(1)).await.unwrap();
    assert_eq!(reply.head().unwrap().headers["x-trace"], "7");
    gate.open();
    soon(reply.response()).await.unwrap();
}

#[tokio::test]
async fn the_servers_own_requests_are_handed_up_with_their_ids() {
    let server = server(|request| {
        let question = |id: Value| json!({ "jsonrpc": "2.0", "id": id, "method": "sampling/createMessage" });
        // Ids of the two sides are unrelated: this one has that of the request.
        Answer::sse().event(question(json!(1))).event(question(json!("q"))).event(result(request, json!({})))
    })
    .await;
    let items = rest(send(&transport(&server), call(1)).await.unwrap()).await;
    assert_eq!(outline(&items), ["sampling/createMessage", "sampling/createMessage", "="]);
    assert_eq!(items[1].as_ref().unwrap().id(), Some(&"q".into()));
}

#[tokio::test]
async fn a_stream_that_stays_open_after_the_response_delays_nobody() {
    let server = server(|request| Answer::sse().event(result(request, json!({}))).hang()).await;
    // So that only the response itself can end the reply.
    let limits = Limits::default().drain_timeout(std::time::Duration::from_secs(3600));
    let transport = StreamableHttp::builder(server.url()).limits(limits).build().unwrap();
    let items = rest(send(&transport, call(1)).await.unwrap()).await;
    assert_eq!(outline(&items), ["="]);
    assert_eq!(server.gone_count(), 0);
}

#[tokio::test]
async fn what_follows_the_response_is_dropped() {
    let server = server(|request| {
        Answer::sse().event(result(request, json!({}))).event(progress(1)).raw("data: {\n\n")
    });
    let server = server.await;
    let transport = transport(&server);
    let items = rest(send(&transport, call(1)).await.unwrap()).await;
    assert_eq!(outline(&items), ["="]);
    ping_works(&transport).await;
}

#[tokio::test]
async fn a_response_in_the_last_event_needs_its_blank_line() {
    let server = server(|request| {
        let response = result(request, json!({}));
        Answer::sse().event(progress(1)).raw(format!("data: {response}\n"))
    })
    .await;
    let items = rest(send(&transport(&server), call(1)).await.unwrap()).await;
    assert_eq!(outline(&items), ["notifications/progress", "!"]);
    assert_eq!(items[1].as_ref().unwrap_err().to_json_rpc().code(), -32000);
}

#[tokio::test]
async fn an_unreadable_event_fails_its_own_request_at_once() {
    let server = server(|request| match request.nth {
        0 => Answer::sse().event(progress(1)).raw("id: 4\ndata: {\"jsonrpc\"\n\n").hang(),
        _ => Answer::json(200, result(request, json!({}))),
    })
    .await;
    let transport = transport(&server);
    let items = rest(send(&transport, call(1)).await.unwrap()).await;
    assert_eq!(outline(&items), ["notifications/progress", "!"]);
    assert_eq!(items[1].as_ref().unwrap_err().to_json_rpc().code(), -32700);
    // Nobody waits for the rest.
    server.gone().await;
    ask(&transport, call(2)).await.unwrap();
}

#[tokio::test]
async fn comments_are_not_held_against_the_limit_of_an_event() {
    let server = server(|request| {
        let comment = format!(": {}\n", "x".repeat(100_000));
        Answer::sse().raw(comment.repeat(3)).event(result(request, json!({})))
    })
    .await;
    let limits = Limits::default().max_event_bytes(1000);
    let transport = StreamableHttp::builder(server.url()).limits(limits).build().unwrap();
    ask(&transport, call(1)).await.unwrap();
}

#[tokio::test]
async fn the_limit_is_for_each_event_and_not_for_the_stream() {
    let server = server(|request| {
        let events = (0..100).fold(Answer::sse(), |answer, step| answer.event(progress(step)));
        events.event(result(request, json!({})))
    })
    .await;
    let limits = Limits::default().max_event_bytes(200).max_json_bytes(200);
    let transport = StreamableHttp::builder(server.url()).limits(limits).build().unwrap();
    assert_eq!(rest(send(&transport, call(1)).await.unwrap()).await.len(), 101);
}

#[tokio::test]
async fn a_large_answer_arrives_whole() {
    let text = "Grüße, 世界! ".repeat(200_000);
    let copy = text.clone();
    let server = server(move |request| {
        let answer = result(request, json!({ "text": copy }));
        if request.nth == 0 { Answer::json(200, answer) } else { Answer::sse().event(answer) }
    })
    .await;
    let transport = transport(&server);
    for id in 0..2 {
        assert_eq!(ask_for_result(&transport, call(id)).await["text"], text.as_str());
    }
}
