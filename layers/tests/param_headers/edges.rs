//! What is easily got wrong.

use serde_json::json;

use super::support::*;

#[test]
fn of_two_listings_at_once_the_one_that_ends_keeps_all_that_it_had() {
    let mut client = Client::new();
    client.page(None, &tools(["a"]), Some("first 1"));
    client.page(None, &tools(["a"]), Some("second 1"));
    client.page(Some("second 1"), &tools(["b"]), Some("second 2"));
    client.page(Some("first 1"), &tools(["b"]), Some("first 2"));
    client.page(Some("second 2"), &tools(["c"]), None);
    assert_eq!(client.known(), "abc");
}

#[test]
fn a_page_that_is_asked_for_twice_does_not_lose_its_tools() {
    let mut client = Client::new();
    client.page(None, &tools(["a"]), Some("1"));
    client.page(Some("1"), &tools(["b"]), Some("2"));
    client.page(Some("1"), &tools(["b"]), Some("2"));
    client.page(Some("2"), &tools(["c"]), None);
    assert_eq!(client.known(), "abc");
}

#[test]
fn a_tool_that_is_told_of_during_a_listing_that_had_it_is_not_forgotten() {
    let mut client = Client::new();
    client.page(None, &tools(["a"]), Some("1"));
    client.tools.learn(&serde_json::from_str(&annotated("a", "a")).unwrap()).unwrap();
    client.page(Some("1"), &tools(["b"]), None);
    assert_eq!(client.known(), "ab");
}

#[test]
fn a_list_after_one_that_was_too_long_is_remembered() {
    let mut client = Client::new();
    let many: Vec<_> = (0..20_000).map(|number| annotated(&number.to_string(), "V")).collect();
    client.page(None, &many, None);
    client.page(None, &tools(["a"]), None);
    assert_eq!(client.known(), "a");
}

#[test]
fn a_name_among_the_arguments_that_cannot_be_decoded_hides_nothing_else() {
    let mut client = Client::having_read(&tools(["a"]));
    for arguments in [r#"{"\ud800":1,"v":"x"}"#, "1e999", r#""\ud800""#] {
        let call = client.request("tools/call", &format!(r#""arguments":{arguments},"name":"a""#));
        let headers = client.headers_of(call).unwrap();
        assert_eq!(headers.get("mcp-name").unwrap(), "a", "{arguments}");
    }
}

#[test]
fn a_version_after_arguments_that_cannot_be_decoded_is_seen() {
    let mut client = Client::speaking(None, Default::default());
    let params = r#"{"name":"a","arguments":{"\ud800":1},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}"#;
    let params = mcp_streamable_http_layers::RawJson::parse(params).unwrap();
    let call = mcp_streamable_http_layers::JsonRpcMessage::request(1, "tools/call", params);
    assert_eq!(client.headers_of(call).unwrap().get("mcp-protocol-version").unwrap(), "2026-07-28");
}

/// Each look-up goes through all of `params`: with 4,000 it takes some 14 s in debug.
#[test]
fn a_call_with_all_of_many_annotated_arguments_does_not_take_the_square_of_them() {
    let count = 10_000;
    let properties: Vec<_> =
        (0..count).map(|n| format!(r#""{n}":{{"type":"integer","x-mcp-header":"H{n}"}}"#)).collect();
    let mut client = Client::having_read(&[tool("a", &properties.join(","))]);
    let arguments: Vec<_> = (0..count).map(|n| format!(r#""{n}":{n}"#)).collect();
    let sent = client.call("a", &format!("{{{}}}", arguments.join(","))).unwrap();
    assert_eq!(sent.len(), count);
}

/// The same with one long argument that is not even mirrored: 1,000 annotations and 1 MiB take some 16 s in debug.
#[test]
fn a_long_argument_is_not_read_once_for_every_annotation() {
    let properties: Vec<_> =
        (0..1_000).map(|n| format!(r#""{n}":{{"type":"integer","x-mcp-header":"H{n}"}}"#)).collect();
    let mut client = Client::having_read(&[tool("a", &properties.join(","))]);
    let long = "x".repeat(1 << 20);
    let arguments = format!(r#"{{"a":1,"b":2,"c":3,"d":4,"e":"{long}"}}"#);
    assert_eq!(client.call("a", &arguments).unwrap(), sent([]));
}

#[test]
fn names_in_dependencies_are_no_annotations() {
    for keyword in ["dependentRequired", "dependencies"] {
        let schema = json!({ "properties": { "x-mcp-header": { "type": "string" } }, keyword: { "x-mcp-header": ["a"] } });
        let result = format!(r#"{{"tools":[{{"name":"a","inputSchema":{schema}}}]}}"#);
        assert_eq!(Client::new().list(&result), result);
    }
}

#[test]
fn a_number_with_a_small_fraction_is_no_integer() {
    let mut client = Client::having_read(&tools(["a"]));
    for number in ["4503599627370497.3", "9007199254740991.4", "1.00000000000000000001", "1e-400", "0.1e-330"]
    {
        assert!(client.call("a", &format!(r#"{{"v":{number}}}"#)).is_err(), "{number}");
    }
}

#[test]
fn a_deep_schema_with_a_broken_annotation_is_left_out() {
    let deep = format!("{}1{}", "[".repeat(200), "]".repeat(200));
    let schema =
        format!(r#"{{"properties":{{"v":{{"type":"number","x-mcp-header":"V"}}}},"default":{deep}}}"#);
    let result = format!(r#"{{"tools":[{{"name":"a","inputSchema":{schema}}}]}}"#);
    assert_eq!(Client::new().list(&result), r#"{"tools":[]}"#);
}

#[test]
fn a_schema_that_cannot_be_read_is_left_out_as_its_annotations_cannot_be_checked() {
    for odd in [r#""maximum":1e999"#, r#""description":"\ud800""#] {
        let definition = tool("a", &format!(r#""v":{{"type":"string","x-mcp-header":"V",{odd}}}"#));
        let result = format!(r#"{{"tools":[{definition}]}}"#);
        assert_eq!(Client::new().list(&result), r#"{"tools":[]}"#, "{odd}");
    }
}
