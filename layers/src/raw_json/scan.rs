//! One pass over JSON text (RFC 8259), without recursion, copies or allocations.

use serde_json::value::RawValue;

/// A place in a JSON text. Its methods move it past what they name; `None`: that is not there, and the text is not JSON.
pub(crate) struct Scanner<'t> {
    text: &'t str,
    at: usize,
}

/// The text of a string between its quotes.
pub(super) struct Quoted<'t> {
    pub(super) inner: &'t str,
    pub(super) has_escapes: bool,
}

/// Which brackets are open, the innermost last: a one for an object.
#[derive(Clone, Copy, Default)]
struct Open {
    kinds: u128,
    depth: u32,
}

impl Open {
    fn push(&mut self, is_object: bool) {
        self.kinds = self.kinds << 1 | u128::from(is_object);
        self.depth += 1;
    }

    fn pop(&mut self) {
        self.kinds >>= 1;
        self.depth -= 1;
    }

    fn is_object(self) -> bool {
        self.kinds & 1 == 1
    }

    fn is_full(self) -> bool {
        self.depth == u128::BITS
    }
}

impl<'t> Scanner<'t> {
    pub(crate) fn new(text: &'t str) -> Self {
        Self { text, at: 0 }
    }

    pub(crate) fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    pub(crate) fn space(&mut self) {
        while let Some(b' ' | b'\n' | b'\t' | b'\r') = self.peek() {
            self.at += 1;
        }
    }

    pub(super) fn byte(&mut self, wanted: u8) -> Option<()> {
        (self.peek()? == wanted).then(|| self.at += 1)
    }

    /// Whether nothing follows but space.
    pub(super) fn end(&mut self) -> Option<()> {
        self.space();
        self.peek().is_none().then_some(())
    }

