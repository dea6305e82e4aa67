//! Servers that mean harm, or mean well and exaggerate.

use std::fmt::Write as _;

use super::common::*;
use super::support::*;

/// Nested so deep that reading it level by level would overflow the stack.
fn nested(open: &str, inner: &str, close: &str) -> String {
    const DEPTH: usize = 100_000;
    format!("{}{inner}{}", open.repeat(DEPTH), close.repeat(DEPTH))
}

#[test]
fn a_hundred_thousand_tools_are_read_and_remembered_within_bounds() {
    const TOOLS: usize = 100_000;
    let mut list = String::from(r#"{"tools":["#);
    for number in 0..TOOLS {
        let kind = if number % 1_000 == 999 { "number" } else { "string" };
        let comma = if number == 0 { "" } else { "," };
        write!(
            list,
            r#"{comma}{{"name":"{number}","inputSchema":{{"properties":{{"v":{{"type":"{kind}","x-mcp-header":"V"}}}}}}}}"#
        )
        .unwrap();
    }
    list.push_str("]}");
    let mut client = Client::new();
    let shown = client.list(&list);
    assert_eq!(shown.matches(r#""number""#).count(), 0);
    assert_eq!(shown.matches(r#""string""#).count(), TOOLS - TOOLS / 1_000);
    assert_eq!(client.header_of("0").as_deref(), Some("v"));
    assert!((1..TOOLS / 2).contains(&client.tools.len()), "{}", client.tools.len());

    client.page(None, &[], None);
    assert!(client.tools.is_empty(), "all of it is given up");
}

#[test]
fn a_list_without_annotations_is_remembered_not_at_all() {
    let list: Vec<_> = (0..10_000).map(|number| plain(&number.to_string())).collect();
    let client = Client::having_read(&list);
    assert!(client.tools.is_empty());
}

#[test]
fn a_server_whose_pages_never_end_is_followed_without_harm() {
    let mut client = Client::having_read(&tools(["a"]));
    for number in 0..5_000 {
        let cursor = (number > 0).then(|| number.to_string());
        client.page(cursor.as_deref(), &tools(["b"]), Some(&(number + 1).to_string()));
    }
    // Many listings that nobody ends, each with a cursor of its own.
    for number in 0..5_000 {
        client.page(None, &tools(["c"]), Some(&format!("open {number}")));
    }
    assert_eq!(client.known(), "abc");
    client.page(Some("open 4999"), &[], None);
    assert_eq!(client.known(), "c", "the last of them can still be ended");
}

#[test]
fn schemas_nested_beyond_reason_do_no_harm() {
    for schema in [
        nested(r#"{"properties":{"p":"#, r#"{"type":"string","x-mcp-header":"P"}"#, "}}"),
        nested(r#"{"items":"#, r#"{"type":"string","x-mcp-header":"P"}"#, "}"),
        nested("[", r#"{"x-mcp-header":"P"}"#, "]"),
        nested(r#"{"x-mcp-header":"#, "1", "}"),
    ] {
        let beside = annotated("a", "A");
        let result = format!(r#"{{"tools":[{{"name":"deep","inputSchema":{schema}}},{beside}]}}"#);
        let mut client = Client::new();
        let shown = client.list(&result);
        assert!(shown.ends_with(&format!("{beside}]}}")), "{} bytes", shown.len());
        assert_eq!((client.known().as_str(), client.header_of("deep")), ("a", None));
    }
}

#[test]
fn a_schema_may_be_as_deep_as_people_write_them() {
    let depth = 50;
    let (open, close) = (r#"{"properties":{"p":"#.repeat(depth), "}}".repeat(depth));
    let schema = format!(r#"{open}{{"type":"string","x-mcp-header":"Deep"}}{close}"#);
    let mut client = Client::having_read(&[format!(r#"{{"name":"a","inputSchema":{schema}}}"#)]);
    let arguments = format!(r#"{}"x"{}"#, r#"{"p":"#.repeat(depth), "}".repeat(depth));
    assert_eq!(client.call("a", &arguments).unwrap(), sent([("deep", "x")]));
}

#[test]
fn other_parts_of_an_answer_may_be_nested_beyond_reason() {
    let deep = nested("[", "", "]");
    let result = format!(
        r#"{{"x":{deep},"tools":[{},{{"name":"b","x":{deep}}},{deep},{}]}}"#,
        broken("x"),
        annotated("a", "A")
    );
    let expected =
        format!(r#"{{"x":{deep},"tools":[{{"name":"b","x":{deep}}},{deep},{}]}}"#, annotated("a", "A"));
    let mut client = Client::new();
    assert!(client.list(&result) == expected);
    assert_eq!(client.known(), "a");
}

#[test]
fn arguments_may_be_nested_beyond_reason() {
    let mut client = Client::having_read(&tools(["a"]));
    for (open, close) in [("[", "]"), (r#"{"v":"#, "}")] {
        let deep = nested(open, "1", close);
        assert_eq!(client.call("a", &format!(r#"{{"x":{deep},"v":"1"}}"#)).unwrap(), sent([("a", "1")]));
        assert!(client.call("a", &format!(r#"{{"v":{deep}}}"#)).is_err());
    }
    assert_eq!(client.call("a", &nested("[", "", "]")).unwrap(), sent([]));
}

#[test]
fn a_tool_may_have_ten_thousand_annotations() {
    const PROPERTIES: usize = 10_000;
    let properties: Vec<_> =
        (0..PROPERTIES).map(|n| format!(r#""{n}":{{"type":"integer","x-mcp-header":"H{n}"}}"#)).collect();
    let mut client = Client::having_read(&[tool("a", &properties.join(","))]);
    let mirrored = client.call("a", r#"{"0":0,"9999":1,"10000":2,"x":3,"y":4,"z":5}"#).unwrap();
    assert_eq!(mirrored, sent([("h0", "0"), ("h9999", "1")]));

    let last = format!(r#"{},"x":{{"type":"integer","x-mcp-header":"h0"}}"#, properties.join(","));
    let result = format!(r#"{{"tools":[{}]}}"#, tool("a", &last));
    assert_eq!(client.list(&result), r#"{"tools":[]}"#, "one that occurs twice is found among them");
    assert!(client.tools.is_empty());
}

#[test]
fn a_long_value_is_sent_whole() {
    let mut client = Client::having_read(&tools(["a"]));
    let value = "ü".repeat(1 << 20);
    let mut mirrored = client.call("a", &format!(r#"{{"v":"{value}"}}"#)).unwrap();
    assert!(decoded(&mirrored.remove("a").unwrap()) == value);
    let answer = client.ask(None).answer(answer(200, "application/json", answered("{}")));
    assert_eq!(answer.unwrap(), "{}");
}
