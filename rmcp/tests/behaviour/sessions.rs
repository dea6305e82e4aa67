//! Sessions that the server forgets.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use mcp_streamable_http::StreamableHttp;
use mcp_streamable_http_rmcp::IntoRmcp;
use rmcp::ServiceExt;
use serde_json::json;

use crate::common::*;
use crate::support::{Answer, Seen, Server};

/// A server whose sessions have numbers. It knows only the latest.
fn forgetful() -> (Server, Arc<AtomicUsize>) {
    let latest = Arc::<AtomicUsize>::default();
    let sessions = latest.clone();
    let server = Server::scripted(move |seen: &Seen| {
        let number = sessions.load(Ordering::SeqCst);
        match seen.what() {
            "initialize" => {
                sessions.fetch_add(1, Ordering::SeqCst);
                let server = json!({ "name": "s", "version": "1" });
                let result = json!({ "protocolVersion": VERSION, "capabilities": {}, "serverInfo": server });
                Some(Answer::json(&seen.result(result)).header("mcp-session-id", &(number + 1).to_string()))
            }
            "GET" => Some(Answer::status(405)),
            "tools/call" if seen.header("mcp-session-id") == Some(&number.to_string()) => {
                Some(Answer::json(&seen.result(said(&number.to_string()))))
            }
            "tools/call" => Some(Answer::status(404)),
            _ => Some(Answer::status(202)),
        }
    });
    (server, latest)
}

#[tokio::test(start_paused = true)]
async fn a_call_survives_the_end_of_its_session() {
    let (server, latest) = forgetful();
    let client = connect(&server).await;
    assert_eq!(came_to(call(&client, "add")).await.unwrap(), "1");
    latest.store(7, Ordering::SeqCst);
    assert_eq!(came_to(call(&client, "add")).await.unwrap(), "8");
    assert_eq!(server.count("initialize"), 2);
    let again: Vec<_> = server.seen().into_iter().filter(|seen| seen.what() == "initialize").collect();
    assert_eq!(again[1].header("mcp-session-id"), None);
}

#[tokio::test(start_paused = true)]
async fn many_calls_share_one_new_session() {
    let (server, latest) = forgetful();
    let client = connect(&server).await;
    latest.store(7, Ordering::SeqCst);
    let calls: Vec<_> = (0..20).map(|_| call(&client, "add")).collect();
    for call in calls {
        assert_eq!(came_to(call).await.unwrap(), "8");
    }
    assert_eq!(server.count("initialize"), 2);
}

#[tokio::test(start_paused = true)]
async fn if_so_wanted_the_call_says_that_the_session_is_over() {
    let (server, latest) = forgetful();
    let uri = "http://in.memory/mcp".parse().unwrap();
    let builder = StreamableHttp::with_client(uri, server.wire());
    let transport = builder.reinitialize(mcp_streamable_http::ReinitializePolicy::Fail).build().unwrap();
    let client = soon(().serve(transport.into_rmcp())).await.unwrap();
    latest.store(7, Ordering::SeqCst);
    let error = came_to(call(&client, "add")).await.unwrap_err();
    assert!(cause(&error).is_session_expired());
    assert_eq!(server.count("initialize"), 1);
}
