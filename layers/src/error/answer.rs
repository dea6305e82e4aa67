//! Answers that are not what was asked for.

use std::borrow::Cow;
use std::fmt;
use std::time::{Duration, SystemTime};

use http::header::{HeaderMap, HeaderValue, LOCATION, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{StatusCode, Uri};

use super::{BoxError, Preview, redacted_location};
use crate::JsonRpcError;

/// A status that is no success, or one that brings no response to a request (202, 204, 205).
#[derive(Clone)]
pub struct UnexpectedStatus {
    status: StatusCode,
    retry_after: Option<Duration>,
    challenges: Vec<HeaderValue>,
    had_session: bool,
    initialize: bool,
    location: Option<String>,
    json_rpc: Option<JsonRpcError>,
    preview: Preview,
}

impl UnexpectedStatus {
    /// Reads what is worth keeping of an answer's head. `had_session`: the request named a session.
    pub(crate) fn new(status: StatusCode, headers: &HeaderMap, had_session: bool, preview: Preview) -> Self {
        let location = headers.get(LOCATION).filter(|_| status.is_redirection());
        Self {
            status,
            retry_after: retry_after(headers),
            challenges: challenges(headers),
            had_session,
            initialize: false,
            location: location.map(|target| redacted_location(target.as_bytes())),
            json_rpc: None,
            preview,
        }
    }

    pub(crate) fn with_json_rpc(mut self, error: Option<JsonRpcError>) -> Self {
        self.json_rpc = error;
        self
    }

    /// Notes whether the request was an `initialize`.
    pub(crate) fn for_initialize(mut self, initialize: bool) -> Self {
        self.initialize = initialize;
        self
    }

    /// The status.
    pub fn status(&self) -> StatusCode {
        self.status
    }

    /// `Retry-After` (RFC 9110 §10.2.3); an HTTP-date is counted from the arrival of the answer.
    pub fn retry_after(&self) -> Option<Duration> {
        self.retry_after
    }

    /// Every `WWW-Authenticate`, in order, each marked sensitive.
    pub fn challenges(&self) -> &[HeaderValue] {
        &self.challenges
    }

    /// Whether the request named a session.
    pub fn had_session(&self) -> bool {
        self.had_session
    }

    /// The JSON-RPC error in the body, if it was one.
    pub fn json_rpc(&self) -> Option<&JsonRpcError> {
        self.json_rpc.as_ref()
    }

    /// The start of the body.
    pub fn preview(&self) -> &Preview {
        &self.preview
    }
}

fn challenges(headers: &HeaderMap) -> Vec<HeaderValue> {
    let mut challenges: Vec<_> = headers.get_all(WWW_AUTHENTICATE).into_iter().cloned().collect();
    challenges.iter_mut().for_each(|challenge| challenge.set_sensitive(true));
    challenges
}

/// `Retry-After` (RFC 9110 §10.2.3); an HTTP-date is counted from now.
pub(crate) fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Some(Duration::from_secs(text.parse().unwrap_or(u64::MAX)));
    }
    let date = httpdate::parse_http_date(text).ok()?;
    // A date that has passed means "now".
    Some(date.duration_since(SystemTime::now()).unwrap_or_default())
}

impl fmt::Debug for UnexpectedStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UnexpectedStatus")
            .field("status", &self.status)
            .field("retry_after", &self.retry_after)
            .field("challenges", &self.challenges.len())
            .field("had_session", &self.had_session)
            .field("location", &self.location)
            .field("preview", &self.preview)
            .finish_non_exhaustive()
    }
}

impl fmt::Display for UnexpectedStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.location {
            Some(target) => {
                write!(f, "the server redirects to {target} ({}), which is not followed", self.status)?
            }
            None if self.status.is_success() => {
                write!(f, "the server answered {} where a response to the request was due", self.status)?;
            }
            None => write!(f, "the server answered {}", self.status)?,
        }
        if !self.challenges.is_empty() {
            f.write_str(" and asks for other credentials")?;
        }
        self.preview.append(f)?;
        // MCP 2025-11-25 §Backwards Compatibility: so does a server of the older transport.
        if self.initialize && [400, 404, 405].contains(&self.status.as_u16()) {
            f.write_str(
                "; a server of the HTTP+SSE transport of 2024-11-05, which is not supported, answers so",
            )?;
        }
        Ok(())
    }
}

impl std::error::Error for UnexpectedStatus {}

/// A successful status whose body is not what was asked for.
#[derive(Clone, Debug)]
pub struct UnexpectedContent {
    status: StatusCode,
    problem: ContentProblem,
    preview: Preview,
}

/// What is wrong with the body of a successful answer.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ContentProblem {
    /// There is none.
    Empty,
    /// Its `Content-Type`, given here, is neither JSON nor an event stream; `None`: it has none.
    ContentType(Option<String>),
    /// It is JSON, and holds no response.
    NoResponse,
}

impl UnexpectedContent {
    pub(crate) fn new(status: StatusCode, problem: ContentProblem, preview: Preview) -> Self {
        Self { status, problem, preview }
    }

