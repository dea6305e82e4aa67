//! Listing tools, and calling them for as many rounds as it takes.

use std::collections::BTreeMap;

use futures_util::future::try_join_all;
use mcp_streamable_http::RawJson;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::client::Client;
use crate::{Failure, host, schema};

/// A server that has more pages goes round in circles.
const MAX_PAGES: usize = 100;

/// A server that asks more often does not know what it wants.
const MAX_ROUNDS: usize = 10;

/// A tool, as the server describes it.
#[derive(Deserialize)]
pub(crate) struct Tool {
    pub(crate) name: String,
    /// Just as the server wrote it: it is shown to models, and may say what this client does not understand.
    #[serde(rename = "inputSchema")]
    pub(crate) schema: Box<RawValue>,
}

#[derive(Deserialize)]
struct Page {
    tools: Vec<Tool>,
    #[serde(rename = "nextCursor")]
    next: Option<String>,
}

/// The tools of the server, without those whose headers the transport cannot send.
pub(crate) async fn list(client: &Client) -> Result<Vec<Tool>, Failure> {
    let mut tools = Vec::new();
    let mut params = json!({});
    for _ in 0..MAX_PAGES {
        let page: Page = client.call("tools/list", &params).await?.to()?;
        tools.extend(page.tools);
        match page.next {
            Some(cursor) => params = json!({ "cursor": cursor }),
            None => return Ok(tools),
        }
    }
    Err(format!("tools/list has more than {MAX_PAGES} pages").into())
}

/// Calls each tool that there is, all at the same time, with arguments that its schema allows.
pub(crate) async fn call_all(client: &Client) -> Result<(), Failure> {
    let tools = list(client).await?;
    let calls = tools.iter().map(async |tool| {
        let schema: Value = serde_json::from_str(tool.schema.get())?;
        call(client, &tool.name, schema::sample(&schema)).await
    });
    try_join_all(calls).await.map(drop)
}

#[derive(Serialize)]
struct Call<'a, A> {
    name: &'a str,
    arguments: &'a A,
    #[serde(flatten)]
    again: Option<&'a Again>,
}

/// What a call says when it is made again, to answer what the server asked for in its last result.
#[derive(Serialize)]
struct Again {
    #[serde(rename = "inputResponses", skip_serializing_if = "BTreeMap::is_empty")]
    answers: BTreeMap<String, Value>,
    /// The server's own text, which is no business of the client's. There is none if the server sent none.
    #[serde(rename = "requestState", skip_serializing_if = "Option::is_none")]
    state: Option<Box<RawValue>>,
}

#[derive(Deserialize)]
struct Outcome {
    /// Where a server does not say, the result is complete, as it always was before 2026-07-28.
    #[serde(default, rename = "resultType")]
    kind: Option<String>,
    #[serde(default, rename = "isError")]
    is_error: bool,
    #[serde(default, rename = "inputRequests")]
    questions: BTreeMap<String, Question>,
    #[serde(default, rename = "requestState")]
    state: Option<Box<RawValue>>,
}

#[derive(Deserialize)]
struct Question {
    method: String,
    params: Option<Box<RawValue>>,
}

/// Calls a tool, and answers what the server wants to know first (MCP 2026-07-28 §Multi Round-Trip Requests).
pub(crate) async fn call(client: &Client, name: &str, arguments: impl Serialize) -> Result<(), Failure> {
    let mut again = None;
    for _ in 0..MAX_ROUNDS {
        // Each round is a request of its own, with an id of its own.
        let call = Call { name, arguments: &arguments, again: again.as_ref() };
        let outcome: Outcome = client.call("tools/call", &call).await?.to()?;
        match outcome.next()? {
            Some(next) => again = Some(next),
            None => return Ok(()),
        }
    }
    Err(format!("{name} still asks after {MAX_ROUNDS} rounds").into())
}

impl Outcome {
    /// What to say in the next round. `None`: there is none, as the call is done.
    fn next(self) -> Result<Option<Again>, Failure> {
        match self.kind.as_deref() {
            None | Some("complete") if self.is_error => Err("the tool failed".into()),
            None | Some("complete") => Ok(None),
            Some("input_required") => {
                let answers: Result<_, Failure> = self.questions.into_iter().map(Question::answer).collect();
                Ok(Some(Again { answers: answers?, state: self.state }))
            }
            Some(kind) => Err(format!("a result of an unknown type: {kind}").into()),
        }
    }
}

impl Question {
    fn answer((key, question): (String, Self)) -> Result<(String, Value), Failure> {
        let params = question.params.map(|params| RawJson::parse(params.get().to_owned())).transpose()?;
        Ok((key, host::answer(&question.method, params.as_ref())?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The params of the call that follows on a result.
    fn after(result: &str) -> Result<Option<String>, String> {
        let outcome: Outcome = serde_json::from_str(result).unwrap();
        let next = outcome.next().map_err(|failure| failure.to_string())?;
        let written = next.map(|next| {
            serde_json::to_string(&Call { name: "x", arguments: &json!({}), again: Some(&next) }).unwrap()
        });
        Ok(written)
    }

    #[test]
    fn a_first_call_has_neither_answers_nor_state() {
        let call = Call { name: "x", arguments: &json!({ "a": 1 }), again: None };
        assert_eq!(serde_json::to_string(&call).unwrap(), r#"{"name":"x","arguments":{"a":1}}"#);
    }

    #[test]
    fn a_result_is_complete_unless_it_says_otherwise() {
        for result in [r#"{"content":[]}"#, r#"{"resultType":"complete"}"#, r#"{"resultType":null}"#] {
            assert_eq!(after(result), Ok(None), "{result}");
        }
        // It is not what a complete result is made of.
        assert_eq!(after(r#"{"requestState":"s","inputRequests":{"q":{"method":"ping"}}}"#), Ok(None));
    }

    #[test]
    fn questions_are_answered_and_the_state_is_echoed_as_it_was_written() {
        let result = r#"{"resultType":"input_required","requestState":"\u0061 \/","inputRequests":{"q":{"method":"ping"}}}"#;
        let next = r#"{"name":"x","arguments":{},"inputResponses":{"q":{}},"requestState":"\u0061 \/"}"#;
        assert_eq!(after(result), Ok(Some(next.to_owned())));
    }

    #[test]
    fn what_the_server_did_not_send_is_not_made_up() {
        let questions = r#"{"resultType":"input_required","inputRequests":{"q":{"method":"ping"}}}"#;
        let answered = r#"{"name":"x","arguments":{},"inputResponses":{"q":{}}}"#;
        assert_eq!(after(questions), Ok(Some(answered.to_owned())));
        let state = r#"{"resultType":"input_required","requestState":"s"}"#;
        let echoed = r#"{"name":"x","arguments":{},"requestState":"s"}"#;
        assert_eq!(after(state), Ok(Some(echoed.to_owned())));
    }

    #[test]
    fn what_cannot_be_answered_fails_the_call() {
        let result = r#"{"resultType":"input_required","inputRequests":{"q":{"method":"roots/list"}}}"#;
        assert!(after(result).unwrap_err().contains("no capability"));
        assert!(after(r#"{"resultType":"task"}"#).unwrap_err().contains("task"));
        assert!(after(r#"{"isError":true}"#).is_err());
    }
}
