//! The client swapped for another, and the stack put together by hand.

use std::convert::Infallible;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use futures_util::StreamExt;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use mcp_streamable_http::layers::{
    EnvelopeLayer, Events, FirstByteTimeoutLayer, MirrorHeadersLayer, Payload, RedirectLayer,
    SetSessionIdLayer, SseLayer, StampVersionLayer, TranslateCancelLayer,
};
use mcp_streamable_http::{
    Client, Endpoint, Error, JsonRpcMessage, Limits, Reply, RequestId, Session, StreamableHttp,
};
use serde_json::{Value, json};
use tower::util::{BoxCloneSyncService, MapRequestLayer, MapResponseLayer};
use tower::{BoxError, Service, ServiceBuilder, ServiceExt, service_fn};

use crate::common::*;
use crate::support::mcp::{SESSION, VERSION, legacy_handshake, result};
use crate::support::{Answer, Server};

type Query = Request<Full<Bytes>>;
type Messages = BoxCloneSyncService<JsonRpcMessage, Reply, Error>;
type Envelopes = BoxCloneSyncService<Request<Payload>, Response<Events>, BoxError>;

/// What came by, in order.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    fn note(&self, text: impl Into<String>) {
        self.0.lock().unwrap().push(text.into());
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

/// An MCP server with neither network nor runtime. It logs what it gets.
fn in_memory(
    log: &Log,
) -> impl Service<Query, Response = Response<Full<Bytes>>, Error = Infallible, Future: Send>
+ Clone
+ Send
+ Sync
+ 'static {
    let log = log.clone();
    service_fn(move |request: Query| {
        let log = log.clone();
        async move {
            let (head, body) = request.into_parts();
            let message: Value =
                serde_json::from_slice(&body.collect().await?.to_bytes()).unwrap_or_default();
            let session = head.headers.get("mcp-session-id").map_or("-", |id| id.to_str().unwrap());
            let method = message["method"].as_str().unwrap_or("-");
            log.note(format!("{} {method} {session}", head.method));
            let respond = |result: Value| json!({ "jsonrpc": "2.0", "id": message["id"], "result": result });
            let (status, content_type, body) = match (head.method.as_str(), method) {
                ("GET", _) => (200, "text/event-stream", format!("data: {}\n\n", progress(1))),
                ("POST", "initialize") => {
                    (200, "application/json", respond(json!({ "protocolVersion": VERSION })).to_string())
                }
                ("POST", "tools/list") => {
                    (200, "application/json", respond(json!({ "tools": [] })).to_string())
                }
                ("POST", "tools/call") => {
                    let (first, last) = (progress(1), respond(json!({ "content": [] })));
                    (200, "text/event-stream", format!("data: {first}\n\ndata: {last}\n\n"))
                }
                _ => (202, "text/plain", String::new()),
            };
            let response = Response::builder().status(status).header("content-type", content_type);
            let response =
                if method == "initialize" { response.header("mcp-session-id", SESSION) } else { response };
            Ok(response.body(Full::from(body)).unwrap())
        }
    })
}

#[tokio::test]
async fn a_function_can_be_the_server() {
    let log = Log::default();
    let uri = "http://in.memory/mcp".parse().unwrap();
    let transport = StreamableHttp::with_client(uri, in_memory(&log)).build().unwrap();
    handshake(&transport).await;
    assert_eq!(transport.session().id().unwrap(), SESSION);
    let list = JsonRpcMessage::request(1, "tools/list", ());
    assert_eq!(ask_for_result(&transport, list).await, json!({ "tools": [] }));
    let items = rest(send(&transport, call(2)).await.unwrap()).await;
    assert_eq!(outline(&items), ["notifications/progress", "="]);
    let mut listening = transport.listen();
    assert_eq!(step_of(&next_message(&mut listening).await), 1);
    soon(transport.terminate()).await.unwrap();
    assert_eq!(transport.session().id(), None);
    // There is nothing to listen to any more.
    assert!(next(&mut listening).await.is_none());
    assert_eq!(
        log.take(),
        [
            "POST initialize -",
            "POST notifications/initialized s-1",
            "POST tools/list s-1",
            "POST tools/call s-1",
            "GET - s-1",
            "DELETE - s-1",
        ]
    );
}

/// What a future that need not wait gives; there is no runtime around it.
fn now<F: Future>(future: F) -> F::Output {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("it waits"),
    }
}

#[test]
fn a_client_that_needs_no_runtime_is_all_it_takes() {
    let uri = "http://in.memory/mcp".parse().unwrap();
    let transport = StreamableHttp::with_client(uri, in_memory(&Log::default())).build().unwrap();
    now(now(transport.clone().oneshot(initialize(0))).unwrap().response()).unwrap();
    assert_eq!(now(now(transport.clone().oneshot(initialized())).unwrap().count()), 0);
    let items: Vec<_> = now(now(transport.clone().oneshot(call(1))).unwrap().collect());
    assert_eq!(outline(&items), ["notifications/progress", "="]);
    assert!(now(transport.listen().next()).unwrap().is_ok());
    now(transport.terminate()).unwrap();
}

