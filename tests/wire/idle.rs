//! Connections that nobody uses.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use serde_json::json;
use tokio::io::AsyncWriteExt;

use crate::common::*;
use crate::raw::{Raw, answer_all, read_request, write_answer};
use crate::support::mcp::result;
use crate::support::{Answer, Gate, Request, Server};

fn pong(request: &Request) -> Answer {
    Answer::json(200, result(request, json!({})))
}

/// A server that closes each connection after an answer, without announcing it.
async fn closing() -> Server {
    Server::start(|request| {
        let body = result(request, json!({})).to_string();
        let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json";
        Answer::raw_response(format!("{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len())).close()
    })
    .await
}

#[tokio::test]
async fn they_are_closed_after_the_idle_timeout() {
    let server = Server::start(pong).await;
    let transport = transport(server.url(), plain().pool_idle_timeout(Duration::from_millis(200)));
    works(&transport, ping(1)).await;
    works(&transport, ping(2)).await;
    assert_eq!((server.connections(), server.open_connections()), (1, 1));
    server.wait_open(0).await;
    works(&transport, ping(3)).await;
    assert_eq!(server.connections(), 2);
}

#[tokio::test]
async fn no_more_are_kept_than_the_caller_wants() {
    for kept in [0, 1, 3] {
        let gate = Gate::new();
        let held = gate.clone();
        let server = Server::start(move |request| pong(request).head_after(&held)).await;
        let client = plain().pool_idle_timeout(None).pool_max_idle_per_host(kept);
        let transport = transport(server.url(), client);
        let calls = join_all((0..10).map(|id| works(&transport, ping(id))));
        let together = async {
            server.wait_for(10).await;
            gate.open();
        };
        tokio::join!(calls, together);
        server.wait_open(kept).await;
        assert_eq!((server.connections(), server.open_connections()), (10, kept));
        // Those that are left are used again.
        works(&transport, ping(10)).await;
        assert_eq!(server.connections(), 10 + usize::from(kept == 0));
    }
}

#[tokio::test]
async fn one_that_the_server_has_closed_is_not_used() {
    const CALLS: usize = 100;
    let closed = Arc::new(AtomicUsize::new(0));
    let gates: Vec<_> = (0..CALLS).map(|_| Gate::new()).collect();
    let (counter, client_closed) = (Arc::clone(&closed), gates.clone());
    let server = Raw::start(move |number, mut stream| {
        let (counter, gate) = (Arc::clone(&counter), client_closed[number].clone());
        async move {
            read_request(&mut stream).await;
            write_answer(&mut stream).await;
            stream.shutdown().await.unwrap();
            // The client has seen it when it closes its side.
            assert!(!read_request(&mut stream).await);
            counter.fetch_add(1, Ordering::SeqCst);
            gate.open();
        }
    })
    .await;
    let transport = transport(server.url("http"), plain());
    for gate in gates {
        works(&transport, ping(1)).await;
        soon(gate.passed()).await;
    }
    assert_eq!(closed.load(Ordering::SeqCst), CALLS);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_that_is_closed_as_a_request_is_sent_loses_no_call_silently() {
    let server = closing().await;
    let transport = transport(server.url(), plain());
    let (mut answered, mut unsent, mut unknown) = (0, 0, 0);
    for id in 0..500 {
        match ask(&transport, ping(id)).await {
            Ok(_) => answered += 1,
            Err(error) if error.is_connect() => {
                assert_not_sent(&error);
                unsent += 1;
            }
            Err(error) => {
                assert_may_have_run(&error);
                unknown += 1;
            }
        }
    }
    assert_eq!(answered + unsent + unknown, 500);
    // What was not sent did not arrive; what arrived was answered, or is not known to have been.
    let arrived = server.requests().len();
    assert!(answered <= arrived && arrived <= answered + unknown, "{arrived}");
    assert!(answered >= 250, "{answered}");
}

#[tokio::test]
async fn one_that_is_closed_over_a_request_is_an_error_that_says_so() {
    let server = Raw::start(|number, mut stream| async move {
        if number > 0 {
            return answer_all(stream).await;
        }
        read_request(&mut stream).await;
        write_answer(&mut stream).await;
        // It is there, and nobody reads it: so the system resets the connection.
        stream.readable().await.unwrap();
    })
    .await;
    let transport = transport(server.url("http"), plain());
    works(&transport, ping(1)).await;
    // From this side of the network it cannot be told from a server that died over it.
    assert_may_have_run(&fails(&transport, ping(1)).await);
    works(&transport, ping(1)).await;
}

/// Whether the kernel probes the client's connections to `port`: the kind of timer that is running, 2 for keepalive.
#[cfg(target_os = "linux")]
fn is_probed(port: u16) -> Vec<bool> {
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let remote = format!(":{port:04X}");
    let rows = table.lines().skip(1).map(|line| line.split_whitespace().collect::<Vec<_>>());
    // Columns: remote address, state (1 is established), and after the queues the timer.
    rows.filter(|row| row[2].ends_with(&remote) && row[3] == "01")
        .map(|row| row[5].starts_with("02:"))
        .collect()
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn they_are_probed_unless_the_caller_does_not_want_it() {
    for (client, probed) in [(plain(), true), (plain().tcp_keepalive(None), false)] {
        let server = Server::start(pong).await;
        let transport = transport(server.url(), client);
        works(&transport, ping(1)).await;
        assert_eq!(is_probed(server.url().port_u16().unwrap()), [probed]);
    }
}
