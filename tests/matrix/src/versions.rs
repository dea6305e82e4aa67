//! The versions of what the servers are built on, from the files that pin them: the table cannot name others.

use serde_json::Value;

const PYTHON: &str = include_str!("../../interop/servers/requirements.txt");
const NPM: &str = include_str!("../../interop/servers/package.json");
const CARGO: &str = include_str!("../../../Cargo.lock");

/// What a version that is not to be found is called, which the comparison with the document brings to light.
const UNKNOWN: &str = "of an unknown version";

/// That of the package `mcp`.
pub(crate) fn python() -> &'static str {
    PYTHON.lines().find_map(|line| line.strip_prefix("mcp==")).unwrap_or(UNKNOWN)
}

/// That of the package `@modelcontextprotocol/NAME`.
pub(crate) fn npm(name: &str) -> String {
    let package: Value = serde_json::from_str(NPM).unwrap_or_default();
    let version = &package["dependencies"][format!("@modelcontextprotocol/{name}")];
    version.as_str().unwrap_or(UNKNOWN).to_owned()
}

/// That of rmcp.
pub(crate) fn rmcp() -> &'static str {
    let package = CARGO.split("\n[[package]]\n").find(|package| package.starts_with("name = \"rmcp\"\n"));
    let mut lines = package.unwrap_or_default().lines();
    let version = lines.find_map(|line| line.strip_prefix("version = "));
    version.map_or(UNKNOWN, |version| version.trim_matches('"'))
}
