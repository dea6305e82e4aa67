//! The eras of servers, remembered.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::Probe;
use crate::{Endpoint, ProtocolVersion};

/// How many servers are remembered at most.
const MAX_SERVERS: usize = 1024;

/// The eras of servers, by the URLs of their endpoints, without the query (MCP 2026-07-28 §Backward Compatibility).
///
/// Clones are handles to the same cache, for any number of transports. It serializes as a map, so it can be kept from one run
/// of the application to the next. What is [`Unknown`](Probe::Unknown) is not remembered.
///
/// ```
/// use mcp_streamable_http_layers::probe::{Probe, ProbeCache};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let stored = r#"{"https://example.com/mcp":["2026-07-28"],"https://example.org/mcp":null}"#;
/// let cache: ProbeCache = serde_json::from_str(stored)?;
/// assert_eq!(cache.len(), 2);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Default)]
pub struct ProbeCache(Arc<Mutex<HashMap<String, Option<Vec<ProtocolVersion>>>>>);

impl ProbeCache {
    /// A cache without entries.
    pub fn new() -> Self {
        Self::default()
    }

    /// What is known of the server at `endpoint`. The result of its `server/discover` is not kept.
    pub fn get(&self, endpoint: &Endpoint) -> Option<Probe> {
        let versions = self.lock().get(&key(endpoint))?.clone();
        Some(match versions {
            Some(versions) => Probe::Modern { versions, discovered: None },
            None => Probe::Legacy,
        })
    }

    /// Remembers what was found out of the server at `endpoint`.
    pub fn insert(&self, endpoint: &Endpoint, probe: &Probe) {
        let known = match probe {
            Probe::Modern { versions, .. } => Some(versions.clone()),
            Probe::Legacy => None,
            Probe::Unknown => return,
        };
        let mut servers = self.lock();
        let key = key(endpoint);
        if servers.len() >= MAX_SERVERS && !servers.contains_key(&key) {
            // Any will do: it is only asked again.
            let victim = servers.keys().next().cloned();
            victim.map(|victim| servers.remove(&victim));
        }
        servers.insert(key, known);
    }

    /// Forgets the server at `endpoint`, so that it is asked again.
    pub fn forget(&self, endpoint: &Endpoint) {
        self.lock().remove(&key(endpoint));
    }

    /// How many servers are known.
    pub fn len(&self) -> usize {
        self.lock().len()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Option<Vec<ProtocolVersion>>>> {
        // A map is whole between any two calls.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The URL without the query, whole; what is shown of it may be shortened.
fn key(endpoint: &Endpoint) -> String {
    let uri = endpoint.uri();
    let authority = uri.authority().map_or("", |authority| authority.as_str());
    format!("{}://{authority}{}", uri.scheme_str().unwrap_or_default(), uri.path())
}

impl Serialize for ProbeCache {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let servers = self.lock();
        serializer.collect_map(servers.iter().map(|(server, versions)| {
            let versions = versions
                .as_ref()
                .map(|versions| versions.iter().map(ProtocolVersion::as_str).collect::<Vec<_>>());
            (server, versions)
        }))
    }
}

impl<'de> Deserialize<'de> for ProbeCache {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let stored: HashMap<String, Option<Vec<String>>> = HashMap::deserialize(deserializer)?;
        let parse =
            |versions: Vec<String>| versions.iter().filter_map(|version| version.parse().ok()).collect();
        let servers =
            stored.into_iter().take(MAX_SERVERS).map(|(server, versions)| (server, versions.map(parse)));
        Ok(Self(Arc::new(Mutex::new(servers.collect()))))
    }
}

impl fmt::Debug for ProbeCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProbeCache").field("len", &self.len()).finish_non_exhaustive()
    }
}
