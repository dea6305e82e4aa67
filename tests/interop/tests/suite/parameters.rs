//! Checks of arguments that are repeated in headers: the server compares the two.

use futures_util::StreamExt;
use futures_util::future::join_all;
use mcp_streamable_http::error::InvalidMessage;
use mcp_streamable_http::{StreamableHttp, ToolHeaders};
use mcp_streamable_http_interop::{Client, Relay, ToolResult};
use serde_json::{Value, json};

use crate::profile::Profile;

const HEADER_MISMATCH: i64 = -32020;

/// What a header can hold as it is, what it can hold encoded only, and what is left out.
pub(crate) async fn every_value_arrives(profile: &Profile) {
    let relay = Relay::to(&profile.server.uri()).await;
    let client = Client::modern(relay.uri());
    client.call("tools/list", json!({})).await;
    let texts = [
        "eu",
        "two words",
        "Grüße, 世界 🦀",
        " padded ",
        " ",
        "\ttab",
        "a\tb",
        "two\nlines",
        "\r\nmcp-param-number: 7",
        "\u{0}\u{7f}\u{85}\u{2028}",
        "=?base64?ZWNobw==?=",
        "=?base64??=",
        "=?base64?",
        "=?BASE64?ZWNobw==?=",
        "true",
        "42",
        "",
    ];
    let long = "x".repeat(4000);
    let mut calls: Vec<_> = texts.iter().map(|text| json!({ "text": text })).collect();
    let safe = (1_i64 << 53) - 1;
    calls.extend([safe, -safe, 0, 42, -7].map(|number| json!({ "number": number })));
    calls.extend([
        json!({ "text": long }),
        json!({ "number": 42.0 }),
        json!({ "flag": true }),
        json!({ "flag": false }),
        json!({ "text": null, "number": null, "flag": null, "place": null }),
        json!({}),
        json!({ "plain": "not in a header: ü" }),
        json!({ "place": {} }),
        json!({ "place": { "city": "Zürich" } }),
        json!({ "place": { "city": null, "house": { "number": -1 } } }),
        json!({ "place": { "city": "", "house": {} } }),
        json!({
            "text": " ü ", "number": safe, "flag": false, "plain": "p",
            "place": { "city": "Ulm", "house": { "number": 1 }, "plain": [1.5, null] },
        }),
    ]);
    for arguments in &calls {
        let result = client.tool("mirror", arguments.clone()).await;
        assert!(!result.is_error, "{arguments}: {}", result.text);
        let echo: Value = serde_json::from_str(&result.text).unwrap();
        assert_eq!(echo, *arguments);
    }
    // No call took a second attempt.
    assert_eq!(relay.posts(), 1 + calls.len());
}

/// What has no header that every implementation reads alike is not sent.
pub(crate) async fn what_no_header_can_hold_is_not_sent(profile: &Profile) {
    let relay = Relay::to(&profile.server.uri()).await;
    let client = Client::modern(relay.uri());
    client.call("tools/list", json!({})).await;
    let beyond = 1_i64 << 53;
    for (arguments, argument) in [
        (json!({ "number": beyond }), "`number`"),
        (json!({ "number": -beyond }), "`number`"),
        (json!({ "number": u64::MAX }), "`number`"),
        (json!({ "number": 1.5 }), "`number`"),
        (json!({ "text": ["a"] }), "`text`"),
        (json!({ "place": { "house": { "number": beyond } } }), "`place.house.number`"),
    ] {
        let call = json!({ "name": "mirror", "arguments": arguments });
        let error = client.try_call("tools/call", call).await.unwrap_err();
        assert!(error.find::<InvalidMessage>().is_some() && !error.may_have_run(), "{error:?}");
        assert!(error.to_string().contains(argument), "{error}");
    }
    assert_eq!((relay.posts(), relay.calls_of("tools/call")), (1, 0));
}

/// A client that has not listed the tools is refused, lists them, and calls again; then it knows.
pub(crate) async fn unknown_tools_are_looked_up(profile: &Profile) {
    let relay = Relay::to(&profile.server.uri()).await;
    let client = Client::modern(relay.uri());
    let arguments = json!({ "text": "Grüße", "place": { "city": "Ulm", "house": { "number": 1 } } });
    for (call, sent) in [(1, 2), (2, 3)] {
        let result = client.tool("mirror", arguments.clone()).await;
        let echo: Value = serde_json::from_str(&result.text).unwrap();
        assert_eq!(echo, arguments, "call {call}");
        assert_eq!((relay.calls_of("tools/call"), relay.calls_of("tools/list")), (sent, 1));
    }
}

