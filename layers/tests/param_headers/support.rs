//! A client of the modern era, or of the one before, over a server that the test plays.

use std::collections::BTreeMap;
use std::task::Poll;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use http_body_util::{BodyExt as _, Full};
use mcp_streamable_http_layers::sse::Limits;
use mcp_streamable_http_layers::{
    Envelope, EnvelopeLayer, Error, JsonRpcMessage, MirrorHeaders, MirrorHeadersLayer, RawJson, Reply,
    Session, Sse, SseLayer, StampVersion, StampVersionLayer, ToolHeaders,
};
use tokio_test::task;
use tower::{Layer, Service, ServiceBuilder};
use tower_test::mock;

use crate::common::*;

pub(crate) type Query = Request<Full<Bytes>>;
pub(crate) type Answer = Response<Full<Bytes>>;
type Messages = Envelope<StampVersion<MirrorHeaders<Sse<mock::Mock<Query, Answer>>>>>;

/// The `mcp-param-*` of a request, without that prefix.
pub(crate) type Sent = BTreeMap<String, String>;

/// A listing that was asked for, and not answered yet.
pub(crate) struct Asked {
    reply: task::Spawn<<Messages as Service<JsonRpcMessage>>::Future>,
    server: mock::SendResponse<Answer>,
}

impl Asked {
    /// The result that comes out, or the error.
    pub(crate) fn answer(self, answer: Answer) -> Result<String, Error> {
        self.server.send_response(answer);
        let reply: Result<Reply, Error> = now(self.reply);
        let response = response(reply)?;
        Ok(match response.outcome() {
            Ok(result) => result.to_string(),
            Err(error) => error.as_raw().to_string(),
        })
    }
}

pub(crate) struct Client {
    messages: Messages,
    server: Server<Query, Answer>,
    version: Option<&'static str>,
    pub(crate) tools: ToolHeaders,
}

impl Client {
    pub(crate) fn new() -> Self {
        Self::knowing(ToolHeaders::new())
    }

    pub(crate) fn knowing(tools: ToolHeaders) -> Self {
        Self::speaking(Some("2026-07-28"), tools)
    }

    /// Names `version` in every message, if there is one.
    pub(crate) fn speaking(version: Option<&'static str>, tools: ToolHeaders) -> Self {
        let (mock, handle) = mock::pair();
        let session = Session::new();
        let envelopes = ServiceBuilder::new()
            .layer(StampVersionLayer::new(session.clone()))
            .layer(MirrorHeadersLayer::new().tools(tools.clone()))
            .layer(SseLayer::new(Limits::default()))
            .service(mock);
        let messages = EnvelopeLayer::new(endpoint(), session).layer(envelopes);
        Self { messages, server: Server(handle), version, tools }
    }

    /// That has read a listing of these tools, and nothing else.
    pub(crate) fn having_read(tools: &[String]) -> Self {
        let mut client = Self::new();
        client.page(None, tools, None);
        client
    }