    pub(super) fn string(&mut self) -> Option<Quoted<'t>> {
        let start = self.at + 1;
        let has_escapes = self.quoted()?;
        Some(Quoted { inner: self.text.get(start..self.at - 1)?, has_escapes })
    }

    /// The same, to be left out. Returns whether it has escapes.
    fn quoted(&mut self) -> Option<bool> {
        self.byte(b'"')?;
        let text = self.text.as_bytes();
        let mut has_escapes = false;
        loop {
            let at = special(text, self.at);
            match text.get(at)? {
                b'"' => {
                    self.at = at + 1;
                    return Some(has_escapes);
                }
                b'\\' => has_escapes = true,
                // RFC 8259 §7: control characters must be escaped.
                _ => return None,
            }
            self.at = at
                + match text.get(at + 1)? {
                    b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => 2,
                    b'u' => text.get(at + 2..at + 6)?.iter().all(u8::is_ascii_hexdigit).then_some(6)?,
                    _ => return None,
                };
        }
    }

    /// Any value, as its text.
    pub(crate) fn value(&mut self) -> Option<&'t str> {
        let start = self.at;
        let mut open = Open::default();
        loop {
            match self.peek()? {
                b'"' => {
                    self.quoted()?;
                }
                bracket @ (b'{' | b'[') if !open.is_full() => {
                    let is_object = bracket == b'{';
                    self.at += 1;
                    self.space();
                    if self.byte(if is_object { b'}' } else { b']' }).is_none() {
                        open.push(is_object);
                        if is_object {
                            self.skip_name()?;
                        }
                        continue;
                    }
                }
                b'{' | b'[' => self.deep()?,
                b't' => self.word("true")?,
                b'f' => self.word("false")?,
                b'n' => self.word("null")?,
                _ => self.number()?,
            }
            // A value has ended, and with it perhaps those that it is the last of.
            while open.depth > 0 {
                self.space();
                match (self.peek()?, open.is_object()) {
                    (b',', is_object) => {
                        self.at += 1;
                        self.space();
                        if is_object {
                            self.skip_name()?;
                        }
                        break;
                    }
                    (b'}', true) | (b']', false) => {
                        self.at += 1;
                        open.pop();
                    }
                    _ => return None,
                }
            }
            if open.depth == 0 {
                return self.text.get(start..self.at);
            }
        }
    }

    /// An object. `visit` is shown each member's name, decoded, and must move past its value.
    pub(crate) fn object(&mut self, mut visit: impl FnMut(&str, &mut Self) -> Option<()>) -> Option<()> {
        self.byte(b'{')?;
        self.space();
        if self.byte(b'}').is_some() {
            return Some(());
        }
        loop {
            let name = self.name()?;
            match name.has_escapes {
                false => visit(name.inner, self)?,
                true => visit(&super::unescape(name.inner), self)?,
            }
            if !self.another()? {
                return self.byte(b'}');
            }
        }
    }

    /// An array. `visit` must move past each element.
    pub(crate) fn array(&mut self, mut visit: impl FnMut(&mut Self) -> Option<()>) -> Option<()> {
        self.byte(b'[')?;
        self.space();
        if self.byte(b']').is_some() {
            return Some(());
        }
        loop {
            visit(self)?;
            if !self.another()? {
                return self.byte(b']');
            }
        }
    }

    /// Whether a comma follows, and with it another member or element.
    fn another(&mut self) -> Option<bool> {
        self.space();
        let is_comma = self.peek()? == b',';
        if is_comma {
            self.at += 1;
            self.space();
        }
        Some(is_comma)
    }

    /// Where it is, for [`since`](Self::since).
    pub(crate) fn here(&self) -> usize {
        self.at
    }

    /// The text from `start` up to where it is.
    pub(crate) fn since(&self, start: usize) -> Option<&'t str> {
        self.text.get(start..self.at)
    }

    /// A member's name, up to its value.
    fn name(&mut self) -> Option<Quoted<'t>> {
        let name = self.string()?;
        self.colon()?;
        Some(name)
    }

    fn skip_name(&mut self) -> Option<()> {
        self.quoted()?;
        self.colon()
    }

    fn colon(&mut self) -> Option<()> {
        self.space();
        self.byte(b':')?;
        self.space();
        Some(())
    }

    /// A value that is nested more deeply than can be kept track of here.
    #[cold]
    fn deep(&mut self) -> Option<()> {
        let mut values =
            serde_json::Deserializer::from_str(self.text.get(self.at..)?).into_iter::<&RawValue>();
        values.next()?.ok()?;
        self.at += values.byte_offset();
        Some(())
    }

    fn word(&mut self, word: &str) -> Option<()> {
        self.text.as_bytes().get(self.at..)?.starts_with(word.as_bytes()).then(|| self.at += word.len())
    }

    fn number(&mut self) -> Option<()> {
        let _ = self.byte(b'-');
        // RFC 8259 §6: no leading zeros.
        if self.byte(b'0').is_none() {
            self.digits()?;
        }
        if self.byte(b'.').is_some() {
            self.digits()?;
        }
        if let Some(b'e' | b'E') = self.peek() {
            self.at += 1;
            if let Some(b'+' | b'-') = self.peek() {
                self.at += 1;
            }
            self.digits()?;
        }
        Some(())
    }

    fn digits(&mut self) -> Option<()> {
        let start = self.at;
        while let Some(b'0'..=b'9') = self.peek() {
            self.at += 1;
        }
        (self.at > start).then_some(())
    }
}

/// Where the next byte is that is not just a part of a string: a quote, a backslash, or a control character.
fn special(text: &[u8], mut at: usize) -> usize {
    const ONES: u64 = u64::MAX / 255;
    const HIGHS: u64 = ONES << 7;
    // The high bit of each byte of `word` that is less than `bound`. Above the lowest of them there may be others.
    let below = |word: u64, bound: u64| word.wrapping_sub(ONES * bound) & !word & HIGHS;
    // Most strings are short.
    for _ in 0..4 {
        let Some(Ok(chunk)) = text.get(at..at + 8).map(<[u8; 8]>::try_from) else { break };
        let word = u64::from_le_bytes(chunk);
        let quote = below(word ^ (ONES * b'"' as u64), 1);
        let backslash = below(word ^ (ONES * b'\\' as u64), 1);
        match quote | backslash | below(word, 0x20) {
            0 => at += 8,
            found => return at + found.trailing_zeros() as usize / 8,
        }
    }
    let rest = text.get(at..).unwrap_or_default();
    let end = memchr::memchr2(b'"', b'\\', rest).unwrap_or(rest.len());
    let plain = rest.get(..end).unwrap_or_default();
    // This way it is done by many bytes at a time.
    let least = plain.iter().fold(u8::MAX, |least, byte| least.min(*byte));
    let control = if least < 0x20 { plain.iter().position(|byte| *byte < 0x20) } else { None };
    at + control.unwrap_or(end)
}

#[cfg(test)]
mod tests;
