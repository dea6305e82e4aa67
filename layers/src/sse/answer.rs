//! What an answer means, by its status and content type.

use std::sync::Arc;

use std::pin::Pin;
use std::task::Context;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderMap, HeaderValue, LOCATION, SET_COOKIE, WWW_AUTHENTICATE};
use http::response::Parts;
use http::{Method, Request, StatusCode};
use http_body::Body;
use tokio::runtime::Handle;

use super::Limits;
use super::clock::Clock;
use super::collect::{Collect, Collected, End};
use crate::correlate::{adopt, correlate, correlate_batch};
use crate::drain::Drain;
use crate::error::{
    BoxError, BrokenStream, ContentProblem, NotOffered, Preview, TimedOut, TooLarge, UnexpectedContent,
    UnexpectedStatus,
};
use crate::headers::{MCP_PROTOCOL_VERSION, MCP_SESSION_ID, value_of};
use crate::message::{Batch, Decoded};
use crate::{
    Era, Event, Events, Expects, JsonRpcMessage, JsonRpcResponse, Payload, ProtocolVersion, RequestId,
};

/// What must be known of a request to read its answer.
#[derive(Clone, Debug)]
pub(super) struct Exchange {
    pub(super) expects: Expects,
    pub(super) era: Era,
    pub(super) limits: Arc<Limits>,
    /// The runtime that was current when the call was made.
    runtime: Option<Handle>,
    session: Option<HeaderValue>,
    initialize: bool,
    is_delete: bool,
}

/// How the body of an answer is to be read.
#[derive(Debug)]
pub(super) enum Reading {
    /// To its end, for the connection's sake only: the head says it all, success or failure.
    Drain(Option<BoxError>),
    /// As an event stream.
    Events,
    /// Whole.
    Whole(Whole),
}

/// What a body is read whole for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Whole {
    /// For the messages in it.
    Json,
    /// For the error that goes with the status, as far as it comes.
    Status,
    /// To be shown, as far as it comes.
    Content,
}

impl Exchange {
    pub(super) fn of(request: &Request<Payload>, limits: Arc<Limits>) -> Self {
        let version = value_of(request.headers(), &MCP_PROTOCOL_VERSION).map(ProtocolVersion::from_header);
        Self {
            expects: Expects::of(request),
            era: version.and_then(Result::ok).map_or(Era::Legacy, |version| version.era()),
            limits,
            runtime: Handle::try_current().ok(),
            session: value_of(request.headers(), &MCP_SESSION_ID).cloned(),
            initialize: request.body().message().is_some_and(JsonRpcMessage::is_initialize),
            is_delete: request.method() == Method::DELETE,
        }
    }

    /// Decides by the head of an answer what to do with its body.
    pub(super) fn reading(&self, head: &Parts) -> Reading {
        let status = head.status;
        match (&self.expects, status.is_success()) {
            // MCP 2025-11-25 §Sending Messages to the Server, rule 4 asks for 202. Servers send 200 and 204 too, with
            // all kinds of bodies, and mean the same.
            (Expects::Acceptance, true) => Reading::Drain(None),
            // The session is over either way: nobody would wait for what else the server has to say.
            (Expects::Acceptance, false) if self.is_delete => {
                Reading::Drain(Some(self.unexpected_status(head, &[]).into()))
            }
            (Expects::Acceptance, false) => Reading::Whole(Whole::Status),
            (Expects::Messages, true) if has_type(head, "text/event-stream") => Reading::Events,
            (Expects::Messages, _) if is_not_offered(head) => {
                Reading::Drain(Some(NotOffered::new(Some(status)).into()))
            }
            (Expects::Messages, _) => Reading::Whole(Whole::Status),
            (Expects::Rest(_), true) if has_type(head, "text/event-stream") => Reading::Events,
            (Expects::Rest(_), true) => Reading::Whole(Whole::Content),
            // Whatever the body says is about the GET, and not about the request whose stream it resumes.
            (Expects::Rest(_), false) => Reading::Whole(Whole::Status),
            // "Accepted", "No Content", "Reset Content": none of them brings a response.
            (Expects::Response(_), true) if [202, 204, 205].contains(&status.as_u16()) => {
                Reading::Whole(Whole::Status)
            }
            (Expects::Response(_), true) if has_type(head, "application/json") => Reading::Whole(Whole::Json),
            (Expects::Response(_), true) if has_type(head, "text/event-stream") => Reading::Events,
            (Expects::Response(_), true) => Reading::Whole(Whole::Content),
            (Expects::Response(_), false) => Reading::Whole(Whole::Status),
        }
    }

