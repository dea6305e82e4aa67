//! Connections that cannot be made.

use std::time::{Duration, Instant};

use http::Uri;
use mcp_streamable_http::error::{NotSent, TimedOut};
use mcp_streamable_http::{Client, Error, StreamableHttp};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpSocket;

use crate::common::*;
use crate::pki::Authority;
use crate::raw::{Raw, answer_all};
use crate::support::{Answer, Server};

/// A port that is taken, and where nobody listens yet.
fn nobody() -> (TcpSocket, Uri) {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let url = format!("http://{}/mcp", socket.local_addr().unwrap());
    (socket, url.parse().unwrap())
}

#[test]
fn building_needs_no_runtime() {
    let client = Client::builder().build().unwrap();
    StreamableHttp::with_client("https://127.0.0.1:1/mcp".parse().unwrap(), client).build().unwrap();
    StreamableHttp::new("https://127.0.0.1:1/mcp".parse().unwrap()).unwrap();
    let authority = Authority::new("ours");
    Client::builder().root_certificates_pem(authority.pem()).http1_only().build().unwrap();
}

#[tokio::test]
async fn a_refused_connection_is_not_sent() {
    for client in [plain(), plain().http1_only(), plain().http2_prior_knowledge()] {
        let (_socket, url) = nobody();
        let error = fails(&transport(url, client), ping(1)).await;
        assert_not_sent(&error);
        assert_says(&error, &["refused"]);
        assert!(!error.is_timeout(), "{error:?}");
    }
}

#[tokio::test]
async fn a_refused_connection_is_not_the_end_of_the_client() {
    let (socket, url) = nobody();
    let transport = transport(url, plain());
    for _ in 0..3 {
        assert_not_sent(&fails(&transport, ping(1)).await);
    }
    let listener = socket.listen(8).unwrap();
    let serving = tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        answer_all(stream).await;
    });
    works(&transport, ping(1)).await;
    serving.abort();
}

#[tokio::test]
async fn a_handshake_that_is_never_answered_times_out() {
    const LIMIT: Duration = Duration::from_millis(200);
    // TCP is fine, so the bound must be one over the whole of it.
    let server = Raw::start(|_, stream| async move {
        let _open = stream;
        std::future::pending().await
    })
    .await;
    let transport = transport(server.url("https"), plain().connect_timeout(LIMIT));
    let start = Instant::now();
    let error = fails(&transport, ping(1)).await;
    let took = start.elapsed();
    assert!(took >= LIMIT && took < Duration::from_secs(5), "{took:?}");
    assert_not_sent(&error);
    assert!(error.is_timeout(), "{error:?}");
    assert_says(&error, &["connecting", "200ms", "connect_timeout"]);
    let timed_out = error.find::<TimedOut>().unwrap();
    assert_eq!((timed_out.knob(), timed_out.after()), ("connect_timeout", LIMIT));
    assert!(error.find::<NotSent>().is_some());
}

#[tokio::test]
async fn the_time_to_connect_does_not_bound_the_answer() {
    let server = Server::start(|request| {
        let answer = Answer::json(200, crate::support::mcp::result(request, serde_json::json!({})));
        answer.head_delay(Duration::from_millis(150))
    })
    .await;
    let transport = transport(server.url(), plain().connect_timeout(Duration::from_millis(50)));
    // On a loaded machine even a connection within it can take so long.
    let outcome = ask(&transport, ping(1)).await;
    assert!(outcome.as_ref().err().is_none_or(Error::is_connect), "{outcome:?}");
}

#[tokio::test]
async fn http2_to_a_server_of_http1_is_an_error() {
    let server = Raw::start(|_, mut stream| async move {
        stream.readable().await.unwrap();
        let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n").await;
        let _ = stream.read_to_end(&mut Vec::new()).await;
    })
    .await;
    let error = fails(&transport(server.url("http"), plain().http2_prior_knowledge()), ping(1)).await;
    assert!(!error.is_timeout() && error.status().is_none(), "{error:?}");
    // It names the version that was spoken.
    assert_says(&error, &["connection"]);
}
