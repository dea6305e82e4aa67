//! Getting through a proxy to the server.

use std::future::ready;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{self, Context, Poll};

use http::{HeaderValue, StatusCode, Uri};
use hyper_util::client::legacy::connect::proxy::{SocksV5, Tunnel};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tower::Service;

use super::hop::Speaks;
use super::{Hop, ProxyError};
use crate::client::stream::Stream;
use crate::error::BoxError;

/// hyper-util's SOCKS5 handshake has room for so many bytes of user name, password and host together.
const SOCKS5_ROOM: usize = 249;

/// Lets the proxy, to which `dialing` connects, connect to `target`.
pub(in crate::client) async fn through<F>(hop: &Hop, dialing: F, target: &Uri) -> Result<Stream, BoxError>
where
    F: Future<Output = Result<Stream, BoxError>>,
{
    let (host, port) = server(target)?;
    let server = format!("{host}:{port}");
    match &hop.speaks {
        Speaks::Connect(authorization) => {
            let stream = reach(hop, dialing).await?;
            connect(hop, stream, &server, authorization.clone()).await
        }
        Speaks::Socks5 { credentials, looks_up } => {
            let told = if *looks_up { look_up(host, port).await? } else { server.clone() };
            let stream = reach(hop, dialing).await?;
            socks5(hop, stream, &server, &told, credentials.clone()).await
        }
    }
}

async fn reach(
    hop: &Hop,
    dialing: impl Future<Output = Result<Stream, BoxError>>,
) -> Result<Stream, BoxError> {
    dialing.await.map_err(|cause| ProxyError::unreachable(hop, &cause))
}

/// With the port, which hyper-util takes for 443 where it is missing.
fn server(target: &Uri) -> Result<(&str, u16), BoxError> {
    let host = target.host().ok_or("the URL names no host")?;
    let default = if target.scheme_str() == Some("http") { 80 } else { 443 };
    Ok((host, target.port_u16().unwrap_or(default)))
}

/// The address of a server. SOCKS5 takes one; most proxies can use one of IPv4.
async fn look_up(host: &str, port: u16) -> Result<String, BoxError> {
    let found: Vec<_> = tokio::net::lookup_host((host.trim_matches(['[', ']']), port)).await?.collect();
    let found = found.iter().find(|address| address.is_ipv4()).or(found.first());
    match found.map(|address| address.ip()) {
        Some(std::net::IpAddr::V4(ip)) => Ok(format!("{ip}:{port}")),
        Some(std::net::IpAddr::V6(ip)) => Ok(format!("[{ip}]:{port}")),
        None => Err("the name of the server has no address".into()),
    }
}

async fn connect(
    hop: &Hop,
    stream: Stream,
    server: &str,
    authorization: Option<HeaderValue>,
) -> Result<Stream, BoxError> {
    let (sips, head) = Sips::new(stream);
    let mut tunnel = Tunnel::new(hop.address().clone(), once(sips));
    if let Some(authorization) = authorization {
        tunnel = tunnel.with_auth(authorization);
    }
    match tunnel.call(uri(server)?).await {
        Ok(sips) => Ok(sips.into_inner().stream),
        // The tunnel does not tell what the proxy has said.
        Err(error) => Err(match head.status() {
            Some(status) if status != StatusCode::OK => ProxyError::refused(hop, server, status),
            _ => ProxyError::failed(hop, server, &error),
        }),
    }
}

async fn socks5(
    hop: &Hop,
    stream: Stream,
    server: &str,
    told: &str,
    credentials: Option<(String, String)>,
) -> Result<Stream, BoxError> {
    let (sips, _) = Sips::new(stream);
    let mut socks = SocksV5::new(hop.address().clone(), once(sips));
    if let Some((user, password)) = credentials {
        if user.len() + password.len() + told.len() > SOCKS5_ROOM {
            let reason = "the user name, the password and the host are too long together";
            return Err(ProxyError::failed(hop, server, &io::Error::other(reason)));
        }
        socks = socks.with_auth(user, password);
    }
    let connected = socks.call(uri(told)?).await;
    connected.map(|sips| sips.into_inner().stream).map_err(|error| ProxyError::failed(hop, server, &error))
}

fn uri(server: &str) -> Result<Uri, BoxError> {
    Ok(format!("http://{server}/").parse()?)
}

/// A connector with one connection, which is made already.
fn once(
    sips: Sips,
) -> impl Service<
    Uri,
    Response = TokioIo<Sips>,
    Error = io::Error,
    Future = std::future::Ready<io::Result<TokioIo<Sips>>>,
> {
    let mut sips = Some(TokioIo::new(sips));
    tower::service_fn(move |_| ready(sips.take().ok_or_else(|| io::ErrorKind::NotConnected.into())))
}

/// The connection to a proxy until it is one to the server. It is read byte by byte: hyper-util's handshakes drop what
/// comes behind their own end, and in plain HTTP/2 the server may be the first to speak.
struct Sips {
    stream: Stream,
    head: Head,
}

/// The beginning of what the proxy has said.
#[derive(Clone, Default)]
struct Head(Arc<Mutex<Vec<u8>>>);

impl Sips {
    fn new(stream: Stream) -> (Self, Head) {
        let head = Head::default();
        (Self { stream, head: head.clone() }, head)
    }
}

impl Head {
    const STATUS: std::ops::Range<usize> = "HTTP/1.1 ".len().."HTTP/1.1 200".len();

    fn note(&self, bytes: &[u8]) {
        let mut head = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if head.len() < Self::STATUS.end {
            head.extend_from_slice(bytes);
        }
    }

    fn status(&self) -> Option<StatusCode> {
        let head = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let status = head.strip_prefix(b"HTTP/1.").and(head.get(Self::STATUS))?;
        StatusCode::from_bytes(status).ok()
    }
}

impl AsyncRead for Sips {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if buf.remaining() == 0 {
            return Poll::Ready(Ok(()));
        }
        let mut byte = [0];
        let mut sip = ReadBuf::new(&mut byte);
        task::ready!(Pin::new(&mut self.stream).poll_read(cx, &mut sip))?;
        buf.put_slice(sip.filled());
        self.head.note(sip.filled());
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Sips {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