    /// Reads `body` within the limits for what it is read for.
    pub(super) fn collect<B>(&self, head: &Parts, body: B, whole: Whole) -> Collect<B> {
        let limits = &self.limits;
        if whole == Whole::Json {
            return Collect::while_alive(body, limits.max_json_bytes, self.idle_clock());
        }
        // An error that has a body has sent most of it with its head. Of "accepted" none is due, and it must not keep
        // the caller from learning that there will be no response.
        let timeout = if head.status.is_success() { limits.drain_timeout } else { limits.error_body_timeout };
        Collect::within(body, limits.max_error_bytes, Clock::new(Some(timeout), self.runtime.as_ref()))
    }

    /// Bounds the silence of a body.
    pub(super) fn idle_clock(&self) -> Option<Clock> {
        Clock::new(self.limits.idle_timeout, self.runtime.as_ref())
    }

    /// Reads on, for the connection's sake, what is left of an answer.
    pub(super) fn drain<B>(&self, body: Pin<Box<B>>, cx: &mut Context<'_>)
    where
        B: Body + Send + 'static,
    {
        let drain = Drain { max_bytes: self.limits.max_error_bytes, timeout: self.limits.drain_timeout };
        drain.drain(body, self.runtime.as_ref(), cx);
    }

    /// The events of a body that was read whole.
    pub(super) fn events(&self, head: &Parts, body: Collected, whole: Whole) -> Events {
        match whole {
            Whole::Json => self.json(head, body),
            Whole::Status => self.status(head, &body),
            Whole::Content => self.content(head, &body),
        }
    }

    /// The events of a body that was read as JSON.
    fn json(&self, head: &Parts, body: Collected) -> Events {
        let Expects::Response(id) = &self.expects else { return Events::EMPTY };
        match body.end {
            End::Complete => {}
            End::TimedOut(after) => return Events::error(TimedOut::idle(after)),
            End::Broken(error) => return Events::error(BrokenStream(error)),
            End::OverLimit => {
                let limit = self.limits.max_json_bytes;
                return Events::error(TooLarge { what: "a JSON body", limit, knob: "max_json_bytes" });
            }
        }
        let text = body.bytes;
        if text.trim_ascii().is_empty() {
            return self.unexpected_content(head, ContentProblem::Empty, &text);
        }
        match Decoded::read(&text, self.limits.max_batch_messages) {
            Ok(Decoded::Message(JsonRpcMessage::Response(mut response))) => {
                correlate(&mut response, id);
                Events::from(JsonRpcMessage::Response(response))
            }
            Ok(Decoded::Batch(messages)) => self.batch(head, messages, id, &text),
            Ok(Decoded::Message(_) | Decoded::Nothing) => {
                self.unexpected_content(head, ContentProblem::NoResponse, &text)
            }
            Err(error) => Events::error(error.in_answer(head.status, self.preview(&text))),
        }
    }

    fn batch(&self, head: &Parts, mut batch: Batch, id: &RequestId, text: &Bytes) -> Events {
        let answered = correlate_batch(&mut batch, id);
        let mut items: Vec<_> = self.items(head.status, batch, text).collect();
        if !answered {
            let preview = self.preview(text);
            items.push(Err(UnexpectedContent::new(head.status, ContentProblem::NoResponse, preview).into()));
        }
        Events::all(items)
    }

    /// What the elements of a batch, which came as `text`, are to the caller.
    pub(super) fn items(
        &self,
        status: StatusCode,
        batch: Batch,
        text: &Bytes,
    ) -> impl Iterator<Item = Result<Event, BoxError>> {
        batch.into_iter().filter(|item| item.as_ref().map_or(true, |message| self.admits(message))).map(
            move |item| match item {
                Ok(message) => Ok(message.into()),
                Err(error) => Err(error.in_answer(status, self.preview(text)).into()),
            },
        )
    }

    /// The events of an answer whose status is no success, or promises no response.
    fn status(&self, head: &Parts, body: &Collected) -> Events {
        let error = json_rpc_error(head, &body.bytes);
        // RFC 9110 §11.6.1: a challenge is for whoever holds the credentials, whatever the body says.
        let is_answer = !head.status.is_success() && !is_challenge(head);
        match (error, &self.expects) {
            (Some(mut response), Expects::Response(id)) if is_answer => {
                adopt(&mut response, id);
                Events::from(JsonRpcMessage::Response(response))
            }
            (error, _) => {
                let error = error.and_then(|response| response.into_outcome().err());
                Events::error(self.unexpected_status(head, &body.bytes).with_json_rpc(error))
            }
        }
    }

    /// The error of a successful answer of a type that nobody asked for.
    fn content(&self, head: &Parts, body: &Collected) -> Events {
        const SHOWN: usize = 80;
        let content_type = head.headers.get(CONTENT_TYPE);
        let problem = match content_type.map(|value| String::from_utf8_lossy(value.as_bytes())) {
            None if body.bytes.is_empty() => ContentProblem::Empty,
            found => ContentProblem::ContentType(found.map(|found| found.chars().take(SHOWN).collect())),
        };
        self.unexpected_content(head, problem, &body.bytes)
    }

    /// MCP 2026-07-28 §Receiving Messages: no requests from the server. Nothing could answer them either.
    pub(super) fn admits(&self, message: &JsonRpcMessage) -> bool {
        let admitted = self.era == Era::Legacy || message.as_request().is_none();
        if !admitted {
            tracing::warn!("dropped a request from a server of the modern era");
        }
        admitted
    }

    fn unexpected_status(&self, head: &Parts, text: &[u8]) -> UnexpectedStatus {
        // The page of a redirect says no more than its head, and shows the target whole.
        let names_target = head.status.is_redirection() && head.headers.contains_key(LOCATION);
        let text = if names_target { &[] } else { text };
        UnexpectedStatus::new(head.status, &head.headers, self.session.is_some(), self.preview(text))
            .for_initialize(self.initialize)
    }

    fn unexpected_content(&self, head: &Parts, problem: ContentProblem, text: &[u8]) -> Events {
        Events::error(UnexpectedContent::new(head.status, problem, self.preview(text)))
    }

    /// What of a text from the server may be shown: not the session's id, which servers like to echo.
    pub(super) fn preview(&self, text: &[u8]) -> Preview {
        Preview::without(text, self.session.as_ref().and_then(|id| id.to_str().ok()))
    }
}

/// Compares the type without its parameters, and without regard to case (RFC 9110 §8.3.1).
fn has_type(head: &Parts, essence: &str) -> bool {
    let value = head.headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes).unwrap_or_default();
    let found = value.split(|byte| *byte == b';').next().unwrap_or_default();
    found.trim_ascii().eq_ignore_ascii_case(essence.as_bytes())
}

