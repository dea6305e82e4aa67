//! What is remembered of a server's era, and when it is forgotten.

use mcp_streamable_http::{Endpoint, Probe, ProbeCache};
use serde_json::{Value, json};

use crate::asked::*;
use crate::common::*;
use crate::support::*;

fn endpoint() -> Endpoint {
    Endpoint::new("http://in.memory/mcp".parse().unwrap()).unwrap()
}

fn probes(server: &Server) -> usize {
    server.count("server/discover")
}

#[tokio::test(start_paused = true)]
async fn a_server_is_asked_once() {
    let server = Server::scripted(chatty);
    let cache = ProbeCache::new();
    let transport = connect(&server, "/mcp", |builder| builder.probe_cache(cache.clone()));
    for asked in 0..3 {
        let Probe::Modern { versions, discovered } = in_time(transport.probe(meta())).await.unwrap() else {
            panic!("it is modern")
        };
        assert_eq!(versions, [MODERN.parse().unwrap()]);
        // What the server says of itself is not kept.
        assert_eq!(discovered.is_some(), asked == 0);
    }
    assert_eq!(probes(&server), 1);
    cache.forget(&endpoint());
    in_time(transport.probe(meta())).await.unwrap();
    assert_eq!(probes(&server), 2);
}

#[tokio::test(start_paused = true)]
async fn without_a_cache_it_is_asked_each_time() {
    let server = Server::scripted(|_| Some(Answer::status(404)));
    let transport = plain(&server);
    for _ in 0..3 {
        assert_eq!(in_time(transport.probe(meta())).await.unwrap(), Probe::Legacy);
    }
    assert_eq!(probes(&server), 3);
}

#[tokio::test(start_paused = true)]
async fn transports_share_what_they_find_out() {
    let server = Server::scripted(|_| Some(Answer::status(404)));
    let cache = ProbeCache::new();
    let at = |path| connect(&server, path, |builder| builder.probe_cache(cache.clone()));
    for path in ["/mcp", "/mcp?token=s3cret", "/mcp?token=other"] {
        assert_eq!(in_time(at(path).probe(meta())).await.unwrap(), Probe::Legacy);
    }
    assert_eq!(probes(&server), 1);
    in_time(at("/other").probe(meta())).await.unwrap();
    assert_eq!(probes(&server), 2);
    // It outlives them, and the process.
    let stored = serde_json::to_string(&cache).unwrap();
    assert!(!stored.contains("s3cret"));
    let restored: ProbeCache = serde_json::from_str(&stored).unwrap();
    let transport = connect(&server, "/mcp", |builder| builder.probe_cache(restored));
    assert_eq!(in_time(transport.probe(meta())).await.unwrap(), Probe::Legacy);
    assert_eq!(probes(&server), 2);
}

#[tokio::test(start_paused = true)]
async fn what_is_not_known_is_asked_again() {
    let answers: [fn() -> Answer; 4] = [
        || Answer::status(503),
        || Answer::status(401),
        || Answer::status(401).header("www-authenticate", "Bearer"),
        || Answer::broken(),
    ];
    for answer in answers {
        let server = Server::scripted(move |_| Some(answer()));
        let cache = ProbeCache::new();
        let transport = connect(&server, "/mcp", |builder| builder.probe_cache(cache.clone()));
        let _ = in_time(transport.probe(meta())).await;
        let before = probes(&server);
        let _ = in_time(transport.probe(meta())).await;
        assert!(probes(&server) > before && cache.is_empty());
    }
}

/// Refuses `initialize`, as a modern server does.
fn refuses_initialize(seen: &Seen) -> Option<Answer> {
    let data = json!({ "supported": [MODERN] });
    let error = json!({ "code": -32022, "message": "Unsupported protocol version", "data": data });
    match seen.what() {
        "initialize" => Some(refused(seen, 400, &error)),
        _ => chatty(seen),
    }
}

#[tokio::test(start_paused = true)]
async fn a_legacy_server_that_refuses_initialize_is_asked_again() {
    let server = Server::scripted(refuses_initialize);
    let cache = ProbeCache::new();
    cache.insert(&endpoint(), &Probe::Legacy);
    let transport = connect(&server, "/mcp", |builder| builder.probe_cache(cache.clone()));
    assert_eq!(in_time(transport.probe(meta())).await.unwrap(), Probe::Legacy);
    assert_eq!(probes(&server), 0);
    // The refusal is the answer all the same.
    let refused = ask(&transport, initialize(1)).await.unwrap();
    let data: Value = refused.outcome().unwrap_err().data().unwrap().to().unwrap();
    assert_eq!(data, json!({ "supported": [MODERN] }));
    assert!(matches!(in_time(transport.probe(meta())).await, Ok(Probe::Modern { .. })));
    ask(&transport, tool(2)).await.unwrap();
    assert!(matches!(cache.get(&endpoint()), Some(Probe::Modern { .. })));
}

#[tokio::test(start_paused = true)]
async fn a_modern_server_that_no_longer_understands_is_asked_again() {
    let server = Server::scripted(|seen| match seen.header("mcp-method") {
        Some(_) => Some(with_status(400, Answer::text("text/plain", "no session"))),
        None => legacy(seen),
    });
    let cache = ProbeCache::new();
    let versions = vec![MODERN.parse().unwrap()];
    cache.insert(&endpoint(), &Probe::Modern { versions, discovered: None });
    let transport = connect(&server, "/mcp", |builder| builder.probe_cache(cache.clone()));
    assert_eq!(ask(&transport, tool(1)).await.unwrap_err().status().unwrap(), 400);
    assert_eq!(in_time(transport.probe(meta())).await.unwrap(), Probe::Legacy);
    ask(&transport, initialize(2)).await.unwrap();
    assert_eq!(cache.get(&endpoint()), Some(Probe::Legacy));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_has_become_a_legacy_one_is_asked_again_whatever_its_refusal_looks_like() {
    let errors = [(json!("server-error"), -32600), (json!(null), -32000)];
    for (id, code) in errors {
        let error = json!({ "code": code, "message": "no session" });
        let refusal = json!({ "jsonrpc": "2.0", "id": id, "error": error });
        let server = Server::scripted(move |_| Some(with_status(400, Answer::json(&refusal))));
        let cache = ProbeCache::new();
        cache.insert(
            &endpoint(),
            &Probe::Modern { versions: vec![MODERN.parse().unwrap()], discovered: None },
        );
        let transport = connect(&server, "/mcp", |builder| builder.probe_cache(cache));
        let _ = ask(&transport, tool(1)).await;
        assert_eq!(in_time(transport.probe(meta())).await.unwrap(), Probe::Legacy, "{code}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_in_trouble_is_not_asked_again() {
    let server = Server::scripted(|seen| match seen.what() {
        "server/discover" => chatty(seen),
        _ => Some(Answer::status(500)),
    });
    let cache = ProbeCache::new();
    let transport = connect(&server, "/mcp", |builder| builder.probe_cache(cache.clone()));
    in_time(transport.probe(meta())).await.unwrap();
    ask(&transport, tool(1)).await.unwrap_err();
    in_time(transport.probe(meta())).await.unwrap();
    assert_eq!(probes(&server), 1);
}