    /// The status.
    pub fn status(&self) -> StatusCode {
        self.status
    }

    /// What is wrong.
    pub fn problem(&self) -> &ContentProblem {
        &self.problem
    }
}

impl fmt::Display for UnexpectedContent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the server answered {} ", self.status)?;
        match &self.problem {
            ContentProblem::Empty => f.write_str("with an empty body")?,
            ContentProblem::ContentType(Some(found)) => {
                write!(f, "with the content type {found:?}, which is neither JSON nor an event stream")?;
            }
            ContentProblem::ContentType(None) => f.write_str("without a content type")?,
            ContentProblem::NoResponse => f.write_str("with JSON that holds no response to the request")?,
        }
        self.preview.append(f)
    }
}

impl std::error::Error for UnexpectedContent {}

/// Text from the server that is no JSON-RPC message.
#[derive(Debug)]
pub struct Undecodable {
    status: Option<StatusCode>,
    reason: Cow<'static, str>,
    preview: Preview,
    source: Option<BoxError>,
}

impl Undecodable {
    pub(crate) fn new(reason: impl Into<Cow<'static, str>>, text: &[u8]) -> Self {
        Self { status: None, reason: reason.into(), preview: Preview::of(text), source: None }
    }

    pub(crate) fn because(mut self, source: impl Into<BoxError>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// Notes the status of the answer that it was in, and what of the answer may be shown.
    pub(crate) fn in_answer(self, status: StatusCode, preview: Preview) -> Self {
        Self { status: Some(status), preview, ..self }
    }

    /// The status of the answer that it was in, if it was in one.
    pub fn status(&self) -> Option<StatusCode> {
        self.status
    }
}

impl fmt::Display for Undecodable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.status {
            Some(status) => write!(f, "the server answered {status} with a message that cannot be read")?,
            None => f.write_str("the message cannot be read")?,
        }
        write!(f, ": {}", self.reason)?;
        if let Some(source) = &self.source {
            write!(f, " ({source})")?;
        }
        self.preview.append(f)
    }
}

impl std::error::Error for Undecodable {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_deref().map(|source| source as _)
    }
}

/// The server sent more than a limit allows.
#[derive(Clone, Debug)]
pub struct TooLarge {
    pub(crate) what: &'static str,
    pub(crate) limit: usize,
    pub(crate) knob: &'static str,
}

impl TooLarge {
    /// The limit, in bytes.
    pub fn limit(&self) -> usize {
        self.limit
    }
}

impl fmt::Display for TooLarge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, limit, knob } = self;
        write!(f, "the server sent {what} of more than {limit} bytes (the limit is `{knob}`)")
    }
}

impl std::error::Error for TooLarge {}

/// The server no longer knows the session: `initialize` starts another.
#[derive(Clone, Copy, Debug)]
pub struct SessionExpired {
    status: Option<StatusCode>,
    in_flight: bool,
}

impl SessionExpired {
    /// `status` is the answer that said so; `None`: an earlier answer did, and nothing was sent.
    pub fn new(status: Option<StatusCode>) -> Self {
        Self { status, in_flight: false }
    }

    /// The request was sent, and its answer began, before the session ended.
    pub(crate) fn in_flight() -> Self {
        Self { status: None, in_flight: true }
    }

    /// The request had been sent before that, and may have run then.
    pub(crate) fn after_a_break(self) -> Self {
        Self { in_flight: true, ..self }
    }

    /// The answer that said so; `None`: it was the answer to another request.
    pub fn status(&self) -> Option<StatusCode> {
        self.status
    }

    /// Whether the request was sent before the session ended, so that it may have run.
    pub fn was_in_flight(&self) -> bool {
        self.in_flight
    }
}

impl fmt::Display for SessionExpired {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.status {
            Some(status) => write!(f, "the server answered {status}: the session has expired")?,
            None if self.in_flight => {
                f.write_str("the session of the request has expired before its response")?
            }
            None => f.write_str("the session has expired, so the message was not sent")?,
        }
        f.write_str("; send `initialize` to start another")
    }
}

impl std::error::Error for SessionExpired {}

/// So that a `Uri` is never printed whole.
impl From<&Uri> for super::Redacted {
    fn from(uri: &Uri) -> Self {
        Self(redacted_location(uri.to_string().as_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(value: &str) -> Option<Duration> {
        retry_after(&HeaderMap::from_iter([(RETRY_AFTER, HeaderValue::from_str(value).unwrap())]))
    }

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        assert_eq!(after("120"), Some(Duration::from_secs(120)));
        assert_eq!(after("99999999999999999999999"), Some(Duration::from_secs(u64::MAX)));
        assert_eq!(after("Wed, 21 Oct 2015 07:28:00 GMT"), Some(Duration::ZERO));
        let soon = SystemTime::now() + Duration::from_secs(3600);
        let wait = after(&httpdate::fmt_http_date(soon)).unwrap();
        assert!((3590..=3600).contains(&wait.as_secs()), "{wait:?}");
        for bad in ["", "-1", "1.5", "soon"] {
            assert_eq!(after(bad), None, "{bad}");
        }
    }
}
