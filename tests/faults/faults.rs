//! A server that fails at random: the same way in every run.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response};
use http_body_util::{BodyExt, Full};
use mcp_streamable_http::error::NotSent;
use serde_json::{Value, json};
use tokio::time::Instant;
use tower::{BoxError, Service};

use crate::common::VERSION;
use crate::playback::{Playback, Step, reset};
use crate::record::{Numbers, Open, Shared, State, Stream};

type Answered = Result<Response<Playback>, BoxError>;

#[derive(Clone, Debug)]
pub(crate) struct FaultyServer {
    seed: u64,
    pub(crate) shared: Shared,
}

/// One request, with the dice for it.
struct Turn {
    server: Shared,
    open: Open,
    numbers: Numbers,
    nonce: u64,
    epoch: u64,
    headers: HeaderMap,
}

impl FaultyServer {
    pub(crate) fn new(seed: u64) -> Self {
        Self { seed, shared: Shared::default() }
    }

    /// Whether the server can be reached, and whether this is the moment at which it fails as a whole.
    fn arrive(&self, state: &mut State) -> bool {
        if state.down_until.is_some_and(|until| Instant::now() < until) {
            return false;
        }
        state.arrivals += 1;
        let mut mood = Numbers::of(self.seed, 0, state.arrivals);
        if mood.one_in(150) {
            state.restart();
        }
        let is_down = mood.one_in(200);
        if is_down {
            let time = Duration::from_millis(100 + mood.below(3_000));
            state.down_until = Some(Instant::now() + time);
        }
        !is_down
    }

    async fn serve(self, request: Request<Full<Bytes>>) -> Answered {
        let (head, body) = request.into_parts();
        let body = body.collect().await?.to_bytes();
        let message: Value = if body.is_empty() { Value::Null } else { serde_json::from_slice(&body)? };
        let header = |name| head.headers.get(name).map(|value| value.to_str().unwrap());
        // The stream is that of a call, and so is its number.
        let resumed = header("last-event-id").and_then(|id| id.split('/').nth(1)?.parse().ok());
        let nonce = message["params"]["nonce"].as_u64().or(resumed).unwrap_or_default();
        let open = self.shared.opened();
        let (is_up, epoch, turn) = {
            let mut state = self.shared.lock();
            let is_up = self.arrive(&mut state);
            let record = state.of(nonce);
            let turn = u64::from(record.posts + record.gets + record.unreachable);
            if !is_up {
                record.unreachable += 1;
                // It was to take up a stream, and did not.
                record.cuts += u32::from(head.method == Method::GET);
            }
            (is_up, state.epoch, turn)
        };
        if !is_up {
            return Err(NotSent(io::Error::from(io::ErrorKind::ConnectionRefused).into()).into());
        }
        let numbers = Numbers::of(self.seed, nonce, 1 + turn);
        let turn = Turn { server: self.shared, open, numbers, nonce, epoch, headers: head.headers };
        match (head.method, message["method"].as_str()) {
            (Method::GET, _) => turn.resume().await,
            (Method::DELETE, _) => turn.whole(200, String::new()),
            (_, Some("initialize")) => turn.initialize(&message).await,
            (_, Some("notifications/initialized")) => turn.initialized(),
            (_, Some(_)) if message.get("id").is_none() => turn.notified().await,
            _ => turn.called(&message).await,
        }
    }
}

impl Turn {
    fn session(&self) -> String {
        self.headers.get("mcp-session-id").map(|id| id.to_str().unwrap().to_owned()).unwrap_or_default()
    }

    fn violation(&self, what: &str) {
        self.server.lock().violations.push(format!("{what} (call {})", self.nonce));
    }

    fn respond(self, status: u16, content_type: &str, steps: Vec<Step>) -> Answered {
        let body = Playback::new(&self.server, self.open, self.nonce, self.epoch, steps);
        let mut response = Response::builder().status(status);
        if !content_type.is_empty() {
            response = response.header("content-type", content_type);
        }
        Ok(response.body(body)?)
    }

