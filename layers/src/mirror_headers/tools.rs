//! Which arguments of which tools are mirrored.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use super::schema::{Parameter, parameters};

/// How many tools with annotations are remembered at most. A server that lists more has none of them mirrored.
const MAX_TOOLS: usize = 16_384;

/// How much memory the parameters of all tools may take up.
const MAX_BYTES: usize = 16 << 20;

/// A longer cursor is not remembered.
const MAX_CURSOR_BYTES: usize = 8 << 10;

/// How many listings may be under way at a time, for tools that are gone to be noticed.
const MAX_LISTINGS: usize = 64;

/// Which arguments of a server's tools are repeated in `Mcp-Param-*` headers (MCP 2026-07-28 §Custom Headers from Tool
/// Parameters).
///
/// It is learned from the answers to `tools/list` as they pass [`MirrorHeaders`](super::MirrorHeaders): a definition replaces
/// the one before, and when all pages were seen, what was not in them is forgotten. It can also be told of a tool
/// ([`learn`](Self::learn)), and be stored with serde, for a client that calls tools without listing them.
///
/// Clones are handles to the same knowledge, so that transports to one server can share it.
///
/// ```
/// use mcp_streamable_http_layers::ToolHeaders;
/// use serde_json::json;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let tools = ToolHeaders::new();
/// let region = json!({ "type": "string", "x-mcp-header": "Region" });
/// tools.learn(&json!({ "name": "query", "inputSchema": { "properties": { "region": region } } }))?;
///
/// let stored = serde_json::to_string(&tools)?;
/// assert_eq!(stored, r#"{"query":{"mcp-param-region":["region"]}}"#);
/// let restored: ToolHeaders = serde_json::from_str(&stored)?;
/// assert_eq!(restored.len(), 1);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Default)]
pub struct ToolHeaders(Arc<RwLock<State>>);

#[derive(Default)]
struct State {
    tools: HashMap<Box<str>, Tool>,
    listings: u64,
    completed: u64,
    /// How much memory the parameters take up.
    bytes: usize,
    /// The cursors of the pages to come, with the listings that they belong to.
    cursors: VecDeque<(String, u64)>,
    /// The last listing that had more tools than are remembered.
    full_in: u64,
}

struct Tool {
    parameters: Arc<[Parameter]>,
    /// The last listing that it was in.
    listing: u64,
}

impl State {
    /// Forgets a tool. Returns the last listing that it was in.
    fn remove(&mut self, name: &str) -> Option<u64> {
        let tool = self.tools.remove(name)?;
        self.bytes -= tool.parameters.iter().map(Parameter::bytes).sum::<usize>();
        Some(tool.listing)
    }

    /// Forgets the tools that `listing` did not have.
    fn retain(&mut self, listing: u64) {
        self.tools.retain(|_, tool| tool.listing >= listing);
        let parameters = self.tools.values().flat_map(|tool| tool.parameters.iter());
        self.bytes = parameters.map(Parameter::bytes).sum();
    }
}

/// A tool whose annotations break the rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidTool(String);

impl InvalidTool {
    pub(super) fn unreadable(error: &serde_json::Error) -> Self {
        Self(format!("its schema cannot be read: {error}"))
    }
}

impl fmt::Display for InvalidTool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for InvalidTool {}

impl ToolHeaders {
    /// Nothing is known yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes note of a tool, as `tools/list` describes it: an object with `name` and `inputSchema`.
    ///
    /// # Errors
    /// An annotation breaks the rules of the specification, or there is no name. What was known of the tool is forgotten.
    pub fn learn(&self, tool: &Value) -> Result<(), InvalidTool> {
        let name = tool["name"].as_str().ok_or_else(|| InvalidTool("the tool has no name".to_owned()))?;
        self.note(name, &tool["inputSchema"], 0)
    }

    /// How many tools have an argument that is mirrored.
    pub fn len(&self) -> usize {
        self.read().tools.len()
    }

    /// Whether no tool has.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many listings were read to their end.
    pub(crate) fn completed_listings(&self) -> u64 {
        self.read().completed
    }

