//! Messages and the JSON that they travel as.

#![allow(clippy::unwrap_used, clippy::panic)]

use mcp_streamable_http_layers::options::ExtraHeaders;
use mcp_streamable_http_layers::{
    JsonRpcError, JsonRpcMessage, JsonRpcResponse, Params, RawJson, RequestId, ResultError,
};
use proptest::prelude::*;
use serde_json::{Value, json};

fn decode(text: &str) -> JsonRpcMessage {
    JsonRpcMessage::decode(text.to_owned()).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn raw(text: &str) -> RawJson {
    RawJson::parse(text.to_owned()).unwrap()
}

fn other(text: &str) -> RequestId {
    RequestId::Other(raw(text))
}

#[test]
fn messages_are_written_with_their_members_in_order() {
    for (message, text) in [
        (JsonRpcMessage::request(1, "ping", ()), r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#),
        (
            JsonRpcMessage::request("a\"b", "tools/call", json!({ "name": "n" })),
            r#"{"jsonrpc":"2.0","id":"a\"b","method":"tools/call","params":{"name":"n"}}"#,
        ),
        (
            JsonRpcMessage::notification("notifications/initialized", ()),
            r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
        ),
        (
            JsonRpcMessage::response(i64::MIN, json!({})),
            r#"{"jsonrpc":"2.0","id":-9223372036854775808,"result":{}}"#,
        ),
        (
            JsonRpcMessage::error(7, JsonRpcError::new(-32601, "no \n such")),
            r#"{"jsonrpc":"2.0","id":7,"error":{"code":-32601,"message":"no \u000a such"}}"#,
        ),
        (
            JsonRpcResponse::failure(None, JsonRpcError::new(-32700, "m").with_data(json!([1]))).into(),
            r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"m","data":[1]}}"#,
        ),
    ] {
        assert_eq!(message.encode(), text);
        assert_eq!(message.to_string(), text);
        assert_eq!(decode(text), message);
    }
}