    fn whole(self, status: u16, text: String) -> Answered {
        let content_type = if text.is_empty() { "" } else { "application/json" };
        let is_answer = (200..300).contains(&status);
        let steps = if is_answer { vec![Step::Finish(text)] } else { vec![Step::Write(text), Step::End] };
        self.respond(status, content_type, steps)
    }

    fn busy(self, may_come_again: bool) -> Answered {
        let mut response = self.respond(503, "text/plain", vec![Step::Write("busy".into()), Step::End])?;
        if may_come_again {
            response.headers_mut().insert("retry-after", "1".parse()?);
        }
        Ok(response)
    }

    async fn think(&mut self) {
        if self.numbers.one_in(3) {
            tokio::time::sleep(Duration::from_millis(1 + self.numbers.below(400))).await;
        }
    }

    fn has_restarted(&self) -> bool {
        self.server.lock().epoch != self.epoch
    }

    /// The session is not known: servers say so in many ways. `None`: it is.
    fn refuse(&mut self) -> Option<(u16, String)> {
        let session = self.session();
        if session.is_empty() {
            return Some((400, String::new()));
        }
        if self.server.lock().sessions.contains(&session) {
            if self.headers.get("mcp-protocol-version").is_none_or(|version| version != VERSION) {
                self.violation("a request without the version of its session");
            }
            return None;
        }
        self.server.lock().of(self.nonce).expired += 1;
        let error = json!({ "jsonrpc": "2.0", "id": null, "error": { "code": -32001, "message": "Session not found" } });
        Some((404, if self.numbers.one_in(2) { error.to_string() } else { String::new() }))
    }

    async fn initialize(mut self, message: &Value) -> Answered {
        if self.headers.contains_key("mcp-session-id") || self.headers.contains_key("mcp-protocol-version") {
            self.violation("an initialize with a session or a version");
        }
        let turn = {
            let mut state = self.server.lock();
            state.initializes += 1;
            u64::from(state.initializes)
        };
        self.numbers = Numbers::of(self.numbers.below(u64::MAX), turn, 0);
        self.think().await;
        if self.numbers.one_in(8) || self.has_restarted() {
            self.server.lock().failed_initializes += 1;
            return if self.numbers.one_in(2) { Err(reset()) } else { self.busy(true) };
        }
        let session = format!("s{turn}");
        self.server.lock().sessions.insert(session.clone());
        let result =
            json!({ "jsonrpc": "2.0", "id": message["id"], "result": { "protocolVersion": VERSION } });
        let mut response = if self.numbers.one_in(3) {
            let ping = json!({ "jsonrpc": "2.0", "id": "are-you-there", "method": "ping" });
            let steps = vec![
                Step::Write(format!("data: {ping}\n\n")),
                Step::Wait(Duration::from_millis(20)),
                Step::Finish(format!("data: {result}\n\n")),
            ];
            self.respond(200, "text/event-stream", steps)?
        } else {
            self.whole(200, result.to_string())?
        };
        response.headers_mut().insert("mcp-session-id", session.parse()?);
        Ok(response)
    }

    fn initialized(mut self) -> Answered {
        match self.refuse() {
            Some((status, text)) => self.whole(status, text),
            None => self.whole(202, String::new()),
        }
    }

    async fn notified(mut self) -> Answered {
        self.server.lock().of(self.nonce).posts += 1;
        if let Some((status, text)) = self.refuse() {
            return self.whole(status, text);
        }
        self.server.lock().of(self.nonce).executed += 1;
        self.think().await;
        match self.numbers.below(20) {
            0 => self.whole(500, String::new()),
            1 => Err(reset()),
            2 => self.busy(true),
            _ if self.has_restarted() => Err(reset()),
            _ => self.whole(202, String::new()),
        }
    }

