//! The server: in a thread of its own, so that its work is not the client's.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::thread::JoinHandle;

use bytes::{Bytes, BytesMut};
use http::{Method, Request, Response, StatusCode, header};
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{RootCertStore, ServerConfig};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio_rustls::TlsAcceptor;
use tower::BoxError;

use crate::answers::{self, Answers, Asked};
use crate::work::{Shape, Wire};

/// The header of a session, and the one session there is.
pub(crate) const SESSION: (&str, &str) = ("mcp-session-id", "0123456789abcdef0123456789abcdef");

/// A running server, which ends when it is dropped.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    pub(crate) wire: Wire,
    /// What its clients have to trust.
    pub(crate) certificate: Option<CertificateDer<'static>>,
    counts: Arc<Counts>,
    end: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Counts {
    connections: AtomicUsize,
    requests: AtomicUsize,
}

impl Server {
    pub(crate) fn start(wire: Wire, answers: Arc<Answers>) -> Result<Self, BoxError> {
        let (acceptor, certificate) = match wire {
            Wire::Tls => tls().map(|(acceptor, certificate)| (Some(acceptor), Some(certificate)))?,
            Wire::Plain | Wire::Http2 => (None, None),
        };
        let listener = std::net::TcpListener::bind(("127.0.0.1", 0))?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let counts = Arc::new(Counts::default());
        let (end, ended) = oneshot::channel();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let thread = std::thread::Builder::new().name("server".into()).spawn({
            let counts = Arc::clone(&counts);
            move || {
                let accept = accept(listener, acceptor, counts, answers);
                runtime.block_on(async {
                    tokio::select! { _ = ended => {}, _ = accept => {} }
                });
            }
        })?;
        Ok(Self { address, wire, certificate, counts, end: Some(end), thread: Some(thread) })
    }

    /// How many connections it has accepted.
    pub(crate) fn connections(&self) -> usize {
        self.counts.connections.load(Ordering::Relaxed)
    }

    /// How many requests it has answered, without those of handshakes.
    pub(crate) fn requests(&self) -> usize {
        self.counts.requests.load(Ordering::Relaxed)
    }

    pub(crate) fn uri(&self) -> String {
        let scheme = if self.wire == Wire::Tls { "https" } else { "http" };
        format!("{scheme}://{}/mcp", self.address)
    }

