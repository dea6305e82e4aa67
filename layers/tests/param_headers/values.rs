//! How values are written in headers, and which cannot be.

use mcp_streamable_http_layers::error::InvalidMessage;
use proptest::{collection::vec, prelude::*, sample::select};
use serde_json::{Map, Value};

use super::support::*;

/// A client that knows of the tool `t`, whose argument `v` has the header `V`.
fn client() -> Client {
    Client::having_read(&[annotated("t", "V")])
}

/// The header of an argument with this value, as it is written.
fn header(value: &str) -> Option<String> {
    client().call("t", &format!(r#"{{"v":{value}}}"#)).unwrap().remove("v")
}

#[test]
fn values_of_each_kind_are_written_as_the_specification_says() {
    for (value, expected) in [
        (r#""us-west1""#, "us-west1"),
        (r#""two words""#, "two words"),
        (r#""42""#, "42"),
        (r#""null""#, "null"),
        (r#""""#, ""),
        ("true", "true"),
        ("false", "false"),
        ("0", "0"),
        ("-0", "0"),
        ("-0.0", "0"),
        ("42", "42"),
        ("-7", "-7"),
        ("42.0", "42"),
        ("-42.000", "-42"),
        ("1e3", "1000"),
        ("1E+3", "1000"),
        ("-12.5e1", "-125"),
        ("120e-1", "12"),
        ("0e99999", "0"),
        ("9007199254740991", "9007199254740991"),
        ("-9007199254740991", "-9007199254740991"),
        ("9007199254740991.0", "9007199254740991"),
        ("9.007199254740991e15", "9007199254740991"),
    ] {
        assert_eq!(header(value).as_deref(), Some(expected), "{value}");
    }
    assert_eq!(header("null"), None);
}

#[test]
fn what_a_header_cannot_carry_is_encoded() {
    for (value, expected) in [
        (r#""Hello, 世界""#, "=?base64?SGVsbG8sIOS4lueVjA==?="),
        (r#"" padded ""#, "=?base64?IHBhZGRlZCA=?="),
        (r#"" padded""#, "=?base64?IHBhZGRlZA==?="),
        (r#"" ""#, "=?base64?IA==?="),
        (r#""line1\nline2""#, "=?base64?bGluZTEKbGluZTI=?="),
        (r#""a\tb""#, "=?base64?YQli?="),
        (r#""\u0000""#, "=?base64?AA==?="),
        (r#""\u007f""#, "=?base64?fw==?="),
        (r#""a\r\nx-evil: 1""#, "=?base64?YQ0KeC1ldmlsOiAx?="),
        (r#""=?base64?literal?=""#, "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?="),
        (r#""=?base64?=""#, "=?base64?PT9iYXNlNjQ/PQ==?="),
        (r#""=?base64?open""#, "=?base64?open"),
        (r#""=?BASE64?x?=""#, "=?BASE64?x?="),
    ] {
        assert_eq!(header(value).as_deref(), Some(expected), "{value}");
    }
}

#[test]
fn escapes_in_a_value_are_decoded_before_it_is_written() {
    for (value, expected) in [
        (r#""\u0065\u0075""#, "eu"),
        (r#""a\/b\"c\\d""#, r#"a/b"c\d"#),
        (r#""\ud83d\ude00""#, "=?base64?8J+YgA==?="),
        (r#""=\u003fbase64?x?=""#, "=?base64?PT9iYXNlNjQ/eD89?="),
        (r#""\u0020x""#, "=?base64?IHg=?="),
    ] {
        assert_eq!(header(value).as_deref(), Some(expected), "{value}");
    }
}

#[test]
fn logs_do_not_show_what_is_mirrored() {
    let mut client = client();
    let call = client.request("tools/call", r#""name":"t","arguments":{"v":"s3cret"}"#);
    let headers = client.headers_of(call).unwrap();
    assert_eq!(headers["mcp-param-v"], "s3cret");
    assert!(!format!("{headers:?}").contains("s3cret"));
}

#[test]
fn a_value_that_no_header_can_carry_is_refused_and_not_shown() {
    let properties = r#""o":{"properties":{"limit":{"type":"integer","x-mcp-header":"Max-Rows"}}}"#;
    let mut client = Client::having_read(&[tool("t", properties)]);
    for (value, shown) in [
        ("9007199254740992", "9007199"),
        ("-9007199254740992", "9007199"),
        ("9007199254740992.0", "9007199"),
        ("12345678901234567890", "1234567"),
        ("-123456789012345678901234567890", "1234567"),
        ("7777.5", "7777"),
        ("77e300", "77e300"),
        ("77e999", "77e999"),
        ("[\"s3cret\"]", "s3cret"),
        ("{\"s3cret\":1}", "s3cret"),
        (r#""s3cret\ud800""#, "s3cret"),
    ] {
        let error = client.call("t", &format!(r#"{{"o":{{"limit":{value}}}}}"#)).unwrap_err();
        assert!(error.find::<InvalidMessage>().is_some(), "{value}: {error}");
        let text = format!("{error} {error:?}");
        assert!(text.contains("`o.limit`") && text.contains("mcp-param-max-rows"), "{value}: {text}");
        assert!(!text.contains(shown), "{value}: {text}");
    }
    // Only that call failed.
    let mirrored = client.call("t", r#"{"o":{"limit":10}}"#).unwrap();
    assert_eq!(mirrored, sent([("max-rows", "10")]));
}

/// `value` as a JSON string, in which some of the characters are escaped without need.
fn written(value: &str, escapes: u64) -> String {
    let mut out = String::from("\"");
    for (at, character) in value.chars().enumerate() {
        if (escapes >> (at % 64)) & 1 == 1 {
            for unit in character.encode_utf16(&mut [0; 2]) {
                out.push_str(&format!("\\u{unit:04x}"));
            }
        } else {
            let quoted = serde_json::to_string(&character).unwrap();
            out.push_str(&quoted[1..quoted.len() - 1]);
        }
    }
    out + "\""
}

/// The paths of the headers of the tool `t` below: the header's name is their index.
const PATHS: [&[&str]; 9] =
    [&["a"], &["b"], &["c"], &["é"], &[""], &["o", "a"], &["o", "o", "b"], &["o", "o", "o", "c"], &["o.a"]];

fn schema() -> Value {
    let mut root = Value::Object(Map::new());
    for (header, path) in PATHS.iter().enumerate() {
        let at = path.iter().fold(&mut root, |at, name| &mut at["properties"][name]);
        *at = serde_json::json!({ "type": "string", "x-mcp-header": header.to_string() });
    }
    root
}

/// What is to be sent; `None`: the call is refused.
fn expected(arguments: &Value) -> Option<Sent> {
    let mut sent = Sent::new();
    for (header, path) in PATHS.iter().enumerate() {
        let value = path.iter().try_fold(arguments, |at, name| at.as_object()?.get(*name));
        let text = match value {
            None | Some(Value::Null) => continue,
            Some(Value::String(text)) => text.clone(),
            Some(Value::Bool(value)) => value.to_string(),
            Some(Value::Number(number)) => {
                number.as_i64().filter(|number| number.unsigned_abs() < 1 << 53)?.to_string()
            }
            Some(Value::Array(_) | Value::Object(_)) => return None,
        };
        sent.insert(header.to_string(), text);
    }
    Some(sent)
}

/// The text of an object whose names repeat and have escapes, and whose members `o` are such objects too, mostly.
fn object(depth: u32) -> BoxedStrategy<String> {
    let string = ("[a-zé\r\n\t =?]{0,4}", any::<u64>()).prop_map(|(text, escapes)| written(&text, escapes));
    let leaf = prop_oneof![
        10 => string,
        10 => select(vec!["null", "true", "false", "9007199254740991"]).prop_map(str::to_owned),
        10 => any::<i32>().prop_map(|number| number.to_string()),
        1 => select(vec!["[]", "{}", "-9007199254740992", r#"{"a":"b"}"#]).prop_map(str::to_owned),
    ]
    .boxed();
    let nested = match depth {
        0 => leaf.clone(),
        _ => prop_oneof![10 => object(depth - 1), 1 => leaf.clone()].boxed(),
    };
    let escapes = || prop_oneof![3 => Just(0), 1 => any::<u64>()];
    let name = select(vec!["a", "b", "c", "é", "", "o.a", "x", "y"]);
    let member = prop_oneof![
        5 => (name, escapes(), leaf),
        2 => (Just("o"), escapes(), nested),
    ];
    let member = member.prop_map(|(name, escapes, value)| format!("{}: {value}", written(name, escapes)));
    vec(member, 0..8).prop_map(|members| format!("{{ {} }}", members.join(" ,"))).boxed()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_server_reads_every_value_as_it_was(
        value in prop_oneof![
            any::<String>(),
            "[ -~]{0,12}",
            r"=\?base64\?[ -~]{0,8}(\?=)?",
            "[ \t]?[a-z\r\n\t\u{0}]{0,3}[ \t]?",
        ],
        escapes in any::<u64>(),
    ) {
        let header = header(&written(&value, escapes)).unwrap();
        prop_assert!(header.bytes().all(|byte| matches!(byte, b' '..=b'~')), "{header:?}");
        prop_assert_eq!(header.trim(), &header);
        prop_assert_eq!(decoded(&header), value);
    }

    #[test]
    fn integers_are_written_in_digits_or_refused(
        number in prop_oneof![any::<i64>(), -(1i64 << 54)..1 << 54],
        tail in select(vec!["", ".0", ".00", "e0", "E-0"]),
    ) {
        let written = format!("{number}{tail}");
        let sent = client().call("t", &format!(r#"{{"v":{written}}}"#));
        let is_safe = number.unsigned_abs() < 1 << 53;
        let header = sent.ok().map(|mut sent| sent.remove("v").unwrap());
        prop_assert_eq!(header, is_safe.then(|| number.to_string()));
    }

    #[test]
    fn arguments_of_any_shape_are_read_as_any_reader_of_json_does(arguments in object(3)) {
        let known = Client::new().tools;
        known.learn(&serde_json::json!({ "name": "t", "inputSchema": schema() })).unwrap();
        let sent = Client::knowing(known).call("t", &arguments).ok().map(|sent| {
            sent.into_iter().map(|(header, value)| (header, decoded(&value))).collect::<Sent>()
        });
        prop_assert_eq!(sent, expected(&serde_json::from_str(&arguments).unwrap()), "{}", arguments);
    }
}
