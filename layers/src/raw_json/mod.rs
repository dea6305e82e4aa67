//! JSON text that stays the text it travels as.

mod scan;
mod specials;

use std::borrow::Cow;
use std::fmt;

use bytes::Bytes;
use bytestring::ByteString;
use serde::de::{Deserialize, Deserializer, Error as _, Visitor};
use serde::ser::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;

pub(crate) use self::scan::Scanner;

/// One complete JSON value, kept as its text.
///
/// `params`, `result` and `error` travel through the transport as they were written: numbers keep their digits,
/// objects keep the order of their members, unknown members stay. What was received is a slice of the bytes that
/// arrived; cloning never copies the text.
///
/// Equality compares the text, so `{"a":1}` and `{ "a": 1 }` differ.
///
/// ```
/// use mcp_streamable_http_layers::RawJson;
///
/// let raw = RawJson::parse(r#"{"price": 1.10, "id": 12345678901234567890}"#)?;
/// assert_eq!(raw.as_str(), r#"{"price": 1.10, "id": 12345678901234567890}"#);
///
/// let value: serde_json::Value = raw.to()?;
/// assert_eq!(value["price"], 1.1);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct RawJson(ByteString);

impl RawJson {
    /// Writes `value` as JSON.
    ///
    /// # Errors
    /// What serde reports: a map whose keys are no strings, or an error of the value's own `Serialize`.
    pub fn new<T: Serialize + ?Sized>(value: &T) -> Result<Self, serde_json::Error> {
        Ok(Self(serde_json::to_string(value)?.into()))
    }

    /// Takes JSON text as it is, after checking that it is exactly one JSON value. White space around it is dropped.
    ///
    /// # Errors
    /// The text is not one JSON value, or not UTF-8.
    pub fn parse(text: impl Into<Bytes>) -> Result<Self, serde_json::Error> {
        let text = ByteString::try_from(text.into()).map_err(serde_json::Error::custom)?;
        match one_value(&text) {
            Some(value) => Ok(Self::slice(&text, value)),
            None => Err(why_not(&text)),
        }
    }

    /// One value, out of the very `text` that it was read from.
    pub(crate) fn slice(text: &ByteString, value: &str) -> Self {
        Self(text.slice_ref(value))
    }

    /// Text that is known to be one JSON value.
    pub(crate) fn from_text(text: ByteString) -> Self {
        Self(text)
    }

    /// The string, if it is one: a slice, unless it has escapes.
    pub(crate) fn as_string(&self) -> Option<ByteString> {
        string(&self.0, &self.0)
    }

    pub(crate) fn text(&self) -> &ByteString {
        &self.0
    }

    /// The JSON text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Reads the value as a `T`, which may borrow from it.
    ///
    /// # Errors
    /// The value is not a `T`.
    pub fn to<'a, T: Deserialize<'a>>(&'a self) -> Result<T, serde_json::Error> {
        serde_json::from_str(&self.0)
    }
}

impl From<Value> for RawJson {
    fn from(value: Value) -> Self {
        Self(value.to_string().into())
    }
}

impl Serialize for RawJson {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.to::<&RawValue>().map_err(serde::ser::Error::custom)?.serialize(serializer)
    }
}

/// The start of the text: what arrived can be many megabytes long.
impl fmt::Debug for RawJson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 256;
        match self.0.char_indices().nth(SHOWN) {
            Some((end, _)) => write!(f, "{}… ({} bytes)", &self.0[..end], self.0.len()),
            None => f.write_str(&self.0),
        }
    }
}

impl fmt::Display for RawJson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Shows each member of a JSON object to `visit`: its name, decoded, and its value as it is written.
///
/// One pass, no recursion into the values, no allocation but for names with escapes. Of a name that occurs twice
/// both are shown, in order; and of a text that turns out to be no object, those before that.
pub(crate) fn members<'a>(
    object: &'a str,
    visit: impl FnMut(&str, &'a str),
) -> Result<(), serde_json::Error> {
    visit_members(object, visit).ok_or_else(|| why_not(object))
}

fn visit_members<'a>(object: &'a str, mut visit: impl FnMut(&str, &'a str)) -> Option<()> {
    let mut scanner = Scanner::new(object);
    scanner.space();
    scanner.object(|name, scanner| {
        visit(name, scanner.value()?);
        Some(())
    })?;
    scanner.end()
}

/// The one value that a text is.
fn one_value(text: &str) -> Option<&str> {
    let mut scanner = Scanner::new(text);
    scanner.space();
    let value = scanner.value()?;
    scanner.end()?;
    Some(value)
}

