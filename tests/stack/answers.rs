//! Answers to requests that are what was asked for, more or less.

use mcp_streamable_http::options::WireId;
use mcp_streamable_http::{JsonRpcMessage, JsonRpcResponse, RawJson, RequestId, StreamableHttp};
use serde_json::{Value, json};

use crate::common::*;
use crate::support::mcp::{error, result};
use crate::support::{Answer, Request, Server};

fn wire_id(response: &JsonRpcResponse) -> Option<&WireId> {
    response.extensions().get::<WireId>()
}

/// The same answer as JSON and as an event.
fn both(body: &str) -> [Answer; 2] {
    [Answer::status(200).body("application/json", body), Answer::sse().raw(format!("data: {body}\n\n"))]
}

/// Asks a server twice, which answers with `body` as JSON and then as an event.
async fn ask_both(message: JsonRpcMessage, body: &'static str) -> [JsonRpcResponse; 2] {
    let server = server(move |request| {
        let [json, event] = both(body);
        if request.nth == 0 { json } else { event }
    })
    .await;
    let transport = transport(&server);
    [ask(&transport, message.clone()).await.unwrap(), ask(&transport, message).await.unwrap()]
}

#[tokio::test]
async fn payloads_arrive_as_they_were_written() {
    const PARAMS: &str =
        r#"{"z": 1.10, "a": 12345678901234567890, "e": 1E+2, "u": "\u00fc", "deep": {"b": [ ], "a": -0.0}}"#;
    const RESULT: &str =
        r#"{"zz":0.1000,"aa":123456789012345678901234567890,"unknown":{"y":1,"x":2}, "s":"\/"}"#;
    let body = |_: &Request| format!(r#"{{"result":{RESULT},"extra":[1],"id":1,"jsonrpc":"2.0"}}"#);
    let server = server(move |request| {
        let [json, event] = both(&body(request));
        if request.nth == 0 { json } else { event }
    })
    .await;
    let transport = transport(&server);
    for _ in 0..2 {
        let params = RawJson::parse(PARAMS).unwrap();
        let response = ask(&transport, JsonRpcMessage::request(1, "tools/call", params)).await.unwrap();
        assert_eq!(response.outcome().unwrap().as_str(), RESULT);
        assert_eq!(wire_id(&response), None);
    }
    for request in server.requests() {
        let body = String::from_utf8(request.body.to_vec()).unwrap();
        assert!(body.contains(PARAMS), "{body}");
    }
}

#[tokio::test]
async fn path_and_query_of_the_endpoint_are_sent_as_they_are() {
    let server = session_server(|request| panic!("{request}")).await;
    let target = "/a%20b//c/%2e/?key=%2F&x=a+b&&y";
    let transport = StreamableHttp::new(server.url_of(target)).unwrap();
    handshake(&transport).await;
    next_error(&mut transport.listen()).await;
    transport.terminate().await.unwrap();
    let targets: Vec<_> = server.requests().into_iter().map(|request| request.target).collect();
    assert_eq!(targets, [target; 4]);
}

#[tokio::test]
async fn a_json_rpc_error_on_success_is_an_answer() {
    let answer = r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"no","data":{"b":1,"a":2}}}"#;
    for response in ask_both(call(1), answer).await {
        let error = response.outcome().unwrap_err();
        assert_eq!((error.code(), error.message()), (-32602, "no"));
        assert_eq!(error.data().unwrap().as_str(), r#"{"b":1,"a":2}"#);
    }
}

