//! Drops: the future of a call, or a reply, before the response.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use mcp_streamable_http_layers::error::TimedOut;
use mcp_streamable_http_layers::options::{Deadline, FirstByte, QuietDrop};

use super::*;

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test]
async fn the_id_is_repeated_as_it_was() {
    for (id, json) in [
        (RequestId::from(7), json!(7)),
        (RequestId::from(-7), json!(-7)),
        (RequestId::from(i64::MAX), json!(i64::MAX)),
        (RequestId::from("7"), json!("7")),
        (RequestId::from(""), json!("")),
        (RequestId::from("\"},{\\\u{1}ü"), json!("\"},{\\\u{1}ü")),
    ] {
        let mut client = Client::new();
        drop(client.send(tool(id)));
        client.assert_told(json, "dropped").await;
        client.assert_in_flight(0);
    }
}

#[tokio::test]
async fn the_frame_has_the_headers_of_the_request_and_its_session() {
    let mut client = Client::in_session("s-1");
    let (reply, _stream) = client.open(tool(1).with(extra(&[("x-tenant", "blue")])));
    let (other, _other_stream) = client.open(tool(2));
    drop(reply);
    let headers = client.assert_told(1, "dropped").await;
    assert_eq!(headers["x-tenant"], "blue");
    assert_eq!(headers["mcp-session-id"], "s-1");
    drop(other);
    assert!(client.assert_told(2, "dropped").await.get("x-tenant").is_none());
}

#[tokio::test]
async fn some_requests_are_not_taken_back() {
    let task = json!({ "name": "add", "task": { "ttl": 60_000 } });
    for message in [
        initialize(1),
        JsonRpcMessage::request(1, "tools/call", task.clone()),
        modern(1),
        tool(1).with(extra(&[("mcp-protocol-version", MODERN)])),
    ] {
        let why = message.to_string();
        let mut client = Client::new();
        let (sent, arrived) = client.send(message.clone());
        client.assert_in_flight(1);
        drop(sent);
        assert!(arrived.is_closed(), "{why}");
        client.assert_silent(&why).await;
        let (reply, stream) = client.open(message);
        drop(reply);
        assert!(stream.is_closed(), "{why}");
        client.assert_silent(&why).await;
        client.assert_in_flight(0);
    }
}

#[tokio::test]
async fn after_a_modern_request_the_connection_is_modern() {
    let mut client = Client::new();
    drop(client.send(modern(1)));
    drop(client.send(ping(2)));
    client.assert_silent("it names no version").await;
    // One that names a legacy version itself is legacy all the same.
    drop(client.send(ping(3).with(extra(&[("mcp-protocol-version", LEGACY)]))));
    client.assert_told(3, "legacy").await;
}

#[tokio::test]
async fn what_was_never_polled_is_not_taken_back() {
    let mut client = Client::new();
    let sent = client.call(tool(1));
    client.assert_in_flight(1);
    drop(sent);
    // That the call reached the service below is no sign that anything was sent.
    drop(client.received());
    client.assert_silent("never polled").await;
    client.assert_in_flight(0);
}

#[tokio::test]
async fn what_is_dropped_quietly_closes_its_stream_and_is_not_taken_back() {
    let mut client = Client::new();
    let quiet = QuietDrop::new();
    let (reply, stream) = client.open(tool(1).with(quiet.clone()));
    let (call, before_the_head) = client.send(tool(2).with(quiet.clone()));
    quiet.turn_on();
    drop(reply);
    drop(call);
    assert!(stream.is_closed() && before_the_head.is_closed());
    client.assert_silent("quiet").await;
    client.assert_in_flight(0);

    // A switch that is off changes nothing.
    let (reply, _stream) = client.open(tool(3).with(QuietDrop::new()));
    drop(reply);
    client.assert_told(3, "not quiet").await;
}

#[tokio::test]
async fn what_has_its_response_is_not_taken_back() {
    let mut client = Client::new();
    let (mut reply, stream) = client.open(tool(1));
    stream.send(Ok(done(1).into())).unwrap();
    let mut polled = task::spawn(&mut reply);
    assert!(polled.poll_next().is_ready());
    drop(polled);
    client.assert_in_flight(0);
    drop(reply);
    client.assert_silent("answered").await;

    // An error is a response too.
    let (reply, stream) = client.open(tool(2));
    let error = mcp_streamable_http_layers::JsonRpcError::new(-32602, "no");
    stream.send(Ok(JsonRpcMessage::error(2, error).into())).unwrap();
    assert!(response(Ok(reply)).is_ok());
    client.assert_silent("refused").await;
}

#[tokio::test]
async fn what_the_server_has_failed_is_not_taken_back() {
    let mut client = Client::new();
    let (sent, arrived) = client.send(tool(1));
    arrived.fail("no connection");
    assert!(now(sent).is_err());
    client.assert_silent("failed").await;

    let (reply, stream) = client.open(tool(1));
    stream.send(Err("reset".into())).unwrap();
    ends_with_error(reply);
    client.assert_silent("broken").await;

    let (reply, stream) = client.open(tool(1));
    drop(stream);
    ends_with_error(reply);
    client.assert_silent("ended").await;
    client.assert_in_flight(0);
}

