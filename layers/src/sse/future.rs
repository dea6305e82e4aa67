//! The response future of the SSE layer.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use http::Response;
use http::response::Parts;
use http_body::Body;
use pin_project_lite::pin_project;

use super::answer::{Exchange, Reading, Whole, mark_sensitive};
use super::collect::Collect;
use super::stream::EventStream;
use crate::Events;
use crate::error::BoxError;

pin_project! {
    /// The response future of [`Sse`](super::Sse).
    #[derive(Debug)]
    #[must_use = "futures do nothing unless polled"]
    pub struct ResponseFuture<F, B> {
        #[pin]
        state: State<F, B>,
        exchange: Exchange,
    }
}

pin_project! {
    #[project = StateProj]
    #[derive(Debug)]
    enum State<F, B> {
        Head { #[pin] call: F },
        Body { #[pin] body: Collect<B>, whole: Whole, head: Option<Parts> },
    }
}

impl<F, B> ResponseFuture<F, B> {
    pub(super) fn new(call: F, exchange: Exchange) -> Self {
        Self { state: State::Head { call }, exchange }
    }
}

impl<F, B, E> Future for ResponseFuture<F, B>
where
    F: Future<Output = Result<Response<B>, E>>,
    E: Into<BoxError>,
    B: Body + Send + 'static,
    B::Error: Into<BoxError>,
{
    type Output = Result<Response<Events>, BoxError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        let exchange = &*this.exchange;
        let (head, events) = loop {
            match this.state.as_mut().project() {
                StateProj::Head { call } => {
                    let (mut head, body) = ready!(call.poll(cx)).map_err(Into::into)?.into_parts();
                    mark_sensitive(&mut head.headers);
                    let events = match exchange.reading(&head) {
                        Reading::Whole(whole) => {
                            let body = exchange.collect(&head, body, whole);
                            this.state.set(State::Body { body, whole, head: Some(head) });
                            continue;
                        }
                        Reading::Events => Events::new(EventStream::new(body, head.status, exchange.clone())),
                        Reading::Drain(failure) => {
                            exchange.drain(Box::pin(body), cx);
                            failure.map_or(Events::EMPTY, Events::error)
                        }
                    };
                    break (head, events);
                }
                StateProj::Body { body, whole, head } => {
                    let body = ready!(body.poll(cx));
                    // Taken once: a finished future is not polled again.
                    let Some(head) = head.take() else { return Poll::Pending };
                    let events = exchange.events(&head, body, *whole);
                    break (head, events);
                }
            }
        };
        Poll::Ready(Ok(Response::from_parts(head, events)))
    }
}
