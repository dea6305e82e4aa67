//! The layers that keep a session and renew it, over a server that the test plays, request by request.

use std::future::Future;
use std::time::Duration;

use futures_util::future::BoxFuture;
use http::{HeaderMap, Method, Request, Response, StatusCode};
use mcp_streamable_http_layers::error::{BoxError, SessionExpired};
use mcp_streamable_http_layers::{
    EnvelopeLayer, Error, Event, Events, JsonRpcMessage, JsonRpcResponse, Payload, ReinitializeLayer, Reply,
    Session, SetSessionIdLayer, StampVersionLayer,
};
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tower::util::BoxCloneSyncService;
use tower::{Layer, Service, ServiceBuilder, ServiceExt};

use crate::common::{endpoint, extra};

pub(crate) const VERSION: &str = "2025-11-25";
pub(crate) const INITIALIZED: &str = "notifications/initialized";

pub(crate) type Answered = Result<Response<Events>, BoxError>;
pub(crate) type Call = JoinHandle<Result<JsonRpcResponse, Error>>;
pub(crate) type Envelopes = BoxCloneSyncService<Request<Payload>, Response<Events>, BoxError>;

/// What needs no clock to happen. Time stands still as long as any task has something to do, so this is no race.
pub(crate) async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(1), future).await.expect("it does not happen")
}

/// Waits until no task has anything to do: only then time passes.
pub(crate) async fn settle() {
    tokio::time::sleep(Duration::from_millis(1)).await;
}

/// A request that waits for its answer at the server.
#[derive(Debug)]
pub(crate) struct Exchange {
    method: Method,
    pub(crate) headers: HeaderMap,
    pub(crate) message: Option<JsonRpcMessage>,
    head: oneshot::Sender<Answered>,
}

impl Exchange {
    /// The method of its message, `"="` for a response; of a request without one, that of HTTP.
    pub(crate) fn what(&self) -> &str {
        match &self.message {
            Some(message) => message.method().unwrap_or("="),
            None => self.method.as_str(),
        }
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    pub(crate) fn session(&self) -> Option<&str> {
        self.header("mcp-session-id")
    }

    pub(crate) fn id(&self) -> String {
        self.message.as_ref().unwrap().id().unwrap().to_string()
    }

    /// Whether the client has given it up.
    pub(crate) fn is_dropped(&self) -> bool {
        self.head.is_closed()
    }

    pub(crate) fn send(self, answered: Answered) {
        let _ = self.head.send(answered);
    }

    pub(crate) fn answer(self, status: u16, events: Events) {
        let mut response = Response::new(events);
        *response.status_mut() = StatusCode::from_u16(status).unwrap();
        self.send(Ok(response));
    }

    pub(crate) fn not_found(self) {
        self.answer(404, Events::EMPTY);
    }

    pub(crate) fn accept(self) {
        self.answer(202, Events::EMPTY);
    }

    /// Answers the request with this result.
    pub(crate) fn result(self, result: Value) {
        let id = self.message.as_ref().unwrap().id().unwrap().clone();
        self.answer(200, JsonRpcMessage::response(id, result).into());
    }

    /// Begins the session `session`; an empty one has no id.
    pub(crate) fn begin(self, session: &str) {
        self.begin_with(session, VERSION);
    }

    pub(crate) fn begin_with(self, session: &str, version: &str) {
        assert_eq!(self.what(), "initialize");
        let result = json!({ "protocolVersion": version });
        let id = self.message.as_ref().unwrap().id().unwrap().clone();
        let events = JsonRpcMessage::response(id, result).into();
        self.send(Ok(headed(events, session)));
    }

    /// Answers with an event stream, in the head of which there is `session`.
    pub(crate) fn open(self, session: &str) -> mpsc::UnboundedSender<JsonRpcMessage> {
        let (sender, receiver) = mpsc::unbounded_channel::<JsonRpcMessage>();
        let events = futures_util::stream::unfold(receiver, |mut receiver| async move {
            let message = receiver.recv().await?;
            Some((Ok(Event::from(message)), receiver))
        });
        self.send(Ok(headed(Events::new(events), session)));
        sender
    }
}

fn headed(events: Events, session: &str) -> Response<Events> {
    let mut response = Response::new(events);
    if !session.is_empty() {
        response.headers_mut().insert("mcp-session-id", session.parse().unwrap());
    }
    response
}

/// The service below the layers.
#[derive(Clone)]
pub(crate) struct Wire(mpsc::UnboundedSender<Exchange>);

impl Service<Request<Payload>> for Wire {
    type Response = Response<Events>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Answered>;