    /// TLS for a client that trusts this server, with the cryptography of all clients.
    pub(crate) fn client_tls(&self) -> Result<rustls::ClientConfig, BoxError> {
        let mut roots = RootCertStore::empty();
        if let Some(certificate) = &self.certificate {
            roots.add(certificate.clone())?;
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config =
            rustls::ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
        Ok(config.with_root_certificates(roots).with_no_client_auth())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn tls() -> Result<(TlsAcceptor, CertificateDer<'static>), BoxError> {
    let own = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()])?;
    let certificate = own.cert.der().clone();
    let key = PrivateKeyDer::try_from(own.signing_key.serialize_der())?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(vec![certificate.clone()], key)?;
    Ok((TlsAcceptor::from(Arc::new(config)), certificate))
}

async fn accept(
    listener: std::net::TcpListener,
    tls: Option<TlsAcceptor>,
    counts: Arc<Counts>,
    answers: Arc<Answers>,
) -> Result<(), BoxError> {
    let listener = TcpListener::from_std(listener)?;
    loop {
        let (stream, _) = listener.accept().await?;
        counts.connections.fetch_add(1, Ordering::Relaxed);
        stream.set_nodelay(true)?;
        let (tls, answers, counts) = (tls.clone(), Arc::clone(&answers), Arc::clone(&counts));
        tokio::spawn(async move {
            match tls {
                None => serve(stream, answers, counts).await,
                Some(tls) => {
                    if let Ok(stream) = tls.accept(stream).await {
                        serve(stream, answers, counts).await;
                    }
                }
            }
        });
    }
}

async fn serve(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    answers: Arc<Answers>,
    counts: Arc<Counts>,
) {
    let service = service_fn(move |request| answer(request, Arc::clone(&answers), Arc::clone(&counts)));
    let mut connection = auto::Builder::new(TokioExecutor::new());
    // Events that are there at the same time leave in one write, as from a server that is quicker than the network.
    connection.http1().writev(false);
    // A client may go at any time.
    let _ = connection.serve_connection(TokioIo::new(stream), service).await;
}

async fn answer(
    request: Request<Incoming>,
    answers: Arc<Answers>,
    counts: Arc<Counts>,
) -> Result<Response<Pieces>, Infallible> {
    let (head, body) = request.into_parts();
    match head.method {
        Method::POST => {}
        // A stream of the server's own is not offered, and a session needs no ending.
        Method::DELETE => return Ok(status(StatusCode::OK)),
        _ => return Ok(status(StatusCode::METHOD_NOT_ALLOWED)),
    }
    let Ok(body) = body.collect().await else { return Ok(status(StatusCode::BAD_REQUEST)) };
    let body = body.to_bytes();
    let Ok(asked) = serde_json::from_slice::<Asked<'_>>(&body) else {
        return Ok(status(StatusCode::BAD_REQUEST));
    };
    let Some(id) = asked.id else { return Ok(status(StatusCode::ACCEPTED)) };
    if asked.method == "initialize" {
        let mut body = BytesMut::new();
        answers::response(&mut body, id.get(), &answers.initialize);
        let mut response = content("application/json", body.freeze(), usize::MAX);
        response.headers_mut().insert(SESSION.0, http::HeaderValue::from_static(SESSION.1));
        return Ok(response);
    }
    // In a session, or in the modern era, where there are none.
    let rightful = match head.headers.get(SESSION.0) {
        Some(session) => session == SESSION.1,
        None => head.headers.get("mcp-method").is_some_and(|method| method == asked.method),
    };
    if !rightful {
        return Ok(status(StatusCode::BAD_REQUEST));
    }
    let params = asked.params.as_ref();
    let shape = match asked.method {
        "tools/list" => Some(Shape::List),
        "tools/call" => params.and_then(|params| params.name).and_then(Shape::of_tool),
        _ => None,
    };
    let Some(shape) = shape else { return Ok(status(StatusCode::NOT_FOUND)) };
    let token = params.and_then(|params| params.meta.as_ref()).and_then(|meta| meta.progress_token);
    counts.requests.fetch_add(1, Ordering::Relaxed);
    let (body, piece) = answers.body(shape, id, token);
    let kind = match shape {
        Shape::OneEvent | Shape::Events => "text/event-stream",
        Shape::Call | Shape::List | Shape::Large => "application/json",
    };
    Ok(content(kind, body, piece))
}

fn status(status: StatusCode) -> Response<Pieces> {
    let mut response = Response::new(Pieces { rest: Bytes::new(), piece: usize::MAX, sized: true });
    *response.status_mut() = status;
    response
}

fn content(kind: &'static str, body: Bytes, piece: usize) -> Response<Pieces> {
    let sized = kind == "application/json";
    let mut response = Response::new(Pieces { rest: body, piece, sized });
    response.headers_mut().insert(header::CONTENT_TYPE, http::HeaderValue::from_static(kind));
    response
}

/// A body in pieces of one size. Over HTTP/1.1 each is a chunk, as when a server writes event by event.
struct Pieces {
    rest: Bytes,
    piece: usize,
    /// Whether the length is told beforehand, which is not so of a stream.
    sized: bool,
}

impl Body for Pieces {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let length = self.piece.min(self.rest.len());
        let piece = self.rest.split_to(length);
        Poll::Ready((length > 0).then(|| Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        if self.sized { SizeHint::with_exact(self.rest.len() as u64) } else { SizeHint::default() }
    }
}
