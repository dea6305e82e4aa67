//! What is easily got wrong.

use futures_util::StreamExt;
use mcp_streamable_http::{Endpoint, Probe, ProbeCache};
use serde_json::json;

use crate::asked::*;
use crate::common::*;
use crate::support::*;

#[tokio::test(start_paused = true)]
async fn a_probe_whose_version_cannot_be_sent_has_not_run() {
    let server = Server::scripted(chatty);
    for version in [json!(""), json!(1), json!("2026-07-28\r\n")] {
        let error = in_time(plain(&server).probe(json!({ KEY: version }))).await.unwrap_err();
        assert!(!error.may_have_run(), "{error}");
    }
    assert!(server.seen().is_empty());
}

#[tokio::test(start_paused = true)]
async fn two_probes_at_once_are_both_answered() {
    let mut server = Server::manual();
    let transport = plain(&server);
    let probe = || {
        let transport = transport.clone();
        tokio::spawn(async move { transport.probe(meta()).await })
    };
    let (first, second) = (probe(), probe());
    server.expect("server/discover").await.result(discovered());
    if let Ok(exchange) = tokio::time::timeout(std::time::Duration::from_secs(1), server.next()).await {
        exchange.result(discovered());
    }
    for probe in [first, second] {
        let found = in_time(probe).await.unwrap();
        assert!(matches!(found, Ok(Probe::Modern { .. })), "{found:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_busy_server_is_unknown_however_long_it_asks_to_wait() {
    for status in [429, 503] {
        let server = Server::scripted(move |_| Some(Answer::status(status).header("retry-after", "60")));
        let found = in_time(plain(&server).probe(meta())).await;
        assert!(matches!(found, Ok(Probe::Unknown)), "{status}: {found:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn servers_whose_long_urls_begin_alike_are_two() {
    let cache = ProbeCache::new();
    let at = |end| {
        let url = format!("https://gateway.example.com/{}/{end}", "x".repeat(300));
        Endpoint::new(url.parse().unwrap()).unwrap()
    };
    cache.insert(&at("one"), &Probe::Legacy);
    assert_eq!(cache.get(&at("two")), None);
}

#[tokio::test(start_paused = true)]
async fn a_modern_reply_has_no_id_to_go_on_from() {
    let server = Server::scripted(chatty);
    let mut reply = post(&plain(&server), tool(1)).await.unwrap();
    assert!(in_time(reply.next()).await.unwrap().is_ok());
    assert_eq!(reply.last_event_id(), None);
}

#[tokio::test(start_paused = true)]
async fn an_empty_stream_is_an_answer_and_one_post() {
    let server = Server::scripted(|_| Some(Answer::events(&[])));
    assert_eq!(in_time(plain(&server).probe(meta())).await.unwrap(), Probe::Legacy);
    assert_eq!(server.outline(), ["server/discover"]);
}
