//! Keep a session: take its id from the answer to `initialize`, send it with everything after.
//!
//! Legacy era only (MCP 2025-11-25 §Session Management): a message of the modern era passes untouched, and nothing
//! is ever taken from its answer.
//!
//! # Example
//!
//! ```
//! use http::{Request, Response};
//! use mcp_streamable_http_layers::error::BoxError;
//! use mcp_streamable_http_layers::{Endpoint, Events, JsonRpcMessage, Payload, Session, SetSessionIdLayer};
//! use serde_json::json;
//! use tower::{Service, ServiceBuilder, ServiceExt, service_fn};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), mcp_streamable_http_layers::error::BoxError> {
//! let server = service_fn(|request: Request<Payload>| async move {
//!     let result = json!({ "protocolVersion": "2025-11-25", "saw": request.headers().contains_key("mcp-session-id") });
//!     let answer = Events::from(JsonRpcMessage::response(1, result));
//!     Ok::<_, BoxError>(Response::builder().header("mcp-session-id", "abc").body(answer)?)
//! });
//! let session = Session::new();
//! let mut service = ServiceBuilder::new().layer(SetSessionIdLayer::new(session.clone())).service(server);
//! let endpoint = Endpoint::new("http://localhost/mcp".parse()?)?;
//!
//! let initialize = JsonRpcMessage::request(1, "initialize", json!({ "protocolVersion": "2025-11-25" }));
//! let _ = service.ready().await?.call(endpoint.post(initialize)).await?;
//! assert_eq!(session.id().unwrap(), "abc");
//!
//! let response = service.ready().await?.call(endpoint.post(JsonRpcMessage::request(2, "ping", ()))).await?;
//! assert!(format!("{:?}", response.body()).contains(r#""saw":true"#));
//! # Ok(())
//! # }
//! ```

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use http::{HeaderValue, Method, Request, Response, StatusCode};
use pin_project_lite::pin_project;
use tower_layer::Layer;
use tower_service::Service;

use crate::error::{BoxError, SessionExpired, Undecodable};
use crate::headers::MCP_SESSION_ID;
use crate::options::{ExtraHeaders, Pinned, WireId};
use crate::raw_json::{members, string};
use crate::refusable::Refusable;
use crate::session::{Handshake, Outside};
use crate::{Event, Events, JsonRpcMessage, JsonRpcRequest, Payload, ProtocolVersion, RawJson, Session};

/// Applies [`SetSessionId`]: see the [module's documentation](self).
#[derive(Clone, Debug)]
pub struct SetSessionIdLayer {
    session: Session,
}

impl SetSessionIdLayer {
    /// Keeps the session's id in `session`.
    pub fn new(session: Session) -> Self {
        Self { session }
    }
}

impl<S> Layer<S> for SetSessionIdLayer {
    type Service = SetSessionId<S>;

    fn layer(&self, inner: S) -> Self::Service {
        SetSessionId { inner, session: self.session.clone() }
    }
}

/// Sends the session's id, and watches for its beginning and its end.
///
/// - The id is taken only from an `initialize` that a successful status and a *result* answer, JSON or SSE. It is
///   kept together with the negotiated version when that result passes, and replaces the session whole.
/// - It is sent, byte for byte as it came, with every later POST, GET and DELETE.
/// - Any answer to a DELETE that carried it ends the session too.
/// - A 404 to a request that carried it ends the session: the call fails with [`SessionExpired`], and so does
///   everything sent later, before it is sent, until there is an `initialize`. Exceptions: a JSON-RPC error under the
///   request's own id and with a code other than -32000, -32001 and -32600 is the answer; and a GET ends the session
///   only if the server has accepted one in it before, since 404 is how some servers say that they offer none.
///
/// It does not start a new session by itself.
#[derive(Clone, Debug)]
pub struct SetSessionId<S> {
    inner: S,
    session: Session,
}

impl<S> Service<Request<Payload>> for SetSessionId<S>
where
    S: Service<Request<Payload>, Response = Response<Events>>,
    S::Error: Into<BoxError>,
{
    type Response = Response<Events>;
    type Error = BoxError;
    type Future = ResponseFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, mut request: Request<Payload>) -> Self::Future {
        let role = match request.body().message() {
            _ if request.extensions().get::<Outside>().is_some() => Role::None,
            Some(JsonRpcMessage::Request(message)) if message.is_initialize() => {
                let handshake = request.extensions().get::<Handshake>().copied();
                let handshake = handshake.unwrap_or_else(|| self.session.current_handshake());
                // Whoever starts the session anew sends the same headers.
                let extra = request.extensions().get::<ExtraHeaders>().cloned();
                let mut message = message.clone();
                extra.map(|extra| message.extensions_mut().insert(extra));
                Role::Initialize { handshake, request: Box::new(message) }
            }
            _ => match self.session.claim_for(&request) {
                Ok(None) => Role::None,
                Ok(Some(session)) => {
                    if let Some(id) = session.id() {
                        request.headers_mut().insert(MCP_SESSION_ID, id.clone());
                    }
                    let is_request =
                        request.body().message().is_some_and(|message| message.as_request().is_some());
                    Role::Member { session, method: request.method().clone(), is_request }
                }
                Err(expired) => {
                    let inner = Refusable::refused(expired);
                    return ResponseFuture { inner, role: Role::None, session: self.session.clone() };
                }
            },
        };
        ResponseFuture {
            inner: Refusable::Called { future: self.inner.call(request) },
            role,
            session: self.session.clone(),
        }
    }
}