#[tokio::test(start_paused = true)]
async fn what_a_clock_has_ended_is_taken_back() {
    let mut client = Client::new();
    for message in [tool(1).with(Deadline::within(SECOND)), tool(1).with(FirstByte::within(SECOND))] {
        let (sent, arrived) = client.send(message);
        assert!(sent.await.unwrap_err().is_timeout());
        assert!(arrived.is_closed());
        client.assert_told(1, "no head").await;
    }
    let (reply, stream) = client.open(tool(1).with(Deadline::within(SECOND)));
    assert!(reply.response().await.unwrap_err().is_timeout());
    assert!(stream.is_closed());
    client.assert_told(1, "no response").await;

    // A clock outside, which drops the call.
    let (sent, arrived) = client.send(tool(1));
    assert!(tokio::time::timeout(SECOND, sent).await.is_err());
    assert!(arrived.is_closed());
    client.assert_told(1, "no head").await;
    let (reply, stream) = client.open(tool(1));
    assert!(tokio::time::timeout(SECOND, reply.response()).await.is_err());
    assert!(stream.is_closed());
    client.assert_told(1, "no response").await;
    client.assert_in_flight(0);
}

#[tokio::test(start_paused = true)]
async fn a_clock_closes_what_is_modern_and_that_is_all() {
    let mut client = Client::new();
    for message in [modern(1).with(Deadline::within(SECOND)), modern(1).with(FirstByte::within(SECOND))] {
        let (sent, arrived) = client.send(message);
        assert!(sent.await.unwrap_err().is_timeout());
        assert!(arrived.is_closed());
        client.assert_silent("no head").await;
    }
    let (reply, stream) = client.open(modern(1).with(Deadline::within(SECOND)));
    assert!(reply.response().await.unwrap_err().is_timeout());
    assert!(stream.is_closed());
    client.assert_silent("no response").await;
    client.assert_in_flight(0);
}

#[tokio::test]
async fn a_silent_stream_is_taken_back() {
    let mut client = Client::new();
    let (reply, stream) = client.open(tool(1));
    stream.send(Err(TimedOut::new("an event", "idle_timeout", SECOND).into())).unwrap();
    assert!(ends_with_error(reply).is_timeout());
    client.assert_told(1, "idle").await;
}

#[tokio::test]
async fn a_session_that_is_over_is_not_told() {
    // Another has begun.
    let mut client = Client::in_session("s-1");
    let (reply, _stream) = client.open(tool(1));
    client.begin("s-2");
    drop(reply);
    client.assert_silent("changed").await;
    client.assert_in_flight(0);

    // It has expired.
    let (reply, _stream) = client.open(tool(1));
    let (sent, arrived) = client.send(tool(2));
    let mut gone = Response::new(Events::EMPTY);
    *gone.status_mut() = http::StatusCode::NOT_FOUND;
    arrived.head.send(Ok(gone)).unwrap();
    assert!(now(sent).unwrap_err().is_session_expired());
    drop(reply);
    client.assert_silent("expired").await;
    client.assert_in_flight(0);
}

#[test]
fn outside_a_runtime_nothing_is_sent() {
    let mut client = Client::new();
    drop(client.send(tool(1)));
    let (reply, stream) = client.open(tool(2));
    drop(reply);
    assert!(stream.is_closed());
    assert!(client.arrived.try_recv().is_err());
    client.assert_in_flight(0);
}

#[test]
fn a_reply_may_outlive_its_runtime() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let mut client = Client::new();
    let (reply, stream) = runtime.block_on(async { client.open(tool(1)) });
    let (other, _other_stream) = runtime.block_on(async { client.open(tool(2)) });
    // On a thread outside, while the runtime is there.
    drop(reply);
    runtime.block_on(client.assert_told(1, "dropped outside"));
    assert!(stream.is_closed());
    drop(runtime);
    drop(other);
    assert!(client.arrived.try_recv().is_err());
    client.assert_in_flight(0);
}

/// Notes, as it is dropped, how many requests are in flight.
struct Witness(Cancelling, Arc<Mutex<Vec<usize>>>);

impl Drop for Witness {
    fn drop(&mut self) {
        self.1.lock().unwrap().push(self.0.in_flight());
    }
}

#[tokio::test]
async fn the_exchange_is_closed_before_the_server_is_told() {
    let mut client = Client::new();
    let seen = Arc::<Mutex<Vec<usize>>>::default();
    let (sent, arrived) = client.send(tool(1));
    let witness = Witness(client.service.clone(), Arc::clone(&seen));
    arrived.answer(Events::new(futures_util::stream::poll_fn(move |_| {
        let _ = &witness;
        std::task::Poll::Pending
    })));
    drop(now(sent).unwrap());
    assert_eq!(*seen.lock().unwrap(), [1], "the stream first, then the guard");
    client.assert_told(1, "dropped").await;
}

#[tokio::test]
async fn a_server_that_cannot_be_told_harms_nobody() {
    let mut client = Client::new();
    drop(client.send(tool(1)));
    let told = client.background().await.pop().unwrap();
    told.fail("no connection");
    client.assert_silent("it is not repeated").await;
    let (reply, stream) = client.open(tool(1));
    stream.send(Ok(done(1).into())).unwrap();
    assert!(response(Ok(reply)).is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_server_that_does_not_hear_is_not_waited_for() {
    let mut client = Client::new();
    drop(client.send(tool(1)));
    let told = client.background().await.pop().unwrap();
    assert!(!told.is_closed());
    tokio::time::sleep(Duration::from_secs(6)).await;
    assert!(told.is_closed());
}

#[tokio::test]
async fn a_request_is_taken_back_as_it_was_sent_whatever_the_connection_speaks_by_then() {
    let mut client = Client::in_session("s-1");
    let (reply, _stream) = client.open(tool(1));
    let (_modern, arrived) = client.send(modern(2));
    assert!(arrived.headers.get("mcp-session-id").is_none());
    drop(reply);
    let headers = client.assert_told(1, "dropped").await;
    assert_eq!(headers["mcp-session-id"], "s-1");
    assert_eq!(headers["mcp-protocol-version"], LEGACY);
}