/// Looking it up does not help here: the refusal is the answer.
pub(crate) async fn what_no_header_can_hold_is_refused_of_unknown_tools(profile: &Profile) {
    let client = profile.connect().await;
    let call = json!({ "name": "mirror", "arguments": { "number": 1_i64 << 53 } });
    assert_eq!(client.refused("tools/call", call).await.code(), HEADER_MISMATCH);
}

/// The server changes what it has told of a tool: calls that follow what it told before are answered all the same.
pub(crate) async fn changed_tools_are_looked_up(profile: &Profile) {
    let server = profile.connect().await;
    let relay = Relay::to(&profile.server.uri()).await;
    let client = Client::modern(relay.uri());
    let annotate = async |header: Value| {
        let arguments = json!({ "name": "changed", "header": header });
        assert_eq!(server.tool("annotate", arguments).await.text, "annotated");
    };
    annotate(Value::Null).await;
    client.call("tools/list", json!({})).await;
    echoes_once(&client, "changed").await;
    assert_eq!((relay.calls_of("tools/call"), relay.calls_of("tools/list")), (1, 1));

    // Added, renamed, and taken away, which does no harm.
    for (header, calls, lists) in
        [(json!("Text"), 3, 2), (json!("Other"), 5, 3), (Value::Null, 6, 3), (json!("Third"), 8, 4)]
    {
        annotate(header).await;
        echoes_once(&client, "changed").await;
        assert_eq!((relay.calls_of("tools/call"), relay.calls_of("tools/list")), (calls, lists));
    }
    echoes_once(&client, "changed").await;
    assert_eq!(relay.calls_of("tools/call"), 9);
}

/// Of many calls at once that follow what was told before, each is answered; the tools are listed for all of them.
pub(crate) async fn many_calls_look_a_changed_tool_up_once(profile: &Profile) {
    let server = profile.connect().await;
    let relay = Relay::to(&profile.server.uri()).await;
    let client = Client::modern(relay.uri());
    for header in ["Before", "After"] {
        let arguments = json!({ "name": "changed for many", "header": header });
        assert_eq!(server.tool("annotate", arguments).await.text, "annotated");
        if header == "Before" {
            client.call("tools/list", json!({})).await;
        }
    }
    join_all((0..16).map(|_| echoes_once(&client, "changed for many"))).await;
    assert_eq!(relay.calls_of("tools/list"), 2);
    assert!(relay.calls_of("tools/call") <= 32, "{}", relay.calls_of("tools/call"));
}

/// What one transport has learned serves another, even after a restart of the application: no call is refused first.
pub(crate) async fn what_was_learned_can_be_kept(profile: &Profile) {
    let learned = ToolHeaders::new();
    let transport = StreamableHttp::builder(profile.server.uri()).tool_headers(learned.clone());
    Client::modern_over(transport.build().unwrap()).call("tools/list", json!({})).await;
    let stored = serde_json::to_string(&learned).unwrap();

    let relay = Relay::to(&profile.server.uri()).await;
    let restored: ToolHeaders = serde_json::from_str(&stored).unwrap();
    let transport = StreamableHttp::builder(relay.uri()).tool_headers(restored);
    let client = Client::modern_over(transport.build().unwrap());
    assert_eq!(client.tool("locate", json!({ "region": "eu" })).await.text, "located in eu");
    assert_eq!(relay.posts(), 1);
}

/// There is one answer, under the id of the call.
async fn echoes_once(client: &Client, tool: &str) {
    let call = client.request("tools/call", json!({ "name": tool, "arguments": { "text": "ü" } }));
    let id = call.id().cloned();
    let items: Vec<_> = client.send(call).await.collect().await;
    let [Ok(answer)] = items.as_slice() else { panic!("{items:?}") };
    let answer = answer.as_response().unwrap();
    assert_eq!(answer.id(), id.as_ref());
    let result = ToolResult::read(&answer.clone().result().unwrap());
    assert_eq!(result, ToolResult { text: "ü".into(), is_error: false });
}
