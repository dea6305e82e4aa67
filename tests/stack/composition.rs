//! Other people's layers and clients, and what the types promise.

use std::convert::Infallible;
use std::fmt;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use mcp_streamable_http::{Error, JsonRpcMessage, Reply, Session, StreamableHttp};
use serde_json::{Value, json};
use tower::limit::ConcurrencyLimitLayer;
use tower::util::{MapErrLayer, MapRequestLayer, MapResultLayer};
use tower::{BoxError, Service, service_fn};

use crate::common::*;
use crate::support::mcp::{legacy_handshake, result};
use crate::support::{Answer, Server};

fn is_send<T: Send>(_: &T) {}

#[test]
fn the_types_go_where_services_go() {
    fn is_service<T: Service<JsonRpcMessage> + Clone + Send + Sync + fmt::Debug + 'static>() {}
    fn is_shared<T: Send + Sync + 'static>() {}
    fn is_moved<T: Send + Unpin + 'static>() {}
    is_service::<StreamableHttp>();
    is_shared::<Error>();
    is_shared::<Session>();
    is_shared::<JsonRpcMessage>();
    is_moved::<Reply>();
    is_moved::<<StreamableHttp as Service<JsonRpcMessage>>::Future>();
    // Building it needs no runtime, and nothing is sent.
    let mut transport = StreamableHttp::new("http://127.0.0.1:1/mcp".parse().unwrap()).unwrap();
    is_send(&transport.terminate());
    is_send(&transport.listen().response());
    is_send(&transport.call(ping(1)));
}

/// A server inside the process that answers every request with its own head and body.
async fn echo(request: Request<Full<Bytes>>) -> Result<Response<Full<Bytes>>, Infallible> {
    let order = request.headers().get("x-order").map(|value| value.to_str().unwrap().to_owned());
    let uri = request.uri().to_string();
    let body: Value = serde_json::from_slice(&request.into_body().collect().await?.to_bytes()).unwrap();
    let result = json!({ "uri": uri, "order": order, "method": body["method"] });
    let body = json!({ "jsonrpc": "2.0", "id": body["id"], "result": result }).to_string();
    Ok(Response::builder().header("content-type", "application/json").body(body.into()).unwrap())
}

#[tokio::test]
async fn any_http_service_can_be_the_client() {
    let uri = "https://in.memory/mcp?x=1".parse().unwrap();
    let transport = StreamableHttp::with_client(uri, service_fn(echo)).build().unwrap();
    let result = ask_for_result(&transport, ping(1)).await;
    assert_eq!(result, json!({ "uri": "https://in.memory/mcp?x=1", "order": null, "method": "ping" }));
}

#[tokio::test]
async fn the_last_http_layer_is_the_outermost() {
    let mark = |name: &'static str| {
        MapRequestLayer::new(move |mut request: Request<Full<Bytes>>| {
            let order = request.headers().get("x-order").map_or("", |value| value.to_str().unwrap());
            let order = format!("{order}{name}").parse().unwrap();
            request.headers_mut().insert("x-order", order);
            request
        })
    };
    let transport = StreamableHttp::with_client("http://in.memory/".parse().unwrap(), service_fn(echo))
        .http_layer(mark("a"))
        .http_layer(mark("b"))
        .http_layer(mark("c"))
        .build()
        .unwrap();
    assert_eq!(ask_for_result(&transport, ping(1)).await["order"], "cba");
}

#[tokio::test]
async fn the_last_message_layer_is_the_outermost() {
    let seen = Arc::new(Mutex::new(String::new()));
    let mark = |name: &'static str| {
        let seen = Arc::clone(&seen);
        MapRequestLayer::new(move |message: JsonRpcMessage| {
            seen.lock().unwrap().push_str(name);
            message
        })
    };
    let transport = StreamableHttp::with_client("http://in.memory/".parse().unwrap(), service_fn(echo))
        .build()
        .unwrap()
        .layer(mark("a"))
        .layer(mark("b"));
    ask(&transport, ping(1)).await.unwrap();
    ask(&transport.clone(), ping(2)).await.unwrap();
    assert_eq!(*seen.lock().unwrap(), "baba");
}