    fn poll_ready(&mut self, _: &mut std::task::Context<'_>) -> std::task::Poll<Result<(), BoxError>> {
        std::task::Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Payload>) -> Self::Future {
        let arrivals = self.0.clone();
        // Nothing is sent before the first poll.
        Box::pin(async move {
            let (head, payload) = request.into_parts();
            let (sender, answer) = oneshot::channel();
            let (method, headers, message) = (head.method, head.headers, payload.into_message());
            let _ = arrivals.send(Exchange { method, headers, message, head: sender });
            answer.await?
        })
    }
}

/// A client of the layers, and the server that it talks to.
pub(crate) struct World {
    pub(crate) session: Session,
    pub(crate) envelopes: Envelopes,
    messages: BoxCloneSyncService<JsonRpcMessage, Reply, Error>,
    arrivals: mpsc::UnboundedReceiver<Exchange>,
}

impl World {
    pub(crate) fn new() -> Self {
        Self::with(|layer| layer, |wire| wire)
    }

    /// With options, and with `below` between the layers and the server.
    pub(crate) fn with<S>(
        options: impl FnOnce(ReinitializeLayer) -> ReinitializeLayer,
        below: impl FnOnce(Wire) -> S,
    ) -> Self
    where
        S: Service<Request<Payload>, Response = Response<Events>> + Clone + Send + Sync + 'static,
        S::Error: Into<BoxError> + Send,
        S::Future: Send,
    {
        let (sender, arrivals) = mpsc::unbounded_channel();
        let session = Session::new();
        let envelopes = ServiceBuilder::new()
            .layer(options(ReinitializeLayer::new(endpoint(), session.clone())))
            .layer(SetSessionIdLayer::new(session.clone()))
            .layer(StampVersionLayer::new(session.clone()))
            .service(below(Wire(sender)));
        let messages = EnvelopeLayer::new(endpoint(), session.clone()).layer(envelopes.clone());
        Self {
            session,
            envelopes: BoxCloneSyncService::new(envelopes),
            messages: BoxCloneSyncService::new(messages),
            arrivals,
        }
    }

    /// In the session `one`.
    pub(crate) async fn in_session() -> Self {
        let mut world = Self::new();
        world.handshake("one").await;
        world
    }

    /// The application's own handshake.
    pub(crate) async fn handshake(&mut self, session: &str) {
        let answered = self.call(initialize(0));
        self.expect("initialize").await.begin(session);
        soon(answered).await.unwrap().unwrap();
        assert_eq!(self.session.version().unwrap().as_str(), VERSION);
    }

    /// Sends a request, in a task.
    pub(crate) fn call(&self, request: JsonRpcMessage) -> Call {
        let sent = self.messages.clone().oneshot(request);
        tokio::spawn(async move { sent.await?.response().await })
    }

    /// Sends a message that is not a request.
    pub(crate) fn tell(&self, message: JsonRpcMessage) -> JoinHandle<Result<Reply, Error>> {
        tokio::spawn(self.messages.clone().oneshot(message))
    }

    /// Sends an envelope of the test's own making.
    pub(crate) fn put(&self, request: Request<Payload>) -> JoinHandle<Answered> {
        tokio::spawn(self.envelopes.clone().oneshot(request))
    }

    /// The next request at the server, which must be this.
    pub(crate) async fn expect(&mut self, what: &str) -> Exchange {
        let exchange = soon(self.arrivals.recv()).await.unwrap();
        assert_eq!(exchange.what(), what);
        exchange
    }

    /// The next request, which must be this one in this session.
    pub(crate) async fn expect_in(&mut self, session: &str, what: &str) -> Exchange {
        let exchange = self.expect(what).await;
        assert_eq!(exchange.session(), Some(session));
        exchange
    }

    /// Nothing more is sent.
    pub(crate) async fn silent(&mut self) {
        settle().await;
        assert!(self.arrivals.try_recv().is_err(), "something was sent");
    }

    /// The handshake in place of the application's, which begins `session`.
    pub(crate) async fn renew(&mut self, session: &str) {
        self.expect("initialize").await.begin(session);
        self.expect_in(session, INITIALIZED).await.accept();
    }

    /// Lets the session `one` expire under a request, which is left waiting for the handshake.
    pub(crate) async fn expire(&mut self, id: i64) -> Call {
        let call = self.call(ping(id));
        self.expect("ping").await.not_found();
        call
    }
}

pub(crate) fn initialize(id: i64) -> JsonRpcMessage {
    let client = json!({ "name": "test", "version": "1" });
    let params = json!({ "protocolVersion": VERSION, "capabilities": { "roots": {} }, "clientInfo": client });
    JsonRpcMessage::request(id, "initialize", params).with(extra(&[("x-tenant", "blue")]))
}

pub(crate) fn ping(id: i64) -> JsonRpcMessage {
    JsonRpcMessage::request(id, "ping", ())
}

/// The result of a call that must have one.
pub(crate) async fn result(call: Call) -> Value {
    soon(call).await.unwrap().unwrap().result().unwrap()
}

/// The call failed because its session had expired, and did nothing.
pub(crate) async fn expired(call: Call) -> Error {
    let error = soon(call).await.unwrap().unwrap_err();
    assert!(error.is_session_expired() && !error.may_have_run(), "{error}");
    error
}

/// The same of an envelope.
pub(crate) async fn refused(sent: JoinHandle<Answered>) {
    let error = soon(sent).await.unwrap().unwrap_err();
    assert!(error.downcast_ref::<SessionExpired>().is_some(), "{error}");
}
