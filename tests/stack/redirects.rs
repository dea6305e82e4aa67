//! Redirects, from the message down to the socket.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use http_body_util::Full;
use mcp_streamable_http::{Client, StreamableHttp};
use serde_json::json;
use tower::ServiceBuilder;
use tower::util::MapRequestLayer;

use crate::common::*;
use crate::support::mcp::{SESSION, legacy_handshake, result};
use crate::support::{Answer, Request, Server};

fn moved(status: u16, location: impl AsRef<[u8]>) -> Answer {
    Answer::status(status).header("location", location)
}

/// Lives at `/mcp/`, and sends those away who leave out the slash.
fn with_slash(request: &Request, status: u16) -> Answer {
    if request.target == "/mcp" {
        return moved(status, "/mcp/");
    }
    match (request.method.as_str(), request.rpc_method()) {
        ("GET", _) => Answer::sse().event(progress(1)).hang(),
        (_, Some("tools/call")) => Answer::sse().event(progress(1)).event(result(request, json!({}))).end(),
        (_, Some("ping")) => pong(request),
        (_, Some("notifications/cancelled")) => Answer::status(202),
        _ => legacy_handshake(request).unwrap(),
    }
}

/// Asserts that the requests came in pairs, the second as the first was but for its target.
fn assert_repeated(requests: &[Request]) {
    for pair in requests.chunks(2) {
        let [first, second] = pair else { panic!("{pair:?}") };
        assert_eq!((first.target.as_str(), second.target.as_str()), ("/mcp", "/mcp/"));
        assert_eq!(
            (&first.method, &first.headers, &first.body),
            (&second.method, &second.headers, &second.body)
        );
    }
}

#[tokio::test]
async fn a_server_that_wants_a_slash_is_served_like_any_other() {
    for status in [307, 308] {
        let server = Server::start(move |request| with_slash(request, status)).await;
        let transport = transport(&server);
        handshake(&transport).await;
        ping_works(&transport).await;
        let items = rest(send(&transport, call(1)).await.unwrap()).await;
        assert_eq!(outline(&items), ["notifications/progress", "="]);
        soon(transport.terminate()).await.unwrap();

        let requests = server.requests();
        assert_repeated(&requests);
        let methods: Vec<_> = requests.iter().step_by(2).filter_map(Request::rpc_method).collect();
        assert_eq!(methods, ["initialize", "notifications/initialized", "ping", "tools/call"]);
        assert!(requests[2..].iter().all(|request| request.header("mcp-session-id") == Some(SESSION)));
        assert!(requests[..8].iter().all(|request| !request.body.is_empty()));
        assert!(server.connections() <= 2, "{}", server.connections());
    }
}

#[tokio::test]
async fn the_listening_stream_follows_any_redirect() {
    for status in [301, 302, 303, 307, 308] {
        let server = Server::start(move |request| match request.method.as_str() {
            "GET" => with_slash(request, status),
            _ => legacy_handshake(request).unwrap(),
        })
        .await;
        let transport = transport(&server);
        handshake(&transport).await;
        let mut listening = transport.listen();
        assert_eq!(step_of(&next_message(&mut listening).await), 1);
        assert_repeated(&server.requests()[2..]);
    }
}

#[tokio::test]
async fn a_page_that_says_moved_does_not_cost_a_connection() {
    let server = Server::start(|request| match request.target.as_str() {
        "/mcp" => moved(308, "/mcp/").chunked().body("text/html", "<p>Moved").raw("</p>"),
        _ => pong(request),
    })
    .await;
    let transport = transport(&server);
    for _ in 0..20 {
        ping_works(&transport).await;
    }
    assert_eq!(server.requests().len(), 40, "a permanent redirect is not remembered");
    assert!(server.connections() <= 3, "{}", server.connections());
}

#[tokio::test]
async fn it_works_with_one_call_at_a_time_below() {
    let server = Server::start(|request| with_slash(request, 307)).await;
    let client = ServiceBuilder::new().concurrency_limit(1).service(Client::new().unwrap());
    let transport = StreamableHttp::with_client(server.url(), client).build().unwrap();
    handshake(&transport).await;
    ping_works(&transport).await;
    ask(&transport, call(1)).await.unwrap();
    assert_repeated(&server.requests());
}

