//! Streams that break off and go on.

use std::sync::Mutex;
use std::time::Duration;

use rmcp::ClientHandler;
use rmcp::RoleClient;
use rmcp::service::NotificationContext;
use serde_json::json;
use tokio::sync::mpsc;

use crate::common::*;
use crate::support::{Answer, Server, legacy};

/// A client that tells when the list of tools has changed.
struct Changes(Mutex<mpsc::UnboundedSender<()>>);

impl ClientHandler for Changes {
    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        let _ = self.0.lock().unwrap().send(());
    }
}

fn changed() -> serde_json::Value {
    json!({ "jsonrpc": "2.0", "method": "notifications/tools/list_changed" })
}

#[tokio::test(start_paused = true)]
async fn the_listening_stream_is_opened_again() {
    let mut server = Server::listening();
    let (sender, mut changes) = mpsc::unbounded_channel();
    let _client = connect_as(Changes(Mutex::new(sender)), &server).await;
    for _ in 0..3 {
        let listening = server.next_in_time().await;
        assert_eq!(listening.seen.what(), "GET");
        listening.open().send(&changed());
        soon(changes.recv()).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn the_stream_of_a_call_is_taken_up_where_it_broke() {
    let mut server = Server::scripted(|seen| match seen.what() {
        "GET" if seen.header("last-event-id").is_none() => Some(Answer::status(405)),
        _ => legacy(seen),
    });
    let client = connect(&server).await;
    let calling = call(&client, "add");
    let events = server.expect("tools/call").await.open();
    let id = events.seen.message["id"].clone();
    events.send_text("id: e-7\nretry: 500\ndata:\n\n");
    drop(events);
    tokio::time::sleep(Duration::from_millis(400)).await;
    assert_eq!(server.count("GET"), 1, "too early");
    let resumed = server.next_in_time().await;
    assert_eq!((resumed.seen.what(), resumed.seen.header("last-event-id")), ("GET", Some("e-7")));
    let events = resumed.open();
    // What it asks now belongs to the call still.
    events.send(&json!({ "jsonrpc": "2.0", "id": "p", "method": "ping" }));
    server.expect("=").await.accept();
    events.send(&json!({ "jsonrpc": "2.0", "id": id, "result": said("3") }));
    assert_eq!(came_to(calling).await.unwrap(), "3");
    assert_eq!(server.count("tools/call"), 1);
}
