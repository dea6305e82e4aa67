//! rmcp's word for a stream that has ended early.
//!
//! rmcp ends a subscription as `Abrupt` if it gets an error that only its own transport can make: the mark in it is private, and
//! another in each process. So the first time that one is needed, rmcp's transport is made to lose a stream, in memory.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderName, HeaderValue};
use rmcp::RoleClient;
use rmcp::model::{
    ClientJsonRpcMessage, ClientRequest, DiscoverRequest, DiscoverRequestParams, ErrorData, PingRequest,
    RequestId, ServerJsonRpcMessage,
};
use rmcp::transport::common::client_side_sse::BoxedSseResponse;
use rmcp::transport::streamable_http_client::{
    StreamableHttpClient, StreamableHttpClientTransportConfig, StreamableHttpError,
    StreamableHttpPostResponse,
};
use rmcp::transport::{StreamableHttpClientTransport, Transport};
use tokio::sync::OnceCell;
use tokio::time::timeout;

/// Generous, as it happens in memory.
const PATIENCE: Duration = Duration::from_secs(1);

/// The error. `None`: this rmcp does not make one like that.
pub(crate) async fn stream_closed() -> Option<ErrorData> {
    static ERROR: OnceCell<Option<ErrorData>> = OnceCell::const_new();
    ERROR.get_or_init(async || timeout(PATIENCE, lose_a_stream()).await.ok().flatten()).await.clone()
}

async fn lose_a_stream() -> Option<ErrorData> {
    let config = StreamableHttpClientTransportConfig::with_uri("http://in.memory");
    let mut transport = StreamableHttpClientTransport::with_client(InMemory, config);
    let start = ClientRequest::DiscoverRequest(DiscoverRequest::new(DiscoverRequestParams {}));
    let lost = ClientRequest::PingRequest(PingRequest::default());
    let mut error = None;
    for (id, request) in [(0, start), (1, lost)] {
        let request = ClientJsonRpcMessage::request(request, RequestId::Number(id));
        Transport::<RoleClient>::send(&mut transport, request).await.ok()?;
        error = match transport.receive().await? {
            // The mark is in the data.
            ServerJsonRpcMessage::Error(answer) => Some(answer.error).filter(|error| error.data.is_some()),
            _ => None,
        };
    }
    let _ = transport.close().await;
    error
}

/// Answers the first request, and everything after it with a stream that ends at once.
#[derive(Clone)]
struct InMemory;

type Failure = StreamableHttpError<Infallible>;

impl StreamableHttpClient for InMemory {
    type Error = Infallible;

    async fn post_message(
        &self,
        _: Arc<str>,
        message: ClientJsonRpcMessage,
        _: Option<Arc<str>>,
        _: Option<String>,
        _: HashMap<HeaderName, HeaderValue>,
    ) -> Result<StreamableHttpPostResponse, Failure> {
        Ok(match message {
            ClientJsonRpcMessage::Request(request)
                if matches!(request.request, ClientRequest::DiscoverRequest(_)) =>
            {
                let refusal = ErrorData::invalid_request("in memory", None);
                StreamableHttpPostResponse::Json(ServerJsonRpcMessage::error(refusal, Some(request.id)), None)
            }
            _ => StreamableHttpPostResponse::Sse(Box::pin(futures_util::stream::empty()), None),
        })
    }

    async fn delete_session(
        &self,
        _: Arc<str>,
        _: Arc<str>,
        _: Option<String>,
        _: HashMap<HeaderName, HeaderValue>,
    ) -> Result<(), Failure> {
        Ok(())
    }

    async fn get_stream(
        &self,
        _: Arc<str>,
        _: Option<Arc<str>>,
        _: Option<String>,
        _: Option<String>,
        _: HashMap<HeaderName, HeaderValue>,
    ) -> Result<BoxedSseResponse, Failure> {
        Err(StreamableHttpError::ServerDoesNotSupportSse)
    }
}