#[test]
fn what_a_message_is_follows_from_its_members() {
    let kind = |text: &str| match decode(text) {
        JsonRpcMessage::Request(_) => "request",
        JsonRpcMessage::Notification(_) => "notification",
        JsonRpcMessage::Response(response) if response.outcome().is_ok() => "result",
        JsonRpcMessage::Response(_) => "error",
    };
    for (text, expected) in [
        (r#"{"jsonrpc":"2.0","id":1,"method":"m"}"#, "request"),
        (r#" { "method" : "m", "id":"x", "jsonrpc": "2.0" } "#, "request"),
        (r#"{"jsonrpc":"2.0","method":"m"}"#, "notification"),
        (r#"{"jsonrpc":"2.0","method":"m","result":1}"#, "notification"),
        (r#"{"jsonrpc":"2.0","id":1,"result":{}}"#, "result"),
        (r#"{"jsonrpc":"2.0","id":1,"result":null}"#, "result"),
        (r#"{"jsonrpc":"2.0","id":1,"result":{},"error":null}"#, "result"),
        (r#"{"jsonrpc":"2.0","id":1,"result":null,"error":{"code":1,"message":"m"}}"#, "error"),
        (r#"{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"m"}}"#, "error"),
        (r#"{"jsonrpc":"2.0","error":{"code":1,"message":"m"}}"#, "error"),
        (r#"{"jsonrpc":"2.0","id":1,"m\u0065thod":"\u006d"}"#, "request"),
        (r#"{"jsonrpc":"2.0","id":1,"method":"first","method":"m"}"#, "request"),
    ] {
        assert_eq!(kind(text), expected, "{text}");
        assert!(decode(text).method().is_none_or(|method| method == "m"), "{text}");
    }
}

#[test]
fn what_is_no_message_is_an_error() {
    for text in [
        "",
        " ",
        "null",
        "1",
        "\"text\"",
        "[]",
        "{",
        "{}",
        "{} {}",
        "nope",
        r#"{"jsonrpc":"2.0"}"#,
        r#"{"id":1,"method":"m"}"#,
        r#"{"jsonrpc":"1.0","id":1,"method":"m"}"#,
        r#"{"jsonrpc":2.0,"id":1,"method":"m"}"#,
        r#"{"jsonrpc":"2.0","id":1}"#,
        r#"{"jsonrpc":"2.0","id":1,"error":null}"#,
        r#"{"jsonrpc":"2.0","id":true,"method":"m"}"#,
        r#"{"jsonrpc":"2.0","id":{},"result":1}"#,
        r#"{"jsonrpc":"2.0","id":[1],"result":1}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":1}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":null,"result":1}"#,
        r#"{"jsonrpc":"2.0","id":1,"error":"m"}"#,
        r#"{"jsonrpc":"2.0","id":1,"error":{}}"#,
        r#"{"jsonrpc":"2.0","id":1,"error":{"code":1}}"#,
        r#"{"jsonrpc":"2.0","id":1,"error":{"message":"m"}}"#,
        r#"{"jsonrpc":"2.0","id":1,"error":{"code":"1","message":"m"}}"#,
        r#"{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":null}}"#,
        r#"{"jsonrpc":"2.0","id":1,"result":{}},"#,
        r#"{"jsonrpc":"2.0","id":1,"result":{"a":}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"\ud800"}"#,
    ] {
        assert!(JsonRpcMessage::decode(text).is_err(), "{text}");
    }
    assert!(JsonRpcMessage::decode(&b"{\"jsonrpc\":\"2.0\",\"method\":\"\xff\"}"[..]).is_err());
    let batch = r#"[{"jsonrpc":"2.0","method":"m"}]"#;
    assert!(JsonRpcMessage::decode(batch).unwrap_err().to_string().contains("batch"));
}

#[test]
fn ids_are_verbatim() {
    for (text, id) in [
        ("1", RequestId::from(1)),
        ("\"1\"", RequestId::from("1")),
        ("-9223372036854775808", RequestId::from(i64::MIN)),
        ("9223372036854775807", RequestId::from(i64::MAX)),
        ("9223372036854775808", other("9223372036854775808")),
        ("1.0", other("1.0")),
        ("1e0", other("1e0")),
        ("-0", other("-0")),
        ("\"\"", RequestId::from("")),
        ("\"null\"", RequestId::from("null")),
    ] {
        let json = format!(r#"{{"jsonrpc":"2.0","id":{text},"method":"m"}}"#);
        let message = decode(&json);
        assert_eq!(message.id(), Some(&id));
        assert_eq!(id.to_string(), text);
        assert_eq!(message.encode(), json, "the echo is byte for byte");
    }
    assert_ne!(RequestId::from(1), other("1.0"));
    let escaped = decode(r#"{"jsonrpc":"2.0","id":"\u0061\ud83d\ude00","result":1}"#);
    assert_eq!(escaped.id(), Some(&RequestId::from("a😀")));
}

#[test]
fn payloads_stay_as_they_were_written() {
    let payload = r#"{"z": 12345678901234567890, "a":1.10, "e":1E+2, "dup":1, "dup":2, "s":"\u00fc\/ü", "n":-0.0, "deep":[[{}]] }"#;
    let request = decode(&format!(r#"{{"jsonrpc":"2.0","id":1,"method":"m","params":{payload}}}"#));
    assert_eq!(request.params().map(RawJson::as_str), Some(payload));
    assert!(String::from_utf8_lossy(&request.encode()).contains(payload));

    let result = decode(&format!(r#"{{"jsonrpc":"2.0","id":1,"result": {payload} }}"#));
    assert_eq!(result.as_response().unwrap().outcome().unwrap().as_str(), payload);

    let error = format!(r#"{{"message":"m","x-own":{payload},"code":-1,"data":{payload}}}"#);
    let failed = decode(&format!(r#"{{"jsonrpc":"2.0","id":1,"error":{error}}}"#));
    let failure = failed.as_response().unwrap().outcome().unwrap_err();
    assert_eq!((failure.code(), failure.message(), failure.data().unwrap().as_str()), (-1, "m", payload));
    assert_eq!(failure.as_raw().as_str(), error);
    assert!(String::from_utf8_lossy(&failed.encode()).contains(&error), "members of its own stay");
}

#[test]
fn a_payload_is_a_slice_of_what_arrived() {
    let text = bytes::Bytes::from(r#"{"jsonrpc":"2.0","id":1,"result":{"a":1}}"#);
    let message = JsonRpcMessage::decode(text.clone()).unwrap();
    let payload = message.as_response().unwrap().outcome().unwrap().as_str();
    assert!(text.as_ptr_range().contains(&payload.as_ptr()), "not a copy");
}

#[test]
fn params_can_be_left_out() {
    for params in [Params::from(()), Value::Null.into(), None::<RawJson>.into(), Params::default()] {
        assert_eq!(JsonRpcMessage::notification("m", params).encode(), r#"{"jsonrpc":"2.0","method":"m"}"#);
    }
}

#[test]
fn options_are_neither_compared_nor_shown_nor_sent() {
    let secret = ExtraHeaders([("x-a".parse().unwrap(), "s3cret".parse().unwrap())].into_iter().collect());
    let messages = [
        JsonRpcMessage::request(1, "m", ()),
        JsonRpcMessage::notification("m", ()),
        JsonRpcMessage::response(1, json!({})),
    ];
    for plain in messages {
        let with = plain.clone().with(secret.clone());
        assert_eq!(with, plain);
        assert_eq!(with.encode(), plain.encode());
        assert!(!format!("{with:?} {:?}", with.extensions().get::<ExtraHeaders>()).contains("s3cret"));
    }
}

#[test]
fn a_result_is_read_as_what_is_asked_for() {
    let response = JsonRpcResponse::success(1, json!({ "sum": 5 }));
    assert_eq!(response.result::<Value>().unwrap()["sum"], 5);
    assert!(matches!(response.result::<Vec<u8>>(), Err(ResultError::Unexpected(_))));
    let failed = JsonRpcResponse::failure(Some(1.into()), JsonRpcError::new(-1, "m"));
    assert!(matches!(failed.result::<Value>(), Err(ResultError::Server(error)) if error.code() == -1));
    assert_eq!(failed.into_outcome().unwrap_err().message(), "m");
}

#[test]
fn hostile_nesting_does_not_overflow_the_stack() {
    let deep = "[".repeat(200_000) + &"]".repeat(200_000);
    let message = decode(&format!(r#"{{"jsonrpc":"2.0","id":1,"result":{deep}}}"#));
    assert_eq!(message.as_response().unwrap().outcome().unwrap().as_str().len(), 400_000);
    assert!(JsonRpcMessage::decode("[".repeat(1_000_000)).is_err());
    assert!(JsonRpcMessage::decode("{\"a\":".repeat(1_000_000)).is_err());
}

fn json_value() -> impl Strategy<Value = RawJson> {
    let leaf = prop_oneof![
        Just("null".to_owned()),
        any::<bool>().prop_map(|value| value.to_string()),
        any::<i64>().prop_map(|value| value.to_string()),
        "-?[1-9][0-9]{0,30}(\\.[0-9]{1,20})?([eE][+-]?[0-9]{1,3})?",
        any::<String>().prop_map(|text| json!(text).to_string()),
    ];
    let nested = leaf.prop_recursive(3, 16, 4, |inner| {
        let member =
            (any::<String>(), inner.clone()).prop_map(|(name, value)| format!("{} :{value}", json!(name)));
        prop_oneof![
            prop::collection::vec(inner, 0..4).prop_map(|items| format!("[{}]", items.join(", "))),
            prop::collection::vec(member, 0..4).prop_map(|members| format!("{{{}}}", members.join(","))),
        ]
    });
    nested.prop_map(|text| raw(&text))
}

fn id() -> impl Strategy<Value = RequestId> {
    prop_oneof![
        any::<i64>().prop_map(RequestId::from),
        any::<String>().prop_map(RequestId::from),
        "-?[1-9][0-9]{0,3}\\.[0-9]{1,3}|[1-9][0-9]{19,25}|-0".prop_map(|text| other(&text)),
    ]
}

fn message() -> impl Strategy<Value = JsonRpcMessage> {
    let error =
        (any::<i64>(), any::<String>(), prop::option::of(json_value())).prop_map(|(code, message, data)| {
            let error = JsonRpcError::new(code, message);
            data.map_or(error.clone(), |data| error.with_data(data))
        });
    let call = || (any::<String>(), prop::option::of(json_value()));
    prop_oneof![
        (id(), call()).prop_map(|(id, (method, params))| JsonRpcMessage::request(id, method, params)),
        call().prop_map(|(method, params)| JsonRpcMessage::notification(method, params)),
        (id(), json_value()).prop_map(|(id, result)| JsonRpcMessage::response(id, result)),
        (prop::option::of(id()), error).prop_map(|(id, error)| JsonRpcResponse::failure(id, error).into()),
    ]
}

proptest! {
    #[test]
    fn what_is_written_is_read_the_same(message in message()) {
        let text = message.encode();
        let read = JsonRpcMessage::decode(text.clone()).unwrap();
        prop_assert_eq!(&read, &message);
        prop_assert_eq!(read.encode(), text.clone());
        // And it is JSON to others, too; these keep no number beyond their own.
        prop_assert!(serde_json::from_slice::<&serde_json::value::RawValue>(&text).is_ok());
    }

    #[test]
    fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = JsonRpcMessage::decode(bytes);
    }

    #[test]
    fn random_json_never_panics(value in json_value(), member in "jsonrpc|id|method|params|result|error") {
        let _ = JsonRpcMessage::decode(value.as_str().to_owned());
        let _ = JsonRpcMessage::decode(format!(r#"{{"jsonrpc":"2.0","id":1,"result":1,"{member}":{value}}}"#));
        let _ = JsonRpcMessage::decode(format!(r#"{{"jsonrpc":"2.0","id":1,"error":{{"{member}":{value}}}}}"#));
    }

    #[test]
    fn mutated_messages_never_panic(
        message in message(), edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0..3), 1..6),
    ) {
        let mut bytes = message.encode().to_vec();
        for (at, byte, kind) in edits {
            let at = at.index(bytes.len().max(1));
            match kind {
                0 => bytes.insert(at, byte),
                1 if at < bytes.len() => drop(bytes.remove(at)),
                _ => bytes.truncate(at.max(1)),
            }
        }
        // What still is a message is written and read again.
        if let Ok(read) = JsonRpcMessage::decode(bytes) {
            prop_assert_eq!(JsonRpcMessage::decode(read.encode()).unwrap(), read);
        }
    }
}

#[test]
fn an_id_of_null_is_none() {
    let message = JsonRpcMessage::decode(r#"{"jsonrpc":"2.0","id":null,"method":"m"}"#).unwrap();
    assert_eq!(message, JsonRpcMessage::notification("m", ()));
}

#[test]
fn a_code_may_be_written_as_a_float() {
    for (code, read) in [("-32602.0", Some(-32602)), ("1e2", Some(100)), ("1.5", None), ("1e300", None)] {
        let text = format!(r#"{{"jsonrpc":"2.0","id":1,"error":{{"code":{code},"message":"m"}}}}"#);
        let found =
            JsonRpcMessage::decode(text).ok().map(|message| match message.as_response().unwrap().outcome() {
                Err(error) => error.code(),
                Ok(_) => panic!("{message}"),
            });
        assert_eq!(found, read, "{code}");
    }
}
