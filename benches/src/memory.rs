//! An HTTP client that has its answers in memory.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::header::{CONTENT_TYPE, DATE, HeaderValue};
use http::{HeaderMap, Request, Response, StatusCode};
use http_body::{Body, Frame, SizeHint};
use http_body_util::Full;
use tower::Service;

/// Whether an answer is there, or has to be waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// All of it is there when it is asked for.
    AtOnce,
    /// The head, and each chunk of the body, is there when it is asked for again: as it is on a network, where every
    /// part costs one more poll, and sets the clocks.
    Waiting,
}

/// Gives every request the same answer. A clone costs what one of a real client does.
#[derive(Clone, Debug)]
pub struct Memory(Arc<Answer>);

#[derive(Debug)]
struct Answer {
    status: StatusCode,
    headers: HeaderMap,
    chunks: Vec<Bytes>,
    pace: Pace,
}

impl Memory {
    /// Answers with a JSON text.
    pub fn json(text: impl Into<Bytes>, pace: Pace) -> Self {
        Self::new(StatusCode::OK, Some("application/json"), vec![text.into()], pace)
    }

    /// Answers with a stream of events, which arrives in these chunks.
    pub fn events(chunks: Vec<Bytes>, pace: Pace) -> Self {
        Self::new(StatusCode::OK, Some("text/event-stream"), chunks, pace)
    }

    /// Accepts what wants no answer.
    pub fn accepting() -> Self {
        Self::new(StatusCode::ACCEPTED, None, Vec::new(), Pace::AtOnce)
    }

    fn new(status: StatusCode, kind: Option<&'static str>, chunks: Vec<Bytes>, pace: Pace) -> Self {
        let mut headers = HeaderMap::new();
        headers.insert(DATE, HeaderValue::from_static("Tue, 28 Jul 2026 12:00:00 GMT"));
        if let Some(kind) = kind {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
        }
        Self(Arc::new(Answer { status, headers, chunks, pace }))
    }
}

/// What a real client would do while the transport waits. Callgrind leaves it out, by the name of this function.
#[inline(never)]
fn answered_in_memory(memory: &Memory, request: Request<Full<Bytes>>) -> Option<Response<Chunks>> {
    drop(request);
    let mut response = Response::new(Chunks {
        is_waiting: memory.0.pace == Pace::Waiting,
        answer: memory.0.clone(),
        passed: 0,
    });
    *response.status_mut() = memory.0.status;
    *response.headers_mut() = memory.0.headers.clone();
    Some(response)
}

/// The next part of a body. Left out like [`answered_in_memory`].
#[inline(never)]
fn chunk_in_memory(body: &mut Chunks) -> Poll<Option<Bytes>> {
    let chunk = body.answer.chunks.get(body.passed).cloned();
    if chunk.is_some() && std::mem::replace(&mut body.is_waiting, false) {
        return Poll::Pending;
    }
    body.is_waiting = body.answer.pace == Pace::Waiting;
    body.passed += 1;
    Poll::Ready(chunk)
}

impl Service<Request<Full<Bytes>>> for Memory {
    type Response = Response<Chunks>;
    type Error = Infallible;
    type Future = Head;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Full<Bytes>>) -> Head {
        Head { response: answered_in_memory(self, request), is_waiting: self.0.pace == Pace::Waiting }
    }
}

/// The wait for the head of an answer.
#[derive(Debug)]
pub struct Head {
    response: Option<Response<Chunks>>,
    is_waiting: bool,
}

impl Future for Head {
    type Output = Result<Response<Chunks>, Infallible>;

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Self::Output> {
        match self.response.take() {
            Some(response) if !self.is_waiting => Poll::Ready(Ok(response)),
            response => {
                *self = Self { response, is_waiting: false };
                Poll::Pending
            }
        }
    }
}

/// The body of an answer.
#[derive(Debug)]
pub struct Chunks {
    answer: Arc<Answer>,
    passed: usize,
    is_waiting: bool,
}

impl Body for Chunks {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let chunk = ready!(chunk_in_memory(self.get_mut()));
        Poll::Ready(chunk.map(|chunk| Ok(Frame::data(chunk))))
    }

    /// The end of a JSON text is known from its length, that of a stream only when it is there.
    fn is_end_stream(&self) -> bool {
        self.size_hint().exact() == Some(0)
    }

    fn size_hint(&self) -> SizeHint {
        match self.answer.chunks.get(self.passed..) {
            Some([chunk]) if self.answer.headers[CONTENT_TYPE] == "application/json" => {
                SizeHint::with_exact(chunk.len() as u64)
            }
            Some([]) | None => SizeHint::with_exact(0),
            _ => SizeHint::default(),
        }
    }
}