    /// The parameters of the tool that are mirrored.
    pub(crate) fn of(&self, tool: &str) -> Option<Arc<[Parameter]>> {
        self.read().tools.get(tool).map(|tool| tool.parameters.clone())
    }

    /// Notes what `listing` says of a tool.
    pub(super) fn note(&self, name: &str, schema: &Value, listing: u64) -> Result<(), InvalidTool> {
        let parameters = parameters(schema);
        let mut state = self.write();
        match parameters {
            Ok(parameters) if !parameters.is_empty() => {
                let bytes: usize = parameters.iter().map(Parameter::bytes).sum();
                let seen = state.remove(name);
                let is_full =
                    |state: &State| state.tools.len() >= MAX_TOOLS || state.bytes + bytes > MAX_BYTES;
                if is_full(&state) && std::mem::replace(&mut state.full_in, listing) != listing {
                    // Once for a listing: what it did not have so far makes room for what it has.
                    state.retain(listing);
                    tracing::warn!("more tools have annotations than can be remembered");
                }
                if !is_full(&state) {
                    let listing = listing.max(seen.unwrap_or(0));
                    state.bytes += bytes;
                    state.tools.insert(name.into(), Tool { parameters: parameters.into(), listing });
                }
                Ok(())
            }
            outcome => {
                state.remove(name);
                outcome.map(drop).map_err(InvalidTool)
            }
        }
    }

    /// The tool has no annotations.
    pub(super) fn forget(&self, name: &str) {
        if self.of(name).is_some() {
            self.write().remove(name);
        }
    }

    /// A page of a listing arrives, the one at `cursor`. `None` as the listing: it is not known where it began.
    pub(super) fn begin_page(&self, cursor: Option<&str>) -> Option<u64> {
        let mut state = self.write();
        match cursor {
            None => {
                state.listings += 1;
                Some(state.listings)
            }
            Some(cursor) => {
                let at = state.cursors.iter().position(|(found, _)| found == cursor)?;
                state.cursors.remove(at).map(|(_, listing)| listing)
            }
        }
    }

    /// The page has been read. If it was the last, what the listing did not have is gone.
    pub(super) fn end_page(&self, listing: Option<u64>, next: Option<String>) {
        let Some(listing) = listing else { return };
        let mut state = self.write();
        match next {
            None => {
                state.completed += 1;
                state.retain(listing);
            }
            // A server that wants more of its client must do without.
            Some(cursor) if cursor.len() > MAX_CURSOR_BYTES => {}
            Some(cursor) => {
                if state.cursors.len() == MAX_LISTINGS {
                    state.cursors.pop_front();
                }
                state.cursors.push_back((cursor, listing));
            }
        }
    }

    fn read(&self) -> RwLockReadGuard<'_, State> {
        // Every change leaves a whole state behind.
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, State> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A map from tools to maps from headers to paths.
impl Serialize for ToolHeaders {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let state = self.read();
        let mut map = serializer.serialize_map(Some(state.tools.len()))?;
        for (name, tool) in &state.tools {
            let headers: HashMap<&str, Vec<&str>> = tool
                .parameters
                .iter()
                .map(|parameter| {
                    (parameter.header.as_str(), parameter.path.iter().map(|name| &**name).collect())
                })
                .collect();
            map.serialize_entry(name, &headers)?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for ToolHeaders {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let stored: HashMap<Box<str>, HashMap<String, Vec<Box<str>>>> = HashMap::deserialize(deserializer)?;
        let mut tools = HashMap::new();
        for (name, headers) in stored.into_iter().take(MAX_TOOLS) {
            let parameters: Result<Vec<_>, D::Error> = headers
                .into_iter()
                .map(|(header, path)| Parameter::stored(&header, path).map_err(serde::de::Error::custom))
                .collect();
            tools.insert(name, Tool { parameters: parameters?.into(), listing: 0 });
        }
        let mut state = State { tools, ..State::default() };
        state.retain(0);
        Ok(Self(Arc::new(RwLock::new(state))))
    }
}

impl fmt::Debug for ToolHeaders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolHeaders").field("len", &self.len()).finish_non_exhaustive()
    }
}