/// The stack on its three floors, with one layer more on each, over any client.
fn by_hand<C, B>(url: http::Uri, client: C, log: &Log) -> (Messages, Envelopes, Endpoint, Session)
where
    C: Service<Query, Response = Response<B>, Future: Send> + Clone + Send + Sync + 'static,
    C::Error: Into<BoxError>,
    B: http_body::Body<Error: Into<BoxError>> + Send + 'static,
{
    let endpoint = Endpoint::new(url).unwrap();
    let session = Session::new();
    let [message, end, envelope, wire] = [(); 4].map(|()| log.clone());
    let envelopes = ServiceBuilder::new()
        .layer(SetSessionIdLayer::new(session.clone()))
        .layer(StampVersionLayer::new(session.clone()))
        .layer(MirrorHeadersLayer::new())
        .layer(MapRequestLayer::new(move |request: Request<Payload>| {
            // Headers and parsed message, side by side.
            let method = request.body().message().and_then(JsonRpcMessage::method).unwrap_or("-");
            let version = request.headers().get("mcp-protocol-version").map_or("-", |v| v.to_str().unwrap());
            envelope.note(format!("envelope {method} {version}"));
            request
        }))
        .layer(SseLayer::new(Limits::default()))
        .layer(MapRequestLayer::new(move |mut request: Query| {
            wire.note(format!("wire {}", request.method()));
            request.headers_mut().insert("authorization", "Bearer s3cret".parse().unwrap());
            request
        }))
        .layer(RedirectLayer::new())
        .layer(FirstByteTimeoutLayer::new())
        .service(client);
    let messages = ServiceBuilder::new()
        .layer(MapRequestLayer::new(move |sent: JsonRpcMessage| {
            message.note(format!("message {}", sent.method().unwrap_or("-")));
            sent
        }))
        .layer(MapResponseLayer::new(move |reply: Reply| {
            let end = end.clone();
            reply.map(move |item| {
                if item.as_ref().is_ok_and(|message| message.as_response().is_some()) {
                    end.note("end");
                }
                item
            })
        }))
        .layer(TranslateCancelLayer::new(session.clone()))
        .layer(EnvelopeLayer::new(endpoint.clone(), session.clone()))
        .service(envelopes.clone());
    // Only a service that is `Clone + Send + Sync`, with a future that is `Send`, fits into these.
    (BoxCloneSyncService::new(messages), BoxCloneSyncService::new(envelopes), endpoint, session)
}

/// A session with one call, and what every floor saw of it.
async fn session_by_hand(messages: &Messages, envelopes: &Envelopes, endpoint: &Endpoint, log: &Log) {
    let send = async |message| soon(messages.clone().oneshot(message)).await.unwrap();
    soon(send(initialize(0)).await.response()).await.unwrap();
    assert!(rest(send(initialized()).await).await.is_empty());
    let seen = log.take();
    assert_eq!(
        seen,
        [
            "message initialize",
            "envelope initialize -",
            "wire POST",
            "end",
            "message notifications/initialized",
            &format!("envelope notifications/initialized {VERSION}"),
            "wire POST",
        ]
    );

    let items = rest(send(call(1)).await).await;
    assert_eq!(outline(&items), ["notifications/progress", "="]);
    let seen = log.take();
    assert_eq!(seen, ["message tools/call", &format!("envelope tools/call {VERSION}"), "wire POST", "end"]);

    let deleted = soon(envelopes.clone().oneshot(endpoint.delete())).await.unwrap();
    assert!(deleted.status().is_success());
    assert_eq!(log.take(), [format!("envelope - {VERSION}"), "wire DELETE".to_owned()]);
}

#[tokio::test]
async fn a_stack_by_hand_works_over_the_default_client() {
    let server = Server::start(|request| match request.rpc_method() {
        _ if request.target == "/mcp" => Answer::status(307).header("location", "/mcp/"),
        Some("tools/call") => Answer::sse().event(progress(1)).event(result(request, json!({}))).end(),
        _ => legacy_handshake(request).unwrap(),
    })
    .await;
    let log = Log::default();
    let (messages, envelopes, endpoint, session) = by_hand(server.url(), Client::new().unwrap(), &log);
    session_by_hand(&messages, &envelopes, &endpoint, &log).await;
    assert_eq!(session.id(), None, "the DELETE went through the layer that knows of it");
    let requests = server.requests();
    assert_eq!(requests.len(), 8);
    // On both hops: the layers of the wire floor sit above the one that follows redirects.
    assert!(requests.iter().all(|request| request.header("authorization") == Some("Bearer s3cret")));
    assert!(requests[2..].iter().all(|request| request.header("mcp-session-id") == Some(SESSION)));
}

#[tokio::test]
async fn a_stack_by_hand_works_over_a_function() {
    let (log, server) = (Log::default(), Log::default());
    let url = "http://in.memory/mcp".parse().unwrap();
    let (messages, envelopes, endpoint, _) = by_hand(url, in_memory(&server), &log);
    session_by_hand(&messages, &envelopes, &endpoint, &log).await;
    let seen = server.take();
    assert_eq!(
        seen,
        ["POST initialize -", "POST notifications/initialized s-1", "POST tools/call s-1", "DELETE - s-1",]
    );
}

#[tokio::test]
async fn a_transport_moves_between_tasks() {
    let log = Log::default();
    let uri = "http://in.memory/mcp".parse().unwrap();
    let transport = StreamableHttp::with_client(uri, in_memory(&log)).build().unwrap();
    let calls = (0..8).map(|id| {
        let transport = transport.clone();
        // `spawn` wants all of it to be `Send + 'static`.
        tokio::spawn(async move {
            let mut reply = transport.oneshot(call(id)).await?;
            while let Some(item) = reply.next().await {
                if let JsonRpcMessage::Response(response) = item? {
                    return Ok(response.id().cloned());
                }
            }
            Err(Error::new("no response"))
        })
    });
    for (id, done) in futures_util::future::join_all(calls).await.into_iter().enumerate() {
        let id = RequestId::from(i64::try_from(id).unwrap());
        assert_eq!(done.unwrap().unwrap(), Some(id));
    }
    let mut listening = transport.listen();
    let listening = tokio::spawn(async move { listening.next().await });
    assert!(soon(listening).await.unwrap().unwrap().unwrap_err().to_string().contains("no session"));
    tokio::spawn(async move { transport.terminate().await }).await.unwrap().unwrap();
}
