//! The scanner against serde_json.

use proptest::prelude::*;
use serde_json::Value;

use super::*;

/// What serde_json makes of a text: the one value in it, if there is one.
fn expected(text: &str) -> Option<&str> {
    serde_json::from_str::<&RawValue>(text).ok().map(RawValue::get)
}

fn found(text: &str) -> Option<&str> {
    super::super::one_value(text)
}

#[track_caller]
fn check(text: &str) {
    assert_eq!(found(text), expected(text), "{text:?}");
}

#[test]
fn it_takes_what_serde_json_takes() {
    for text in [
        "",
        " ",
        "{}",
        " [ ] ",
        "{ }",
        "[]x",
        "[1,]",
        "[,1]",
        "{,}",
        "{\"a\":1,}",
        "{\"a\"}",
        "{\"a\":}",
        "{a:1}",
        "[1 2]",
        "[[[]]]",
        "[[}",
        "{\"a\":[{\"b\":[]}]}",
        "{\"a\":]}",
        "\"",
        "\"\\\"",
        "\"a\"b",
        "\"\\u00e4\"",
        "\"\\u00g4\"",
        "\"\\u00\"",
        "\"\\x\"",
        "\"\\ud800\"",
        "\"\n\"",
        "\"\u{7f}\u{80}ü🦀\"",
        "0",
        "-0",
        "-",
        "01",
        "1.",
        "1.0",
        ".5",
        "1e",
        "1e5",
        "1E+5",
        "1e-05",
        "--1",
        "+1",
        "true",
        "tru",
        "truex",
        "false",
        "null",
        "nul",
        "nullnull",
        "True",
        "\u{feff}{}",
        "[\"",
        "{\"",
        "[1",
        "{\"a\":1",
        "\t\r\n{}",
        "\u{b}{}",
        "NaN",
        "12345678901234567890123.5e400",
    ] {
        check(text);
        check(&format!("[{text}, {{\"{text}\": {text}}}]"));
    }
}

#[test]
fn it_goes_as_deep_as_serde_json() {
    for depth in [1, 2, 127, 128, 129, 130, 1000] {
        let open = "[{\"a\":".repeat(depth);
        let close = "}]".repeat(depth);
        check(&format!("{open}1{close}"));
        check(&format!("{open}1{close}]"));
        check(&format!("{open}1{}", "]}".repeat(depth)));
        check(&format!("[{open}1{close}, 2]"));
    }
}

#[test]
fn every_byte_is_seen_wherever_it_is() {
    for length in 0..40 {
        for at in 0..=length {
            for odd in ["\"", "\\", "\\\"", "\u{1f}", "\u{0}", " ", "!", "#", "[", "]", "ä", "\u{7f}"] {
                let text = format!("\"{}{odd}{}\"", "x".repeat(at), "ü".repeat(length - at));
                check(&text);
            }
        }
    }
}

#[test]
fn escapes_mean_what_they_mean_to_serde_json() {
    let text = r#""\"\\\/\b\f\n\r\t\u00fc\ud83e\udd80 ü""#;
    let meant = Scanner::new(text).string().map(|string| super::super::unescape(string.inner));
    assert!(meant.is_some());
    assert_eq!(meant, serde_json::from_str::<String>(text).ok());
    assert_eq!(super::super::unescape(r"half \ud83e"), "half \u{fffd}\u{fffd}\u{fffd}");
}

fn json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".{0,12}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::btree_map(".{0,5}", inner, 0..5).prop_map(Value::from_iter),
        ]
    })
}

proptest! {
    #[test]
    fn what_is_json_is_taken_whole(value in json(), pretty in any::<bool>()) {
        let text = if pretty { format!("{value:#}") } else { value.to_string() };
        prop_assert_eq!(found(&text), Some(&*text));
    }

    #[test]
    fn a_change_anywhere_is_judged_as_serde_json_does(value in json(), at in any::<prop::sample::Index>(), with in "[\\[\\]{}:,\"\\\\ 0-9.eEtrufalsn\n-]?") {
        let mut text: Vec<char> = value.to_string().chars().collect();
        let at = at.index(text.len());
        text.splice(at..=at, with.chars());
        let text: String = text.into_iter().collect();
        prop_assert_eq!(found(&text), expected(&text));
    }

    #[test]
    fn noise_is_judged_as_serde_json_does(text in "[\\[\\]{}:,\"\\\\ 0-9.eEtrufalsn\n-]{0,24}") {
        prop_assert_eq!(found(&text), expected(&text));
    }
}
