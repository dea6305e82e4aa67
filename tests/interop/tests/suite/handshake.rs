//! Checks of the handshake, which every server of the legacy era passes.

use mcp_streamable_http::Era as Protocol;
use serde_json::json;

use crate::profile::{Era, Profile};

pub(crate) async fn every_version_is_negotiated(profile: &Profile) {
    for version in ["2025-03-26", "2025-06-18", "2025-11-25"] {
        let client = profile.legacy();
        let result = client.handshake(version, json!({})).await;
        assert_eq!(result["protocolVersion"], version);
        assert_eq!(result["serverInfo"]["name"], profile.name);

        let session = client.transport().session();
        assert_eq!(session.version().unwrap().as_str(), version);
        assert_eq!(session.era(), Protocol::Legacy);
        client.call("ping", json!({})).await;
    }
}

/// The server answers with a version of its own, and that one counts.
pub(crate) async fn an_unknown_version_is_countered(profile: &Profile) {
    let client = profile.legacy();
    let result = client.handshake("1999-01-01", json!({})).await;
    assert_eq!(result["protocolVersion"], "2025-11-25");
    assert_eq!(client.transport().session().version().unwrap().as_str(), "2025-11-25");
    client.call("ping", json!({})).await;
}

pub(crate) async fn a_session_or_none(profile: &Profile) {
    let [first, second] = [profile.connect().await, profile.connect().await];
    let [first, second] = [first, second].map(|client| client.transport().session().id());
    assert_eq!(first.is_some(), profile.era == Era::Sessions);
    assert_eq!(second.is_some(), first.is_some());
    assert!(first.is_none() || first != second, "one session for two clients");
}
