//! Tools that break the rules are taken out of the answer; nothing else in it changes.

use super::common::*;
use super::support::*;

/// Puts tools that are valid for `«A»` and `«B»`, and ones that are not for `«X»` and `«Y»`.
fn spelled(result: &str) -> String {
    result
        .replace("«A»", &annotated("a", "A"))
        .replace("«B»", r#"{ "name" : "b" ,"_meta":{"x-mcp-header":""},"n":1.10e2 }"#)
        .replace("«X»", &broken("x"))
        .replace("«Y»", "{\"inputSchema\":{\t\"x-mcp-header\":\"Root\" },\n\"name\":\"y\"}")
}

const LISTS: [(&str, &str); 11] = [
    // The first, one in the middle, the last, several, all.
    (r#"{"tools":[«X»,«A»,«B»]}"#, r#"{"tools":[«A»,«B»]}"#),
    (r#"{"tools":[«A»,«X»,«B»]}"#, r#"{"tools":[«A»,«B»]}"#),
    (r#"{"tools":[«A»,«B»,«X»]}"#, r#"{"tools":[«A»,«B»]}"#),
    (r#"{"tools":[«X»,«Y»,«A»,«X»,«Y»,«B»,«X»,«Y»]}"#, r#"{"tools":[«A»,«B»]}"#),
    (r#"{"tools":[«X»,«A»,«Y»]}"#, r#"{"tools":[«A»]}"#),
    (r#"{"tools":[«X»]}"#, r#"{"tools":[]}"#),
    (r#"{"tools":[«X»,«Y»,«X»]}"#, r#"{"tools":[]}"#),
    // Around the list are members of all kinds, and white space.
    (
        "{ \"ttlMs\" : 1.50 ,\n\"tools\" :\t[ «X» ,\t«A» ] , \"nextCursor\":\"\\u0031\", \"a\":[{}], \"a\":null }",
        "{ \"ttlMs\" : 1.50 ,\n\"tools\" :\t[ «A» ] , \"nextCursor\":\"\\u0031\", \"a\":[{}], \"a\":null }",
    ),
    ("{\"tools\":[\n «X»\n]\n}", "{\"tools\":[\n \n]\n}"),
    // The member's name with an escape; something that looks like a list before it.
    (r#"{"x":{"tools":[«X»]},"to\u006fls":[«X»,«A»]}"#, r#"{"x":{"tools":[«X»]},"to\u006fls":[«A»]}"#),
    // What is no tool stays beside one that goes.
    (r#"{"tools":[null,«X»,[«X»],1,"«"]}"#, r#"{"tools":[null,[«X»],1,"«"]}"#),
];

#[test]
fn what_is_left_is_as_the_server_wrote_it() {
    for (result, expected) in LISTS {
        let (result, expected) = (spelled(result), spelled(expected));
        assert_eq!(Client::new().list(&result), expected, "{result}");
        assert_eq!(Client::new().ask(None).answer(streamed(&result)).unwrap(), expected, "{result}");
        // Neither does it matter which page it is.
        let answer = json_answer(answered(&result));
        assert_eq!(Client::new().ask(Some("stored")).answer(answer).unwrap(), expected, "{result}");
    }
}

#[test]
fn what_stays_between_two_tools_is_what_stood_before_the_second() {
    let result = spelled("{\"tools\":[«A» ,\n«X»\t,  «B»\r\n]}");
    assert_eq!(Client::new().list(&result), spelled("{\"tools\":[«A»\t,  «B»\r\n]}"));
}

#[test]
fn a_list_of_valid_tools_stays_as_it_is() {
    for result in [
        r#"{"tools":[«A»,«B»]}"#,
        "{ \"tools\" : [ «A»\n,\t«B» ] , \"n\" : 12345678901234567890 }",
        r#"{"tools":[]}"#,
        r#"{"tools":[«B»,«B»]}"#,
    ] {
        let result = spelled(result);
        assert_eq!(Client::new().list(&result), result);
        assert_eq!(Client::new().ask(None).answer(streamed(&result)).unwrap(), result);
    }
}

#[test]
fn the_rest_of_the_list_is_learned_and_the_next_page_found() {
    let mut client = Client::having_read(&tools(["b"]));
    client.page(None, &[broken("x"), annotated("a", "A"), broken("y")], Some("1"));
    client.page(Some("1"), &[broken("z")], None);
    assert_eq!(client.known(), "a");
    assert_eq!(client.header_of("x"), None, "what is left out can still be called");
}

#[test]
fn outside_the_modern_era_nothing_is_removed_and_nothing_is_sent() {
    for version in [None, Some("2024-11-05"), Some("2025-03-26"), Some("2025-06-18"), Some("2025-11-25")] {
        let known = Client::having_read(&tools(["a"])).tools;
        for (result, _) in LISTS {
            let mut client = Client::speaking(version, known.clone());
            let result = spelled(result);
            assert_eq!(client.list(&result), result, "{version:?}");
            assert_eq!(client.ask(None).answer(streamed(&result)).unwrap(), result, "{version:?}");
            assert_eq!(client.header_of("a"), None, "{version:?}");
            // Nor is a call refused.
            assert_eq!(client.call("a", r#"{"v":1.5}"#).unwrap(), sent([]), "{version:?}");
        }
    }
}

#[test]
fn malformed_answers_stay_as_they_are() {
    let broken = broken("x");
    for result in [
        r#"{"tools":{"0":«}}"#,
        r#"{"tools":«}"#,
        r#"{"tools":null}"#,
        r#"{"tools":"«"}"#,
        r#"{"Tools":[«]}"#,
        "[«]",
        "null",
        "{}",
        "\"tools\"",
    ] {
        let text = broken.replace('"', if result.contains("\"«\"") { "\\\"" } else { "\"" });
        let result = result.replace('«', &text);
        let mut client = Client::having_read(&tools(["a"]));
        assert_eq!(client.list(&result), result);
        assert_eq!(client.known(), "a", "it says nothing of any tool: {result}");
    }
}

#[test]
fn what_has_no_name_stays() {
    let schema = r#""inputSchema":{"properties":{"v":{"type":"number","x-mcp-header":"V"}}}"#;
    for nameless in [
        format!("{{{schema}}}"),
        format!(r#"{{"name":1,{schema}}}"#),
        format!(r#"{{"name":null,{schema}}}"#),
        format!(r#"{{"Name":"a",{schema}}}"#),
    ] {
        let result = format!(r#"{{"tools":[{nameless}]}}"#);
        assert_eq!(Client::new().list(&result), result);
    }
}

#[test]
fn errors_of_the_server_stay_as_they_are() {
    let error = format!(r#"{{"code":-32603, "message":"no", "data":{{"tools":[{}]}}}}"#, broken("x"));
    let body = format!(r#"{{"jsonrpc":"2.0","id":1,"error":{error}}}"#);
    let stream = answer(200, "text/event-stream", format!("data: {body}\n\n"));
    assert_eq!(Client::new().ask(None).answer(stream).unwrap(), error);
    assert_eq!(Client::new().ask(None).answer(json_answer(body)).unwrap(), error);
}
