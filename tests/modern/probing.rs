//! Asking a server for its era.

use std::time::Duration;

use mcp_streamable_http::error::{InvalidMessage, TimedOut};
use mcp_streamable_http::{Era, Probe};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::asked::*;
use crate::common::*;
use crate::support::*;

#[tokio::test(start_paused = true)]
async fn it_is_one_post_with_all_that_a_modern_request_has() {
    let server = Server::scripted(chatty);
    let found = in_time(plain(&server).probe(meta())).await.unwrap();
    let Probe::Modern { versions, discovered: result } = found else { panic!("{found:?}") };
    assert_eq!(versions, [MODERN.parse().unwrap()]);
    assert_eq!(result.unwrap().to::<Value>().unwrap(), discovered());

    let [seen] = &server.seen()[..] else { panic!("{:?}", server.outline()) };
    assert_stateless(std::slice::from_ref(seen));
    assert_eq!(seen.what(), "server/discover");
    assert_eq!(seen.message["params"], json!({ "_meta": meta() }));
    assert_eq!(seen.header("mcp-name"), None);
    assert_eq!(seen.header("content-type"), Some("application/json"));
    let accept = seen.header("accept").unwrap();
    assert!(accept.contains("application/json") && accept.contains("text/event-stream"));
}

#[tokio::test(start_paused = true)]
async fn every_answer_comes_through_the_whole_transport() {
    type Way = (&'static str, fn(&Seen) -> Answer, Option<Probe>);
    let modern = || Some(Probe::Modern { versions: Vec::new(), discovered: None });
    let ways: [Way; 12] = [
        ("-32020", |seen| refused(seen, 400, &json!({ "code": -32020, "message": "no" })), modern()),
        ("-32021", |seen| refused(seen, 400, &json!({ "code": -32021, "message": "no" })), modern()),
        (
            "-32601",
            |seen| refused(seen, 200, &json!({ "code": -32601, "message": "no" })),
            Some(Probe::Legacy),
        ),
        ("404", |_| Answer::status(404), Some(Probe::Legacy)),
        ("400", |_| with_status(400, Answer::text("text/plain", "no session")), Some(Probe::Legacy)),
        ("202", |_| Answer::status(202), Some(Probe::Legacy)),
        ("a page", |_| Answer::text("text/html", "<p>"), Some(Probe::Legacy)),
        ("401", |_| Answer::status(401), Some(Probe::Unknown)),
        ("429", |_| Answer::status(429), Some(Probe::Unknown)),
        ("503", |seen| refused(seen, 503, &json!({ "code": -32000, "message": "no" })), Some(Probe::Unknown)),
        ("challenge", |_| Answer::status(401).header("www-authenticate", "Bearer"), None),
        ("challenge", |_| Answer::status(403).header("www-authenticate", "Bearer"), None),
    ];
    for (why, answer, expected) in ways {
        let server = Server::scripted(move |seen| Some(answer(seen)));
        let found = in_time(plain(&server).probe(meta())).await;
        match expected {
            Some(expected) => assert_eq!(found.unwrap(), expected, "{why}"),
            None => assert_eq!(found.unwrap_err().challenges().len(), 1, "{why}"),
        }
        assert_eq!(server.outline(), ["server/discover"], "{why}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_breaks_is_no_answer() {
    let server = Server::scripted(|_| Some(Answer::broken()));
    let error = in_time(plain(&server).probe(meta())).await.unwrap_err();
    assert_eq!(error.status(), None);
    assert!(server.seen().iter().all(|seen| seen.what() == "server/discover"));
    // It may be sent once more, as every request that does no harm twice.
    assert!(server.seen().len() <= 2);
}

#[tokio::test(start_paused = true)]
async fn it_takes_ten_seconds_or_what_was_said() {
    for (option, bound) in [(None, 10), (Some(Duration::from_secs(3)), 3)] {
        for begins in [false, true] {
            let mut server = Server::manual();
            let transport = connect(&server, "/mcp", |builder| {
                option.into_iter().fold(builder, |b, bound| b.probe_timeout(bound))
            });
            let start = Instant::now();
            let probe = tokio::spawn(async move { transport.probe(meta()).await });
            let asked = server.expect("server/discover").await;
            // Whether there is a head or not: the whole answer is waited for.
            let (waits, stream) = if begins { (None, Some(asked.open())) } else { (Some(asked), None) };
            stream.iter().for_each(|stream| stream.send(&progress(1)));
            let error = in_time(probe).await.unwrap().unwrap_err();
            assert_eq!(error.find::<TimedOut>().unwrap().knob(), "probe_timeout");
            assert_eq!(start.elapsed(), Duration::from_secs(bound));
            settle().await;
            assert!(waits.is_none_or(|asked| asked.is_dropped()));
            assert!(stream.is_none_or(|stream| stream.is_dropped()));
            pass(60).await;
            assert_eq!(server.outline(), ["server/discover"], "nothing is posted for it");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn one_that_is_dropped_closes_its_exchange() {
    let mut server = Server::manual();
    let transport = plain(&server);
    let probe = tokio::spawn(async move { transport.probe(meta()).await });
    let asked = server.expect("server/discover").await;
    probe.abort();
    settle().await;
    assert!(asked.is_dropped());
    assert_eq!(server.outline(), ["server/discover"]);
}

#[tokio::test(start_paused = true)]
async fn it_must_name_a_modern_version() {
    let server = Server::scripted(chatty);
    let transport = plain(&server);
    for old in [json!({}), json!({ KEY: VERSION }), json!({ KEY: "2024-11-05" }), json!(null), json!("x")] {
        let error = in_time(transport.probe(old.clone())).await.unwrap_err();
        assert!(error.find::<InvalidMessage>().is_some() && !error.may_have_run(), "{old}: {error}");
    }
    for bad in [json!({ KEY: "" }), json!({ KEY: 1 })] {
        assert!(in_time(transport.probe(bad.clone())).await.is_err(), "{bad}");
    }
    assert!(server.seen().is_empty());
}

#[tokio::test(start_paused = true)]
async fn initialize_after_it_starts_afresh() {
    let answers: [fn(&Seen) -> Answer; 3] = [
        |_| Answer::status(404),
        |_| Answer::status(503),
        |seen| refused(seen, 400, &json!({ "code": -32600, "message": "no" })),
    ];
    for answer in answers {
        let server = Server::scripted(move |seen| match seen.what() {
            "server/discover" => Some(answer(seen).header("mcp-session-id", "never-asked-for")),
            "ping" => Some(Answer::json(&seen.result(json!({})))),
            _ => legacy(seen),
        });
        let transport = plain(&server);
        let found = in_time(transport.probe(meta())).await.unwrap();
        assert!(matches!(found, Probe::Legacy | Probe::Unknown));
        ask(&transport, initialize(1)).await.unwrap();
        assert_eq!(transport.session().era(), Era::Legacy);
        accepted(&transport, initialized()).await;
        ask(&transport, request(2)).await.unwrap();

        let seen = server.seen();
        let headers = |seen: &Seen| {
            ["mcp-protocol-version", "mcp-method", "mcp-session-id"]
                .map(|name| seen.header(name).map(str::to_owned))
        };
        let in_session = [Some(VERSION.to_owned()), None, Some(SESSION.to_owned())];
        assert_eq!(headers(&seen[1]), [None, None, None], "{}", seen[1].what());
        assert_eq!((headers(&seen[2]), headers(&seen[3])), (in_session.clone(), in_session));
        assert!(seen.iter().all(|seen| seen.header("mcp-name").is_none()));
        in_time(transport.terminate()).await.unwrap();
        assert_eq!(server.count("DELETE"), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_of_both_eras_can_be_used_in_either() {
    let server = Server::scripted(|seen| chatty(seen).or_else(|| legacy(seen)));
    let transport = plain(&server);
    assert!(matches!(in_time(transport.probe(meta())).await, Ok(Probe::Modern { .. })));
    ask(&transport, tool(1)).await.unwrap();
    assert_stateless(&server.seen());
    ask(&transport, initialize(2)).await.unwrap();
    assert_eq!(transport.session().id().unwrap(), SESSION);
}