/// What is wrong with a text that is not the JSON that it should be.
#[cold]
fn why_not(text: &str) -> serde_json::Error {
    match serde_json::from_str::<&RawValue>(text) {
        Err(error) => error,
        Ok(_) => serde_json::Error::custom("expected a JSON object"),
    }
}

/// The meaning of a JSON string; `None` for any other value.
pub(crate) fn text(value: &str) -> Option<Cow<'_, str>> {
    // It was found to be JSON before, so the last quote ends what the first one begins.
    let inner = value.trim_ascii().strip_prefix('"')?.strip_suffix('"')?;
    match memchr::memchr(b'\\', inner.as_bytes()) {
        None => Some(inner.into()),
        // Half of a surrogate pair is no text.
        Some(_) => serde_json::from_str::<String>(value).ok().map(Into::into),
    }
}

/// The same, sliced out of `owner`, which `value` is a part of, unless it has escapes.
pub(crate) fn string(owner: &ByteString, value: &str) -> Option<ByteString> {
    text(value).map(|meaning| match meaning {
        Cow::Borrowed(meaning) => owner.slice_ref(meaning),
        Cow::Owned(meaning) => meaning.into(),
    })
}

/// The meaning of a name that has escapes. Half of a surrogate pair, which JSON allows, becomes replacement characters.
#[cold]
fn unescape(inner: &str) -> String {
    struct Bytes;
    impl Visitor<'_> for Bytes {
        type Value = String;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a string")
        }

        fn visit_bytes<E>(self, bytes: &[u8]) -> Result<String, E> {
            Ok(String::from_utf8_lossy(bytes).into_owned())
        }
    }
    // As bytes, since half of a pair is no error then.
    let quoted = format!("\"{inner}\"");
    serde_json::Deserializer::from_str(&quoted).deserialize_bytes(Bytes).unwrap_or_default()
}

/// Appends `text` as a JSON string (RFC 8259 §7).
pub(crate) fn write_string(out: &mut Vec<u8>, text: &str) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    out.push(b'"');
    let mut rest = text.as_bytes();
    while let Some(at) = rest.iter().position(|byte| matches!(byte, b'"' | b'\\' | 0..0x20)) {
        let (plain, special) = rest.split_at(at);
        out.extend_from_slice(plain);
        let [byte, after @ ..] = special else { break };
        match byte {
            b'"' | b'\\' => out.extend([b'\\', *byte]),
            // Each is below 32, so both digits are within the table.
            _ => out.extend([b'\\', b'u', b'0', b'0', HEX[(byte >> 4) as usize], HEX[(byte & 15) as usize]]),
        }
        rest = after;
    }
    out.extend_from_slice(rest);
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_decoded_and_values_are_slices() {
        let text = ByteString::from(r#"{"n\u0061me": "x", "deep": {"name": [1, {}]}}"#);
        let mut seen = Vec::new();
        members(&text, |name, value| seen.push((name.to_owned(), RawJson::slice(&text, value)))).unwrap();
        assert_eq!(seen[0].0, "name");
        assert_eq!(seen[1].1.as_str(), r#"{"name": [1, {}]}"#);
        assert!(text.as_bytes().as_ptr_range().contains(&seen[1].1.0.as_bytes().as_ptr()), "not a copy");
    }

    #[test]
    fn what_is_no_single_object_is_an_error() {
        for text in ["", "[]", "1", "{", "{}x", r#"{"a":}"#] {
            assert!(members(text, |_, _| ()).is_err(), "{text}");
        }
    }

    #[test]
    fn hostile_nesting_does_not_overflow_the_stack() {
        let text = format!(r#"{{"a":{}1{}}}"#, "[".repeat(500_000), "]".repeat(500_000));
        members(&text, |_, value| assert_eq!(value.len(), 1_000_001)).unwrap();
    }

    #[test]
    fn strings_are_escaped_as_serde_json_reads_them() {
        let every: String = (0..0x250u32).filter_map(char::from_u32).chain(['\u{2028}', '😀']).collect();
        let mut out = Vec::new();
        write_string(&mut out, &every);
        assert_eq!(serde_json::from_slice::<String>(&out).unwrap(), every);
    }

    #[test]
    fn parse_takes_one_value_only() {
        assert_eq!(RawJson::parse(" {\"a\": 1.0} \n").unwrap().as_str(), "{\"a\": 1.0}");
        assert!(RawJson::parse("1 2").is_err());
        assert!(RawJson::parse(&b"\"\xff\""[..]).is_err());
    }

    #[test]
    fn debug_is_short() {
        let long = RawJson::from(Value::from("ü".repeat(10_000)));
        assert!(format!("{long:?}").len() < 600);
    }
}