#[tokio::test]
async fn a_response_under_another_id_gets_the_id_of_the_request() {
    for (body, id) in [
        (r#"{"jsonrpc":"2.0","id":"1","result":{}}"#, Some(RequestId::from("1"))),
        (r#"{"jsonrpc":"2.0","id":1.0,"result":{}}"#, Some(RequestId::Other(RawJson::parse("1.0").unwrap()))),
        (r#"{"jsonrpc":"2.0","id":null,"result":{}}"#, None),
        (r#"{"jsonrpc":"2.0","result":{}}"#, None),
        (r#"{"jsonrpc":"2.0","id":7,"result":{}}"#, Some(RequestId::from(7))),
        (
            r#"{"jsonrpc":"2.0","id":"server-error","error":{"code":-1,"message":""}}"#,
            Some(RequestId::from("server-error")),
        ),
    ] {
        for response in ask_both(call(1), body).await {
            assert_eq!(response.id(), Some(&1.into()), "{body}");
            assert_eq!(wire_id(&response), Some(&WireId(id.clone())), "{body}");
        }
    }
    let text = JsonRpcMessage::request("1", "tools/call", ());
    for response in ask_both(text, r#"{"jsonrpc":"2.0","id":1,"result":{}}"#).await {
        assert_eq!(response.id(), Some(&"1".into()));
        assert_eq!(wire_id(&response), Some(&WireId(Some(1.into()))));
    }
}

#[tokio::test]
async fn a_json_rpc_error_on_an_error_status_is_the_answer() {
    for status in [400, 401, 403, 404, 405, 406, 409, 422, 429, 500, 503] {
        for (id, wire) in [
            (json!(1), None),
            (json!(null), Some(WireId(None))),
            (json!("server-error"), Some(WireId(Some("server-error".into())))),
        ] {
            for content_type in [Some("application/json; charset=utf-8"), None] {
                let mut body = json!({ "jsonrpc": "2.0", "id": id });
                body["error"] = json!({ "code": -32022, "message": "no", "data": { "supported": [] } });
                let server = server(move |_| match content_type {
                    Some(content_type) => Answer::status(status).body(content_type, body.to_string()),
                    None => Answer::status(status).raw(body.to_string()),
                })
                .await;
                let transport = transport(&server);
                let reply = send(&transport, call(1)).await.unwrap();
                assert_eq!(reply.head().unwrap().status, status);
                let response = soon(reply.response()).await.unwrap();
                assert_eq!(response.id(), Some(&1.into()), "{status} {id}");
                assert_eq!(wire_id(&response), wire.as_ref(), "{status} {id}");
                assert_eq!(response.outcome().unwrap_err().code(), -32022);
                ping_works(&transport).await;
            }
        }
    }
}

#[tokio::test]
async fn an_error_status_with_anything_else_is_an_error() {
    for case in ["a result", "text", "a request", "a batch"] {
        let server = server(move |request| match case {
            "a result" => Answer::json(400, result(request, json!({}))),
            "text" => Answer::status(400).text(error(request, -1, "in the wrong type").to_string()),
            "a request" => Answer::json(400, json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" })),
            _ => Answer::json(400, json!([error(request, -1, "one of many")])),
        })
        .await;
        let transport = transport(&server);
        let error = ask(&transport, call(1)).await.expect_err(case);
        assert_eq!((error.status().unwrap().as_u16(), error.to_json_rpc().code()), (400, -32603), "{case}");
        assert!(error.to_string().contains("400") && error.to_string().contains("jsonrpc"), "{error}");
        ping_works(&transport).await;
    }
}

#[tokio::test]
async fn content_types_are_compared_by_essence_and_without_case() {
    let json = ["application/json", "Application/JSON;charset=utf-8", "application/json ; x=\"a;b\""];
    for content_type in json {
        let server = server(move |request| {
            Answer::status(200).body(content_type, result(request, json!({})).to_string())
        });
        ask(&transport(&server.await), call(1)).await.expect(content_type);
    }
    for content_type in ["text/event-stream", "TEXT/Event-Stream; charset=utf-8", "text/event-stream ;x"] {
        let server = server(move |request| {
            Answer::sse().header("content-type", content_type).event(result(request, json!({})))
        });
        ask(&transport(&server.await), call(1)).await.expect(content_type);
    }
    for content_type in ["application/jsonfoo", "application/json-rpc", "text/json", "text/event-streams", ""]
    {
        let server = server(move |request| {
            Answer::status(200).body(content_type, result(request, json!({})).to_string())
        });
        let error = ask(&transport(&server.await), call(1)).await.expect_err(content_type);
        assert_eq!((error.status().unwrap().as_u16(), error.to_json_rpc().code()), (200, -32600));
    }
}

async fn batch(as_json: bool, elements: Value) -> (Server, StreamableHttp) {
    let server = server(move |_| match as_json {
        true => Answer::json(200, elements.clone()),
        false => Answer::sse().raw(format!("id: 7\ndata: {elements}\n\n")),
    });
    let server = server.await;
    let transport = transport(&server);
    (server, transport)
}

#[tokio::test]
async fn a_batch_is_delivered_in_order() {
    let response = json!({ "jsonrpc": "2.0", "id": 1, "result": { "sum": 5 } });
    let question = json!({ "jsonrpc": "2.0", "id": "q", "method": "roots/list" });
    for as_json in [true, false] {
        let (_server, transport) =
            batch(as_json, json!([progress(1), question, progress(2), response])).await;
        let mut reply = send(&transport, call(1)).await.unwrap();
        assert_eq!(step_of(&next_message(&mut reply).await), 1);
        assert_eq!(next_message(&mut reply).await.method(), Some("roots/list"));
        assert_eq!(step_of(&next_message(&mut reply).await), 2);
        assert_eq!(reply.last_event_id(), None, "not all of the event was delivered");
        assert_eq!(next_message(&mut reply).await, JsonRpcMessage::response(1, json!({ "sum": 5 })));
        assert_eq!(reply.last_event_id(), (!as_json).then_some("7"));
        assert!(next(&mut reply).await.is_none());
        ping_works(&transport).await;
    }
}

#[tokio::test]
async fn of_the_responses_in_a_batch_the_one_under_the_very_id_counts() {
    let other = json!({ "jsonrpc": "2.0", "id": 2, "result": { "whose": "another" } });
    let own = json!({ "jsonrpc": "2.0", "id": 1, "result": { "whose": "own" } });
    for as_json in [true, false] {
        let (_server, transport) = batch(as_json, json!([other, progress(1), own])).await;
        let items = rest(send(&transport, call(1)).await.unwrap()).await;
        assert_eq!(outline(&items), ["notifications/progress", "="]);
        assert_eq!(*items[1].as_ref().unwrap(), JsonRpcMessage::response(1, json!({ "whose": "own" })));
    }
}

#[tokio::test]
async fn a_batch_without_a_response_is_an_error_after_its_messages() {
    for (as_json, code) in [(true, -32700), (false, -32000)] {
        let server = server(move |_| match as_json {
            true => Answer::json(200, json!([progress(1)])),
            // Without an id, or it would be taken up again.
            false => Answer::sse().event(json!([progress(1)])),
        })
        .await;
        let transport = transport(&server);
        let items = rest(send(&transport, call(1)).await.unwrap()).await;
        assert_eq!(outline(&items), ["notifications/progress", "!"]);
        assert_eq!(items[1].as_ref().unwrap_err().to_json_rpc().code(), code);
        ping_works(&transport).await;
    }
}

#[tokio::test]
async fn a_byte_order_mark_before_json_is_ignored() {
    let body =
        |request: &Request| [b"\xef\xbb\xbf", result(request, json!({})).to_string().as_bytes()].concat();
    let server = server(move |request| Answer::status(200).body("application/json", body(request))).await;
    ask(&transport(&server), call(1)).await.unwrap();
}
