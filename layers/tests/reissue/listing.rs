//! The listing that follows a mismatch.

use mcp_streamable_http_layers::JsonRpcMessage;
use serde_json::{Value, json};

use super::breaks::BREAKS;
use super::mismatch::*;
use super::*;

#[tokio::test(start_paused = true)]
async fn it_has_all_pages_and_of_the_calls_meta_who_asks_and_no_more() {
    let mut client = Client::new();
    let (mut call, _, first) = client.refused().await;
    let meta = json!({
        VERSION: MODERN,
        INFO: { "name": "test", "version": "1" },
        CAPABILITIES: { "roots": {} },
    });
    assert_eq!(first.message["params"], json!({ "_meta": meta }));
    assert_eq!((first.header("mcp-method"), first.header("mcp-name")), (Some("tools/list"), None));
    assert_eq!(first.header("mcp-protocol-version"), Some(MODERN));
    let other = json!({ "name": "other", "inputSchema": {} });
    first.result(&json!({ "tools": [other], "nextCursor": "\"two\"\n" }));
    let second = client.inbox.next().await;
    assert_eq!(second.message["params"], json!({ "_meta": meta, "cursor": "\"two\"\n" }));
    second.result(&json!({ "tools": [], "nextCursor": "" }));
    let third = client.inbox.next().await;
    assert_eq!(third.message["params"], json!({ "_meta": meta, "cursor": "" }));
    // What is not in it yet is not sent before the last page.
    third.result(&page(&[("region", "Region")], Some("four")));
    let fourth = client.inbox.next().await;
    assert_eq!(fourth.method(), "tools/list");
    fourth.result(&json!({ "tools": [], "nextCursor": null }));
    let again = client.inbox.next().await;
    assert_eq!((again.method(), again.header("mcp-param-region")), ("tools/call", Some("eu")));
    again.result(&json!({}));
    call.result(7, &json!({})).await;
}

