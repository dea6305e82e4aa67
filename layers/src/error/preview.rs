//! What of a server's text may be shown.

use std::borrow::Cow;
use std::fmt;

/// The start of a body that could not be used, fit to be shown: at most 200 characters in one line, with whatever
/// looks like a credential left out.
///
/// Servers like to echo what they were sent ("unknown session 3fa85f64-…"), and an error's text ends up in logs. So
/// every long unbroken run of the characters that tokens are made of, and whatever follows the name of an
/// authentication scheme, is replaced by `[redacted]`, and URLs lose their userinfo and query.
#[derive(Clone, PartialEq, Eq)]
pub struct Preview(String);

/// A run this long is no word: a UUID without dashes has 32 characters, a short token 20.
const TOKEN: usize = 20;
const SHOWN: usize = 200;
const REDACTED: &str = "[redacted]";

impl Preview {
    /// Shows the start of `text`.
    pub(crate) fn of(text: &[u8]) -> Self {
        Self::without(text, None)
    }

    /// Shows the start of `text`, with `secret` left out however short it is.
    pub(crate) fn without(text: &[u8], secret: Option<&str>) -> Self {
        // Four bytes a character at most, and a token that begins inside must be seen whole.
        let start = String::from_utf8_lossy(&text[..text.len().min(16 * SHOWN)]);
        let mut shown = String::new();
        let mut after_scheme = false;
        for word in start.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty())
        {
            if !shown.is_empty() {
                shown.push(' ');
            }
            if after_scheme {
                shown.push_str(REDACTED);
            } else {
                let word = without_url_secrets(word);
                match secret.filter(|secret| !secret.is_empty()) {
                    Some(secret) => push_redacted(&mut shown, &word.replace(secret, REDACTED)),
                    None => push_redacted(&mut shown, &word),
                }
            }
            let name = word.rsplit(|c: char| !c.is_ascii_alphanumeric()).find(|part| !part.is_empty());
            after_scheme =
                name.is_some_and(|name| ["basic", "bearer"].iter().any(|s| s.eq_ignore_ascii_case(name)));
            if shown.len() > 4 * SHOWN {
                break;
            }
        }
        Self(shorten(shown))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Ends the sentence of an error with it.
    pub(super) fn append(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() { Ok(()) } else { write!(f, ": \"{}\"", self.0) }
    }
}

/// A word without the query, and without the userinfo, of a URL in it.
fn without_url_secrets(word: &str) -> Cow<'_, str> {
    let ends = |rest: &str| rest.find(['"', '\'', '<', '>', ')', '|']).unwrap_or(rest.len());
    let mut word = Cow::Borrowed(word);
    if let Some(query) = word.find('?').filter(|query| word[*query..].contains('=')) {
        let end = query + ends(&word[query..]);
        word = Cow::Owned(format!("{}?…{}", &word[..query], &word[end..]));
    }
    if let Some(authority) = word.find("://").map(|scheme| scheme + 3) {
        let end = authority + word[authority..].find('/').unwrap_or(word.len() - authority);
        if let Some(at) = word[authority..end].rfind('@') {
            word = Cow::Owned(format!("{}{}", &word[..authority], &word[authority + at + 1..]));
        }
    }
    word
}

fn shorten(mut shown: String) -> String {
    if let Some((end, _)) = shown.char_indices().nth(SHOWN) {
        shown.truncate(end);
        shown.push('…');
    }
    shown
}

fn push_redacted(shown: &mut String, word: &str) {
    let is_token = |c: char| c.is_ascii_alphanumeric() || "-._~+".contains(c);
    let mut rest = word;
    while !rest.is_empty() {
        let run = rest.find(|c| !is_token(c)).unwrap_or(rest.len());
        if run >= TOKEN {
            shown.push_str(REDACTED)
        } else {
            shown.push_str(&rest[..run])
        }
        let next = rest[run..].find(is_token).map_or(rest.len(), |gap| run + gap);
        shown.push_str(&rest[run..next]);
        rest = &rest[next..];
    }
}

impl fmt::Debug for Preview {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl fmt::Display for Preview {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A URL without its userinfo, query and fragment: these can hold secrets.
pub(crate) struct Redacted(pub(super) String);

impl fmt::Display for Redacted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The start of a URL, or of the reference in a `Location`, without its userinfo, query and fragment (RFC 3986 §3).
pub(crate) fn redacted_location(target: &[u8]) -> String {
    let target = String::from_utf8_lossy(target);
    let target = target.split(['?', '#']).next().unwrap_or_default();
    let shown = match target.split_once("//") {
        None => target.to_owned(),
        Some((scheme, rest)) => {
            let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
            let host = authority.rsplit('@').next().unwrap_or_default();
            format!("{scheme}//{host}{path}")
        }
    };
    shorten(shown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_stay_and_tokens_go() {
        for (text, shown) in [
            ("No such tool: add_numbers", "No such tool: add_numbers"),
            ("unknown session 3fa85f64-5717-4562-b3fc-2c963f66afa6!", "unknown session [redacted]!"),
            (r#"{"auth":"Bearer abc"}"#, r#"{"auth":"Bearer [redacted]"#),
            ("token=abcdefghij.klmnopqrst_uv;", "token=[redacted];"),
            ("jwt eyJhbGciOiJIUzI1NiJ9.e30.ZRrHA1JJJW8opsbCGfG", "jwt [redacted]"),
            (r#"<a href="https://u:p@h/x?t=s">Moved</a>"#, r#"<a href="https://h/x?…">Moved</a>"#),
            ("see /login?next=/&k=v, why?", "see /login?… why?"),
            ("<p>\r\n\t Bad\u{0}\u{1b}[31m  Gateway</p>", "<p> Bad [31m Gateway</p>"),
        ] {
            assert_eq!(Preview::of(text.as_bytes()).as_str(), shown, "{text}");
        }
    }

    #[test]
    fn a_known_secret_goes_however_short() {
        assert_eq!(Preview::without(b"no s-1 here", Some("s-1")).as_str(), "no [redacted] here");
    }

    #[test]
    fn it_is_short_whatever_arrives() {
        for text in ["ä ".repeat(100_000), "x".repeat(1 << 20), "\u{fffd}".repeat(5_000)] {
            assert!(Preview::of(text.as_bytes()).as_str().chars().count() <= SHOWN + 1);
        }
        assert_eq!(Preview::of(b"\xff\xfe").as_str(), "\u{fffd}\u{fffd}");
    }

    #[test]
    fn urls_lose_what_can_be_secret() {
        for (url, shown) in [
            ("https://u:p@host:1/a/b?token=x#y", "https://host:1/a/b"),
            ("//u@host?x", "//host"),
            ("/path?x=//a@b", "/path"),
            ("https://a@b@host/p@q", "https://host/p@q"),
        ] {
            assert_eq!(redacted_location(url.as_bytes()), shown);
        }
    }
}
