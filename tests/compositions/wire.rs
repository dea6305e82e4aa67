//! Layers of tower-http's under the transport.

use std::io;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use futures_util::StreamExt;
use http::header::AUTHORIZATION;
use http::{HeaderName, HeaderValue, Request};
use http_body_util::Full;
use tower::ServiceExt;
use tower::util::MapRequestLayer;
use tower_http::auth::AddAuthorizationLayer;
use tower_http::sensitive_headers::SetSensitiveRequestHeadersLayer;
use tower_http::set_header::SetRequestHeaderLayer;
use tower_http::trace::{DefaultMakeSpan, DefaultOnResponse, TraceLayer};
use tracing::Level;

use crate::server::Server;
use crate::{SECOND, call, handshake, soon};

const KEY: HeaderName = HeaderName::from_static("x-api-key");

fn key() -> SetRequestHeaderLayer<HeaderValue> {
    SetRequestHeaderLayer::overriding(KEY, HeaderValue::from_static("s3cret"))
}

#[tokio::test(start_paused = true)]
async fn what_layers_set_is_on_every_request() {
    let server = Server::new(SECOND);
    // tower-http's own is enough for a token that never changes.
    let token = AddAuthorizationLayer::bearer("t0ken");
    let transport = server.builder().http_layer(key()).http_layer(token).build().unwrap();
    handshake(&transport).await;
    let reply = soon(transport.clone().oneshot(call(1))).await.unwrap();
    soon(reply.response()).await.unwrap();
    let _ = soon(transport.listen().next()).await;
    soon(transport.terminate()).await.unwrap();
    let seen = server.seen();
    let methods: Vec<_> = seen.iter().map(|seen| (seen.http_method.as_str(), seen.method.as_str())).collect();
    assert_eq!(
        methods,
        [
            ("POST", "initialize"),
            ("POST", "notifications/initialized"),
            ("POST", "tools/call"),
            ("GET", ""),
            ("DELETE", "")
        ]
    );
    assert!(seen.iter().all(|seen| seen.headers[KEY] == "s3cret"));
    assert!(seen.iter().all(|seen| seen.headers[AUTHORIZATION] == "Bearer t0ken"));
    // What the transport sets is still there.
    assert!(seen[1..].iter().all(|seen| seen.headers["mcp-session-id"] == "s-1"));
}

#[tokio::test(start_paused = true)]
async fn a_header_that_is_set_outside_is_marked_for_the_layers_inside() {
    let server = Server::new(SECOND);
    let marks = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&marks);
    let look = MapRequestLayer::new(move |request: Request<Full<Bytes>>| {
        log.lock().unwrap().push(request.headers()[KEY].is_sensitive());
        request
    });
    let mark = SetSensitiveRequestHeadersLayer::new([KEY]);
    let transport = server.builder().http_layer(look).http_layer(mark).http_layer(key()).build().unwrap();
    handshake(&transport).await;
    assert_eq!(*marks.lock().unwrap(), [true, true]);
}

/// What is logged.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn a_log_of_all_headers_tells_neither_the_key_nor_the_session() {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(Level::TRACE)
        .with_ansi(false)
        .with_writer(move || writer.clone())
        .finish();
    let _logging = tracing::subscriber::set_default(subscriber);
    let server = Server::new(SECOND);
    let trace = TraceLayer::new_for_http()
        .make_span_with(DefaultMakeSpan::new().level(Level::INFO).include_headers(true))
        .on_response(DefaultOnResponse::new().level(Level::INFO).include_headers(true));
    let transport = server
        .builder()
        .http_layer(trace)
        .http_layer(SetSensitiveRequestHeadersLayer::new([KEY]))
        .http_layer(key())
        .build()
        .unwrap();
    handshake(&transport).await;
    let reply = soon(transport.clone().oneshot(call(1))).await.unwrap();
    soon(reply.response()).await.unwrap();
    let log = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    assert!(log.contains("\"x-api-key\": Sensitive"), "{log:.500}");
    assert!(log.contains("\"mcp-session-id\": Sensitive"), "{log:.500}");
    assert!(!log.contains("s3cret"));
}
