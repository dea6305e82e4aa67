//! Answers that no reader of HTTP, of SSE or of JSON can make sense of.

use std::net::TcpListener;
use std::time::Duration;

use mcp_streamable_http::error::{BrokenStream, EndedStream, GaveUp, NotSent, TooLarge, Undecodable};
use mcp_streamable_http::{Error, Limits, StreamableHttp};
use serde_json::{Value, json};

use crate::common::*;
use crate::support::mcp::result;
use crate::support::{Answer, Request};

/// The error that an answer becomes, under small limits. The transport must answer a `ping` afterwards, and what
/// may have run must not have been sent again.
async fn error_of(answer: impl Fn(&Request) -> Answer + Send + Sync + 'static) -> Error {
    let server = server(answer).await;
    let limits = Limits::default().max_json_bytes(2000).max_event_bytes(2000);
    let transport = StreamableHttp::builder(server.url()).limits(limits).backoff(brief()).build().unwrap();
    // On a connection that was used before, as most are.
    ping_works(&transport).await;
    let error = ask(&transport, call(1)).await.unwrap_err();
    ping_works(&transport).await;
    let calls = server.requests().iter().filter(|request| is(request, "tools/call")).count();
    assert_eq!(calls, 1);
    assert!(error.may_have_run() && !error.is_connect() && !error.is_timeout(), "{error:?}");
    let data: Value = error.to_json_rpc().data().unwrap().to().unwrap();
    assert_eq!(data["source"], "mcp-streamable-http");
    error
}

#[track_caller]
fn assert_is<E: std::error::Error + 'static>(error: &Error, code: i64) {
    assert!(error.find::<E>().is_some(), "{error:?}");
    assert_eq!(error.to_json_rpc().code(), code, "{error:?}");
    assert!(error.to_string().len() < 500, "{error}");
}

#[tokio::test]
async fn something_that_is_not_http() {
    for garbage in
        ["SSH-2.0-OpenSSH_9.6\r\n\r\n", "\0\u{1}\u{2}\r\n\r\n", "HTTP/1.1 twohundred\r\n\r\n", "{}\n\n"]
    {
        let error = error_of(move |_| Answer::raw_response(garbage).close()).await;
        assert_is::<BrokenStream>(&error, -32000);
        assert!(error.to_string().contains("HTTP"), "it says why: {error}");
    }
}

#[tokio::test]
async fn nothing_at_all() {
    let error = error_of(|_| Answer::raw_response("").close()).await;
    assert_is::<BrokenStream>(&error, -32000);
    let error = error_of(|_| Answer::raw_response("").reset()).await;
    assert_is::<BrokenStream>(&error, -32000);
}

#[tokio::test]
async fn half_a_head() {
    let error = error_of(|_| Answer::raw_response("HTTP/1.1 200 OK\r\ncontent-ty").close()).await;
    assert_is::<BrokenStream>(&error, -32000);
}

#[tokio::test]
async fn nobody_at_home() {
    // Bound and closed again, so that nobody else has it.
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let url = format!("http://{address}/mcp?key=s3cret").parse().unwrap();
    let transport = StreamableHttp::builder(url).retry(never_again()).build().unwrap();
    for id in 0..2 {
        let error = ask(&transport, call(id)).await.unwrap_err();
        assert_is::<NotSent>(&error, -32000);
        assert!(error.is_connect() && !error.may_have_run() && error.status().is_none());
        assert!(error.to_string().contains("refused"), "it says why: {error}");
    }
}

