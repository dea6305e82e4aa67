//! JSON text that stays the text it travels as.

use std::borrow::Cow;
use std::fmt;

use bytes::Bytes;
use bytestring::ByteString;
use serde::de::{Deserialize, DeserializeSeed, Deserializer, Error as _, MapAccess, Visitor};
use serde::ser::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;

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
        let raw: &RawValue = serde_json::from_str(&text)?;
        Ok(Self::slice(&text, raw))
    }

    /// The value that `raw` was read as, out of the very `text` that it was read from.
    pub(crate) fn slice(text: &ByteString, raw: &RawValue) -> Self {
        Self(text.slice_ref(raw.get()))
    }

    /// Text that is known to be one JSON value.
    pub(crate) fn from_text(text: ByteString) -> Self {
        Self(text)
    }

    /// The string, if it is one: a slice, unless it has escapes.
    pub(crate) fn as_string(&self) -> Option<ByteString> {
        match serde_json::Deserializer::from_str(&self.0).deserialize_str(Name).ok()? {
            Cow::Borrowed(value) => Some(self.0.slice_ref(value)),
            Cow::Owned(value) => Some(value.into()),
        }
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
/// both are shown, in order.
pub(crate) fn members<'a>(
    object: &'a str,
    visit: impl FnMut(&str, &'a RawValue),
) -> Result<(), serde_json::Error> {
    let mut json = serde_json::Deserializer::from_str(object);
    json.deserialize_map(Members(visit))?;
    json.end()
}

struct Members<F>(F);

impl<'de, F: FnMut(&str, &'de RawValue)> Visitor<'de> for Members<F> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<(), A::Error> {
        while let Some(name) = map.next_key_seed(Name)? {
            (self.0)(&name, map.next_value()?);
        }
        Ok(())
    }
}

/// A member's name, borrowed where it can be: serde's own `Cow` never is.
pub(crate) struct Name;

impl<'de> DeserializeSeed<'de> for Name {
    type Value = Cow<'de, str>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        // As bytes, since half of a surrogate pair, which JSON allows, is no error then.
        deserializer.deserialize_bytes(self)
    }
}

impl<'de> Visitor<'de> for Name {
    type Value = Cow<'de, str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_borrowed_bytes<E>(self, name: &'de [u8]) -> Result<Self::Value, E> {
        Ok(String::from_utf8_lossy(name))
    }

    fn visit_bytes<E>(self, name: &[u8]) -> Result<Self::Value, E> {
        Ok(Cow::Owned(String::from_utf8_lossy(name).into_owned()))
    }

    fn visit_borrowed_str<E>(self, name: &'de str) -> Result<Self::Value, E> {
        Ok(Cow::Borrowed(name))
    }

    fn visit_str<E>(self, name: &str) -> Result<Self::Value, E> {
        Ok(Cow::Owned(name.to_owned()))
    }
}

/// The text of a JSON string, sliced out of `text` unless it has escapes; `None` for any other value.
pub(crate) fn string(text: &ByteString, raw: &RawValue) -> Option<ByteString> {
    match serde_json::Deserializer::from_str(raw.get()).deserialize_str(Name).ok()? {
        Cow::Borrowed(value) => Some(text.slice_ref(value)),
        Cow::Owned(value) => Some(value.into()),
    }
}

/// Appends `text` as a JSON string (RFC 8259 §7).
pub(crate) fn write_string(out: &mut Vec<u8>, text: &str) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    out.push(b'"');
    for &byte in text.as_bytes() {
        match byte {
            b'"' | b'\\' => out.extend([b'\\', byte]),
            // Each is below 32, so both digits are within the table.
            0..=0x1f => {
                out.extend([b'\\', b'u', b'0', b'0', HEX[(byte >> 4) as usize], HEX[(byte & 15) as usize]])
            }
            _ => out.push(byte),
        }
    }
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
        members(&text, |_, value| assert_eq!(value.get().len(), 1_000_001)).unwrap();
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
