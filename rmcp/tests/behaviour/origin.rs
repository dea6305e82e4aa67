//! What the server asks, and on which stream.

#![expect(deprecated, reason = "servers ask the model of the client all the same")]

use std::sync::{Arc, Mutex};

use rmcp::model::{
    ClientConfig, CreateMessageRequestParams, CreateMessageResult, ErrorData, NumberOrString, SamplingMessage,
};
use rmcp::service::{InboundStreamOrigin, RequestContext};
use rmcp::{ClientHandler, RoleClient};
use serde_json::{Value, json};

use crate::common::*;
use crate::support::{Answer, Seen, Server, legacy};

/// A client with a model, and where the questions to it came from.
#[derive(Clone, Default)]
struct Model(Arc<Mutex<Vec<InboundStreamOrigin>>>);

impl ClientHandler for Model {
    fn get_info(&self) -> ClientConfig {
        let mut config = ClientConfig::default();
        config.capabilities.sampling = Some(Default::default());
        config
    }

    async fn create_message(
        &self,
        _: CreateMessageRequestParams,
        context: RequestContext<RoleClient>,
    ) -> Result<CreateMessageResult, ErrorData> {
        let origin = context.extensions.get().cloned();
        self.0.lock().unwrap().push(origin.ok_or_else(|| ErrorData::internal_error("no origin", None))?);
        Ok(CreateMessageResult::new(SamplingMessage::assistant_text("hello"), "model".into()))
    }
}

impl Model {
    fn origins(&self) -> Vec<InboundStreamOrigin> {
        self.0.lock().unwrap().clone()
    }
}

fn question() -> Value {
    let params = json!({ "messages": [{ "role": "user", "content": { "type": "text", "text": "hi" } }], "maxTokens": 5 });
    json!({ "jsonrpc": "2.0", "id": "q", "method": "sampling/createMessage", "params": params })
}

/// The reply to it.
async fn replied(server: &mut Server) -> Value {
    let reply = server.expect("=").await;
    assert_eq!(reply.seen.message["id"], "q");
    let text = reply.seen.message["result"]["content"]["text"].clone();
    reply.accept();
    text
}

#[tokio::test(start_paused = true)]
async fn a_question_on_the_stream_of_a_call_belongs_to_it() {
    let mut server = either();
    let model = Model::default();
    let client = connect_as(model.clone(), &server).await;
    let calling = call(&client, "add");
    let events = server.expect("tools/call").await.open();
    events.send(&question());
    assert_eq!(replied(&mut server).await, "hello");
    let id = NumberOrString::Number(events.seen.message["id"].as_i64().unwrap());
    assert_eq!(model.origins(), [InboundStreamOrigin::OutboundRequest(id)]);
    events.result(said("3"));
    assert_eq!(came_to(calling).await.unwrap(), "3");
}

#[tokio::test(start_paused = true)]
async fn it_belongs_to_it_after_a_break_too() {
    let mut server = Server::scripted(|seen| match seen.what() {
        "GET" if seen.header("last-event-id").is_none() => Some(Answer::status(405)),
        _ => legacy(seen),
    });
    let model = Model::default();
    let client = connect_as(model.clone(), &server).await;
    let _calling = call(&client, "add");
    let events = server.expect("tools/call").await.open();
    let id = NumberOrString::Number(events.seen.message["id"].as_i64().unwrap());
    events.send_text("id: 1\ndata:\n\n");
    drop(events);
    let events = server.next_in_time().await.open();
    events.send(&question());
    assert_eq!(replied(&mut server).await, "hello");
    assert_eq!(model.origins(), [InboundStreamOrigin::OutboundRequest(id)]);
}

#[tokio::test(start_paused = true)]
async fn a_question_on_the_listening_stream_belongs_to_no_call() {
    let mut server = Server::listening();
    let model = Model::default();
    let client = connect_as(model.clone(), &server).await;
    let listening = server.expect("GET").await.open();
    let _calling = call(&client, "add");
    let _events = server.expect("tools/call").await.open();
    listening.send(&question());
    assert_eq!(replied(&mut server).await, "hello");
    assert_eq!(model.origins(), [InboundStreamOrigin::Unassociated]);
}

#[tokio::test(start_paused = true)]
async fn in_the_modern_era_nobody_asks() {
    let negotiated = |seen: &Seen| {
        let server = json!({ "name": "s", "version": "1" });
        let result = json!({ "protocolVersion": MODERN, "capabilities": {}, "serverInfo": server });
        (seen.what() == "initialize")
            .then(|| Answer::json(&seen.result(result)).header("mcp-session-id", SESSION))
    };
    let mut server = Server::scripted(move |seen| negotiated(seen).or_else(|| legacy(seen)));
    let model = Model::default();
    let client = connect_as(model.clone(), &server).await;
    let calling = call(&client, "add");
    let events = server.expect("tools/call").await.open();
    events.send(&question());
    events.result(said("3"));
    assert_eq!(came_to(calling).await.unwrap(), "3");
    settle().await;
    assert_eq!(model.origins(), []);
    // Neither does it listen where it could be asked apart from any call.
    assert_eq!(server.outline(), ["initialize", "notifications/initialized", "tools/call"]);
}