#[tokio::test(start_paused = true)]
async fn what_the_call_does_not_say_is_not_made_up() {
    for (meta, copied) in [
        (json!({ VERSION: MODERN }), json!({ VERSION: MODERN })),
        (json!({ VERSION: MODERN, INFO: null, "traceparent": "00" }), json!({ VERSION: MODERN, INFO: null })),
        (
            json!({ VERSION: MODERN, "a/b": 1, CAPABILITIES: [ 1.0 ] }),
            json!({ VERSION: MODERN, CAPABILITIES: [ 1.0 ] }),
        ),
    ] {
        let mut client = Client::new();
        let call = JsonRpcMessage::request(7, "tools/call", json!({ "name": "query", "_meta": meta }));
        let (_call, sent) = client.send(call).await;
        sent.error(400, REFUSAL);
        assert_eq!(client.inbox.next().await.message["params"], json!({ "_meta": copied }));
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_names_its_version_in_a_header_lists_in_that_version() {
    let mut client = Client::new();
    let stamped =
        JsonRpcMessage::request(7, "tools/call", json!({ "name": "query", "arguments": { "region": "eu" } }));
    let stamped = stamped.with(extra(&[("mcp-protocol-version", MODERN), ("x-tenant", "blue")]));
    let (mut call, sent) = client.send(stamped).await;
    sent.error(400, REFUSAL);
    let listing = client.inbox.next().await;
    assert_eq!(listing.header("mcp-protocol-version"), Some(MODERN));
    assert_eq!(listing.header("x-tenant"), Some("blue"));
    listing.result(&tools(&[("region", "Region")]));
    let again = client.inbox.next().await;
    assert_eq!((again.header("mcp-param-region"), again.header("x-tenant")), (Some("eu"), Some("blue")));
    again.result(&json!({}));
    call.result(7, &json!({})).await;
}

#[tokio::test(start_paused = true)]
async fn if_it_fails_the_refusal_is_the_answer() {
    let failures: [Way; 6] = [
        ("an error", |sent| sent.error(200, r#"{"code":-32601,"message":"no"}"#)),
        ("another mismatch", |sent| sent.error(400, REFUSAL)),
        ("500", |sent| sent.status(500, None)),
        ("a challenge", |sent| sent.status(401, Some(("www-authenticate", "Bearer")))),
        ("nothing of use", |sent| sent.answer(200, "text/html", "<p>")),
        ("202", |sent| sent.status(202, None)),
    ];
    for (how, fails) in failures.into_iter().chain(BREAKS) {
        let mut client = Client::new();
        let (mut call, _, listing) = client.refused().await;
        fails(listing);
        assert_refused(&mut call).await;
        client.inbox.assert_silent(how).await;

        // So it is if that happens on a later page, even if the tool was on an earlier one.
        let (mut call, sent) = client.send(tool("other")).await;
        sent.error(400, REFUSAL);
        client.inbox.next().await.result(&page(&[("region", "Region")], Some("more")));
        fails(client.inbox.next().await);
        assert!(call.response("other").await.outcome().is_err(), "{how}");
        client.inbox.assert_silent(how).await;
    }
}

#[tokio::test(start_paused = true)]
async fn it_may_take_ten_seconds() {
    let mut client = Client::new();
    let (mut call, _, listing) = client.refused().await;
    let start = listing.at;
    assert_refused(&mut call).await;
    assert_eq!(start.elapsed(), secs(10));
    assert!(listing.is_dropped());
    client.inbox.assert_silent("given up").await;

    // All pages together, and with a bound of the caller's own.
    let mut client = Client::with(|layer| layer.refresh_timeout(secs(3)));
    let (mut call, _, listing) = client.refused().await;
    let start = listing.at;
    tokio::time::sleep(secs(2)).await;
    listing.result(&page(&[("region", "Region")], Some("more")));
    let second = client.inbox.next().await;
    let pen = second.stream();
    pen.write(event(&progress(1)));
    assert_refused(&mut call).await;
    assert_eq!(start.elapsed(), secs(3));
    assert!(pen.watch().is_dropped());
    client.inbox.assert_silent("given up").await;
}

#[tokio::test(start_paused = true)]
async fn those_who_wait_for_one_that_hangs_wait_no_longer_than_on_their_own() {
    let mut client = Client::new();
    let (mut first, sent) = client.send(tool(7)).await;
    let (mut second, sent_too) = client.send(tool("7")).await;
    let start = sent.at;
    sent.error(400, REFUSAL);
    let _hangs = client.inbox.next().await;
    sent_too.error(400, REFUSAL);
    assert_refused(&mut first).await;
    assert!(second.response("7").await.outcome().is_err());
    assert_eq!(start.elapsed(), secs(10));
}

#[tokio::test(start_paused = true)]
async fn if_its_call_is_dropped_another_that_waits_lists_itself() {
    let mut client = Client::new();
    let (first, sent) = client.send(tool("first")).await;
    let (mut second, sent_too) = client.send(tool(7)).await;
    sent.error(400, REFUSAL);
    let dropped = client.inbox.next().await;
    sent_too.error(400, REFUSAL);
    second.assert_waiting("it waits for the listing").await;
    first.drop_it().await;
    assert!(dropped.is_dropped());
    let listing = client.inbox.next().await;
    assert_eq!(listing.method(), "tools/list");
    listing.result(&tools(&[("region", "Region")]));
    client.inbox.next().await.result(&json!({}));
    second.result(7, &json!({})).await;
    client.inbox.assert_silent("the first is gone").await;
}

#[tokio::test(start_paused = true)]
async fn pages_without_an_end_keep_nobody_for_ever() {
    let mut client = Client::new();
    let (mut call, _, mut listing) = client.refused().await;
    let mut pages = 0;
    while listing.method() == "tools/list" {
        pages += 1;
        assert!(pages <= 1000, "still another page");
        listing.result(&page(&[("region", "Region")], Some("more")));
        listing = client.inbox.next().await;
    }
    listing.result(&json!({}));
    call.result(7, &json!({})).await;
}

#[tokio::test(start_paused = true)]
async fn tools_that_break_the_rules_have_no_headers_then() {
    let mut client = Client::new();
    client.tools.learn(&tools(&[("region", "Region")])["tools"][0]).unwrap();
    let (mut call, _, listing) = client.refused().await;
    listing.result(&tools(&[("region", "Bad\r\nName")]));
    let again = client.inbox.next().await;
    assert!(again.headers.keys().all(|name| !name.as_str().starts_with("mcp-param-")));
    again.result(&Value::Object(Default::default()));
    call.result(7, &json!({})).await;
}