    /// A request whose `params` have these members, as they are written.
    pub(crate) fn request(&self, method: &'static str, members: &str) -> JsonRpcMessage {
        let meta = self.version.map_or_else(
            || r#""_meta":{}"#.to_owned(),
            |version| format!(r#""_meta":{{"io.modelcontextprotocol/protocolVersion":"{version}"}}"#),
        );
        let comma = if members.is_empty() { "" } else { "," };
        let params = RawJson::parse(format!("{{{meta}{comma}{members}}}")).unwrap();
        JsonRpcMessage::request(1, method, params)
    }

    /// Asks for the page at `cursor`.
    pub(crate) fn ask(&mut self, cursor: Option<&str>) -> Asked {
        let members = cursor.map_or_else(String::new, |cursor| format!(r#""cursor":"{cursor}""#));
        let message = self.request("tools/list", &members);
        self.ask_with(message)
    }

    pub(crate) fn ask_with(&mut self, message: JsonRpcMessage) -> Asked {
        let reply = call(&mut self.messages, message);
        Asked { reply, server: self.server.received().1 }
    }

    /// Reads a listing of one page, and returns it as it comes out.
    pub(crate) fn list(&mut self, result: &str) -> String {
        self.ask(None).answer(json_answer(answered(result))).unwrap()
    }

    /// Reads the page at `cursor`.
    pub(crate) fn page(&mut self, cursor: Option<&str>, tools: &[String], next: Option<&str>) {
        self.ask(cursor).answer(page(tools, next)).unwrap();
    }

    /// The headers that a message goes out with; an error, if nothing was sent.
    pub(crate) fn headers_of(&mut self, message: JsonRpcMessage) -> Result<HeaderMap, Error> {
        let mut sent = call(&mut self.messages, message);
        match sent.poll() {
            Poll::Ready(Err(error)) => {
                self.server.assert_nothing_received();
                Err(error)
            }
            Poll::Ready(Ok(_)) => panic!("answered by nobody"),
            Poll::Pending => Ok(self.server.received().0.headers().clone()),
        }
    }

    /// A message that is sent: its headers and its body.
    pub(crate) fn received(&mut self, message: JsonRpcMessage) -> (HeaderMap, Bytes) {
        let _sent = call(&mut self.messages, message);
        let (head, body) = self.server.received().0.into_parts();
        (head.headers, now(body.collect()).unwrap().to_bytes())
    }

    /// What is mirrored of a call with these arguments, as they are written.
    pub(crate) fn call(&mut self, tool: &str, arguments: &str) -> Result<Sent, Error> {
        let name = serde_json::to_string(tool).unwrap();
        let message = self.request("tools/call", &format!(r#""name":{name},"arguments":{arguments}"#));
        self.headers_of(message).map(|headers| mirrored(&headers))
    }

    /// The header of a tool that has one of the argument `v`; `None`, if it is not known to have one.
    pub(crate) fn header_of(&mut self, tool: &str) -> Option<String> {
        let sent = self.call(tool, r#"{"v":"x"}"#).unwrap();
        assert!(sent.len() < 2, "{sent:?}");
        sent.into_keys().next()
    }

    /// Which of the tools a, b, c and d are known.
    pub(crate) fn known(&mut self) -> String {
        ["a", "b", "c", "d"].into_iter().filter(|tool| self.header_of(tool).is_some()).collect()
    }
}

pub(crate) fn mirrored(headers: &HeaderMap) -> Sent {
    let mut sent = Sent::new();
    for (name, value) in headers {
        if let Some(name) = name.as_str().strip_prefix("mcp-param-") {
            let value = value.to_str().unwrap().to_owned();
            assert!(sent.insert(name.to_owned(), value).is_none(), "{name} was sent twice");
        }
    }
    sent
}

pub(crate) fn sent<const N: usize>(headers: [(&str, &str); N]) -> Sent {
    headers.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

/// The answer with this result.
pub(crate) fn answered(result: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":1,"result":{result}}}"#)
}

/// The answer with this result, on a stream that brings something else before.
pub(crate) fn streamed(result: &str) -> Answer {
    let news = r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"tools":[]}}"#;
    let response = answered(result).replace('\n', "\ndata: ");
    answer(200, "text/event-stream", format!("id: 1\ndata: {news}\n\nid: 2\ndata: {response}\n\n"))
}

pub(crate) fn page(tools: &[String], next: Option<&str>) -> Answer {
    let next = next.map_or_else(String::new, |next| format!(r#","nextCursor":"{next}""#));
    json_answer(answered(&format!(r#"{{"tools":[{}]{next}}}"#, tools.join(","))))
}

/// A tool whose input has these properties, as they are written.
pub(crate) fn tool(name: &str, properties: &str) -> String {
    format!(r#"{{"name":"{name}","inputSchema":{{"type":"object","properties":{{{properties}}}}}}}"#)
}

/// A tool that has its argument `v` sent in the header `header`.
pub(crate) fn annotated(name: &str, header: &str) -> String {
    tool(name, &format!(r#""v":{{"type":"string","x-mcp-header":"{header}"}}"#))
}

/// A tool without annotations.
pub(crate) fn plain(name: &str) -> String {
    tool(name, r#""v":{"type":"string"}"#)
}

/// A tool that breaks the rules.
pub(crate) fn broken(name: &str) -> String {
    tool(name, r#""v":{"type":"number","x-mcp-header":"V"}"#)
}

/// Annotated tools of these names.
pub(crate) fn tools<const N: usize>(names: [&str; N]) -> Vec<String> {
    names.iter().map(|name| annotated(name, name)).collect()
}

/// What a server reads out of a header.
pub(crate) fn decoded(value: &str) -> String {
    match value.strip_prefix("=?base64?").and_then(|rest| rest.strip_suffix("?=")) {
        Some(encoded) => String::from_utf8(STANDARD.decode(encoded).unwrap()).unwrap(),
        None => value.to_owned(),
    }
}
