//! A scripted HTTP/1.1 server on the loopback interface.
//!
//! The handler of a [`Server`] looks at a request and returns an [`Answer`]: the script that the server then
//! plays on that connection, byte by byte. There is no HTTP library below it. Such a library merges writes,
//! repairs framing and hides when a peer goes away, and these are what the tests are about.
//!
//! A test whose handler panics, or whose client sends what is not HTTP/1.1, fails when the `Server` is dropped.
//!
//! With `start_paused` keep in mind that tokio moves a paused clock to the next timer as soon as all tasks are
//! idle, and that a task which waits for a socket is idle: a timer of the client may fire while its bytes are
//! still in the kernel. The safety limits in here run on real time for that reason.

#![allow(
    dead_code,
    unused_imports,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "test support: each test binary uses its part of it, and a panic is how a test fails"
)]

mod answer;
pub(crate) mod mcp;
mod wire;

use std::future::Future;
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, Location, catch_unwind};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{oneshot, watch};
use tokio::task::{JoinHandle, JoinSet};

pub(crate) use answer::{Answer, Gate};
pub(crate) use wire::Request;
use wire::{After, Wire};

/// Generous, as it only bounds how long a broken test takes to say so.
const PATIENCE: Duration = Duration::from_secs(10);

type Handler = dyn Fn(&Request) -> Answer + Send + Sync;

/// What has happened so far. It lives in a watch channel, so that a test can wait for any of it without polling.
#[derive(Default)]
struct Events {
    requests: Vec<Request>,
    connections: usize,
    closed: usize,
    gone: usize,
    failure: Option<String>,
}

struct Shared {
    handler: Box<Handler>,
    events: watch::Sender<Events>,
}

impl Shared {
    fn arrived(&self, request: &mut Request) {
        self.events.send_modify(|events| {
            request.nth = events.requests.iter().filter(|earlier| earlier.same_kind(request)).count();
            events.requests.push(request.clone());
        });
    }

    fn gone(&self) {
        self.events.send_modify(|events| events.gone += 1);
    }

    /// Keeps the first failure: the later ones tend to be its consequences.
    fn fail(&self, failure: String) {
        self.events.send_modify(|events| {
            events.failure.get_or_insert(failure);
        });
    }

    fn answer(&self, request: &Request) -> Option<Answer> {
        let payload = match catch_unwind(AssertUnwindSafe(|| (self.handler)(request))) {
            Ok(answer) => return Some(answer),
            Err(payload) => payload,
        };
        let text = payload.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or("(no message)");
        self.fail(format!("the handler panicked on {request}: {text}"));
        None
    }
}

/// A server that plays the scripts of its handler until it is dropped.
pub(crate) struct Server {
    address: SocketAddr,
    shared: Arc<Shared>,
    stop: Gate,
    accepting: JoinHandle<()>,
}

