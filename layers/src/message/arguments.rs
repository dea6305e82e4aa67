//! Where the arguments of a tool call stand in its `params`.

use std::collections::HashMap;
use std::fmt;

use bytestring::ByteString;
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use crate::raw_json::{Name, members};

/// So many arguments are noted on the way; of calls with more, those wanted are looked for again.
const NOTED: usize = 4;

/// Found in the one pass over `params`, so that a header that mirrors an argument costs no second one. Nothing is copied.
#[derive(Clone, Debug, Default)]
pub(crate) struct Arguments {
    noted: [(Span, Span); NOTED],
    len: usize,
    /// Whether all of them are noted.
    is_complete: bool,
}

/// A part of the text of `params`.
#[derive(Clone, Copy, Debug, Default)]
struct Span {
    start: u32,
    end: u32,
}

impl Span {
    fn of(part: &str, text: &str) -> Option<Self> {
        let start = (part.as_ptr() as usize).checked_sub(text.as_ptr() as usize)?;
        let end = start.checked_add(part.len()).filter(|end| *end <= text.len())?;
        Some(Self { start: u32::try_from(start).ok()?, end: u32::try_from(end).ok()? })
    }

    fn slice(self, text: &ByteString) -> ByteString {
        let part = text.get(self.start as usize..self.end as usize);
        part.map_or_else(ByteString::new, |part| text.slice_ref(part))
    }
}

impl Arguments {
    /// The texts of the arguments at `paths` in `params`. Of a name that occurs twice the last counts.
    pub(crate) fn at(&self, params: &ByteString, paths: &[&[Box<str>]]) -> Vec<Option<ByteString>> {
        if self.is_complete && paths.len() <= NOTED && paths.iter().all(|path| path.len() == 1) {
            return paths.iter().map(|path| self.noted(params, path.first()?)).collect();
        }
        let mut found = vec![None; paths.len()];
        if let Some(arguments) = member(params, "arguments") {
            let wanted = paths.iter().enumerate().map(|(at, path)| (*path, at)).collect();
            collect(&arguments, wanted, &mut found);
        }
        found
    }

    fn noted(&self, params: &ByteString, name: &str) -> Option<ByteString> {
        let noted = self.noted.get(..self.len)?.iter().rev();
        let found = noted.into_iter().find(|(found, _)| *found.slice(params) == *name);
        found.map(|(_, value)| value.slice(params))
    }

    fn note(&mut self, name: &str, value: &str, text: &str) {
        // A name with escapes is not part of the text.
        let spans = Span::of(name, text).zip(Span::of(value, text));
        match (self.noted.get_mut(self.len), spans) {
            (Some(place), Some(spans)) => {
                *place = spans;
                self.len += 1;
            }
            _ => self.is_complete = false,
        }
    }
}

/// What is left of a path, and whose it is.
type Wanted<'p> = (&'p [Box<str>], usize);

/// Finds the values of all paths in one pass over each object on their way.
fn collect(object: &ByteString, wanted: Vec<Wanted<'_>>, found: &mut [Option<ByteString>]) {
    let mut groups: HashMap<&str, (Vec<Wanted<'_>>, Option<ByteString>)> = HashMap::new();
    for (path, at) in wanted {
        if let Some((name, rest)) = path.split_first() {
            groups.entry(name).or_default().0.push((rest, at));
        }
    }
    let _ = members(object, |name, value| {
        if let Some((_, text)) = groups.get_mut(name) {
            *text = Some(object.slice_ref(value.get()));
        }
    });
    for (paths, text) in groups.into_values() {
        let Some(text) = text else { continue };
        let (here, deeper): (Vec<_>, Vec<_>) = paths.into_iter().partition(|(path, _)| path.is_empty());
        for (_, at) in here {
            if let Some(place) = found.get_mut(at) {
                *place = Some(text.clone());
            }
        }
        if !deeper.is_empty() {
            collect(&text, deeper, found);
        }
    }
}

fn member(object: &ByteString, wanted: &str) -> Option<ByteString> {
    let mut found = None;
    members(object, |name, value| {
        if name == wanted {
            found = Some(object.slice_ref(value.get()));
        }
    })
    .ok()?;
    found
}

/// Reads the value of `arguments`, whatever it is, and notes its members if it is an object.
pub(super) struct Reader<'t> {
    pub(super) text: &'t str,
}

impl<'de> DeserializeSeed<'de> for Reader<'de> {
    type Value = Option<Arguments>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Reader<'de> {
    type Value = Option<Arguments>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the arguments of a tool")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut arguments = Arguments { is_complete: true, ..Arguments::default() };
        while let Some(name) = map.next_key_seed(Name)? {
            let value: &'de RawValue = map.next_value()?;
            arguments.note(&name, value.get(), self.text);
        }
        Ok(Some(arguments))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(None)
    }

    fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_str<E: Error>(self, _: &str) -> Result<Self::Value, E> {
        Ok(None)
    }
}
