//! Proxies that tests write the rules of: HTTP with CONNECT, and SOCKS5.

use std::net::SocketAddr;
use std::sync::Arc;

use mcp_streamable_http::error::BoxError;
use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};
use tokio_rustls::TlsAcceptor;

use crate::common::soon;

/// What it does with a connection.
#[derive(Clone)]
pub(crate) enum Kind {
    /// CONNECT, with this value of `Proxy-Authorization` if there is one.
    Connect(Option<&'static str>),
    /// Answers CONNECT with this.
    Answer(&'static str),
    /// SOCKS5, with this user name and password if there are any.
    Socks(Option<(&'static str, &'static str)>),
    /// SOCKS5, where requests are answered with this code.
    SocksAnswer(u8),
    /// Reads, and says nothing.
    Hang,
}

/// What a client wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    /// The host, as it was put, and the port.
    pub(crate) target: String,
    /// The head of the CONNECT; empty with SOCKS5.
    pub(crate) head: String,
}

struct Script {
    kind: Kind,
    /// Where all connections go, whatever the client wants.
    server: SocketAddr,
    tls: Option<TlsAcceptor>,
    /// It lets the server speak first, and says that it is connected in one piece with that.
    eager: bool,
    wanted: watch::Sender<Vec<Wanted>>,
}

/// A proxy on the loopback interface, until it is dropped.
pub(crate) struct Relay {
    address: SocketAddr,
    wanted: watch::Receiver<Vec<Wanted>>,
    accepting: JoinHandle<()>,
}

impl Relay {
    pub(crate) async fn start(kind: Kind, server: SocketAddr) -> Self {
        Self::with(kind, server, None, false).await
    }

    /// Speaks TLS to its clients.
    pub(crate) async fn tls(config: ServerConfig, server: SocketAddr) -> Self {
        Self::with(Kind::Connect(None), server, Some(TlsAcceptor::from(Arc::new(config))), false).await
    }

    /// Passes on the beginning of what the server says first together with its own answer.
    pub(crate) async fn eager(kind: Kind, server: SocketAddr) -> Self {
        Self::with(kind, server, None, true).await
    }

