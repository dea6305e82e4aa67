//! A TCP relay before a server, whose connections can be cut.

use std::io;
use std::sync::{Arc, Mutex};

use http::Uri;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// Stands between a client and a server, relays all, and keeps what the client has sent.
#[derive(Debug)]
pub struct Relay {
    uri: Uri,
    line: Arc<Line>,
    accepting: JoinHandle<()>,
}

#[derive(Debug)]
struct Line {
    server: String,
    connections: Mutex<Vec<JoinHandle<io::Result<()>>>>,
    sent: Mutex<Vec<Arc<Mutex<Vec<u8>>>>>,
    /// Whether new connections wait.
    holds: watch::Sender<bool>,
}

impl Relay {
    /// A relay to the server at `uri`.
    pub async fn to(uri: &Uri) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let line = Arc::new(Line {
            server: uri.authority().unwrap().to_string(),
            connections: Mutex::default(),
            sent: Mutex::default(),
            holds: watch::Sender::new(false),
        });
        let accepting = tokio::spawn({
            let line = line.clone();
            async move {
                while let Ok((client, _)) = listener.accept().await {
                    line.take(client);
                }
            }
        });
        let uri = format!("http://127.0.0.1:{port}{}", uri.path()).parse().unwrap();
        Self { uri, line, accepting }
    }

    /// Where it listens.
    pub fn uri(&self) -> Uri {
        self.uri.clone()
    }

    /// Cuts all connections, and returns when they are closed.
    pub async fn cut(&self) {
        let connections = std::mem::take(&mut *self.line.connections.lock().unwrap());
        for connection in connections {
            connection.abort();
            let _ = connection.await;
        }
    }

    /// The same, and lets new connections wait until it is [`release`](Self::release)d.
    pub async fn cut_and_hold(&self) {
        self.line.holds.send_replace(true);
        self.cut().await;
    }

    /// Lets connections through again.
    pub fn release(&self) {
        self.line.holds.send_replace(false);
    }

    /// How many requests with this method of the modern era the client has sent.
    pub fn calls_of(&self, method: &str) -> usize {
        self.count(&format!("\r\nmcp-method: {method}\r\n"))
    }

    /// How many requests the client has sent.
    pub fn posts(&self) -> usize {
        self.count("POST /")
    }

    /// How many requests with a `Last-Event-ID` the client has sent.
    pub fn resumptions(&self) -> usize {
        self.count("\r\nlast-event-id:")
    }

    fn count(&self, text: &str) -> usize {
        let text = text.as_bytes();
        let sent = self.line.sent.lock().unwrap();
        let count = |sent: &[u8]| sent.windows(text.len()).filter(|window| *window == text).count();
        sent.iter().map(|sent| count(&sent.lock().unwrap())).sum()
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.accepting.abort();
        for connection in self.line.connections.lock().unwrap().drain(..) {
            connection.abort();
        }
    }
}

impl Line {
    fn take(self: &Arc<Self>, client: TcpStream) {
        let line = self.clone();
        let record = Arc::default();
        self.sent.lock().unwrap().push(Arc::clone(&record));
        self.connections.lock().unwrap().push(tokio::spawn(async move {
            let mut holds = line.holds.subscribe();
            holds.wait_for(|holds| !holds).await.unwrap();
            let server = TcpStream::connect(&line.server).await?;
            let (from_client, to_client) = client.into_split();
            let (from_server, to_server) = server.into_split();
            let up = copy(from_client, to_server, |bytes| record.lock().unwrap().extend_from_slice(bytes));
            let down = copy(from_server, to_client, |_| {});
            futures_util::future::try_join(up, down).await.map(|_| ())
        }));
    }
}

async fn copy(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    mut record: impl FnMut(&[u8]),
) -> io::Result<()> {
    let mut buffer = vec![0; 64 << 10];
    loop {
        let count = from.read(&mut buffer).await?;
        if count == 0 {
            return to.shutdown().await;
        }
        record(&buffer[..count]);
        to.write_all(&buffer[..count]).await?;
    }
}
