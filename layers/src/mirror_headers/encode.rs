//! Values that can stand in a header.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use bytestring::ByteString;
use http::header::{HeaderValue, InvalidHeaderValue};

/// MCP 2026-07-28 §Schema Extension: what a JavaScript number holds exactly.
const MAX_SAFE_INTEGER: i64 = (1 << 53) - 1;

/// MCP 2026-07-28 §Value Encoding: the value itself if it can stand in a header, else its base64 form. What looks
/// like that form is encoded too.
pub(super) fn encode(value: ByteString) -> Result<HeaderValue, InvalidHeaderValue> {
    if is_plain(&value) && !(value.starts_with("=?base64?") && value.ends_with("?=")) {
        HeaderValue::from_maybe_shared(value.into_bytes())
    } else {
        HeaderValue::from_maybe_shared(Bytes::from(format!("=?base64?{}?=", STANDARD.encode(&*value))))
    }
}

/// Visible ASCII and spaces, and none of these at the ends, where a header loses them. A tab would be allowed, but
/// proxies are known to change it.
pub(super) fn is_plain(value: &str) -> bool {
    value.bytes().all(|byte| matches!(byte, b' '..=b'~')) && !value.starts_with(' ') && !value.ends_with(' ')
}

/// An integer as its decimal digits, whether it is written as `42`, `42.0` or `4.2e1`. `None`: it is no integer, or beyond
/// the safe range.
pub(super) fn integer(json: ByteString) -> Option<ByteString> {
    let safe = |number: &i64| (-MAX_SAFE_INTEGER..=MAX_SAFE_INTEGER).contains(number);
    match json.parse::<i64>() {
        // As it is written: JSON allows neither `+1` nor `01`.
        Ok(number) if &*json != "-0" => Some(json).filter(|_| safe(&number)),
        _ => {
            let number: f64 = json.parse().ok()?;
            // Below 2⁵³ every integer is exact, and anything else has a fraction that is seen.
            let is_safe = number.fract() == 0.0 && number.abs() <= MAX_SAFE_INTEGER as f64;
            is_safe.then(|| (number as i64).to_string().into())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_encoded_as_the_specification_shows() {
        for (value, header) in [
            ("us-west1", "us-west1"),
            ("Hello, 世界", "=?base64?SGVsbG8sIOS4lueVjA==?="),
            (" padded ", "=?base64?IHBhZGRlZCA=?="),
            ("line1\nline2", "=?base64?bGluZTEKbGluZTI=?="),
            ("=?base64?literal?=", "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?="),
            ("a\tb", "=?base64?YQli?="),
            ("two words", "two words"),
            ("=?base64?open", "=?base64?open"),
            ("=?BASE64?x?=", "=?BASE64?x?="),
            ("", ""),
        ] {
            assert_eq!(encode(value.into()).unwrap(), header, "{value:?}");
        }
    }

    #[test]
    fn integers_print_without_fraction_or_exponent() {
        for (json, header) in [
            ("42", Some("42")),
            ("-7", Some("-7")),
            ("0", Some("0")),
            ("-0", Some("0")),
            ("42.0", Some("42")),
            ("1e2", Some("100")),
            ("9007199254740991", Some("9007199254740991")),
            ("-9007199254740991", Some("-9007199254740991")),
            ("9007199254740992", None),
            ("9007199254740992.0", None),
            ("12345678901234567890", None),
            ("1.5", None),
            ("1e400", None),
        ] {
            assert_eq!(integer(json.into()).as_deref(), header, "{json}");
        }
    }
}