#[tokio::test]
async fn a_layer_may_answer_in_the_servers_place() {
    let server = Server::start(|request| panic!("{request}")).await;
    let transport = transport(&server).layer(tower::layer::layer_fn(|_| {
        service_fn(|message: JsonRpcMessage| async move {
            let id = message.id().unwrap().clone();
            let events = JsonRpcMessage::response(id.clone(), json!({ "cached": true })).into();
            Ok::<_, BoxError>(Reply::new(mcp_streamable_http::Expects::Response(id), events))
        })
    }));
    assert_eq!(ask_for_result(&transport, ping(1)).await, json!({ "cached": true }));
}

#[tokio::test]
async fn a_layer_sees_the_end_of_a_call() {
    let server = server(|request| Answer::sse().event(progress(1)).event(result(request, json!({})))).await;
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&seen);
    let transport = transport(&server).layer(MapResultLayer::new(move |reply: Result<Reply, Error>| {
        let log = Arc::clone(&log);
        reply.map(|reply| {
            reply.map(move |item| {
                log.lock().unwrap().push(item.is_ok_and(|message| message.as_response().is_some()));
                Err(Error::new("changed on the way"))
            })
        })
    }));
    let items = rest(send(&transport, call(1)).await.unwrap()).await;
    assert_eq!(outline(&items), ["!", "!"]);
    assert_eq!(*seen.lock().unwrap(), [false, true]);
}

#[derive(Debug, PartialEq)]
struct Refused(u32);

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "refused {}", self.0)
    }
}

impl std::error::Error for Refused {}

#[tokio::test]
async fn the_errors_of_layers_and_clients_can_be_found() {
    let client = service_fn(|_: Request<Full<Bytes>>| async { Err::<Response<Full<Bytes>>, _>(Refused(1)) });
    let under = StreamableHttp::with_client("http://in.memory/".parse().unwrap(), client).build().unwrap();
    let error = ask(&under, call(1)).await.unwrap_err();
    assert_eq!(error.find::<Refused>(), Some(&Refused(1)));
    assert_eq!((error.to_string().as_str(), error.to_json_rpc().code()), ("refused 1", -32000));

    let over = under.layer(MapErrLayer::new(|error: Error| {
        assert!(error.find::<Refused>().is_some());
        Refused(2)
    }));
    assert_eq!(ask(&over, call(1)).await.unwrap_err().find::<Refused>(), Some(&Refused(2)));
}

/// All that a session does, the stream of one call beside another call.
async fn whole_session(transport: &StreamableHttp, listens: bool) {
    handshake(transport).await;
    let mut stream = send(transport, call(1)).await.unwrap();
    next_message(&mut stream).await;
    ping_works(transport).await;
    soon(stream.response()).await.unwrap();
    if listens {
        let mut listening = transport.listen();
        next_message(&mut listening).await;
        ping_works(transport).await;
    }
    let left = send(transport, call(2)).await.unwrap();
    drop(left);
    ping_works(transport).await;
    soon(transport.terminate()).await.unwrap();
}

#[tokio::test]
async fn a_limit_of_one_deadlocks_nothing() {
    let server = server(|request| match (request.method.as_str(), request.rpc_method()) {
        ("GET", _) => Answer::sse().event(progress(1)).hang(),
        (_, Some("tools/call")) => Answer::sse().event(progress(1)).event(result(request, json!({}))).hang(),
        (_, Some("notifications/cancelled")) => Answer::status(202),
        _ => legacy_handshake(request).unwrap(),
    })
    .await;
    let limit = || ConcurrencyLimitLayer::new(1);
    let under = StreamableHttp::builder(server.url()).http_layer(limit()).build().unwrap();
    let over = transport(&server).layer(limit());
    let both = under.clone().layer(limit());
    for transport in [under, over, both] {
        whole_session(&transport, true).await;
    }
}

#[tokio::test]
async fn dropped_and_failed_calls_give_their_permits_back() {
    let server = server(|request| match request.nth % 3 {
        0 => Answer::status(500).text("no"),
        1 => Answer::raw_response("").reset(),
        _ => Answer::raw_response("").hang(),
    })
    .await;
    let limit = || ConcurrencyLimitLayer::new(1);
    let under = StreamableHttp::builder(server.url()).http_layer(limit()).build().unwrap();
    let transport = under.layer(limit());
    for id in 0..2 {
        ask(&transport, call(3 * id)).await.unwrap_err();
        ask(&transport, call(3 * id + 1)).await.unwrap_err();
        let sent = server.requests().len();
        tokio::select! {
            _ = ask(&transport, call(3 * id + 2)) => panic!("there is no answer"),
            _ = server.wait_for(sent + 1) => {}
        }
    }
    ping_works(&transport).await;
}