    async fn called(mut self, message: &Value) -> Answered {
        self.server.lock().of(self.nonce).posts += 1;
        // Answers to the server's own requests come here too.
        if message.get("method").is_none() {
            return self.whole(202, String::new());
        }
        if let Some((status, text)) = self.refuse() {
            return self.whole(status, text);
        }
        let mood = self.numbers.below(40);
        if mood == 0 {
            self.server.lock().of(self.nonce).broken += 1;
            return Err(reset());
        }
        if mood <= 2 {
            self.server.lock().of(self.nonce).busy += u32::from(mood == 1);
            return self.busy(mood == 1);
        }
        self.server.lock().of(self.nonce).executed += 1;
        self.think().await;
        if mood == 3 || self.has_restarted() {
            self.server.lock().of(self.nonce).broken += 1;
            return Err(reset());
        }
        let nonce = self.nonce;
        let result =
            json!({ "jsonrpc": "2.0", "id": message["id"], "result": { "nonce": nonce } }).to_string();
        if mood < 14 {
            return self.whole(200, result);
        }
        let steps = 1 + self.numbers.below(4);
        let progress = |step: u64| {
            let params = json!({ "progress": step, "nonce": nonce, "total": steps });
            json!({ "jsonrpc": "2.0", "method": "notifications/progress", "params": params }).to_string()
        };
        let events: Vec<_> =
            std::iter::once(String::new()).chain((1..=steps).map(progress)).chain([result]).collect();
        let stream = Stream { session: self.session(), events: events.into() };
        let has_ids = mood >= 19;
        if has_ids {
            self.server.lock().streams.insert(nonce, stream.clone());
        }
        let script = self.script(&stream, 0, has_ids);
        self.respond(200, "text/event-stream", script)
    }

    /// The events from `first` on, or not all of them.
    fn script(&mut self, stream: &Stream, first: usize, has_ids: bool) -> Vec<Step> {
        let mut script = Vec::new();
        let cut = if self.numbers.one_in(3) { first + self.numbers.below(5) as usize } else { usize::MAX };
        // A server that wants to be polled says so, and ends its streams properly.
        let is_polled = has_ids && self.numbers.one_in(3);
        if is_polled {
            script.push(Step::Write("retry: 100\n\n".into()));
        }
        for (index, data) in stream.events.iter().enumerate().skip(first) {
            if index >= cut {
                if !is_polled && self.numbers.one_in(2) {
                    script.push(Step::Write("data: {\"jsonrpc\"".into()));
                    script.push(Step::Break);
                }
                return script;
            }
            if self.numbers.one_in(3) {
                script.push(Step::Wait(Duration::from_millis(self.numbers.below(200))));
            }
            let id = if has_ids { format!("id: e/{}/{index}\n", self.nonce) } else { String::new() };
            let event = format!("{id}data: {data}\n\n");
            let is_last = index + 1 == stream.events.len();
            script.push(if is_last { Step::Finish(event) } else { Step::Write(event) });
        }
        script
    }

    async fn resume(mut self) -> Answered {
        let position: Option<usize> = self
            .headers
            .get("last-event-id")
            .and_then(|id| id.to_str().ok()?.split('/').nth(2)?.parse().ok());
        let Some(position) = position else {
            self.violation("a GET that resumes nothing");
            return self.whole(405, String::new());
        };
        self.server.lock().of(self.nonce).gets += 1;
        let found = self.server.lock().streams.get(&self.nonce).cloned();
        let Some(stream) = found.filter(|_| self.refuse().is_none()) else {
            return self.whole(404, String::new());
        };
        if stream.session != self.session() {
            self.violation("a stream was taken up in another session");
        }
        self.think().await;
        let mood = self.numbers.below(12);
        if mood < 2 || self.has_restarted() {
            self.server.lock().of(self.nonce).cuts += 1;
            return if mood == 0 { self.busy(true) } else { Err(reset()) };
        }
        // Some servers send again what was received.
        let again = if self.numbers.one_in(3) { self.numbers.below(3) as usize } else { 0 };
        let script = self.script(&stream, (position + 1).saturating_sub(again), true);
        self.respond(200, "text/event-stream", script)
    }
}

impl Service<Request<Full<Bytes>>> for FaultyServer {
    type Response = Response<Playback>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Answered> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Full<Bytes>>) -> Self::Future {
        // Nothing is sent before the first poll.
        Box::pin(self.clone().serve(request))
    }
}
