//! The response future of the bearer layer.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use http::header::{AUTHORIZATION, WWW_AUTHENTICATE};
use http::{HeaderMap, Request, Response, StatusCode};
use pin_project_lite::pin_project;
use tower::ServiceExt;
use tower_service::Service;

use super::Refusal;
use super::tokens::{Token, Tokens};
use crate::error::BoxError;

type Slow<R> = Pin<Box<dyn Future<Output = Result<Response<R>, BoxError>> + Send>>;

pin_project! {
    /// The response future of [`Bearer`](super::Bearer).
    #[must_use = "futures do nothing unless polled"]
    pub struct ResponseFuture<F, B, R, S> {
        #[pin]
        state: State<F, R>,
        retry: Option<Retry<B, S>>,
    }
}

pin_project! {
    #[project = StateProj]
    enum State<F, R> {
        Call { #[pin] call: F },
        Slow { call: Slow<R> },
    }
}

/// What it takes to send a request with another token.
struct Retry<B, S> {
    service: Arc<S>,
    tokens: Arc<Tokens>,
    request: Request<B>,
    token: Token,
}

impl<F, B, R, S> ResponseFuture<F, B, R, S> {
    pub(super) fn passed(call: F) -> Self {
        Self { state: State::Call { call }, retry: None }
    }

    pub(super) fn called(
        call: F,
        service: Arc<S>,
        tokens: Arc<Tokens>,
        request: Request<B>,
        token: Token,
    ) -> Self {
        Self { state: State::Call { call }, retry: Some(Retry { service, tokens, request, token }) }
    }
}

impl<F, B, R, S> ResponseFuture<F, B, R, S>
where
    S: Service<Request<B>, Response = Response<R>, Future = F> + Clone + Send + Sync + 'static,
    S::Error: Into<BoxError>,
    F: Future<Output = Result<Response<R>, S::Error>> + Send + 'static,
    B: Clone + Send + 'static,
    R: Send + 'static,
{
    /// There is no token yet. `ready` is the service that was made ready.
    pub(super) fn first(mut ready: S, service: Arc<S>, tokens: Arc<Tokens>, request: Request<B>) -> Self {
        let call = Box::pin(async move {
            let token = tokens.another(None).await?;
            let mut first = request.clone();
            first.headers_mut().insert(AUTHORIZATION, token.header());
            let response = ready.call(first).await.map_err(Into::into)?;
            if response.status() != StatusCode::UNAUTHORIZED {
                return Ok(response);
            }
            let refusal = refusal(response.headers());
            drop(response);
            again(Retry { service, tokens, request, token }, refusal).await
        });
        Self { state: State::Slow { call }, retry: None }
    }
}

impl<F, B, R, S> Future for ResponseFuture<F, B, R, S>
where
    S: Service<Request<B>, Response = Response<R>, Future = F> + Clone + Send + Sync + 'static,
    S::Error: Into<BoxError>,
    F: Future<Output = Result<Response<R>, S::Error>> + Send + 'static,
    B: Clone + Send + 'static,
    R: Send + 'static,
{
    type Output = Result<Response<R>, BoxError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        loop {
            let response = match this.state.as_mut().project() {
                StateProj::Call { call } => ready!(call.poll(cx)).map_err(Into::into)?,
                StateProj::Slow { call } => return call.as_mut().poll(cx),
            };
            let Some(retry) = this.retry.take().filter(|_| response.status() == StatusCode::UNAUTHORIZED)
            else {
                return Poll::Ready(Ok(response));
            };
            let refusal = refusal(response.headers());
            drop(response);
            // This drops the first call: what limits calls below would count both.
            this.state.set(State::Slow { call: Box::pin(again(retry, refusal)) });
        }
    }
}

/// Sends a request that was refused once more. Whatever comes of it is the answer.
async fn again<B, R, S>(retry: Retry<B, S>, refusal: Refusal) -> Result<Response<R>, BoxError>
where
    S: Service<Request<B>, Response = Response<R>> + Clone,
    S::Error: Into<BoxError>,
{
    let token = retry.tokens.another(Some((&retry.token, refusal))).await?;
    tracing::debug!("a token was refused, and the request is sent with another");
    let mut request = retry.request;
    request.headers_mut().insert(AUTHORIZATION, token.header());
    S::clone(&retry.service).oneshot(request).await.map_err(Into::into)
}

fn refusal(headers: &HeaderMap) -> Refusal {
    let mut challenges: Vec<_> = headers.get_all(WWW_AUTHENTICATE).into_iter().cloned().collect();
    challenges.iter_mut().for_each(|challenge| challenge.set_sensitive(true));
    Refusal { challenges }
}

impl<F, B, R, S> fmt::Debug for ResponseFuture<F, B, R, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseFuture").finish_non_exhaustive()
    }
}
