//! The events of the listening GET.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures_core::Stream;
use http::{Request, Response};
use tower::ServiceExt;

use crate::error::{BoxError, NotOffered};
use crate::layers::{Era, Event, Events, Payload, Session};
use crate::transport::Envelopes;

type Opening = Pin<Box<dyn Future<Output = Result<Response<Events>, BoxError>> + Send>>;

/// Opens the stream when it is first polled.
#[expect(clippy::large_enum_variant, reason = "it lives in a box already")]
pub(crate) enum Listening {
    Opening(Opening),
    Open(Events),
    Ended,
}

impl Listening {
    /// `needs_session`: without one nothing is sent.
    pub(crate) fn new(
        envelopes: Envelopes,
        mut get: Request<Payload>,
        session: Session,
        needs_session: bool,
    ) -> Self {
        Self::Opening(Box::pin(async move {
            // An expired session is left to the layer that knows of it.
            let has_session = session.id().is_some() || session.is_expired();
            if (needs_session && !has_session) || session.era() == Era::Modern {
                return Err(NotOffered::new(None).into());
            }
            get.extensions_mut().insert(session.pin());
            envelopes.oneshot(get).await
        }))
    }
}

impl Stream for Listening {
    type Item = Result<Event, BoxError>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        loop {
            match this {
                Self::Opening(opening) => match ready!(opening.as_mut().poll(cx)) {
                    Ok(response) => *this = Self::Open(response.into_body()),
                    Err(error) => {
                        *this = Self::Ended;
                        return Poll::Ready(Some(Err(error)));
                    }
                },
                Self::Open(events) => return Pin::new(events).poll_next(cx),
                Self::Ended => return Poll::Ready(None),
            }
        }
    }
}
