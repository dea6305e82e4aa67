//! The MCP server the examples talk to, so that they run with no set-up: it lives in the example's own
//! process, on a loopback port the system picks, until its [`Server`] is dropped.
//!
//! It speaks the session-based revisions of Streamable HTTP, up to 2025-11-25. `endpoint` holds the rules
//! of the transport (headers, sessions, status codes), `methods` what the server does once a request has
//! passed them, `response` how the answers look on the wire.
//!
//! It is written to be read, not to be deployed: no TLS, no authentication, no limit on the number of
//! connections or sessions, and no replay of missed events. It serves HTTP/1.1 alone.

mod endpoint;
mod methods;
mod response;

use std::convert::Infallible;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};

use self::endpoint::Endpoint;

/// A running server. Dropping it closes the port and every connection.
#[derive(Debug)]
pub(crate) struct Server {
    address: SocketAddr,
    accept_loop: JoinHandle<()>,
}

impl Server {
    /// Starts a server on a free port of 127.0.0.1. The port is open when this returns.
    pub(crate) async fn start() -> io::Result<Server> {
        // Loopback only: there is no authentication to protect a wider interface.
        Server::listen((Ipv4Addr::LOCALHOST, 0).into()).await
    }

    /// Stops the server and starts another on its port, which knows nothing of the sessions of the first.
    #[allow(dead_code, reason = "most examples have no use for it")]
    pub(crate) async fn restart(mut self) -> io::Result<Server> {
        self.accept_loop.abort();
        // The error says that it was aborted. The port is free when it has ended.
        let _ = (&mut self.accept_loop).await;
        Server::listen(self.address).await
    }

    async fn listen(address: SocketAddr) -> io::Result<Server> {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        Ok(Server { address, accept_loop: tokio::spawn(accept(listener)) })
    }

    /// The URL of the MCP endpoint.
    pub(crate) fn url(&self) -> String {
        format!("http://{}{}", self.address, endpoint::PATH)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The loop owns the listener and the tasks of the connections, so they end with it.
        self.accept_loop.abort();
    }
}

async fn accept(listener: TcpListener) {
    let endpoint = Arc::new(Endpoint::default());
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((socket, _)) => {
                    connections.spawn(serve(socket, Arc::clone(&endpoint)));
                }
                // Out of file descriptors, say. Trying again at once would spin.
                Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
            },
            // A `JoinSet` keeps a finished task until someone asks for its result.
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn serve(socket: TcpStream, endpoint: Arc<Endpoint>) {
    // Events are small writes with pauses between them: Nagle's algorithm could hold them back. A socket
    // that refuses the option still works.
    let _ = socket.set_nodelay(true);
    let service = service_fn(|request| {
        let endpoint = Arc::clone(&endpoint);
        async move { Ok::<_, Infallible>(endpoint.handle(request).await) }
    });
    // The timer arms hyper's limit on the time a client takes to send its headers. An error here means that
    // the connection broke or that the peer does not speak HTTP: either way there is nobody left to tell.
    let _ =
        http1::Builder::new().timer(TokioTimer::new()).serve_connection(TokioIo::new(socket), service).await;
}
