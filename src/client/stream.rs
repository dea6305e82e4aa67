//! What the client's bytes go through, below the server's TLS.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use hyper_rustls::MaybeHttpsStream;
use hyper_util::client::legacy::connect::{Connected, Connection};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
#[cfg(unix)]
use tokio::net::UnixStream;

/// TCP, with TLS if it is a proxy's.
pub(super) type ToProxy = MaybeHttpsStream<TokioIo<TcpStream>>;

/// One for each way to the server.
pub(super) enum Stream {
    Tcp(TcpStream),
    /// To a proxy, boxed as it is large and rare.
    Tls(Box<TokioIo<ToProxy>>),
    #[cfg(unix)]
    Unix(UnixStream),
}

trait Io: AsyncRead + AsyncWrite + Unpin {}

impl<T: AsyncRead + AsyncWrite + Unpin> Io for T {}

impl Stream {
    fn io(self: Pin<&mut Self>) -> Pin<&mut dyn Io> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream),
            Self::Tls(stream) => Pin::new(stream),
            #[cfg(unix)]
            Self::Unix(stream) => Pin::new(stream),
        }
    }
}

impl From<ToProxy> for Stream {
    fn from(stream: ToProxy) -> Self {
        match stream {
            MaybeHttpsStream::Http(stream) => Self::Tcp(stream.into_inner()),
            stream => Self::Tls(Box::new(TokioIo::new(stream))),
        }
    }
}

impl Connection for Stream {
    fn connected(&self) -> Connected {
        match self {
            Self::Tcp(stream) => stream.connected(),
            // No version is negotiated with a proxy, and CONNECT makes the server's connection of it.
            Self::Tls(stream) => stream.inner().connected(),
            #[cfg(unix)]
            Self::Unix(_) => Connected::new(),
        }
    }
}

impl AsyncRead for Stream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.io().poll_read(cx, buf)
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.io().poll_write(cx, buf)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.io().poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.io().poll_shutdown(cx)
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Tcp(stream) => stream.is_write_vectored(),
            Self::Tls(stream) => stream.is_write_vectored(),
            #[cfg(unix)]
            Self::Unix(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.io().poll_write_vectored(cx, bufs)
    }
}
