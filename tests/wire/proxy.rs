//! A network that fails without a word.

use std::net::SocketAddr;

use http::Uri;
use tokio::io::{AsyncReadExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

use crate::common::soon;
use crate::support::Gate;

/// Passes bytes between its clients and a server. Its first connection becomes a black hole at the test's command: what
/// is sent into it is taken, and nothing ever comes back.
pub(crate) struct Proxy {
    address: SocketAddr,
    cut: Gate,
    given_up: Gate,
    connections: watch::Receiver<usize>,
    accepting: JoinHandle<()>,
}

impl Proxy {
    pub(crate) async fn start(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (cut, given_up) = (Gate::new(), Gate::new());
        let (count, connections) = watch::channel(0);
        let (first_cut, first_given_up) = (cut.clone(), given_up.clone());
        let accepting = tokio::spawn(async move {
            let mut tasks = JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                let first = *count.borrow() == 0;
                count.send_modify(|count| *count += 1);
                let (cut, given_up) = (first_cut.clone(), first_given_up.clone());
                tasks.spawn(async move {
                    let server = TcpStream::connect(server).await.unwrap();
                    let cut = async { if first { cut.passed().await } else { std::future::pending().await } };
                    pass(client, server, cut, &given_up).await;
                });
            }
        });
        Self { address, cut, given_up, connections, accepting }
    }

    pub(crate) fn url(&self) -> Uri {
        format!("http://{}/mcp", self.address).parse().unwrap()
    }

    pub(crate) fn connections(&self) -> usize {
        *self.connections.borrow()
    }

    /// Makes the first connection a black hole.
    pub(crate) fn cut(&self) {
        self.cut.open();
    }

    /// Waits until the client has closed the black hole.
    pub(crate) async fn given_up(&self) {
        soon(self.given_up.passed()).await;
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn pass(mut client: TcpStream, mut server: TcpStream, cut: impl Future<Output = ()>, given_up: &Gate) {
    tokio::select! {
        _ = copy_bidirectional(&mut client, &mut server) => return,
        () = cut => {}
    }
    let mut swallowed = Vec::new();
    while client.read_buf(&mut swallowed).await.unwrap_or_default() > 0 {}
    given_up.open();
}
