//! What the answers to `tools/list` teach, and when it is forgotten.

use super::common::*;
use super::support::*;

#[test]
fn a_listing_teaches_whether_it_is_a_body_or_a_stream() {
    let result = format!("{{\"tools\":[\n{}\n]}}", annotated("a", "Region"));
    for answer in [json_answer(answered(&result)), streamed(&result)] {
        let mut client = Client::new();
        assert_eq!(client.header_of("a"), None, "nothing is known yet");
        assert!(client.ask(None).answer(answer).unwrap() == result);
        assert_eq!(client.header_of("a").as_deref(), Some("region"));
        assert_eq!((client.header_of("b"), client.tools.len()), (None, 1));
    }
}

#[test]
fn the_pages_of_a_listing_add_up() {
    let mut client = Client::new();
    client.page(None, &tools(["a"]), Some("1"));
    assert_eq!(client.known(), "a");
    client.page(Some("1"), &tools(["b"]), Some("2"));
    client.page(Some("2"), &[], Some("3"));
    client.page(Some("3"), &tools(["c"]), None);
    assert_eq!(client.known(), "abc");
}

#[test]
fn a_cursor_of_null_asks_for_the_first_page() {
    let mut client = Client::having_read(&tools(["a"]));
    let first = client.request("tools/list", r#""cursor":null"#);
    client.ask_with(first).answer(page(&tools(["b"]), Some("1"))).unwrap();
    client.page(Some("1"), &[], None);
    assert_eq!(client.known(), "b");
}

#[test]
fn cursors_are_compared_as_they_are_meant_not_as_they_are_written() {
    let mut client = Client::having_read(&tools(["a"]));
    client.page(None, &tools(["b"]), Some(r"gr\u00fc\u00dfe"));
    client.page(Some("grüße"), &[], None);
    assert_eq!(client.known(), "b");
}

#[test]
fn a_changed_definition_replaces_the_one_before() {
    let mut client = Client::having_read(&[annotated("a", "Old"), annotated("b", "B")]);
    let definition =
        r#""w":{"type":"integer","x-mcp-header":"New"},"x":{"type":"boolean","x-mcp-header":"Old"}"#;
    client.page(None, &[tool("a", definition), annotated("b", "B")], None);
    let mirrored = client.call("a", r#"{"v":"v","w":1,"x":true}"#).unwrap();
    assert_eq!(mirrored, sent([("new", "1"), ("old", "true")]));
    assert_eq!(client.header_of("b").as_deref(), Some("b"));
}

#[test]
fn a_tool_whose_annotations_vanished_is_called_without_headers() {
    for definition in [plain("a"), r#"{"name":"a"}"#.into(), r#"{"name":"a","inputSchema":true}"#.into()] {
        let mut client = Client::having_read(&tools(["a", "b"]));
        // On the first page of several: it is not the end of the listing that makes the difference.
        client.page(None, std::slice::from_ref(&definition), Some("1"));
        assert_eq!(client.known(), "b", "{definition}");
    }
}

#[test]
fn a_tool_whose_annotations_became_invalid_is_called_without_headers() {
    let mut client = Client::having_read(&tools(["a", "b"]));
    client.page(None, &[broken("a")], Some("1"));
    assert_eq!(client.known(), "b");
}

#[test]
fn a_tool_that_a_complete_listing_does_not_have_is_forgotten() {
    let mut client = Client::having_read(&tools(["a", "b"]));
    client.page(None, &tools(["b", "c"]), None);
    assert_eq!(client.known(), "bc");

    client.page(None, &tools(["c"]), Some("1"));
    assert_eq!(client.known(), "bc", "it could be on a later page");
    client.page(Some("1"), &tools(["d"]), None);
    assert_eq!(client.known(), "cd");

    client.page(None, &[], None);
    assert!(client.tools.is_empty());
}

#[test]
fn a_listing_that_is_left_off_makes_nothing_be_forgotten() {
    let mut client = Client::having_read(&tools(["a", "b"]));
    client.page(None, &tools(["c"]), Some("1"));
    client.page(Some("1"), &tools(["d"]), Some("2"));
    assert_eq!(client.known(), "abcd");
}

#[test]
fn the_end_of_a_listing_whose_begin_nobody_saw_makes_nothing_be_forgotten() {
    let mut client = Client::having_read(&tools(["a", "b"]));
    client.page(Some("stored"), &tools(["c"]), Some("stored too"));
    client.page(Some("stored too"), &[annotated("a", "Changed")], None);
    assert_eq!(client.known(), "abc");
    assert_eq!(client.header_of("a").as_deref(), Some("changed"), "it teaches all the same");
}

#[test]
fn a_page_of_nobody_knows_which_listing_does_not_end_another() {
    let mut client = Client::having_read(&tools(["a"]));
    client.page(None, &tools(["b"]), Some("1"));
    client.page(Some("stored"), &tools(["c"]), None);
    assert_eq!(client.known(), "abc");
    client.page(Some("1"), &tools(["d"]), None);
    assert_eq!(client.known(), "bd", "the listing itself had only these");
}

#[test]
fn a_listing_that_fails_in_the_middle_makes_nothing_be_forgotten() {
    let error = r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"later"}}"#;
    for failed in [
        json_answer(error),
        json_answer(answered(r#"{"tools":{}}"#)),
        json_answer(answered("[]")),
        json_answer(answered("{}")),
        answer(503, "", ""),
    ] {
        let mut client = Client::having_read(&tools(["a"]));
        client.page(None, &tools(["b"]), Some("1"));
        let _ = client.ask(Some("1")).answer(failed);
        assert_eq!(client.known(), "ab");
        // Its page can be asked for again, and then the listing is complete.
        client.page(Some("1"), &tools(["c"]), None);
        assert_eq!(client.known(), "bc");
    }
}

#[test]
fn two_listings_at_once_each_end_for_themselves() {
    let mut client = Client::having_read(&tools(["a"]));
    client.page(None, &tools(["b"]), Some("first"));
    client.page(None, &tools(["b"]), Some("second"));
    client.page(Some("second"), &tools(["c"]), None);
    assert_eq!(client.known(), "bc");
    client.page(Some("first"), &tools(["c", "d"]), None);
    assert_eq!(client.known(), "bcd");
}

#[test]
fn two_listings_with_the_same_cursors_do_not_lose_a_tool() {
    let mut client = Client::new();
    let pages = [(None, "a", Some("1")), (Some("1"), "b", Some("2")), (Some("2"), "c", None)];
    for (cursor, name, next) in pages {
        for _ in 0..2 {
            client.page(cursor, &tools([name]), next);
        }
    }
    assert_eq!(client.known(), "abc");
}

#[test]
fn pages_that_were_asked_for_at_once_may_be_answered_in_any_order() {
    let mut client = Client::new();
    let (early, late) = (client.ask(None), client.ask(None));
    late.answer(page(&tools(["a"]), Some("late"))).unwrap();
    early.answer(page(&tools(["a"]), Some("early"))).unwrap();
    let (late, early) = (client.ask(Some("late")), client.ask(Some("early")));
    early.answer(page(&tools(["b"]), None)).unwrap();
    late.answer(page(&tools(["b"]), None)).unwrap();
    assert_eq!(client.known(), "ab");
}

#[test]
fn answers_to_other_requests_teach_nothing_and_stay() {
    let result = format!(r#"{{"tools":[{},{}]}}"#, annotated("a", "A"), broken("b"));
    for method in ["prompts/list", "tools/listing", "server/discover", "tools/call"] {
        let mut client = Client::new();
        let request = client.request(method, "");
        assert_eq!(client.ask_with(request).answer(json_answer(answered(&result))).unwrap(), result);
        assert!(client.tools.is_empty(), "{method}");
    }
}