    async fn with(kind: Kind, server: SocketAddr, tls: Option<TlsAcceptor>, eager: bool) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (sender, wanted) = watch::channel(Vec::new());
        let script = Arc::new(Script { kind, server, tls, eager, wanted: sender });
        let accepting = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let script = Arc::clone(&script);
                connections.spawn(async move { script.serve(stream).await });
            }
        });
        Self { address, wanted, accepting }
    }

    /// `HOST:PORT`.
    pub(crate) fn address(&self) -> String {
        self.address.to_string()
    }

    /// Its URL with this scheme, which may have credentials behind it (`http://me:s3cret@`).
    pub(crate) fn url(&self, prefix: &str) -> String {
        format!("{prefix}{}", self.address)
    }

    pub(crate) fn wanted(&self) -> Vec<Wanted> {
        self.wanted.borrow().clone()
    }

    /// Where its clients wanted to go.
    pub(crate) fn targets(&self) -> Vec<String> {
        self.wanted().into_iter().map(|wanted| wanted.target).collect()
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

impl Script {
    /// An error is a client that went away.
    async fn serve(&self, stream: TcpStream) -> Result<(), BoxError> {
        stream.set_nodelay(true)?;
        match &self.tls {
            Some(tls) => self.handshake(tls.accept(stream).await?).await,
            None => self.handshake(stream).await,
        }
    }

    async fn handshake(&self, mut client: impl AsyncRead + AsyncWrite + Unpin) -> Result<(), BoxError> {
        match &self.kind {
            Kind::Hang => {
                client.read_to_end(&mut Vec::new()).await?;
                Ok(())
            }
            Kind::Connect(authorization) => {
                let head = self.read_connect(&mut client).await?;
                let wants = authorization.map(|value| format!("\r\nProxy-Authorization: {value}\r\n"));
                match wants.is_none_or(|line| head.contains(&line)) {
                    true => self.pass(client, b"HTTP/1.1 200 Connection established\r\n\r\n").await,
                    false => say(client, b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n").await,
                }
            }
            Kind::Answer(answer) => {
                self.read_connect(&mut client).await?;
                say(client, answer.as_bytes()).await
            }
            Kind::Socks(credentials) => {
                if !greet(&mut client, *credentials).await? {
                    return say(client, &[]).await;
                }
                self.read_request(&mut client).await?;
                self.pass(client, &socks_answer(0)).await
            }
            Kind::SocksAnswer(code) => {
                greet(&mut client, None).await?;
                self.read_request(&mut client).await?;
                say(client, &socks_answer(*code)).await
            }
        }
    }

    async fn read_connect(&self, client: &mut (impl AsyncRead + Unpin)) -> Result<String, BoxError> {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(client.read_u8().await?);
        }
        let head = String::from_utf8(head)?;
        let target = head.strip_prefix("CONNECT ").and_then(|rest| rest.split_once(" HTTP/1.1\r\n"));
        self.note(target.map_or("no CONNECT", |(target, _)| target).to_owned(), head.clone());
        Ok(head)
    }

    /// RFC 1928 §4.
    async fn read_request(&self, client: &mut (impl AsyncRead + Unpin)) -> Result<(), BoxError> {
        let mut start = [0; 4];
        client.read_exact(&mut start).await?;
        let host = match start {
            [5, 1, 0, 1] => std::net::Ipv4Addr::from_bits(client.read_u32().await?).to_string(),
            [5, 1, 0, 4] => std::net::Ipv6Addr::from_bits(client.read_u128().await?).to_string(),
            [5, 1, 0, 3] => format!("name {}", read_text(client).await?),
            _ => return Err("no request of SOCKS5".into()),
        };
        let port = client.read_u16().await?;
        self.note(format!("{host}:{port}"), String::new());
        Ok(())
    }

    fn note(&self, target: String, head: String) {
        self.wanted.send_modify(|all| all.push(Wanted { target, head }));
    }

    async fn pass(
        &self,
        mut client: impl AsyncRead + AsyncWrite + Unpin,
        connected: &[u8],
    ) -> Result<(), BoxError> {
        let mut server = soon(TcpStream::connect(self.server)).await?;
        let mut first = connected.to_vec();
        if self.eager {
            // Not all of a frame: a client that drops the beginning cannot make sense of the rest.
            let mut begun = [0; 5];
            soon(server.read_exact(&mut begun)).await?;
            first.extend(begun);
        }
        client.write_all(&first).await?;
        client.flush().await?;
        if self.eager {
            // Once the client speaks to the server, it has read what came with the answer.
            let mut word = Vec::new();
            soon(client.read_buf(&mut word)).await?;
            server.write_all(&word).await?;
        }
        copy_bidirectional(&mut client, &mut server).await?;
        Ok(())
    }
}

/// The last words: lets the client read them before the connection is closed.
async fn say(mut client: impl AsyncRead + AsyncWrite + Unpin, words: &[u8]) -> Result<(), BoxError> {
    client.write_all(words).await?;
    client.shutdown().await?;
    client.read_to_end(&mut Vec::new()).await?;
    Ok(())
}

/// RFC 1928 §3, RFC 1929. `false`: the client may not go on.
async fn greet(
    client: &mut (impl AsyncRead + AsyncWrite + Unpin),
    credentials: Option<(&str, &str)>,
) -> Result<bool, BoxError> {
    if client.read_u8().await? != 5 {
        return Err("no SOCKS5".into());
    }
    let methods = read_text(client).await?;
    let method = if credentials.is_some() { 2 } else { 0 };
    if !methods.as_bytes().contains(&method) {
        client.write_all(&[5, 0xff]).await?;
        return Ok(false);
    }
    client.write_all(&[5, method]).await?;
    let Some((user, password)) = credentials else { return Ok(true) };
    if client.read_u8().await? != 1 {
        return Err("no credentials of SOCKS5".into());
    }
    let right =
        (read_text(client).await?, read_text(client).await?) == (user.to_owned(), password.to_owned());
    client.write_all(&[1, u8::from(!right)]).await?;
    Ok(right)
}

fn socks_answer(code: u8) -> [u8; 10] {
    [5, code, 0, 1, 127, 0, 0, 1, 0, 80]
}

/// A byte with the length, and so many bytes.
async fn read_text(client: &mut (impl AsyncRead + Unpin)) -> Result<String, BoxError> {
    let mut text = vec![0; client.read_u8().await?.into()];
    client.read_exact(&mut text).await?;
    Ok(String::from_utf8(text)?)
}
