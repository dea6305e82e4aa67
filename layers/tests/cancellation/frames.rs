//! The caller's own `notifications/cancelled`.

use super::*;

/// Frames that name no request in flight, while `1` and `"2"` are.
fn strays() -> Vec<JsonRpcMessage> {
    let frame = |params| JsonRpcMessage::notification("notifications/cancelled", params);
    vec![
        cancel(3),
        cancel("1"),
        cancel(2),
        cancel(Value::Null),
        cancel(json!([1])),
        cancel(json!({ "requestId": 1 })),
        cancel(true),
        frame(json!({})),
        frame(json!({ "requestid": 1 })),
        frame(json!({ "nested": { "requestId": 1 } })),
        JsonRpcMessage::notification("notifications/cancelled", ()),
    ]
}

/// Sends a frame that the server gets, and accepts.
#[track_caller]
fn posted(client: &mut Client, frame: JsonRpcMessage) {
    let (sent, arrived) = client.send(frame);
    assert!(arrived.is("notifications/cancelled"));
    arrived.answer(Events::EMPTY);
    assert!(all(now(sent).unwrap()).is_empty());
}

#[tokio::test]
async fn a_legacy_frame_is_sent_and_a_late_answer_is_delivered() {
    let mut client = Client::new();
    let (reply, stream) = client.open(tool(1));
    let mut reply = task::spawn(reply);
    assert!(reply.poll_next().is_pending());
    posted(&mut client, cancel(1));
    assert!(reply.poll_next().is_pending() && !stream.is_closed());
    client.assert_in_flight(1);
    stream.send(Ok(notification().into())).unwrap();
    stream.send(Ok(done(1).into())).unwrap();
    let items = all(reply);
    assert!(matches!(&items[..], [Ok(_), Ok(JsonRpcMessage::Response(_))]), "{items:?}");
    client.assert_in_flight(0);
    client.assert_silent("once").await;
}

#[tokio::test]
async fn a_legacy_frame_before_the_head_is_sent_too() {
    let mut client = Client::new();
    let (mut sent, arrived) = client.send(tool("a"));
    posted(&mut client, cancel("a"));
    assert!(sent.poll().is_pending() && !arrived.is_closed());
    arrived.answer(done("a").into());
    assert!(response(now(sent)).is_ok());
}

#[tokio::test]
async fn a_cancelled_legacy_request_that_gets_no_answer_ends_as_cancelled() {
    let mut client = Client::new();
    let (reply, stream) = client.open(tool(1));
    posted(&mut client, cancel(1));
    drop(stream);
    let error = ends_with_error(reply);
    assert!(error.is_cancelled(), "{error:?}");
    assert_eq!(error.to_json_rpc().code(), -32000);
    client.assert_in_flight(0);
    client.assert_silent("once").await;
}

#[tokio::test]
async fn dropping_what_the_caller_has_cancelled_sends_nothing_more() {
    let mut client = Client::new();
    let (reply, stream) = client.open(tool(1));
    let (sent, arrived) = client.send(tool(2));
    posted(&mut client, cancel(1));
    posted(&mut client, cancel(2));
    drop(reply);
    drop(sent);
    assert!(stream.is_closed() && arrived.is_closed());
    client.assert_silent("once").await;
    client.assert_in_flight(0);
}

#[tokio::test]
async fn a_modern_frame_closes_the_stream_and_is_not_sent() {
    let mut client = Client::new();
    let (reply, stream) = client.open(modern(1));
    let mut reply = task::spawn(reply);
    assert!(reply.poll_next().is_pending());
    client.swallowed(cancel(1));
    assert!(reply.is_woken());
    // What comes late reaches nobody.
    stream.send(Ok(done(1).into())).unwrap();
    let items = all(reply);
    assert!(matches!(&items[..], [Err(error)] if error.is_cancelled()), "{items:?}");
    assert!(stream.is_closed());
    client.assert_in_flight(0);
    client.assert_silent("modern").await;
    // Once more, too late.
    client.swallowed(cancel(1));
}

