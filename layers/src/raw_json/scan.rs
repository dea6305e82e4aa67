//! One pass over JSON text (RFC 8259), without recursion, copies or allocations.

use serde_json::value::RawValue;

use super::specials::Specials;

/// A place in a JSON text. Its methods move it past what they name; `None`: that is not there, and the text is not JSON.
#[derive(Clone, Copy)]
pub(crate) struct Scanner<'t> {
    text: &'t str,
    at: usize,
    specials: Specials,
}

/// The text of a string between its quotes.
pub(super) struct Quoted<'t> {
    pub(super) inner: &'t str,
    pub(super) has_escapes: bool,
}

/// Which brackets are open, the innermost last: a one for an object. Before the outermost there is a one.
#[derive(Clone, Copy)]
struct Open(u64);

impl Open {
    const NONE: Self = Self(1);

    fn push(&mut self, is_object: bool) {
        self.0 = self.0 << 1 | u64::from(is_object);
    }

    fn pop(&mut self) {
        self.0 >>= 1;
    }

    fn is_none(self) -> bool {
        self.0 == 1
    }

    fn is_object(self) -> bool {
        self.0 & 1 == 1
    }

    fn is_full(self) -> bool {
        self.0 >> (u64::BITS - 1) == 1
    }
}

impl<'t> Scanner<'t> {
    pub(crate) fn new(text: &'t str) -> Self {
        Self { text, at: 0, specials: Specials::default() }
    }

    pub(crate) fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    pub(crate) fn space(&mut self) {
        self.token();
    }

    /// The first byte that is no space. It is not moved past.
    #[inline(always)]
    fn token(&mut self) -> Option<u8> {
        match self.peek()? {
            // Mostly there is none.
            0..=b' ' => {
                self.at = after_space(self.text.as_bytes(), self.at);
                self.peek()
            }
            byte => Some(byte),
        }
    }

    pub(super) fn byte(&mut self, wanted: u8) -> Option<()> {
        (self.peek()? == wanted).then(|| self.at += 1)
    }

    /// Whether nothing follows but space.
    pub(super) fn end(&mut self) -> Option<()> {
        self.token().is_none().then_some(())
    }

