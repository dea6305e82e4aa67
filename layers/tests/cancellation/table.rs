//! The table of the requests in flight: supersession, foreign responses, and that it empties.

use std::time::Duration;

use mcp_streamable_http_layers::error::{ForeignResponse, Superseded};
use mcp_streamable_http_layers::options::{Deadline, WireId};

use super::*;

fn is_superseded(error: &Error) -> bool {
    error.find::<Superseded>().is_some() && error.to_json_rpc().code() == -32000
}

/// A response that came under the id `wire`, and was given that of its request.
fn foreign(id: i64, wire: impl Into<RequestId>) -> Item {
    Ok(done(id).with(WireId(Some(wire.into()))).into())
}

#[tokio::test]
async fn a_request_takes_the_place_of_one_under_its_id() {
    for message in [tool, modern] {
        let mut client = Client::new();
        let (old, old_stream) = client.open(message(1));
        let mut old = task::spawn(old);
        assert!(old.poll_next().is_pending());
        let (new, new_stream) = client.open(message(1));
        client.assert_in_flight(1);
        assert!(old.is_woken());
        // The late answer is there first, and reaches nobody.
        old_stream.send(Ok(done(1).into())).unwrap();
        let items = all(old);
        assert!(matches!(&items[..], [Err(error)] if is_superseded(error)), "{items:?}");
        assert!(old_stream.is_closed());
        client.assert_in_flight(1);
        client.assert_silent("superseded").await;
        new_stream.send(Ok(done(1).into())).unwrap();
        assert!(response(Ok(new)).is_ok());
        client.assert_in_flight(0);
    }
}

#[tokio::test]
async fn it_takes_the_place_of_one_without_a_head_too() {
    for message in [tool, modern] {
        let mut client = Client::new();
        let (mut old, old_arrived) = client.send(message(1));
        let (mut new, _new_arrived) = client.send(message(1));
        assert!(old.is_woken() && !new.is_woken());
        let stream = old_arrived.stream();
        match old.poll() {
            std::task::Poll::Ready(Err(error)) => assert!(is_superseded(&error), "{error:?}"),
            other => panic!("{other:?}"),
        }
        assert!(stream.is_closed(), "at once, while the future is still there");
        drop(old);
        client.assert_in_flight(1);
        client.assert_silent("superseded").await;
        assert!(new.poll().is_pending());
    }
}

#[tokio::test]
async fn one_that_was_replaced_evicts_nobody_when_it_is_dropped() {
    let mut client = Client::new();
    let (future, future_arrived) = client.send(tool(1));
    let (reply, stream) = client.open(tool(1));
    let (newest, _newest_stream) = client.open(tool(1));
    drop(future);
    drop(reply);
    assert!(future_arrived.is_closed() && stream.is_closed());
    client.assert_in_flight(1);
    client.assert_silent("the id is another's").await;
    drop(newest);
    client.assert_in_flight(0);
    client.assert_told(1, "the newest").await;
}

#[tokio::test]
async fn ids_of_two_types_are_two_requests() {
    let mut client = Client::new();
    let (number, number_stream) = client.open(tool(1));
    let (_text, text_stream) = client.open(tool("1"));
    client.assert_in_flight(2);
    drop(number);
    client.assert_told(1, "the number").await;
    assert!(number_stream.is_closed() && !text_stream.is_closed());
    client.assert_in_flight(1);
}

#[tokio::test]
async fn a_response_to_another_request_in_flight_is_an_error() {
    let mut client = Client::new();
    let (first, first_stream) = client.open(tool(1));
    let (second, second_stream) = client.open(tool(2));
    first_stream.send(foreign(1, 2)).unwrap();
    let error = ends_with_error(first);
    assert!(error.find::<ForeignResponse>().is_some(), "{error:?}");
    assert_eq!(error.to_json_rpc().code(), -32700);
    assert!(first_stream.is_closed());
    client.assert_silent("the server has answered").await;
    client.assert_in_flight(1);
    // The other still waits for its own.
    second_stream.send(Ok(done(2).into())).unwrap();
    assert!(response(Ok(second)).is_ok());
}

#[tokio::test]
async fn a_response_under_an_id_that_nobody_has_is_delivered() {
    let mut client = Client::new();
    let (_other, _other_stream) = client.open(tool("2"));
    let answers =
        [foreign(1, 2), foreign(1, "server-error"), foreign(1, "1"), Ok(done(1).with(WireId(None)).into())];
    for answer in answers {
        let (reply, stream) = client.open(tool(1));
        stream.send(answer).unwrap();
        assert_eq!(response(Ok(reply)).unwrap().id(), Some(&1.into()));
        client.assert_silent("answered").await;
    }
}

#[tokio::test]
async fn the_table_is_empty_after_whatever_end() {
    let mut client = Client::new();
    let (other, _other_stream) = client.open(tool("other"));
    for id in 0..10_000_i64 {
        match id % 16 {
            0 => drop(client.call(tool(id))),
            1 => drop(client.send(tool(id))),
            2 => drop(client.open(tool(id))),
            3 => drop(client.open(modern(id))),
            4 => drop(client.open(initialize(id))),
            5 => drop(client.open(JsonRpcMessage::request(id, "tools/call", json!({ "task": {} })))),
            6 => {
                let (sent, arrived) = client.send(tool(id));
                arrived.fail("no connection");
                now(sent).unwrap_err();
            }
            7 => {
                let (sent, arrived) = client.send(tool(id));
                arrived.answer(done(id).into());
                response(now(sent)).unwrap();
            }
            8 => {
                let (reply, stream) = client.open(tool(id));
                stream.send(Err("reset".into())).unwrap();
                ends_with_error(reply);
            }
            9 => {
                let (reply, stream) = client.open(tool(id));
                drop(stream);
                ends_with_error(reply);
            }
            10 => {
                let (reply, stream) = client.open(tool(id));
                stream.send(foreign(id, "other")).unwrap();
                ends_with_error(reply);
            }
            11 => {
                client.call(tool(id).with(Deadline::within(Duration::ZERO))).await.unwrap_err();
            }
            12 => {
                let (old, _old_stream) = client.open(tool(id));
                let (new, new_stream) = client.open(tool(id));
                ends_with_error(old);
                new_stream.send(Ok(done(id).into())).unwrap();
                response(Ok(new)).unwrap();
            }
            13 => {
                let (reply, _stream) = client.open(modern(id));
                let _ = now(client.call(cancel(id))).unwrap();
                ends_with_error(reply);
            }
            14 => {
                // It cannot be sent.
                let message = tool(id).with(extra(&[("mcp-session-id", "mine")]));
                now(client.call(message)).unwrap_err();
            }
            _ => {
                let (mut reply, stream) = client.open(tool(id));
                stream.send(Ok(done(id).into())).unwrap();
                // The response was read, and the end was not.
                assert!(task::spawn(&mut reply).poll_next().is_ready());
            }
        }
        // Also so that the runtime lets this task go on polling.
        tokio::task::yield_now().await;
        while client.arrived.try_recv().is_ok() {}
        assert_eq!(client.service.in_flight(), 1, "after {id}");
    }
    drop(other);
    client.assert_in_flight(0);
}