#[tokio::test]
async fn a_modern_frame_before_the_head_closes_the_exchange() {
    let mut client = Client::new();
    let (mut sent, arrived) = client.send(modern("a"));
    client.swallowed(cancel("a"));
    assert!(sent.is_woken());
    match sent.poll() {
        std::task::Poll::Ready(Err(error)) => assert!(error.is_cancelled(), "{error:?}"),
        other => panic!("{other:?}"),
    }
    assert!(arrived.is_closed(), "while the future is still there");
    client.assert_in_flight(0);
    drop(sent);
    client.assert_silent("modern").await;
}

#[tokio::test]
async fn a_modern_request_that_is_cancelled_before_its_first_poll_is_not_made() {
    let mut client = Client::new();
    let sent = client.call(modern(1));
    let arrived = client.received();
    client.swallowed(cancel(1));
    assert!(now(sent).unwrap_err().is_cancelled());
    assert!(arrived.is_closed());
}

#[tokio::test]
async fn frames_for_no_request_go_the_way_of_the_connection() {
    let mut client = Client::new();
    let (_number, number) = client.open(tool(1));
    let (_text, text) = client.open(tool("2"));
    for frame in strays() {
        posted(&mut client, frame);
    }
    assert!(!number.is_closed() && !text.is_closed());

    let mut client = Client::new();
    let (first, number) = client.open(modern(1));
    let (second, text) = client.open(modern("2"));
    let (mut first, mut second) = (task::spawn(first), task::spawn(second));
    for frame in strays() {
        client.swallowed(frame);
    }
    assert!(first.poll_next().is_pending() && second.poll_next().is_pending());
    assert!(!number.is_closed() && !text.is_closed());
    client.assert_in_flight(2);
}

#[tokio::test]
async fn the_era_of_the_request_decides_and_not_that_of_the_connection() {
    let mut client = Client::in_session("s-1");
    let (old, old_stream) = client.open(tool(1));
    let (new, new_stream) = client.open(modern(2));
    // The connection is modern now.
    posted(&mut client, cancel(1));
    assert!(!old_stream.is_closed());
    client.swallowed(cancel(2));
    assert!(ends_with_error(new).is_cancelled() && new_stream.is_closed());
    old_stream.send(Ok(done(1).into())).unwrap();
    assert!(response(Ok(old)).is_ok());

    // And legacy again.
    let (new, _new_stream) = client.open(modern(2));
    let (_, _stamped) = client.open(ping(3).with(extra(&[("mcp-protocol-version", LEGACY)])));
    client.assert_told(3, "dropped").await;
    client.swallowed(cancel(2));
    assert!(ends_with_error(new).is_cancelled());
    posted(&mut client, cancel(2));
    client.assert_in_flight(0);
}

#[tokio::test]
async fn a_legacy_request_is_taken_back_on_a_connection_that_is_modern_now() {
    let mut client = Client::new();
    let (reply, stream) = client.open(tool(1));
    let (_modern, _modern_stream) = client.open(modern(2));
    drop(reply);
    assert!(stream.is_closed());
    client.assert_told(1, "sent in the legacy era").await;
}

#[tokio::test]
async fn other_messages_pass() {
    let mut client = Client::new();
    let (_reply, stream) = client.open(tool(1));
    let about = json!({ "requestId": 1 });
    for message in [
        JsonRpcMessage::notification("notifications/progress", about.clone()),
        JsonRpcMessage::response(1, about.clone()),
    ] {
        let (sent, arrived) = client.send(message);
        assert!(!arrived.is("notifications/cancelled"));
        arrived.answer(Events::EMPTY);
        assert!(all(now(sent).unwrap()).is_empty());
    }
    // A request of that name is a request.
    let (_sent, arrived) = client.send(JsonRpcMessage::request(2, "notifications/cancelled", about));
    assert_eq!(arrived.message["id"], 2);
    client.assert_in_flight(2);
    assert!(!stream.is_closed());
}
