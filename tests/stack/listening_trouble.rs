//! The listening GET, when the server is in trouble.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use http_body_util::{BodyExt, Full};
use mcp_streamable_http::error::NotOffered;
use mcp_streamable_http::{Backoff, StreamableHttp};
use serde_json::{Value, json};
use tokio::time::Instant;
use tower::{BoxError, service_fn};

use crate::common::*;
use crate::listening::{listening, positions};
use crate::support::Answer;
use crate::support::mcp::{SESSION, VERSION};

/// A transport inside a session of a server on no network, so that its clock may stand still. It answers each GET with this
/// status, and with `Retry-After` if there is one. Returns the count of GETs, too.
async fn troubled(status: u16, retry_after: Option<&'static str>) -> (StreamableHttp, Arc<AtomicUsize>) {
    let gets = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&gets);
    let client = service_fn(move |request: http::Request<Full<Bytes>>| {
        let count = Arc::clone(&count);
        async move {
            let mut answer = http::Response::builder();
            if request.method() == http::Method::GET {
                count.fetch_add(1, Ordering::Relaxed);
                if let Some(value) = retry_after {
                    answer = answer.header("retry-after", value);
                }
                return Ok::<_, BoxError>(answer.status(status).body(Full::<Bytes>::from("later"))?);
            }
            let message: Value = serde_json::from_slice(&request.into_body().collect().await?.to_bytes())?;
            let Some(id) = message.get("id") else {
                return Ok(answer.status(202).body(Full::default())?);
            };
            let result = match message["method"].as_str() {
                Some("initialize") => json!({ "protocolVersion": VERSION }),
                _ => json!({}),
            };
            let body = json!({ "jsonrpc": "2.0", "id": id, "result": result }).to_string();
            let answer = answer.header("content-type", "application/json").header("mcp-session-id", SESSION);
            Ok(answer.body(Full::from(body))?)
        }
    });
    let backoff = Backoff::default().jitter(0.0, 0.0);
    let uri = "http://in.memory/mcp".parse().unwrap();
    let transport = StreamableHttp::with_client(uri, client).backoff(backoff).build().unwrap();
    handshake(&transport).await;
    (transport, gets)
}

#[tokio::test(start_paused = true)]
async fn trouble_that_does_not_pass_is_an_error_after_five_attempts() {
    // Four waits: our own (1, 2, 4 and 8 s), or those that the server asks for where they are longer. After 409 there are
    // 5 s at least.
    for (status, retry_after, waited) in [
        (408, Some("9"), 4 * 9),
        (409, Some("9"), 4 * 9),
        (429, Some("9"), 4 * 9),
        (500, Some("9"), 4 * 9),
        (503, Some("9"), 4 * 9),
        (503, Some("3"), 3 + 3 + 4 + 8),
        (502, None, 1 + 2 + 4 + 8),
        (409, None, 5 + 5 + 5 + 8),
    ] {
        let (transport, gets) = troubled(status, retry_after).await;
        let started = Instant::now();
        let items: Vec<_> =
            tokio::time::timeout(Duration::from_secs(600), transport.listen().collect()).await.unwrap();
        assert_eq!(started.elapsed(), Duration::from_secs(waited), "{status}");
        assert_eq!(gets.load(Ordering::Relaxed), 5, "{status}");
        assert_eq!(outline(&items), ["!"], "{status}");
        let error = items[0].as_ref().unwrap_err();
        assert!(error.find::<NotOffered>().is_none(), "{error:?}");
        assert_eq!(error.status().unwrap().as_u16(), status);
        let asked = retry_after.map(|asked| Duration::from_secs(asked.parse().unwrap()));
        assert_eq!(error.retry_after(), asked, "{status}");
        ping_works(&transport).await;
    }
}

#[tokio::test]
async fn trouble_that_passes_is_no_error() {
    let (server, transport) = listening(|request| match request.nth {
        0 => Answer::status(503),
        1 => Answer::raw_response("").close(),
        2 => Answer::sse().event_with("1", progress(1)),
        // It was accepted: from now on it is not given up.
        3..=12 => Answer::status(500),
        _ => Answer::sse().event(progress(2)).hang(),
    })
    .await;
    let mut listening = transport.listen();
    for step in 1..=2 {
        assert_eq!(step_of(&next_message(&mut listening).await), step);
    }
    let (before, after) = ([None, None, None], vec![Some("1".to_owned()); 11]);
    assert_eq!(positions(&server), [&before[..], &after].concat());
}
