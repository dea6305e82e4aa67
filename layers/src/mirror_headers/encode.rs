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
    let is_safe = |number: &i64| (-MAX_SAFE_INTEGER..=MAX_SAFE_INTEGER).contains(number);
    match json.parse::<i64>() {
        // As it is written: JSON allows neither `+1` nor `01`.
        Ok(number) if &*json != "-0" => is_safe(&number).then_some(json),
        _ => exact(&json).filter(is_safe).map(|number| number.to_string().into()),
    }
}

/// The value of a JSON number that is an integer of few digits. By its digits, as an `f64` would lose small fractions.
fn exact(json: &str) -> Option<i64> {
    let (negative, number) = json.strip_prefix('-').map_or((false, json), |number| (true, number));
    let (mantissa, exponent) = number.split_once(['e', 'E']).unwrap_or((number, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = format!("{whole}{fraction}");
    let significant = digits.trim_start_matches('0').trim_end_matches('0');
    if significant.is_empty() {
        return Some(0);
    }
    // How many zeros follow the significant digits.
    let dropped = digits.len() - digits.trim_end_matches('0').len();
    let zeros = exponent.parse::<i64>().ok()?.checked_sub(i64::try_from(fraction.len()).ok()?)?;
    let zeros = u32::try_from(zeros.checked_add(i64::try_from(dropped).ok()?)?).ok()?;
    let value = significant.parse::<i64>().ok()?.checked_mul(10_i64.checked_pow(zeros)?)?;
    Some(if negative { -value } else { value })
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
            ("1e-400", None),
            ("0e5", Some("0")),
            ("9007199254740991.0", Some("9007199254740991")),
            ("9007199254740991.4", None),
            ("4503599627370497.3", None),
        ] {
            assert_eq!(integer(json.into()).as_deref(), header, "{json}");
        }
    }
}
