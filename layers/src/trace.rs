//! A `tracing` span around every call, until its response.
//!
//! # Example
//!
//! ```
//! use mcp_streamable_http_layers::{Session, TraceLayer, TranslateCancelLayer};
//! use tower::ServiceBuilder;
//!
//! let layers = ServiceBuilder::new().layer(TraceLayer::new()).layer(TranslateCancelLayer::new(Session::new()));
//! # let _ = layers;
//! ```

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;
use tower_layer::Layer;
use tower_service::Service;
use tracing::{Span, field};

use crate::error::{BoxError, Error};
use crate::operation::{Operation, error_type, kind};
use crate::{JsonRpcMessage, Reply};

/// Applies [`Trace`]: see the [module's documentation](self).
#[derive(Clone, Copy, Debug, Default)]
pub struct TraceLayer(());

impl TraceLayer {
    /// Makes a span for every request and notification.
    pub fn new() -> Self {
        Self(())
    }
}

impl<S> Layer<S> for TraceLayer {
    type Service = Trace<S>;

    fn layer(&self, inner: S) -> Self::Service {
        Trace { inner }
    }
}

/// Makes a span at the level `info` for every request and notification, which is open from the call to the end of its reply.
/// The call is made, and its head waited for, in that span.
///
/// Its name is `mcp.client`, and its fields are those of OpenTelemetry's conventions for MCP: `otel.name` (the method, and the
/// tool or prompt), `otel.kind`, `mcp.method.name`, `gen_ai.tool.name`, `gen_ai.prompt.name`, `jsonrpc.request.id`; and when it
/// fails `error.type` (the code of the server's error, the status of the answer, or a word such as `timeout`) and `otel.status_code`.
/// Neither arguments nor results nor the session's id are among them.
///
/// It lives on the message floor, outermost, so that it covers what other layers add.
#[derive(Clone, Debug)]
pub struct Trace<S> {
    inner: S,
}

impl<S> Service<JsonRpcMessage> for Trace<S>
where
    S: Service<JsonRpcMessage, Response = Reply>,
    S::Error: Into<BoxError>,
{
    type Response = Reply;
    type Error = Error;
    type Future = ResponseFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        self.inner.poll_ready(cx).map_err(Error::new)
    }

    fn call(&mut self, message: JsonRpcMessage) -> Self::Future {
        let span = Operation::of(&message).map_or_else(Span::none, |operation| span(&message, &operation));
        let call = span.in_scope(|| self.inner.call(message));
        ResponseFuture { call, span }
    }
}

fn span(message: &JsonRpcMessage, operation: &Operation) -> Span {
    let span = tracing::info_span!(
        "mcp.client",
        otel.name = field::Empty,
        otel.kind = "client",
        otel.status_code = field::Empty,
        mcp.method.name = operation.method,
        gen_ai.tool.name = operation.tool,
        gen_ai.prompt.name = operation.prompt,
        jsonrpc.request.id = field::Empty,
        error.type = field::Empty,
    );
    if !span.is_disabled() {
        match operation.target() {
            Some(target) => span.record("otel.name", format!("{} {target}", operation.method)),
            None => span.record("otel.name", &operation.method),
        };
        if let Some(id) = message.id() {
            span.record("jsonrpc.request.id", field::display(id));
        }
    }
    span
}

fn fail(span: &Span, kind: &str) {
    span.record("error.type", kind);
    span.record("otel.status_code", "ERROR");
}

pin_project! {
    /// The response future of [`Trace`].
    #[derive(Debug)]
    #[must_use = "futures do nothing unless polled"]
    pub struct ResponseFuture<F> {
        #[pin]
        call: F,
        span: Span,
    }
}

impl<F, E> Future for ResponseFuture<F>
where
    F: Future<Output = Result<Reply, E>>,
    E: Into<BoxError>,
{
    type Output = Result<Reply, Error>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let outcome = {
            let _entered = this.span.enter();
            ready!(this.call.poll(cx)).map_err(Error::new)
        };
        Poll::Ready(match outcome {
            Ok(reply) if this.span.is_disabled() => Ok(reply),
            Ok(reply) => {
                let span = this.span.clone();
                Ok(reply.map(move |item| {
                    if let Some(kind) = error_type(&item) {
                        fail(&span, &kind);
                    }
                    item
                }))
            }
            Err(error) => {
                fail(this.span, &kind(&error));
                Err(error)
            }
        })
    }
}