/// Adds a token, and counts how often it does.
fn auth(count: &Arc<AtomicUsize>) -> MapRequestLayer<impl Fn(Query) -> Query + Clone + use<>> {
    let count = Arc::clone(count);
    MapRequestLayer::new(move |mut request: Query| {
        count.fetch_add(1, Ordering::SeqCst);
        request.headers_mut().insert("authorization", "Bearer s3cret".parse().unwrap());
        request
    })
}

type Query = http::Request<Full<Bytes>>;

#[tokio::test]
async fn a_token_goes_to_the_target_within_the_origin() {
    let server = Server::start(|request| with_slash(request, 307)).await;
    let count = Arc::default();
    let transport = StreamableHttp::builder(server.url()).http_layer(auth(&count)).build().unwrap();
    ping_works(&transport).await;
    let tokens: Vec<_> =
        server.requests().iter().map(|r| r.header("authorization").map(str::to_owned)).collect();
    assert_eq!(tokens, [Some("Bearer s3cret".to_owned()), Some("Bearer s3cret".to_owned())]);
    assert_eq!(count.load(Ordering::SeqCst), 1, "it is added once, and repeated");
}

#[tokio::test]
async fn nothing_goes_to_another_port() {
    let elsewhere = Server::start(|request| panic!("a request went elsewhere: {request:?}")).await;
    let target = elsewhere.url_of("/stolen?token=t0ken").to_string();
    for location in [
        target.clone(),
        target.replace("http://", "//"),
        target.replace("http://", "http://us3r:passw0rd@"),
        target.replace("127.0.0.1", "localhost"),
    ] {
        let expected = location.replace("us3r:passw0rd@", "").replace("?token=t0ken", "");
        let server = server(move |_| moved(307, &location)).await;
        let count = Arc::default();
        let transport = StreamableHttp::builder(server.url()).http_layer(auth(&count)).build().unwrap();
        let error = ask(&transport, call(1)).await.unwrap_err();
        let text = format!("{error} {error:?}");
        assert!(error.to_string().contains(&format!("redirects to {expected} ")), "{text}");
        for secret in ["us3r", "passw0rd", "t0ken", "s3cret"] {
            assert!(!text.contains(secret), "{text}");
        }
        assert!(!error.may_have_run() && error.status().unwrap() == 307);
        ping_works(&transport).await;
        assert_eq!(count.load(Ordering::SeqCst), 2);
    }
    assert_eq!(elsewhere.connections(), 0, "not even a connection");
}

#[tokio::test]
async fn nothing_goes_to_the_host_of_a_userinfo_trick() {
    let elsewhere = Server::start(|request| panic!("a request went elsewhere: {request:?}")).await;
    let port = elsewhere.url().port_u16().unwrap();
    let server = server(move |request| {
        let own = request.header("host").unwrap();
        moved(308, format!("http://{own}@127.0.0.1:{port}/mcp"))
    })
    .await;
    let error = ask(&transport(&server), call(1)).await.unwrap_err();
    assert!(error.to_string().contains(&format!("redirects to http://127.0.0.1:{port}/mcp ")), "{error}");
    assert_eq!(elsewhere.connections(), 0);
}

#[tokio::test]
async fn a_loop_ends_with_an_error() {
    for (bound, requests) in [(None, 11), (Some(2), 3), (Some(0), 1)] {
        let server = server(|_| moved(307, "/loop?x=s3cret")).await;
        let builder = StreamableHttp::builder(server.url());
        let builder = match bound {
            Some(bound) => builder.max_redirects(bound),
            None => builder,
        };
        let transport = builder.build().unwrap();
        let error = ask(&transport, call(1)).await.unwrap_err();
        assert_eq!(server.requests().len(), requests);
        assert!(error.to_string().contains("redirects to /loop (307") && !error.may_have_run(), "{error}");
        ping_works(&transport).await;
    }
}

#[tokio::test]
async fn a_bare_stack_leaves_redirects_to_its_client() {
    let server = Server::start(|request| with_slash(request, 307)).await;
    let bare = StreamableHttp::builder(server.url()).bare().build().unwrap();
    let error = ask(&bare, ping(1)).await.unwrap_err();
    assert!(error.to_string().contains("redirects to /mcp/ ") && !error.may_have_run(), "{error}");
    assert_eq!(server.requests().len(), 1);
}
