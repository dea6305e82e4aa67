//! The transport: which HTTP requests are let through, to which session, and what refusals look like.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::StreamExt;
use http::header::{self, HeaderMap, HeaderValue};
use http::{Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::Incoming;
use serde_json::{Value, json};

use super::methods::{self, INVALID_REQUEST, PARSE_ERROR, Session};
use super::response::{self, Body};

pub(super) const PATH: &str = "/mcp";

/// The protocol revisions this server speaks, the preferred one first. (2025-03-26 alone has JSON-RPC
/// batches; those are refused.)
const VERSIONS: [&str; 3] = ["2025-11-25", "2025-06-18", "2025-03-26"];

const SESSION_ID: &str = "mcp-session-id";
const PROTOCOL_VERSION: &str = "mcp-protocol-version";
const LAST_EVENT_ID: &str = "last-event-id";
const JSON: &str = "application/json";
const EVENT_STREAM: &str = "text/event-stream";
const MAX_BODY: usize = 1024 * 1024;

/// The MCP endpoint, with the sessions of all its clients.
#[derive(Debug, Default)]
pub(super) struct Endpoint {
    sessions: Mutex<HashMap<String, Arc<Session>>>,
}

/// Why an HTTP request was turned down before it reached any MCP method.
struct Refusal {
    status: StatusCode,
    code: i64,
    reason: &'static str,
}

impl Refusal {
    fn new(status: StatusCode, reason: &'static str) -> Self {
        Refusal { status, code: INVALID_REQUEST, reason }
    }
}

impl From<Refusal> for Response<Body> {
    fn from(Refusal { status, code, reason }: Refusal) -> Self {
        // No `id`: the spec has none in errors about the HTTP request, whose body may not even be JSON.
        let error = json!({"jsonrpc": "2.0", "error": {"code": code, "message": reason}});
        let mut response = response::json(status, &error);
        if status == StatusCode::METHOD_NOT_ALLOWED {
            response.headers_mut().insert(header::ALLOW, HeaderValue::from_static("POST, GET, DELETE"));
        }
        response
    }
}

impl Endpoint {
    pub(super) async fn handle(&self, request: Request<Incoming>) -> Response<Body> {
        self.route(request).await.unwrap_or_else(Response::from)
    }

    async fn route(&self, request: Request<Incoming>) -> Result<Response<Body>, Refusal> {
        let headers = request.headers();
        // A web page can make its visitor's browser send requests to 127.0.0.1, with DNS rebinding for
        // instance. The browser then names the origin of the page; clients outside a browser name none.
        if !headers.get_all(header::ORIGIN).iter().all(is_loopback_origin) {
            return Err(Refusal::new(StatusCode::FORBIDDEN, "Origin is not a loopback one"));
        }
        if request.uri().path() != PATH {
            return Err(Refusal::new(StatusCode::NOT_FOUND, "The MCP endpoint is /mcp"));
        }
        // An absent header is fine: the session remembers what was negotiated.
        if headers.get(PROTOCOL_VERSION).is_some_and(|asked| !VERSIONS.iter().any(|known| asked == known)) {
            return Err(Refusal::new(StatusCode::BAD_REQUEST, "Unsupported MCP-Protocol-Version"));
        }
        match request.method().as_str() {
            "POST" => self.post(request).await,
            "GET" => self.listen(headers),
            "DELETE" => self.end_session(headers),
            _ => Err(Refusal::new(StatusCode::METHOD_NOT_ALLOWED, "Use POST, GET or DELETE")),
        }
    }

    /// POST carries one JSON-RPC message from the client.
    async fn post(&self, request: Request<Incoming>) -> Result<Response<Body>, Refusal> {
        let (head, body) = request.into_parts();
        // The server alone chooses between JSON and a stream, so clients must be ready for both.
        if !(accepts(&head.headers, JSON) && accepts(&head.headers, EVENT_STREAM)) {
            let reason = "Accept must list application/json and text/event-stream";
            return Err(Refusal::new(StatusCode::NOT_ACCEPTABLE, reason));
        }
        if !lists(&head.headers, header::CONTENT_TYPE, JSON) {
            let reason = "Content-Type must be application/json";
            return Err(Refusal::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, reason));
        }
        let body = Limited::new(body, MAX_BODY).collect().await.map_err(|error| {
            if error.is::<LengthLimitError>() {
                Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, "The body exceeds 1 MiB")
            } else {
                Refusal::new(StatusCode::BAD_REQUEST, "The body could not be read")
            }
        })?;
        let message: Value = serde_json::from_slice(&body.to_bytes()).map_err(|_| Refusal {
            status: StatusCode::BAD_REQUEST,
            code: PARSE_ERROR,
            reason: "The body is not JSON",
        })?;

        let invalid = || Refusal::new(StatusCode::BAD_REQUEST, "The body is not a JSON-RPC 2.0 message");
        let accepted = |_| response::empty(StatusCode::ACCEPTED);
        let is_response = message.get("result").or(message.get("error")).is_some();
        let id = message.get("id");
        if message["jsonrpc"] != "2.0" || id.is_some_and(|id| !id.is_string() && !id.is_number()) {
            return Err(invalid());
        }
        match (message["method"].as_str(), id) {
            (Some("initialize"), Some(id)) => self.initialize(id, &message["params"]),
            (Some(method), Some(id)) => {
                let session = self.session(&head.headers)?;
                Ok(methods::answer(&session, method, id, &message["params"]))
            }
            // Nothing here hangs on notifications and responses: a client that cancels a call also drops its
            // stream, and the server asks its clients nothing.
            (Some(_), None) => self.session(&head.headers).map(accepted),
            (None, Some(_)) if is_response => self.session(&head.headers).map(accepted),
            _ => Err(invalid()),
        }
    }

    /// `initialize` is the one request that needs no session: it opens one.
    fn initialize(&self, id: &Value, params: &Value) -> Result<Response<Body>, Refusal> {
        // The client asks for one version. If it is unknown here, the server proposes its own best, and it
        // is for the client to go on or to leave.
        let asked = params["protocolVersion"].as_str();
        let version = VERSIONS.into_iter().find(|known| asked == Some(known)).unwrap_or(VERSIONS[0]);
        let session_id = new_session_id();
        let header = HeaderValue::try_from(&session_id)
            .map_err(|_| Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "Bad session id"))?;
        self.sessions().insert(session_id, Arc::default());

        let mut response = methods::result(
            id,
            &json!({
                "protocolVersion": version,
                "capabilities": {"logging": {}, "tools": {}},
                "serverInfo": {"name": "example-server", "version": env!("CARGO_PKG_VERSION")},
            }),
        );
        response.headers_mut().insert(SESSION_ID, header);
        Ok(response)
    }

    /// GET opens the stream for messages that answer no request of the client.
    fn listen(&self, headers: &HeaderMap) -> Result<Response<Body>, Refusal> {
        if !accepts(headers, EVENT_STREAM) {
            return Err(Refusal::new(StatusCode::NOT_ACCEPTABLE, "Accept must list text/event-stream"));
        }
        let session = self.session(headers)?;
        // With this header a client asks for the rest of a broken stream. A fresh stream in its place would
        // leave it waiting for an answer that never comes.
        if headers.contains_key(LAST_EVENT_ID) {
            return Err(Refusal::new(StatusCode::BAD_REQUEST, "Events are not kept for replay"));
        }
        Ok(response::events(methods::listen(&session).take_until(session.ended())))
    }

    /// DELETE ends the session, and with it the streams still open in it.
    fn end_session(&self, headers: &HeaderMap) -> Result<Response<Body>, Refusal> {
        self.session(headers)?.end();
        self.sessions().retain(|_, session| !session.has_ended());
        Ok(response::empty(StatusCode::NO_CONTENT))
    }

    fn session(&self, headers: &HeaderMap) -> Result<Arc<Session>, Refusal> {
        let id = headers
            .get(SESSION_ID)
            .ok_or(Refusal::new(StatusCode::BAD_REQUEST, "Mcp-Session-Id is missing"))?;
        // The client must take this very status as the order to initialize anew.
        let unknown = || Refusal::new(StatusCode::NOT_FOUND, "There is no such session");
        self.sessions().get(id.to_str().unwrap_or_default()).cloned().ok_or_else(unknown)
    }

    fn sessions(&self) -> MutexGuard<'_, HashMap<String, Arc<Session>>> {
        // A panic elsewhere cannot have left the map half-changed, so the poison does not matter.
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// 128 bits from the keys which the standard library draws to keep hash maps safe from crafted collisions.
/// Good enough to keep apart the programs on one machine, and no dependency. A session id stands in for a
/// credential, though: a real server takes it from a cryptographic generator.
fn new_session_id() -> String {
    let half = || RandomState::new().build_hasher().finish();
    format!("{:016x}{:016x}", half(), half())
}

fn is_loopback_origin(origin: &HeaderValue) -> bool {
    let is_loopback = |host: &str| {
        let ip = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
        host == "localhost" || ip.is_ok_and(|ip| ip.is_loopback())
    };
    Uri::try_from(origin.as_bytes()).is_ok_and(|uri| uri.host().is_some_and(is_loopback))
}

fn accepts(headers: &HeaderMap, media_type: &str) -> bool {
    lists(headers, header::ACCEPT, media_type)
}

/// Whether a header names this media type, in any of its lines and with any parameters.
fn lists(headers: &HeaderMap, name: header::HeaderName, media_type: &str) -> bool {
    let lines = headers.get_all(name);
    let mut items = lines.iter().filter_map(|line| line.to_str().ok()).flat_map(|line| line.split(','));
    items.any(|item| item.split(';').next().unwrap_or(item).trim().eq_ignore_ascii_case(media_type))
}
