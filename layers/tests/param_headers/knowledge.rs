//! What is known of tools: told beforehand, stored, and shared.

use mcp_streamable_http_layers::ToolHeaders;
use serde_json::{Value, json};

use super::support::*;

/// A tool with a header for a nested argument, one for an odd name, and one whose own name is odd.
fn described() -> Value {
    json!({ "name": "größe", "inputSchema": { "type": "object", "properties": {
        "where": { "type": "object", "properties": { "region": { "type": "string", "x-mcp-header": "Region" } } },
        "a.b": { "type": "integer", "x-mcp-header": "Dotted" },
    } } })
}

const ARGUMENTS: &str = r#"{"where":{"region":"eu"},"a.b":7,"a":{"b":8}}"#;

#[test]
fn a_tool_can_be_told_of_before_any_listing() {
    let tools = ToolHeaders::new();
    tools.learn(&described()).unwrap();
    let mirrored = Client::knowing(tools).call("größe", ARGUMENTS).unwrap();
    assert_eq!(mirrored, sent([("dotted", "7"), ("region", "eu")]));
}

#[test]
fn what_was_told_is_replaced_and_forgotten_like_what_was_listed() {
    let tools = ToolHeaders::new();
    for name in ["a", "b"] {
        tools.learn(&serde_json::from_str(&annotated(name, "Told")).unwrap()).unwrap();
    }
    let mut client = Client::knowing(tools.clone());
    client.page(None, &[annotated("a", "Listed")], None);
    assert_eq!((client.header_of("a").as_deref(), client.header_of("b")), (Some("listed"), None));

    tools.learn(&serde_json::from_str(&annotated("a", "Told")).unwrap()).unwrap();
    assert_eq!(client.header_of("a").as_deref(), Some("told"));
    tools.learn(&serde_json::from_str(&plain("a")).unwrap()).unwrap();
    assert_eq!(client.header_of("a"), None);
}

#[test]
fn a_tool_that_breaks_the_rules_cannot_be_told_of_and_is_forgotten() {
    let mut client = Client::having_read(&tools(["a", "b"]));
    let error = client.tools.learn(&serde_json::from_str(&broken("a")).unwrap()).unwrap_err();
    assert!(error.to_string().contains("`v`"), "it says where: {error}");
    assert_eq!(client.known(), "b");
}

#[test]
fn something_without_a_name_is_no_tool() {
    let tools = ToolHeaders::new();
    for nameless in [json!({}), json!({ "name": 1 }), json!([]), json!(null), json!("a")] {
        assert!(tools.learn(&nameless).is_err(), "{nameless}");
    }
    assert!(tools.is_empty());
}

#[test]
fn knowledge_survives_a_restart() {
    let client = Client::having_read(&tools(["a", "b"]));
    client.tools.learn(&described()).unwrap();
    let stored = serde_json::to_string(&client.tools).unwrap();

    let restored: ToolHeaders = serde_json::from_str(&stored).unwrap();
    let mut client = Client::knowing(restored.clone());
    assert_eq!((client.known().as_str(), restored.len()), ("ab", 3));
    let mirrored = client.call("größe", ARGUMENTS).unwrap();
    assert_eq!(mirrored, sent([("dotted", "7"), ("region", "eu")]));

    // It is no different from what was learned in this process.
    client.page(None, &tools(["b", "c"]), None);
    assert_eq!(client.known(), "bc");
    let again: Value = serde_json::to_value(&client.tools).unwrap();
    assert_eq!(again, json!({ "b": { "mcp-param-b": ["v"] }, "c": { "mcp-param-c": ["v"] } }));
}

#[test]
fn stored_knowledge_cannot_name_headers_that_are_none_of_parameters() {
    for (header, path) in [
        ("authorization", json!(["v"])),
        ("mcp-session-id", json!(["v"])),
        ("mcp-param-", json!(["v"])),
        ("mcp-param-a b", json!(["v"])),
        ("mcp-param-a\r\nx-evil: 1", json!(["v"])),
        ("mcp-param-ü", json!(["v"])),
        ("mcp-param-a", json!([])),
        ("mcp-param-a", json!("v")),
        ("mcp-param-a", json!([1])),
    ] {
        let stored = json!({ "a": { header: path } });
        assert!(serde_json::from_value::<ToolHeaders>(stored.clone()).is_err(), "{stored}");
    }
    for stored in [json!([]), json!({ "a": [] }), json!({ "a": null })] {
        assert!(serde_json::from_value::<ToolHeaders>(stored.clone()).is_err(), "{stored}");
    }
}

#[test]
fn two_connections_share_what_one_of_them_learns() {
    let tools_of_both = ToolHeaders::new();
    let (mut one, mut other) =
        (Client::knowing(tools_of_both.clone()), Client::knowing(tools_of_both.clone()));
    one.page(None, &tools(["a", "b"]), None);
    assert_eq!((other.known().as_str(), tools_of_both.len()), ("ab", 2));

    // A listing may begin on one and end on the other.
    one.page(None, &tools(["a"]), Some("1"));
    other.page(Some("1"), &[], None);
    assert_eq!((one.known().as_str(), other.known().as_str()), ("a", "a"));
    assert_eq!(Client::new().known(), "", "nobody else knows");
}
