//! Checks of what only the reference server does.

use futures_util::StreamExt;
use mcp_streamable_http::JsonRpcMessage;
use mcp_streamable_http_interop::ToolResult;
use serde_json::{Value, json};

use crate::profile::Profile;

/// The server asks on the stream of the call, and goes on when it is answered: the stream is read as it comes.
pub(crate) async fn sampling_is_answered_while_the_call_is_open(profile: &Profile) {
    let client = profile.connect().await;
    let arguments = json!({ "prompt": "what is MCP?" });
    let call = json!({ "name": "trigger-sampling-request", "arguments": arguments });
    let mut reply = client.send(client.request("tools/call", call)).await;

    let question = reply.next().await.unwrap().unwrap();
    let question = question.as_request().unwrap();
    assert_eq!(question.method(), "sampling/createMessage");
    let params: Value = question.params().unwrap().to().unwrap();
    let prompt = params["messages"][0]["content"]["text"].as_str().unwrap();
    assert!(prompt.ends_with("what is MCP?"), "{prompt}");

    // Others can be made meanwhile.
    assert_eq!(client.tool("echo", json!({ "message": "hi" })).await.text, "Echo: hi");

    let answer = json!({
        "role": "assistant",
        "model": "none",
        "content": { "type": "text", "text": "a protocol, grüezi" },
    });
    client.tell(JsonRpcMessage::response(question.id().clone(), answer)).await;

    let result = ToolResult::read(&reply.response().await.unwrap().result().unwrap());
    assert!(!result.is_error && result.text.contains("a protocol, grüezi"), "{result:?}");
}