impl Server {
    /// Listens on a free port of 127.0.0.1.
    pub(crate) async fn start(handler: impl Fn(&Request) -> Answer + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared { handler: Box::new(handler), events: watch::Sender::default() });
        let stop = Gate::new();
        let accepting = tokio::spawn(accept(listener, Arc::clone(&shared), stop.clone()));
        Self { address, shared, stop, accepting }
    }

    /// The endpoint, `http://127.0.0.1:PORT/mcp`. The server itself answers on any path.
    pub(crate) fn url(&self) -> http::Uri {
        self.url_of("/mcp")
    }

    /// The URL of a path (with its query) on this server.
    pub(crate) fn url_of(&self, target: &str) -> http::Uri {
        format!("http://{}{target}", self.address).parse().unwrap()
    }

    /// The requests so far, in the order of their arrival on whichever connection.
    pub(crate) fn requests(&self) -> Vec<Request> {
        self.shared.events.borrow().requests.clone()
    }

    /// How many TCP connections were accepted so far.
    pub(crate) fn connections(&self) -> usize {
        self.shared.events.borrow().connections
    }

    /// How many of these are still open.
    pub(crate) fn open_connections(&self) -> usize {
        let events = self.shared.events.borrow();
        events.connections - events.closed
    }

    /// Waits until at most `count` connections are open.
    #[track_caller]
    pub(crate) fn wait_open(&self, count: usize) -> impl Future<Output = ()> {
        self.wait("connections to close", move |events| events.connections - events.closed <= count)
    }

    /// How many exchanges the client has dropped so far; see [`Answer::client_gone`].
    pub(crate) fn gone_count(&self) -> usize {
        self.shared.events.borrow().gone
    }

    /// Waits until `count` requests have arrived, and returns all that have.
    #[track_caller]
    pub(crate) fn wait_for(&self, count: usize) -> impl Future<Output = Vec<Request>> {
        self.wait_until("requests", move |requests| requests.len() >= count)
    }

    /// Waits until the requests so far are what a test needs (`what` says it in the panic).
    #[track_caller]
    pub(crate) fn wait_until(
        &self,
        what: &'static str,
        ready: impl Fn(&[Request]) -> bool,
    ) -> impl Future<Output = Vec<Request>> {
        let waiting = self.wait(what, move |events| ready(&events.requests));
        async {
            waiting.await;
            self.requests()
        }
    }

    /// Waits until the client has dropped an exchange.
    #[track_caller]
    pub(crate) fn gone(&self) -> impl Future<Output = ()> {
        self.wait_gone(1)
    }

    /// Waits until the client has dropped `count` exchanges.
    #[track_caller]
    pub(crate) fn wait_gone(&self, count: usize) -> impl Future<Output = ()> {
        self.wait("the client to drop an exchange", move |events| events.gone >= count)
    }

    /// Closes the listener and all connections, and waits until they are closed. A plain drop closes them too,
    /// but only once the runtime gets to it.
    pub(crate) async fn shutdown(&mut self) {
        self.stop.open();
        // An error is the panic of the accept task or a second shutdown: either has been noted.
        let _ = (&mut self.accepting).await;
    }

    #[track_caller]
    fn wait(&self, what: &'static str, ready: impl Fn(&Events) -> bool) -> impl Future<Output = ()> {
        let at = Location::caller();
        async move {
            let mut events = self.shared.events.subscribe();
            // After a failure nothing more may ever arrive: then say why, instead of that time is up.
            let settled = events.wait_for(|events| events.failure.is_some() || ready(events));
            let failure = within(what, at, async {
                let events = settled.await.unwrap();
                if ready(&events) { None } else { events.failure.clone() }
            })
            .await;
            if let Some(failure) = failure {
                panic!("waiting for {what} at {at}: {failure}");
            }
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // This drops the future of the accept task, and with it the set that owns the connections.
        self.accepting.abort();
        let failure = self.shared.events.borrow().failure.clone();
        if let (Some(failure), false) = (failure, std::thread::panicking()) {
            panic!("{failure}");
        }
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>, stop: Gate) {
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            biased;
            () = stop.passed() => break,
            Some(ended) = connections.join_next() => {
                shared.events.send_modify(|events| events.closed += 1);
                if let Err(error) = ended {
                    shared.fail(format!("a connection task failed: {error}"));
                }
                continue;
            }
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, _)) => {
                let mut number = 0;
                shared.events.send_modify(|events| {
                    number = events.connections;
                    events.connections += 1;
                });
                connections.spawn(serve(stream, number, Arc::clone(&shared)));
            }
            Err(error) => shared.fail(format!("accept failed: {error}")),
        }
    }
    drop(listener);
    connections.shutdown().await;
}

async fn serve(stream: TcpStream, connection: usize, shared: Arc<Shared>) {
    let mut wire = Wire::new(stream, connection);
    loop {
        let mut request = match wire.request().await {
            Ok(Some(request)) => request,
            Ok(None) => return,
            Err(failure) => return shared.fail(format!("connection {connection}: {failure}")),
        };
        shared.arrived(&mut request);
        let Some(answer) = shared.answer(&request) else { return };
        if let After::Close = wire.play(answer, request.asks_to_close(), || shared.gone()).await {
            return;
        }
    }
}

/// Panics when `future` takes longer than [`PATIENCE`] of real time. A thread keeps the time: a tokio timer would
/// fire at once under a paused clock, and a blocking task would keep that clock from advancing for the client.
async fn within<T>(what: &str, at: &Location<'_>, future: impl Future<Output = T>) -> T {
    let (_cancel, cancelled) = mpsc::channel::<()>();
    let (expire, expired) = oneshot::channel();
    std::thread::spawn(move || {
        if cancelled.recv_timeout(PATIENCE) == Err(mpsc::RecvTimeoutError::Timeout) {
            // The waiting test may have ended this very moment.
            let _ = expire.send(());
        }
    });
    tokio::select! {
        biased;
        value = future => value,
        _ = expired => panic!("waited {PATIENCE:?} for {what} at {at}"),
    }
}
