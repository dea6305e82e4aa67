//! Measure how long calls take, by method and outcome, through the [`metrics`] facade. Feature `metrics`.
//!
//! # Example
//!
//! ```
//! use mcp_streamable_http_layers::metrics::{BUCKETS, DURATION};
//! use mcp_streamable_http_layers::{MetricsLayer, Session, TranslateCancelLayer};
//! use tower::ServiceBuilder;
//!
//! let layers = ServiceBuilder::new().layer(MetricsLayer::new()).layer(TranslateCancelLayer::new(Session::new()));
//! # let _ = layers;
//! // For an exporter that wants to know, such as metrics-exporter-prometheus.
//! assert_eq!((DURATION, BUCKETS.len()), ("mcp.client.operation.duration", 14));
//! ```

use std::borrow::Cow;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use ::metrics::{Label, SharedString, Unit, describe_histogram, histogram};
use pin_project_lite::pin_project;
use tower_layer::Layer;
use tower_service::Service;

use crate::error::{BoxError, Error};
use crate::operation::{Operation, error_type, kind};
use crate::{JsonRpcMessage, Reply};

/// The histogram's name in OpenTelemetry's conventions for MCP; seconds.
pub const DURATION: &str = "mcp.client.operation.duration";

/// The boundaries of the histogram's buckets that these conventions advise, in seconds.
pub const BUCKETS: [f64; 14] =
    [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0];

/// Applies [`Metrics`]: see the [module's documentation](self).
#[derive(Clone, Copy, Debug)]
pub struct MetricsLayer {
    names: bool,
}

impl Default for MetricsLayer {
    fn default() -> Self {
        Self::new()
    }
}

impl MetricsLayer {
    /// Measures every request and notification, with the names of tools and prompts as labels.
    pub fn new() -> Self {
        describe_histogram!(
            DURATION,
            Unit::Seconds,
            "From sending a request or notification to its response or acceptance"
        );
        Self { names: true }
    }

    /// Whether the names of tools and prompts are labels; `true` by default. `false` keeps the number of series down for
    /// clients of very many tools.
    #[must_use]
    pub fn names(self, names: bool) -> Self {
        Self { names }
    }
}

impl<S> Layer<S> for MetricsLayer {
    type Service = Metrics<S>;

    fn layer(&self, inner: S) -> Self::Service {
        Metrics { inner, names: self.names }
    }
}

/// Records each request and notification in the histogram [`DURATION`], once, when it ends: from the call to its response, or
/// its acceptance.
///
/// Its labels are those of OpenTelemetry's conventions for MCP: `mcp.method.name`, `network.transport`, `network.protocol.name`,
/// `gen_ai.tool.name` and `gen_ai.prompt.name` where there is one, and for failures `error.type`: the code of the server's
/// error (then `rpc.response.status_code` too), the status of the answer, or one of `timeout`, `cancelled`, `superseded`,
/// `session_expired`, `connect`, `_OTHER`. A call that is dropped before its end counts as `cancelled`.
///
/// It lives on the message floor, so a call is the whole of it, whatever it took below to make it.
#[derive(Clone, Debug)]
pub struct Metrics<S> {
    inner: S,
    names: bool,
}

impl<S> Service<JsonRpcMessage> for Metrics<S>
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
        let is_request = message.as_request().is_some();
        let measurement = Operation::of(&message).map(|operation| Measurement::new(operation, self.names));
        ResponseFuture { call: self.inner.call(message), measurement, is_request }
    }
}

/// One of few values: a server could choose another code for every answer, and each would be a series of its own.
fn few(error: Cow<'static, str>) -> Cow<'static, str> {
    match error.parse::<i64>() {
        // JSON-RPC 2.0 §5.1 reserves these; the others are statuses.
        Ok(code) if !(-32768..=-32000).contains(&code) && !(100..1000).contains(&code) => "_OTHER".into(),
        _ => error,
    }
}

/// One call that is being measured.
#[derive(Debug)]
struct Measurement {
    start: Instant,
    labels: Vec<Label>,
    is_over: bool,
}

impl Measurement {
    fn new(operation: Operation, names: bool) -> Self {
        let mut labels = vec![
            Label::new("mcp.method.name", operation.method),
            Label::from_static_parts("network.transport", "tcp"),
            Label::from_static_parts("network.protocol.name", "http"),
        ];
        let named = [("gen_ai.tool.name", operation.tool), ("gen_ai.prompt.name", operation.prompt)];
        labels.extend(
            named
                .into_iter()
                .filter(|_| names)
                .filter_map(|(key, name)| Some(Label::new(key, SharedString::from(name?)))),
        );
        Self { start: Instant::now(), labels, is_over: false }
    }

    /// Notes an item of the reply; it is over with the last.
    fn pass(&mut self, item: &Result<JsonRpcMessage, Error>) {
        let error = error_type(item).map(few);
        match item {
            Ok(message) if message.as_response().is_none() => {}
            Ok(_) => {
                if let Some(code) = &error {
                    self.labels.push(Label::new("rpc.response.status_code", code.clone().into_owned()));
                }
                self.end(error);
            }
            Err(_) => self.end(error),
        }
    }

    fn end(&mut self, error: Option<Cow<'static, str>>) {
        if !std::mem::replace(&mut self.is_over, true) {
            let mut labels = std::mem::take(&mut self.labels);
            if let Some(error) = error {
                labels.push(Label::new("error.type", error.into_owned()));
            }
            histogram!(DURATION, labels).record(self.start.elapsed().as_secs_f64());
        }
    }
}

impl Drop for Measurement {
    fn drop(&mut self) {
        self.end(Some("cancelled".into()));
    }
}

pin_project! {
    /// The response future of [`Metrics`].
    #[derive(Debug)]
    #[must_use = "futures do nothing unless polled"]
    pub struct ResponseFuture<F> {
        #[pin]
        call: F,
        measurement: Option<Measurement>,
        is_request: bool,
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
        let outcome = ready!(this.call.poll(cx)).map_err(Error::new);
        let Some(mut measurement) = this.measurement.take() else { return Poll::Ready(outcome) };
        Poll::Ready(match outcome {
            Ok(reply) if *this.is_request => Ok(reply.map(move |item| {
                measurement.pass(&item);
                item
            })),
            // To a notification the head is the whole answer.
            Ok(reply) => {
                measurement.end(None);
                Ok(reply)
            }
            Err(error) => {
                measurement.end(Some(kind(&error)));
                Err(error)
            }
        })
    }
}