/// What a request has to do with the session.
#[derive(Debug)]
enum Role {
    None,
    /// Its result begins one.
    Initialize {
        handshake: Handshake,
        request: Box<JsonRpcRequest>,
    },
    /// It was sent in this one, which may be without an id.
    Member {
        session: Pinned,
        method: Method,
        is_request: bool,
    },
}

pin_project! {
    /// The response future of [`SetSessionId`].
    #[derive(Debug)]
    #[must_use = "futures do nothing unless polled"]
    pub struct ResponseFuture<F> {
        #[pin]
        inner: Refusable<F>,
        role: Role,
        session: Session,
    }
}

impl<F, E> Future for ResponseFuture<F>
where
    F: Future<Output = Result<Response<Events>, E>>,
    E: Into<BoxError>,
{
    type Output = Result<Response<Events>, BoxError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let response = ready!(this.inner.poll(cx))?;
        Poll::Ready(match std::mem::replace(this.role, Role::None) {
            Role::None => Ok(response),
            Role::Initialize { handshake, request } => {
                Ok(begin(this.session.clone(), handshake, *request, response))
            }
            Role::Member { session: sent_in, method, is_request } => {
                let mut response = match sent_in.id() {
                    Some(id) => continue_in(this.session, id, &method, is_request, response)?,
                    None => response,
                };
                if response.body().is_stream() {
                    // For what resumes the stream: it must be in the same session.
                    response.extensions_mut().insert(sent_in);
                }
                Ok(response)
            }
        })
    }
}

/// Watches the answer to an `initialize` for the result that begins a session.
fn begin(
    session: Session,
    handshake: Handshake,
    initialize: JsonRpcRequest,
    response: Response<Events>,
) -> Response<Events> {
    if !response.status().is_success() {
        return response;
    }
    // An empty id is none: no header that says nothing tells sessions apart.
    let mut id = response.headers().get(MCP_SESSION_ID).filter(|id| !id.is_empty()).cloned();
    if let Some(id) = &mut id {
        id.set_sensitive(true);
    }
    let mut candidate = Some((id, initialize));
    response.map(|events| {
        events.map(move |item| {
            let event = item?;
            if let Some(result) = result_of(&event) {
                let version = negotiated_version(result)?;
                if let Some((id, initialize)) = candidate.take() {
                    session.establish(handshake, id, version, initialize);
                }
            }
            Ok(event)
        })
    })
}

fn result_of(event: &Event) -> Option<&RawJson> {
    event.message.as_ref()?.as_response()?.outcome().ok()
}

/// The `protocolVersion` of an `InitializeResult`; a result without one leaves the version open.
pub(crate) fn negotiated_version(result: &RawJson) -> Result<Option<ProtocolVersion>, Undecodable> {
    let mut version = None;
    let _ = members(result.as_str(), |member, value| {
        if member == "protocolVersion" {
            version = string(result.text(), value);
        }
    });
    version.map(|version| version.parse()).transpose().map_err(|error| {
        Undecodable::new("its protocolVersion cannot be sent in a header", result.as_str().as_bytes())
            .because(error)
    })
}

/// Looks at an answer inside a session for its end.
fn continue_in(
    session: &Session,
    id: &HeaderValue,
    method: &Method,
    is_request: bool,
    response: Response<Events>,
) -> Result<Response<Events>, BoxError> {
    match (method, response.status()) {
        // Whatever the status says, the caller is done with it.
        (&Method::DELETE, _) => session.end(id),
        (&Method::GET, status) if status.is_success() && response.body().is_stream() => {
            session.accept_listening(id)
        }
        (&Method::GET, StatusCode::NOT_FOUND) if !session.has_listened(id) => {}
        (_, StatusCode::NOT_FOUND) if !is_own_answer(response.body()) => {
            session.expire(id);
            return Err(SessionExpired::new(Some(StatusCode::NOT_FOUND)).into());
        }
        (_, status) if is_request && status.is_success() => session.prove(id),
        _ => {}
    }
    Ok(response)
}

/// A 404 whose body is a JSON-RPC error about the request, not about the session: servers say "session not found"
/// with the codes -32000, -32001 and -32600, or under an id that is not the request's.
fn is_own_answer(events: &Events) -> bool {
    let Some([Ok(Event { message: Some(JsonRpcMessage::Response(response)), .. })]) = events.ready() else {
        return false;
    };
    response.extensions().get::<WireId>().is_none()
        && response.outcome().is_err_and(|error| ![-32000, -32001, -32600].contains(&error.code()))
}
