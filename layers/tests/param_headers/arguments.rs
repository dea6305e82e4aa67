//! Where the value of a header is found among the arguments.

use mcp_streamable_http_layers::{JsonRpcMessage, RawJson};

use super::common::*;
use super::support::*;

/// A client that knows of the tool `t`, which has a header for each argument from `a` to `h`, and for some nested ones.
fn client() -> Client {
    let flat: Vec<_> =
        ('a'..='h').map(|name| format!(r#""{name}":{{"type":"string","x-mcp-header":"{name}"}}"#)).collect();
    let deep = r#""o":{"properties":{"x":{"type":"string","x-mcp-header":"o-x"},
        "o":{"properties":{"y":{"type":"integer","x-mcp-header":"o-o-y"},"":{"type":"string","x-mcp-header":"empty"}}}}},
        "o.x":{"type":"string","x-mcp-header":"dot"},"größe":{"type":"string","x-mcp-header":"size"}"#;
    Client::having_read(&[tool("t", &format!("{},{deep}", flat.join(",")))])
}

#[track_caller]
fn assert_mirrored<const N: usize>(arguments: &str, expected: [(&str, &str); N]) {
    assert_eq!(client().call("t", arguments).unwrap(), sent(expected), "{arguments}");
}

#[test]
fn an_argument_is_found_at_its_path_and_nowhere_else() {
    assert_mirrored(
        r#"{"o":{"x":"1","o":{"y":2,"":"3","x":"no"},"y":4},"x":"5","y":6}"#,
        [("empty", "3"), ("o-o-y", "2"), ("o-x", "1")],
    );
    assert_mirrored(r#"{"o.x":"dotted","o":{"o.x":"no"}}"#, [("dot", "dotted")]);
    assert_mirrored(r#"{"A":"no","größe":"xl","":"no","i":"no"}"#, [("size", "xl")]);
    assert_mirrored(
        " { \"a\" :\t\"1\" ,\n\"o\" : { \"x\" : \"2\" } , \"b\" : true } ",
        [("a", "1"), ("b", "true"), ("o-x", "2")],
    );
}

#[test]
fn a_path_that_leads_nowhere_has_no_header() {
    for arguments in [
        "{}",
        r#"{"o":{}}"#,
        r#"{"o":null}"#,
        r#"{"o":1}"#,
        r#"{"o":"x"}"#,
        r#"{"o":[{"x":"1"}]}"#,
        r#"{"o":{"o":[]}}"#,
        r#"{"o":{"x":null,"o":{"y":null}},"a":null}"#,
    ] {
        assert_mirrored(arguments, []);
    }
}

#[test]
fn of_a_name_that_occurs_twice_the_last_counts() {
    assert_mirrored(r#"{"a":"1","b":"2","a":"3"}"#, [("a", "3"), ("b", "2")]);
    assert_mirrored(r#"{"a":"1","a":null}"#, []);
    assert_mirrored(r#"{"a":[],"a":"1"}"#, [("a", "1")]);
    assert_mirrored(r#"{"o":{"x":"1"},"o":{"o":{"y":1,"y":2}}}"#, [("o-o-y", "2")]);
    assert_mirrored(r#"{"a":"1","a":"2","a":"3","a":"4","a":"5","b":"6","a":"7"}"#, [("a", "7"), ("b", "6")]);
    let mut client = client();
    let twice = client.request("tools/call", r#""arguments":{"a":"1"},"name":"t","arguments":{"b":"2"}"#);
    assert_eq!(mirrored(&client.headers_of(twice).unwrap()), sent([("b", "2")]));
    for rest in ["null", "[]", "1", "\"a\""] {
        let members = format!(r#""arguments":{{"a":"1"}},"name":"t","arguments":{rest}"#);
        let twice = client.request("tools/call", &members);
        assert_eq!(mirrored(&client.headers_of(twice).unwrap()), sent([]), "{rest}");
    }
}

#[test]
fn names_with_escapes_are_the_names_that_they_mean() {
    assert_mirrored(
        r#"{"\u0061":"1","gr\u00f6\u00DFe":"2","o":{"\u0078":"3"},"\u006f\u002ex":"4"}"#,
        [("a", "1"), ("dot", "4"), ("o-x", "3"), ("size", "2")],
    );
    assert_mirrored(r#"{"a":"1","\u0061":"2"}"#, [("a", "2")]);
    assert_mirrored(r#"{"\u0061":"1","a":"2"}"#, [("a", "2")]);
    assert_mirrored(r#"{"\\u0061":"no"}"#, []);
    let mut client = client();
    let escaped = client.request("tools/call", r#""\u0061rguments":{"a":"1"},"n\u0061me":"\u0074""#);
    assert_eq!(mirrored(&client.headers_of(escaped).unwrap()), sent([("a", "1")]));
}

#[test]
fn any_number_of_arguments_is_looked_through() {
    for count in 0..=8 {
        for first in 0..=8 - count {
            let names: Vec<_> = ('a'..='h').skip(first).take(count).collect();
            let written: Vec<_> =
                names.iter().map(|name| format!(r#""{name}":"{name}!","z{name}":1"#)).collect();
            let expected: Sent = names.iter().map(|name| (name.to_string(), format!("{name}!"))).collect();
            assert_eq!(client().call("t", &format!("{{{}}}", written.join(","))).unwrap(), expected);
        }
    }
    assert_mirrored(r#"{"1":1,"2":2,"3":3,"4":4,"5":5,"o":{"1":1,"x":"6"},"6":6}"#, [("o-x", "6")]);
}

#[test]
fn arguments_that_are_no_object_have_no_headers() {
    for arguments in
        ["null", "[]", r#"["a","b"]"#, r#"[{"a":"1"}]"#, "true", "1", "-1.5e3", r#""a""#, r#""\u0061""#]
    {
        assert_mirrored(arguments, []);
    }
    let mut client = client();
    for members in
        [r#""name":"t""#, r#""name":"t","Arguments":{"a":"1"}"#, r#""name":"t","_a":{"arguments":{"a":"1"}}"#]
    {
        let request = client.request("tools/call", members);
        assert_eq!(mirrored(&client.headers_of(request).unwrap()), sent([]), "{members}");
    }
}

#[test]
fn only_calls_of_that_very_tool_have_headers() {
    let mut client = client();
    assert_eq!(client.call("T", r#"{"a":"1"}"#).unwrap(), sent([]));
    assert_eq!(client.call("unknown", r#"{"a":[1.5]}"#).unwrap(), sent([]), "nor is anything refused");
    for method in ["prompts/get", "tools/list", "tools/Call", "tasks/get", "completion/complete"] {
        let request = client.request(method, r#""name":"t","arguments":{"a":"1"}"#);
        assert_eq!(mirrored(&client.headers_of(request).unwrap()), sent([]), "{method}");
    }
    for members in [r#""arguments":{"a":"1"}"#, r#""name":null,"arguments":{"a":"1"}"#] {
        let request = client.request("tools/call", members);
        assert_eq!(mirrored(&client.headers_of(request).unwrap()), sent([]), "{members}");
    }
    let request = client.request("tools/call", r#""arguments":{"a":"1"},"name":"t""#);
    assert_eq!(mirrored(&client.headers_of(request).unwrap()), sent([("a", "1")]), "in any order");
}

#[test]
fn what_the_caller_set_replaces_ours() {
    let mut client = client();
    let call = client.request("tools/call", r#""name":"t","arguments":{"a":"ours","b":"b"}"#);
    let call = call.with(extra(&[("mcp-param-a", "own"), ("mcp-param-other", "too")]));
    let headers = client.headers_of(call).unwrap();
    assert_eq!(mirrored(&headers), sent([("a", "own"), ("b", "b"), ("other", "too")]));
}

#[test]
fn the_message_goes_out_as_it_was_written() {
    let meta = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}"#;
    let arguments = r#"{"a":"\u00fc","\u0062":  "x\u0009y" , "n":1.10}"#;
    let params = format!(r#"{{"arguments" : {arguments},"name":"t",{meta}}}"#);
    let message = JsonRpcMessage::request(1, "tools/call", RawJson::parse(params.clone()).unwrap());
    assert!(message.to_string().contains(&params));
    let mut client = client();
    let (headers, body) = client.received(message.clone());
    assert_eq!(mirrored(&headers), sent([("a", "=?base64?w7w=?="), ("b", "=?base64?eAl5?=")]));
    assert_eq!(body, message.encode());
}
