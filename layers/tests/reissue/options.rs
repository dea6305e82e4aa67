//! What goes with a request that is sent again.

use mcp_streamable_http_layers::error::TimedOut;
use mcp_streamable_http_layers::options::{Deadline, FirstByte};
use serde_json::json;
use tokio::time::{Instant, sleep};

use super::breaks::BREAKS;
use super::mismatch::*;
use super::subscriptions::*;
use super::*;

#[tokio::test(start_paused = true)]
async fn its_headers_go_with_it() {
    let headers = || extra(&[("x-tenant", "blue"), ("authorization", "Bearer s3cret")]);
    for (how, breaks) in BREAKS {
        let mut client = Client::new();
        let (_call, sent) = client.send(list(7).with(headers())).await;
        breaks(sent);
        let again = client.inbox.next().await;
        assert_eq!(
            (again.header("x-tenant"), again.header("authorization")),
            (Some("blue"), Some("Bearer s3cret")),
            "{how}"
        );
    }
    let mut client = Client::new();
    let (_call, sent) = client.send(tool(7).with(headers())).await;
    sent.error(400, REFUSAL);
    let listing = client.inbox.next().await;
    assert_eq!(listing.header("authorization"), Some("Bearer s3cret"));
    listing.result(&tools(&[("region", "Region")]));
    let again = client.inbox.next().await;
    assert_eq!(
        (again.header("x-tenant"), again.header("authorization")),
        (Some("blue"), Some("Bearer s3cret"))
    );

    let mut client = Client::relistening();
    let (mut call, sent) = client.send(listen().with(headers())).await;
    acknowledge(sent);
    call.message().await;
    for _ in 0..2 {
        let again = client.inbox.next().await;
        assert_eq!(
            (again.header("x-tenant"), again.header("authorization")),
            (Some("blue"), Some("Bearer s3cret"))
        );
        again.fail("reset");
    }
}

#[tokio::test(start_paused = true)]
async fn its_deadline_goes_with_it_and_is_not_prolonged() {
    for (how, breaks) in BREAKS {
        let mut client = Client::new();
        let start = Instant::now();
        let (mut call, sent) = client.send(list(7).with(Deadline::within(secs(5)))).await;
        sleep(secs(2)).await;
        breaks(sent);
        let again = client.inbox.next().await;
        let error = call.failure().await;
        assert_eq!(error.find::<TimedOut>().unwrap().knob(), "Deadline", "{how}");
        assert_eq!(start.elapsed(), secs(5), "{how}");
        assert!(again.is_dropped(), "{how}");
        client.inbox.assert_silent(how).await;
    }
}

#[tokio::test(start_paused = true)]
async fn its_deadline_bounds_the_stream_of_the_second_too() {
    let mut client = Client::new();
    let start = Instant::now();
    let (mut call, sent) = client.send(list(7).with(Deadline::within(secs(5)))).await;
    drop(sent.stream());
    let pen = client.inbox.next().await.stream();
    pen.write(event(&progress(1)));
    call.message().await;
    assert!(call.failure().await.is_timeout());
    assert_eq!(start.elapsed(), secs(5));
    assert!(pen.watch().is_dropped());
}

#[tokio::test(start_paused = true)]
async fn its_deadline_bounds_a_call_whose_headers_do_not_match() {
    let mut client = Client::new();
    let start = Instant::now();
    let (mut call, sent) = client.send(tool(7).with(Deadline::within(secs(5)))).await;
    sleep(secs(1)).await;
    sent.error(400, REFUSAL);
    sleep(secs(1)).await;
    client.inbox.next().await.result(&tools(&[("region", "Region")]));
    let again = client.inbox.next().await;
    assert!(call.failure().await.is_timeout());
    assert_eq!(start.elapsed(), secs(5));
    assert!(again.is_dropped());
}

#[tokio::test(start_paused = true)]
async fn its_bound_for_a_head_goes_with_it() {
    let mut client = Client::new();
    let (mut call, sent) = client.send(list(7).with(FirstByte::within(secs(5)))).await;
    drop(sent.stream());
    let again = client.inbox.next().await;
    let error = call.failure().await;
    assert_eq!(error.find::<TimedOut>().unwrap().knob(), "FirstByte");
    assert_eq!(again.at.elapsed(), secs(5));
    client.inbox.assert_silent("out of time").await;
}

#[tokio::test(start_paused = true)]
async fn a_limit_of_one_call_below_has_room_for_the_second() {
    let one = || Client::limited(1, |layer| layer.relisten(true));
    for (how, breaks) in BREAKS {
        let mut client = one();
        let (mut call, sent) = client.send(list(7)).await;
        breaks(sent);
        client.inbox.next().await.result(&json!({}));
        call.result(7, &json!({})).await;
        client.inbox.assert_silent(how).await;
    }

    let mut client = one();
    let (mut call, _, listing) = client.refused().await;
    listing.result(&page(&[("region", "Region")], Some("more")));
    client.inbox.next().await.result(&json!({ "tools": [] }));
    client.inbox.next().await.result(&json!({}));
    call.result(7, &json!({})).await;

    let mut client = one();
    let (mut call, pen) = client.subscribed().await;
    drop(pen);
    client.inbox.next().await.fail("reset");
    let _pen = acknowledge(client.inbox.next().await);
    call.message().await;
}

#[tokio::test(start_paused = true)]
async fn a_limit_of_one_call_below_is_shared_by_many_that_are_sent_again() {
    let mut client = Client::limited(1, |layer| layer);
    let mut calls: Vec<_> = (0..10).map(|id| (id, client.call(tool(id)))).collect();
    calls.extend((10..20).map(|id| (id, client.call(list(id)))));
    let mut has_broken = std::collections::HashSet::new();
    let mut answered = 0;
    while answered < 20 {
        let sent = client.inbox.next().await;
        match sent.method() {
            "tools/list" => sent.result(&tools(&[("region", "Region")])),
            "tools/call" if sent.header("mcp-param-region").is_none() => sent.error(400, REFUSAL),
            "prompts/list" if has_broken.len() < 10 && sent.id().is_number() => {
                has_broken.insert(sent.id().to_string());
                sent.fail("reset");
            }
            _ => {
                answered += 1;
                sent.result(&json!({}));
            }
        }
    }
    for (id, mut call) in calls {
        call.result(id, &json!({})).await;
    }
    assert_eq!(has_broken.len(), 10);
}

#[test]
fn without_a_runtime_a_call_is_sent_again_too() {
    let mut client = Client::new();
    for (message, refused) in [(list(7), false), (tool(8), true)] {
        let mut sent = call(&mut client.messages, message);
        assert!(sent.poll().is_pending());
        let first = client.inbox.received();
        if refused {
            first.error(400, REFUSAL);
            assert!(sent.poll().is_pending());
            client.inbox.received().result(&tools(&[("region", "Region")]));
        } else {
            first.fail("reset");
        }
        assert!(sent.poll().is_pending());
        client.inbox.received().result(&json!({}));
        assert!(response(now(sent)).is_ok());
    }
}

#[test]
fn without_a_runtime_there_is_no_clock_to_wait_by_so_a_subscription_ends() {
    let mut client = Client::relistening();
    let mut sent = call(&mut client.messages, listen());
    assert!(sent.poll().is_pending());
    drop(acknowledge(client.inbox.received()));
    let items = all(now(sent).unwrap());
    assert_eq!((items.len(), items[0].is_ok(), items[1].is_err()), (2, true, true));
}
