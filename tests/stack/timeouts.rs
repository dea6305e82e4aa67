//! What bounds a call, and what the server sees of it.

use std::future::pending;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use http_body_util::{Full, StreamBody};
use hyper::body::Frame;
use mcp_streamable_http::error::TimedOut;
use mcp_streamable_http::options::{Deadline, FirstByte};
use mcp_streamable_http::{Error, JsonRpcMessage, Limits, StreamableHttp};
use serde_json::json;
use tokio::time::Instant;
use tower::{BoxError, ServiceExt, service_fn};

use crate::common::*;
use crate::support::mcp::{legacy_handshake, result};
use crate::support::{Answer, Request, Server};

/// On the real clock: short enough to wait for, and long enough for what must come before it.
const SHORT: Duration = Duration::from_millis(300);

#[track_caller]
fn assert_timed_out(error: &Error, knob: &str, after: Duration) {
    let timed_out = error.find::<TimedOut>().unwrap_or_else(|| panic!("{error:?}"));
    assert_eq!((timed_out.knob(), timed_out.after()), (knob, after));
    let text = error.to_string();
    assert!(text.contains(&format!("`{knob}`")) && text.contains(&format!("{after:?}")), "{text}");
    assert!(error.is_timeout() && error.may_have_run() && !error.is_connect());
}

/// Answers a call with silence, but not what a client says of a call that it gave up.
fn silence(request: &Request) -> Answer {
    match request.rpc_method() {
        Some("notifications/cancelled") => Answer::status(202),
        _ => Answer::raw_response("").hang(),
    }
}

/// Says a first word, and then nothing.
fn first_word(request: &Request) -> Answer {
    match request.rpc_method() {
        Some("notifications/cancelled") => Answer::status(202),
        _ => Answer::sse().event(progress(1)).hang(),
    }
}

#[tokio::test]
async fn a_head_that_does_not_come_is_a_timeout_that_names_its_bound() {
    let accepted = Limits::default().acceptance_timeout(SHORT);
    type Make = fn() -> JsonRpcMessage;
    let messages: [(Make, &str); 4] = [
        (|| call(1), "first_byte_timeout"),
        (|| call(1).with(FirstByte::within(SHORT)), "FirstByte"),
        (initialized, "acceptance_timeout"),
        (|| call(1).with(Deadline::within(SHORT)), "Deadline"),
    ];
    for (message, knob) in messages {
        let server = server(silence).await;
        let builder = StreamableHttp::builder(server.url());
        let builder = match knob {
            "first_byte_timeout" => builder.first_byte_timeout(SHORT),
            "acceptance_timeout" => builder.limits(accepted),
            _ => builder,
        };
        let transport = builder.build().unwrap();
        let started = Instant::now();
        let error = send(&transport, message()).await.unwrap_err();
        assert_timed_out(&error, knob, SHORT);
        assert!(started.elapsed() >= SHORT && error.status().is_none(), "{error:?}");
        server.gone().await;
        ping_works(&transport).await;
    }
}

#[tokio::test]
async fn a_silent_stream_is_a_timeout_if_that_was_asked_for() {
    let limits = Limits::default().idle_timeout(SHORT);
    let server = session_server(first_word).await;
    let transport = StreamableHttp::builder(server.url()).limits(limits).build().unwrap();
    handshake(&transport).await;
    let mut reply = send(&transport, call(1)).await.unwrap();
    next_message(&mut reply).await;
    assert_timed_out(&next_error(&mut reply).await, "idle_timeout", SHORT);
    assert!(next(&mut reply).await.is_none());
    server.gone().await;
    ping_works(&transport).await;
}

#[tokio::test]
async fn a_silent_listening_stream_is_closed_and_opened_again() {
    let server = server(|request| match (request.method.as_str(), request.nth) {
        ("GET", 0) => Answer::sse().event_with("7", progress(1)).hang(),
        ("GET", _) => Answer::sse().event(progress(2)).hang(),
        _ => legacy_handshake(request).unwrap(),
    })
    .await;
    let limits = Limits::default().idle_timeout(SHORT);
    let transport = StreamableHttp::builder(server.url()).limits(limits).backoff(brief()).build().unwrap();
    handshake(&transport).await;
    let mut listening = transport.listen();
    assert_eq!(step_of(&next_message(&mut listening).await), 1);
    let started = Instant::now();
    // It is no error: what the server has kept comes on the next connection.
    assert_eq!(step_of(&next_message(&mut listening).await), 2);
    assert!(started.elapsed() >= SHORT, "{:?}", started.elapsed());
    server.gone().await;
    let requests = server.requests();
    let positions: Vec<_> = requests
        .iter()
        .filter(|request| request.method == "GET")
        .map(|get| get.header("last-event-id"))
        .collect();
    assert_eq!(positions, [None, Some("7")]);
    ping_works(&transport).await;
}

#[tokio::test]
async fn a_deadline_ends_a_reply_in_the_middle() {
    for limited in [false, true] {
        let (server, mut transport) = session(first_word).await;
        if limited {
            // A layer of tower's around it changes nothing of that.
            transport = transport.layer(tower::limit::ConcurrencyLimitLayer::new(1));
        }
        let mut reply = send(&transport, call(1).with(Deadline::within(SHORT))).await.unwrap();
        assert_eq!(step_of(&next_message(&mut reply).await), 1);
        assert_timed_out(&next_error(&mut reply).await, "Deadline", SHORT);
        assert!(next(&mut reply).await.is_none());
        // While the reply is still there.
        server.gone().await;
        told_of_it(&server).await;
        drop(reply);
        ping_works(&transport).await;
    }
}

