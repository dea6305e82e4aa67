//! TCP connections that a test serves by hand.

use std::future::Future;
use std::net::SocketAddr;

use http::Uri;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};

/// Accepts connections, and leaves them to the function of a test, which is given the number of each.
pub(crate) struct Raw {
    address: SocketAddr,
    accepting: JoinHandle<()>,
}

impl Raw {
    pub(crate) async fn start<F>(serve: impl Fn(usize, TcpStream) -> F + Send + 'static) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let accepting = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            let mut number = 0;
            while let Ok((stream, _)) = listener.accept().await {
                connections.spawn(serve(number, stream));
                number += 1;
            }
        });
        Self { address, accepting }
    }

    pub(crate) fn url(&self, scheme: &str) -> Uri {
        format!("{scheme}://{}/mcp", self.address).parse().unwrap()
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// Reads one request over HTTP/1.1, which the tests send in one piece or in two. `false`: the client has closed.
pub(crate) async fn read_request(stream: &mut TcpStream) -> bool {
    let mut request = Vec::new();
    while !request.ends_with(b"}") {
        if stream.read_buf(&mut request).await.unwrap_or_default() == 0 {
            return false;
        }
    }
    true
}

/// Answers the request with the id 1.
pub(crate) async fn write_answer(stream: &mut TcpStream) {
    let body = r#"{"jsonrpc":"2.0","id":1,"result":{}}"#;
    let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length";
    stream.write_all(format!("{head}: {}\r\n\r\n{body}", body.len()).as_bytes()).await.unwrap();
}

/// Answers each request, with the id 1, until the client closes.
pub(crate) async fn answer_all(mut stream: TcpStream) {
    while read_request(&mut stream).await {
        write_answer(&mut stream).await;
    }
}