/// MCP 2025-11-25 §Listening for Messages from the Server, rule 3 asks for 405; servers without the stream answer
/// with any 4xx, or with a page.
fn is_not_offered(head: &Parts) -> bool {
    const PASSING: [StatusCode; 3] =
        [StatusCode::REQUEST_TIMEOUT, StatusCode::CONFLICT, StatusCode::TOO_MANY_REQUESTS];
    head.status.is_success()
        || head.status.is_client_error() && !PASSING.contains(&head.status) && !is_challenge(head)
}

fn is_challenge(head: &Parts) -> bool {
    [StatusCode::UNAUTHORIZED, StatusCode::FORBIDDEN].contains(&head.status)
        && head.headers.contains_key(WWW_AUTHENTICATE)
}

/// The body, if it is a JSON-RPC error: some servers send one without a content type.
fn json_rpc_error(head: &Parts, body: &Bytes) -> Option<JsonRpcResponse> {
    if !has_type(head, "application/json") && head.headers.contains_key(CONTENT_TYPE) {
        return None;
    }
    match Decoded::read(body, 0) {
        Ok(Decoded::Message(JsonRpcMessage::Response(response))) if response.outcome().is_err() => {
            Some(response)
        }
        _ => None,
    }
}

/// Keeps secrets of the answer's head out of every `Debug` output.
pub(super) fn mark_sensitive(headers: &mut HeaderMap) {
    for (name, value) in headers {
        if [LOCATION, MCP_SESSION_ID, SET_COOKIE, WWW_AUTHENTICATE].contains(name) {
            value.set_sensitive(true);
        }
    }
}