#[tokio::test]
async fn half_a_json_message() {
    const HALF: &str = r#"{"jsonrpc":"2.0","id":1,"result":{"su"#;
    let error = error_of(|_| Answer::status(200).body("application/json", HALF)).await;
    assert_is::<Undecodable>(&error, -32700);
    assert_eq!(error.status().unwrap(), 200);
    assert!(error.to_string().contains("200") && error.to_string().contains(r#""result":{"su"#), "{error}");

    let broken = [
        Answer::status(200).body("application/json", HALF).content_length(100).close(),
        Answer::status(200).body("application/json", HALF).chunked().close(),
        Answer::status(200).body("application/json", HALF).chunked().reset(),
    ];
    for answer in broken {
        let answer = std::sync::Mutex::new(Some(answer));
        let error = error_of(move |_| answer.lock().unwrap().take().unwrap()).await;
        assert_is::<BrokenStream>(&error, -32000);
    }
}

#[tokio::test]
async fn an_event_without_its_end() {
    let half = |request: &Request| format!("id: 1\ndata: {}\n", result(request, json!({})));
    let error = error_of(move |request| Answer::sse().raw(half(request))).await;
    assert_is::<EndedStream>(&error, -32000);
    let error = error_of(move |request| Answer::sse().raw(half(request)).close()).await;
    assert_is::<BrokenStream>(&error, -32000);
    let error = error_of(move |request| Answer::sse().raw(half(request)).reset()).await;
    assert_is::<BrokenStream>(&error, -32000);
    let error = error_of(|_| Answer::sse().raw("data: {").content_length(100).close()).await;
    assert_is::<BrokenStream>(&error, -32000);
}

#[tokio::test]
async fn chunks_that_are_none() {
    for chunk in ["zz\r\n{}\r\n", "5\r\n{}", "ffffffffffffffffff\r\n{}\r\n"] {
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
        let error = error_of(move |_| Answer::raw_response(head).raw(chunk).close()).await;
        assert_is::<BrokenStream>(&error, -32000);
    }
}

#[tokio::test]
async fn a_stream_that_ends_without_the_response() {
    let error = error_of(|_| Answer::sse()).await;
    assert_is::<EndedStream>(&error, -32000);
    let error = error_of(|_| Answer::sse().event(progress(1)).raw(": bye\n\n")).await;
    assert_is::<EndedStream>(&error, -32000);
    // An id that was taken back is none.
    let error = error_of(|_| Answer::sse().event_with("1", progress(1)).raw("id\ndata:\n\n")).await;
    assert_is::<EndedStream>(&error, -32000);
}

#[tokio::test]
async fn a_stream_with_ids_that_ends_without_the_response() {
    // It is taken up again, which the server refuses, or is of no use.
    let refused = |request: &Request| {
        assert_eq!((request.nth, request.header("last-event-id")), (0, Some("1")));
        Answer::status(405)
    };
    let useless = |request: &Request| {
        assert_eq!(request.header("last-event-id"), Some("1"));
        assert!(request.nth < 5, "there are five attempts");
        Answer::sse().event_with("1", progress(1))
    };
    for (attempts, answer) in [(1, refused as fn(&Request) -> Answer), (5, useless)] {
        let error = error_of(move |request| match request.method.as_str() {
            "GET" => answer(request),
            _ => Answer::sse().event_with("1", progress(1)),
        })
        .await;
        assert_is::<GaveUp>(&error, -32000);
        assert_eq!(error.find::<GaveUp>().unwrap().attempts(), attempts);
        assert!(error.find::<EndedStream>().is_none() && error.to_string().contains("ended"), "{error}");
    }
}

#[tokio::test]
async fn an_event_that_is_not_json() {
    for data in ["data: {\"jsonrpc\":\n\n", "data: hello\n\n", "data: 1\n\n", "data: [{]\n\n"] {
        let error = error_of(move |_| Answer::sse().raw(data).hang()).await;
        assert_is::<Undecodable>(&error, -32700);
        assert!(error.to_string().contains("200"), "{error}");
    }
}

#[tokio::test]
async fn an_event_that_is_not_utf8() {
    const BAD: &[u8] = b"data: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"text\":\"\xff\xfe\"}}\n\n";
    let error = error_of(|_| Answer::sse().raw(BAD).hang()).await;
    assert_is::<Undecodable>(&error, -32700);
    assert!(error.to_string().contains("UTF-8"), "{error}");
    let error = error_of(|_| Answer::status(200).body("application/json", &BAD[6..])).await;
    assert_is::<Undecodable>(&error, -32700);
}

#[tokio::test]
async fn json_over_the_limit() {
    let large =
        |request: &Request| Answer::json(200, result(request, json!({ "text": "word ".repeat(1000) })));
    for chunked in [false, true] {
        let error =
            error_of(move |request| if chunked { large(request).chunked() } else { large(request) }).await;
        assert_is::<TooLarge>(&error, -32000);
        assert!(
            error.to_string().contains("max_json_bytes") && error.to_string().contains("2000"),
            "{error}"
        );
    }
    // It is not read on to see whether it ends.
    let error = error_of(move |request| large(request).content_length(1 << 40).hang()).await;
    assert_is::<TooLarge>(&error, -32000);
}

#[tokio::test]
async fn an_event_over_the_limit() {
    let large = |request: &Request| result(request, json!({ "text": "word ".repeat(1000) }));
    let error = error_of(move |request| Answer::sse().event(large(request))).await;
    assert_is::<TooLarge>(&error, -32000);
    assert!(error.to_string().contains("max_event_bytes") && error.to_string().contains("2000"), "{error}");

    // In one endless line, in endless lines, and in a field that nobody reads.
    let many_lines = "data: 1\n".repeat(1000);
    for endless in ["data: ".to_owned() + &"x".repeat(5000), many_lines, "x".repeat(5000)] {
        let error = error_of(move |_| Answer::sse().raw(&endless).hang()).await;
        assert_is::<TooLarge>(&error, -32000);
    }
}

#[tokio::test]
async fn trouble_on_one_stream_leaves_the_others_alone() {
    let gate = crate::support::Gate::new();
    let answer = gate.clone();
    let server = server(move |request| match request.nth {
        0 => Answer::sse().event(progress(1)).wait(&answer).event(result(request, json!({ "sum": 5 }))),
        1 => Answer::sse().raw("data: {\n\n"),
        2 => Answer::raw_response("").reset(),
        _ => Answer::raw_response("garbage\r\n\r\n").close(),
    })
    .await;
    let transport = transport(&server);
    let mut good = send(&transport, call(1)).await.unwrap();
    next_message(&mut good).await;
    for id in 2..5 {
        ask(&transport, call(id)).await.unwrap_err();
    }
    gate.open();
    assert_eq!(soon(good.response()).await.unwrap().result::<Value>().unwrap(), json!({ "sum": 5 }));
}

#[tokio::test]
async fn a_timeout_of_towers_is_one() {
    let server = server(|_| Answer::raw_response("").hang()).await;
    let timeout = tower::timeout::TimeoutLayer::new(Duration::from_millis(40));
    let over = transport(&server).layer(timeout.clone());
    let under = StreamableHttp::builder(server.url()).http_layer(timeout).build().unwrap();
    for transport in [over, under] {
        let error = ask(&transport, call(1)).await.unwrap_err();
        assert!(error.is_timeout() && error.may_have_run(), "{error:?}");
        assert_eq!((error.to_json_rpc().code(), error.status()), (-32000, None));
    }
}
