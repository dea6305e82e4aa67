//! Protocol versions, and the era that each belongs to.

use std::fmt;

use http::HeaderValue;

/// The two shapes that the Streamable HTTP transport has had.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Era {
    /// `2025-11-25` and earlier: an `initialize` handshake, sessions, a listening GET, resumable streams.
    Legacy,
    /// `2026-07-28` and later: no session; each request carries its own version and metadata.
    Modern,
}

/// A revision of the Model Context Protocol, as its date.
///
/// ```
/// use mcp_streamable_http_layers::{Era, ProtocolVersion};
///
/// let version: ProtocolVersion = "2025-11-25".parse()?;
/// assert_eq!(version, ProtocolVersion::V2025_11_25);
/// assert_eq!(version.era(), Era::Legacy);
/// # Ok::<(), mcp_streamable_http_layers::InvalidProtocolVersion>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct ProtocolVersion(Repr);

#[derive(Clone, PartialEq, Eq, Hash)]
enum Repr {
    /// The one at this place in [`KNOWN`].
    Known(usize),
    /// Visible ASCII, as [`ProtocolVersion::from_header`] checked.
    Other(HeaderValue),
}

/// One that was published.
struct Revision {
    text: &'static str,
    era: Era,
    header: HeaderValue,
}

const fn revision(text: &'static str, era: Era) -> Revision {
    Revision { text, era, header: HeaderValue::from_static(text) }
}

/// A version that is none of them is modern, so that a revision which this crate does not know yet is spoken to like the
/// newest that it does know.
static KNOWN: [Revision; 6] = [
    revision("2024-10-07", Era::Legacy),
    revision("2024-11-05", Era::Legacy),
    revision("2025-03-26", Era::Legacy),
    revision("2025-06-18", Era::Legacy),
    revision("2025-11-25", Era::Legacy),
    revision("2026-07-28", Era::Modern),
];

impl ProtocolVersion {
    /// Revision 2025-03-26, the first with Streamable HTTP.
    pub const V2025_03_26: Self = Self(Repr::Known(2));
    /// Revision 2025-06-18, the first with the `MCP-Protocol-Version` header.
    pub const V2025_06_18: Self = Self(Repr::Known(3));
    /// Revision 2025-11-25, the last of the legacy era.
    pub const V2025_11_25: Self = Self(Repr::Known(4));
    /// Revision 2026-07-28, the first of the modern era.
    pub const V2026_07_28: Self = Self(Repr::Known(5));

    /// The version as text.
    pub fn as_str(&self) -> &str {
        match &self.0 {
            Repr::Known(place) => KNOWN[*place].text,
            Repr::Other(value) => value.to_str().unwrap_or_default(),
        }
    }

    /// The era that it belongs to: every version that is none of the legacy ones is modern.
    pub fn era(&self) -> Era {
        match &self.0 {
            Repr::Known(place) => KNOWN[*place].era,
            Repr::Other(_) => Era::Modern,
        }
    }

    /// The version as the value of an `MCP-Protocol-Version` header.
    pub fn to_header(&self) -> HeaderValue {
        match &self.0 {
            Repr::Known(place) => KNOWN[*place].header.clone(),
            Repr::Other(value) => value.clone(),
        }
    }

    /// Reads the value of an `MCP-Protocol-Version` header.
    ///
    /// # Errors
    /// The value is empty or has a character other than visible ASCII.
    pub fn from_header(value: &HeaderValue) -> Result<Self, InvalidProtocolVersion> {
        let text = value.to_str().map_err(|_| InvalidProtocolVersion)?;
        match known(text) {
            Some(version) => Ok(version),
            // Not even a space: a header loses those at its ends.
            None if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic()) => {
                Ok(Self(Repr::Other(value.clone())))
            }
            None => Err(InvalidProtocolVersion),
        }
    }
}

fn known(text: &str) -> Option<ProtocolVersion> {
    // The newest are the likeliest.
    KNOWN.iter().rposition(|known| known.text == text).map(|place| ProtocolVersion(Repr::Known(place)))
}

impl std::str::FromStr for ProtocolVersion {
    type Err = InvalidProtocolVersion;

    fn from_str(text: &str) -> Result<Self, InvalidProtocolVersion> {
        match known(text) {
            Some(version) => Ok(version),
            None => Self::from_header(&HeaderValue::from_str(text).map_err(|_| InvalidProtocolVersion)?),
        }
    }
}

impl fmt::Debug for ProtocolVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Display for ProtocolVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A protocol version must be visible ASCII, since it travels in a header, and this one is not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidProtocolVersion;

impl fmt::Display for InvalidProtocolVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a protocol version must be one or more visible ASCII characters")
    }
}

impl std::error::Error for InvalidProtocolVersion {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_five_are_legacy() {
        for text in ["2024-10-07", "2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
            assert_eq!(text.parse::<ProtocolVersion>().unwrap().era(), Era::Legacy, "{text}");
        }
        for text in ["2026-07-28", "2027-01-01", "draft", "2025-11-26"] {
            let version: ProtocolVersion = text.parse().unwrap();
            assert_eq!((version.era(), version.as_str()), (Era::Modern, text));
            assert_eq!(ProtocolVersion::from_header(&version.to_header()), Ok(version));
        }
    }

    #[test]
    fn what_no_header_can_carry_is_no_version() {
        for text in ["", " ", "2025-11-25 ", "a b", "ü", "1\r\nx: y", "\u{7f}"] {
            assert_eq!(text.parse::<ProtocolVersion>(), Err(InvalidProtocolVersion), "{text:?}");
        }
    }
}
