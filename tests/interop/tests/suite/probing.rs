//! Checks of asking a server for its era.

use mcp_streamable_http::{Probe, ProbeCache, ProtocolVersion, StreamableHttp};
use mcp_streamable_http_interop::{Client, Relay};
use serde_json::{Value, json};

use crate::calls::exchange;
use crate::profile::Profile;

/// The SDK serves the modern era in every mode.
pub(crate) async fn it_is_modern_and_can_be_called_at_once(profile: &Profile) {
    let transport = StreamableHttp::new(profile.server.uri()).unwrap();
    let Probe::Modern { versions, discovered } = transport.probe(meta()).await.unwrap() else {
        panic!("it is not modern");
    };
    assert_eq!(versions, [version("2026-07-28")]);
    let discovered: Value = discovered.unwrap().to().unwrap();
    assert_eq!(discovered["_meta"]["io.modelcontextprotocol/serverInfo"]["name"], profile.name);
    exchange(&Client::modern_over(transport), &(profile.echo)("hello")).await;
}

/// An application that would rather speak the legacy era to a server of both can still do so.
pub(crate) async fn a_handshake_can_follow(profile: &Profile) {
    let client = profile.legacy();
    client.transport().probe(meta()).await.unwrap();
    shake_hands(&client, profile).await;
}

pub(crate) async fn it_is_legacy_and_takes_the_handshake(profile: &Profile) {
    let client = profile.legacy();
    assert_eq!(client.transport().probe(meta()).await.unwrap(), Probe::Legacy);
    shake_hands(&client, profile).await;
}

/// A cache is asked before the server is, and knows as much of it for the next transport.
pub(crate) async fn what_is_found_out_is_remembered(profile: &Profile) {
    let relay = Relay::to(&profile.server.uri()).await;
    let cache = ProbeCache::new();
    let probe = || async {
        let transport = StreamableHttp::builder(relay.uri()).probe_cache(cache.clone()).build().unwrap();
        match transport.probe(meta()).await.unwrap() {
            Probe::Modern { versions, .. } => Some(versions),
            Probe::Legacy => None,
            other => panic!("{other:?}"),
        }
    };
    let first = probe().await;
    assert_eq!((relay.posts(), cache.len()), (1, 1));
    assert_eq!(probe().await, first);
    assert_eq!(relay.posts(), 1);
}

/// An application that believes an old cache is refused, and finds out what is right when it probes again.
pub(crate) async fn what_was_remembered_wrongly_is_forgotten(profile: &Profile) {
    let uri = profile.server.uri();
    let cache: ProbeCache = serde_json::from_value(json!({ uri.to_string(): null })).unwrap();
    let transport = StreamableHttp::builder(uri).probe_cache(cache.clone()).build().unwrap();
    assert_eq!(transport.probe(meta()).await.unwrap(), Probe::Legacy);

    let client = Client::over(transport.clone());
    client.refused("initialize", initialize()).await;
    assert!(cache.is_empty());
    assert!(matches!(transport.probe(meta()).await.unwrap(), Probe::Modern { .. }));
    exchange(&Client::modern_over(transport), &(profile.echo)("hello")).await;
}

async fn shake_hands(client: &Client, profile: &Profile) {
    let result = client.handshake("2025-11-25", json!({})).await;
    assert_eq!(result["serverInfo"]["name"], profile.name);
    let session = client.transport().session();
    assert_eq!(session.version(), Some(version("2025-11-25")));
    exchange(client, &(profile.echo)("hello")).await;
}

fn meta() -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": { "name": "interop", "version": "1.0" },
        "io.modelcontextprotocol/clientCapabilities": {},
    })
}

fn initialize() -> Value {
    let info = json!({ "name": "interop", "version": "1.0" });
    json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info })
}

fn version(text: &str) -> ProtocolVersion {
    text.parse().unwrap()
}

/// The same the other way round.
pub(crate) async fn what_was_remembered_as_modern_is_forgotten(profile: &Profile) {
    let uri = profile.server.uri();
    let cache: ProbeCache = serde_json::from_value(json!({ uri.to_string(): ["2026-07-28"] })).unwrap();
    let transport = StreamableHttp::builder(uri).probe_cache(cache.clone()).build().unwrap();
    assert!(matches!(transport.probe(meta()).await.unwrap(), Probe::Modern { .. }));

    let client = Client::modern_over(transport.clone());
    let _ = client.try_call("tools/list", json!({})).await;
    assert!(cache.is_empty());
    assert_eq!(transport.probe(meta()).await.unwrap(), Probe::Legacy);
    shake_hands(&Client::over(transport), profile).await;
}