#[tokio::test]
async fn a_deadline_ends_a_body_that_does_not_arrive_whole() {
    let server = server(|request| match request.rpc_method() {
        Some("notifications/cancelled") => Answer::status(202),
        _ => Answer::status(200).chunked().body("application/json", "{\"jsonrpc\":").hang(),
    })
    .await;
    let transport = transport(&server);
    let error = send(&transport, call(1).with(Deadline::within(SHORT))).await.unwrap_err();
    assert_timed_out(&error, "Deadline", SHORT);
    server.gone().await;
    ping_works(&transport).await;
}

#[tokio::test]
async fn a_deadline_ends_a_stream_that_talks_on_and_on() {
    let (server, transport) = session(|request| match request.rpc_method() {
        Some("notifications/cancelled") => Answer::status(202),
        _ => {
            let chatter = format!("data: {}\n\n", progress(1)).repeat(500);
            (0..100).fold(Answer::sse(), |answer, _| answer.raw(&chatter)).hang()
        }
    })
    .await;
    let mut reply = send(&transport, call(1).with(Deadline::within(SHORT))).await.unwrap();
    let error = loop {
        match next(&mut reply).await {
            Some(Ok(message)) => assert_eq!(step_of(&message), 1),
            Some(Err(error)) => break error,
            None => panic!("it just ended"),
        }
    };
    assert_timed_out(&error, "Deadline", SHORT);
    server.gone().await;
    told_of_it(&server).await;
    ping_works(&transport).await;
}

/// Waits until the server knows that the call with the id 1 was given up.
async fn told_of_it(server: &Server) {
    let is_told = |request: &Request| is(request, "notifications/cancelled");
    let requests = server.wait_until("a cancellation", move |all| all.iter().any(is_told)).await;
    let told: Vec<_> = requests.iter().filter(|request| is_told(request)).map(Request::json).collect();
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!(told[0]["params"]["requestId"], 1);
}

#[tokio::test]
async fn a_deadline_that_is_kept_is_not_noticed() {
    let (server, transport) =
        session(|request| Answer::sse().event(progress(1)).event(result(request, json!({}))).end()).await;
    for within in [Duration::from_secs(3600), Duration::MAX] {
        let items = rest(send(&transport, call(1).with(Deadline::within(within))).await.unwrap()).await;
        assert_eq!(outline(&items), ["notifications/progress", "="]);
        let reply = send(&transport, initialized().with(Deadline::within(within))).await.unwrap();
        assert!(rest(reply).await.is_empty());
    }
    assert_eq!(server.gone_count(), 0);
}

/// A client that never answers, on no network.
fn silent_client() -> impl Clone
+ Send
+ Sync
+ 'static
+ tower::Service<
    http::Request<Full<Bytes>>,
    Response = http::Response<Full<Bytes>>,
    Error = BoxError,
    Future: Send,
> {
    service_fn(|_: http::Request<Full<Bytes>>| pending::<Result<http::Response<Full<Bytes>>, BoxError>>())
}

/// How long a message waits for the head of an answer that never comes; `None`: a week at least.
async fn waits(transport: &StreamableHttp, message: JsonRpcMessage) -> Option<(Duration, Error)> {
    let started = Instant::now();
    let sent = transport.clone().oneshot(message);
    let outcome = tokio::time::timeout(Duration::from_secs(7 * 86_400), sent).await.ok()?;
    Some((started.elapsed(), outcome.unwrap_err()))
}

#[tokio::test(start_paused = true)]
async fn the_bounds_are_there_by_default() {
    let transport =
        StreamableHttp::with_client("http://in.memory/".parse().unwrap(), silent_client()).build().unwrap();
    for (message, secs, knob) in
        [(ping(1), 300, "first_byte_timeout"), (initialized(), 30, "acceptance_timeout")]
    {
        let (waited, error) = waits(&transport, message).await.unwrap();
        assert_eq!(waited, Duration::from_secs(secs));
        assert_timed_out(&error, knob, waited);
    }
}

#[tokio::test(start_paused = true)]
async fn a_stream_outlives_the_bound_on_its_head() {
    let client = service_fn(|_: http::Request<Full<Bytes>>| async {
        let first = format!("data: {}\n\n", progress(1));
        let frames =
            stream::iter([Ok::<_, BoxError>(Frame::data(Bytes::from(first)))]).chain(stream::pending());
        let response = http::Response::builder().header("content-type", "text/event-stream");
        Ok::<_, BoxError>(response.body(StreamBody::new(frames))?)
    });
    let builder = StreamableHttp::with_client("http://in.memory/".parse().unwrap(), client);
    let transport = builder.first_byte_timeout(SHORT).build().unwrap();
    let mut reply = transport.oneshot(ping(1)).await.unwrap();
    assert_eq!(step_of(&reply.next().await.unwrap().unwrap()), 1);
    assert!(tokio::time::timeout(Duration::from_secs(86_400), reply.next()).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_bare_stack_leaves_the_wait_for_a_head_to_its_client() {
    let builder = StreamableHttp::with_client("http://in.memory/".parse().unwrap(), silent_client());
    let transport = builder.bare().build().unwrap();
    assert!(waits(&transport, ping(1)).await.is_none());
    // A deadline is no business of the client's.
    let (waited, error) = waits(&transport, ping(1).with(Deadline::within(SHORT))).await.unwrap();
    assert_eq!(waited, SHORT);
    assert_timed_out(&error, "Deadline", SHORT);
}
