//! What the client's bytes go through, TLS included.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_rustls::MaybeHttpsStream;
use hyper_util::client::legacy::connect::{self, Connected};
use hyper_util::rt::TokioIo;

use super::stream::Stream;

type Either = MaybeHttpsStream<TokioIo<Stream>>;

/// A connection to a server. The state of TLS is more than a kilobyte, which one without it need not keep room for.
pub(super) enum Connection {
    Plain(TokioIo<Stream>),
    Tls(Box<Either>),
}

trait Io: Read + Write + Unpin {}

impl<T: Read + Write + Unpin> Io for T {}

impl From<Either> for Connection {
    fn from(stream: Either) -> Self {
        match stream {
            MaybeHttpsStream::Http(stream) => Self::Plain(stream),
            stream => Self::Tls(Box::new(stream)),
        }
    }
}

impl Connection {
    fn io(self: Pin<&mut Self>) -> Pin<&mut dyn Io> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream),
            Self::Tls(stream) => Pin::new(&mut **stream),
        }
    }
}

impl connect::Connection for Connection {
    fn connected(&self) -> Connected {
        match self {
            Self::Plain(stream) => stream.connected(),
            Self::Tls(stream) => stream.connected(),
        }
    }
}

impl Read for Connection {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: ReadBufCursor<'_>) -> Poll<io::Result<()>> {
        self.io().poll_read(cx, buf)
    }
}

impl Write for Connection {
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
            Self::Plain(stream) => stream.is_write_vectored(),
            Self::Tls(stream) => stream.is_write_vectored(),
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