    pub(super) fn string(&mut self) -> Option<Quoted<'t>> {
        self.byte(b'"')?;
        let start = self.at;
        let has_escapes = self.quoted()?;
        Some(Quoted { inner: self.text.get(start..self.at - 1)?, has_escapes })
    }

    /// The rest of one, after the opening quote. Returns whether it has escapes.
    #[inline(always)]
    fn quoted(&mut self) -> Option<bool> {
        let text = self.text.as_bytes();
        self.at = self.specials.next(text, self.at);
        let has_escapes = self.peek()? != b'"';
        if has_escapes {
            (self.at, self.specials) = escapes(text, self.at, self.specials)?;
        }
        self.at += 1;
        Some(has_escapes)
    }

    /// Any value, as its text.
    #[inline(never)]
    pub(crate) fn value(&mut self) -> Option<&'t str> {
        let start = self.at;
        *self = self.after_value()?;
        self.since(start)
    }

    /// Where it is after a value. It works on a copy, which stays in registers as long as what it calls is inlined or is
    /// given no reference to it: a third fewer instructions.
    #[inline(always)]
    fn after_value(mut self) -> Option<Self> {
        let mut open = Open::NONE;
        loop {
            match self.peek()? {
                b'"' => {
                    self.at += 1;
                    self.quoted()?;
                }
                b'{' if !open.is_full() => {
                    self.at += 1;
                    if self.token()? != b'}' {
                        open.push(true);
                        self.skip_name()?;
                        continue;
                    }
                    self.at += 1;
                }
                b'[' if !open.is_full() => {
                    self.at += 1;
                    if self.token()? != b']' {
                        open.push(false);
                        continue;
                    }
                    self.at += 1;
                }
                b'{' | b'[' => self.at = deep(self.text, self.at)?,
                b't' => self.word("true")?,
                b'f' => self.word("false")?,
                b'n' => self.word("null")?,
                0..=b' ' => {
                    self.some_space()?;
                    continue;
                }
                _ => self.at = number(self.text.as_bytes(), self.at)?,
            }
            // A value has ended, and with it perhaps those that it is the last of.
            loop {
                if open.is_none() {
                    return Some(self);
                }
                let is_object = open.is_object();
                match self.peek()? {
                    b',' => {
                        self.at += 1;
                        if is_object {
                            self.skip_name()?;
                        }
                        break;
                    }
                    b'}' if is_object => open.pop(),
                    b']' if !is_object => open.pop(),
                    0..=b' ' => {
                        self.some_space()?;
                        continue;
                    }
                    _ => return None,
                }
                self.at += 1;
            }
        }
    }

    /// Space, where something else is more likely.
    #[inline(always)]
    fn some_space(&mut self) -> Option<()> {
        let start = self.at;
        self.at = after_space(self.text.as_bytes(), start);
        (self.at > start).then_some(())
    }

    /// An object. `visit` is shown each member's name, decoded, and must move past its value.
    pub(crate) fn object(&mut self, mut visit: impl FnMut(&str, &mut Self) -> Option<()>) -> Option<()> {
        self.byte(b'{')?;
        if self.token()? == b'}' {
            self.at += 1;
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
        if self.token()? == b']' {
            self.at += 1;
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
        let is_comma = self.token()? == b',';
        if is_comma {
            self.at += 1;
            self.token()?;
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
        self.past(b':')?;
        self.token()?;
        Some(name)
    }

    /// The same, to be left out, with what is before it. The value need not follow at once.
    #[inline(always)]
    fn skip_name(&mut self) -> Option<()> {
        self.past(b'"')?;
        self.quoted()?;
        self.past(b':')
    }

    /// Moves past space and `wanted`.
    #[inline(always)]
    fn past(&mut self, wanted: u8) -> Option<()> {
        if self.peek()? != wanted {
            self.some_space()?;
            if self.peek()? != wanted {
                return None;
            }
        }
        self.at += 1;
        Some(())
    }

    #[inline(always)]
    fn word(&mut self, word: &str) -> Option<()> {
        self.text.as_bytes().get(self.at..)?.starts_with(word.as_bytes()).then(|| self.at += word.len())
    }
}

/// Where the first byte is at `at` or after it that is no space.
#[inline(never)]
fn after_space(text: &[u8], mut at: usize) -> usize {
    loop {
        match text.get(at) {
            Some(b'\n' | b'\t' | b'\r') => at += 1,
            Some(b' ') => {
                at += 1;
                // Indentation is of any length: one step is better than one for each byte.
                while let Some(chunk) = text.get(at..).and_then(<[u8]>::first_chunk) {
                    let others = u128::from_le_bytes(*chunk) ^ u128::from_le_bytes([b' '; 16]);
                    at += others.trailing_zeros() as usize / 8;
                    if others != 0 {
                        break;
                    }
                }
            }
            _ => return at,
        }
    }
}

/// From the first escape of a string to where its closing quote is.
#[inline(never)]
fn escapes(text: &[u8], mut at: usize, mut specials: Specials) -> Option<(usize, Specials)> {
    loop {
        match text.get(at)? {
            b'"' => return Some((at, specials)),
            b'\\' => {}
            // RFC 8259 §7: control characters must be escaped.
            _ => return None,
        }
        at += match text.get(at + 1)? {
            b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => 2,
            b'u' => text.get(at + 2..at + 6)?.iter().all(u8::is_ascii_hexdigit).then_some(6)?,
            _ => return None,
        };
        at = specials.next(text, at);
    }
}

/// Where a value ends that is nested more deeply than can be kept track of here.
#[cold]
fn deep(text: &str, at: usize) -> Option<usize> {
    let mut values = serde_json::Deserializer::from_str(text.get(at..)?).into_iter::<&RawValue>();
    values.next()?.ok()?;
    Some(at + values.byte_offset())
}

/// Where a number ends.
fn number(text: &[u8], mut at: usize) -> Option<usize> {
    let digits = |start: usize| {
        let mut at = start;
        while let Some(b'0'..=b'9') = text.get(at) {
            at += 1;
        }
        (at > start).then_some(at)
    };
    if text.get(at) == Some(&b'-') {
        at += 1;
    }
    // RFC 8259 §6: no leading zeros.
    at = if text.get(at) == Some(&b'0') { at + 1 } else { digits(at)? };
    if text.get(at) == Some(&b'.') {
        at = digits(at + 1)?;
    }
    if let Some(b'e' | b'E') = text.get(at) {
        at += 1;
        if let Some(b'+' | b'-') = text.get(at) {
            at += 1;
        }
        at = digits(at)?;
    }
    Some(at)
}

#[cfg(test)]
mod tests;
