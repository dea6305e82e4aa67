//! What the figures were made on, and with which versions.

use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

/// The versions that are in this program. It is compiled from this file, so it cannot be out of date.
const LOCK: &str = include_str!("../../../Cargo.lock");

/// The crates whose versions are told, each with the beginning of the one that is meant where there are several.
const PEERS: [(&str, &str); 9] = [
    ("mcp-streamable-http", ""),
    ("hyper", "1."),
    ("hyper-util", ""),
    ("rmcp", "3."),
    ("reqwest", "0.13"),
    ("tower-mcp", ""),
    ("sse-stream", "0.3"),
    ("sseer", ""),
    ("eventsource-stream", ""),
];

/// The processor's model and how many there are.
pub(crate) fn processor() -> String {
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model =
        info.lines().find(|line| line.starts_with("model name")).and_then(|line| line.split(": ").nth(1));
    format!("{}, {cores} cores", model.unwrap_or("unknown processor"))
}

/// The compiler's version, as it says itself.
pub(crate) fn compiler() -> String {
    let output = Command::new("rustc").arg("--version").output();
    let version = output.ok().and_then(|output| String::from_utf8(output.stdout).ok());
    version.map_or_else(|| "rustc of unknown version".to_owned(), |version| version.trim().to_owned())
}

/// `name version` of what is compared.
pub(crate) fn versions() -> String {
    let versions =
        PEERS.iter().filter_map(|(name, begins)| Some(format!("{name} {}", version(name, begins)?)));
    versions.collect::<Vec<_>>().join(", ")
}

fn version(name: &str, begins: &str) -> Option<&'static str> {
    let entry = format!("name = \"{name}\"\nversion = \"");
    let versions = LOCK.split(&entry).skip(1).filter_map(|rest| rest.split('"').next());
    versions.filter(|version| version.starts_with(begins)).last()
}

/// Today, in UTC.
pub(crate) fn date() -> String {
    let days = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs() / 86_400);
    let (year, month, day) = civil(days);
    format!("{year}-{month:02}-{day:02}")
}

/// The date so many days after the first of 1970, counted in years that begin in March, so that leap days come last.
fn civil(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (era * 400 + year + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::{civil, version};

    #[test]
    fn dates_are_right_around_leap_days() {
        assert_eq!(civil(0), (1970, 1, 1));
        assert_eq!(civil(11_016), (2000, 2, 29));
        assert_eq!(civil(20_787), (2026, 11, 30));
    }

    #[test]
    fn the_versions_are_found() {
        assert!(version("rmcp", "3.").is_some());
        assert_eq!(version("no-such-crate", ""), None);
    }
}
