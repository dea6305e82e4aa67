//! rmcp, the official SDK: on this transport, on its own with its default client, and on its own with a pool.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use mcp_streamable_http_rmcp::IntoRmcp;
use rmcp::ServiceExt;
use rmcp::handler::client::ClientHandler;
use rmcp::model::{CallToolRequestParams, JsonObject, ProgressNotificationParam};
use rmcp::service::{NotificationContext, RoleClient, RunningService};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use tower::BoxError;

use super::reqwest_builder;
use crate::answers::EVENTS;
use crate::peer::Peer;
use crate::server::Server;
use crate::work::{Depth, Seen, Shape, Wire, Work};

/// How often to look whether the handler has got the last notifications. They run in tasks of their own, and the response may
/// overtake them.
const LOOKS: usize = 10_000;

/// On this transport, through the adapter.
#[derive(Clone)]
pub(crate) struct OnThis(Client);

/// With the HTTP client that rmcp makes for itself, which keeps no connection.
#[derive(Clone)]
pub(crate) struct Default(Client);

/// With a client of reqwest's that keeps connections, as reqwest's do unless told otherwise.
#[derive(Clone)]
pub(crate) struct Pooled(Client);

#[derive(Clone)]
struct Client {
    service: Arc<RunningService<RoleClient, Counting>>,
    progress: Counting,
    shape: Shape,
    arguments: JsonObject,
}

/// Counts the notifications of progress.
#[derive(Clone, std::fmt::Debug, std::default::Default)]
struct Counting(Arc<AtomicUsize>);

impl ClientHandler for Counting {
    fn on_progress(
        &self,
        _: ProgressNotificationParam,
        _: NotificationContext<RoleClient>,
    ) -> impl Future<Output = ()> + Send + '_ {
        self.0.fetch_add(1, Ordering::Relaxed);
        std::future::ready(())
    }
}

impl Client {
    fn new(service: RunningService<RoleClient, Counting>, progress: Counting, work: &Work) -> Self {
        let arguments = work.shape.params()["arguments"].as_object().cloned().unwrap_or_default();
        Self { service: Arc::new(service), progress, shape: work.shape, arguments }
    }

    async fn over_reqwest(client: reqwest::Client, server: &Server, work: &Work) -> Result<Self, BoxError> {
        let config = StreamableHttpClientTransportConfig::with_uri(server.uri());
        let progress = Counting::default();
        let transport = StreamableHttpClientTransport::with_client(client, config);
        Ok(Self::new(progress.clone().serve(transport).await?, progress, work))
    }

    async fn exchange(&self) -> Result<Seen, BoxError> {
        let before = self.progress.0.load(Ordering::Relaxed);
        if self.shape == Shape::List {
            let list = self.service.list_tools(None).await?;
            return Ok(Seen { notifications: 0, size: list.tools.len() });
        }
        let mut call = CallToolRequestParams::new(Cow::Borrowed(self.shape.tool()));
        call.arguments = Some(self.arguments.clone());
        let result = self.service.call_tool(call).await?;
        let text = result.content.first().and_then(|content| content.as_text());
        let size = text.map_or(0, |text| text.text.len());
        let mut notifications = 0;
        if self.shape == Shape::Events {
            for _ in 0..LOOKS {
                notifications = self.progress.0.load(Ordering::Relaxed) - before;
                if notifications >= EVENTS {
                    break;
                }
                tokio::task::yield_now().await;
            }
        }
        Ok(Seen { notifications, size })
    }
}

impl Peer for OnThis {
    const DEPTH: Depth = Depth::Types;

    async fn connect(server: &Server, work: &Work) -> Result<Self, BoxError> {
        let progress = Counting::default();
        let service = progress.clone().serve(super::this::transport(server)?.into_rmcp()).await?;
        Ok(Self(Client::new(service, progress, work)))
    }

    async fn exchange(&mut self) -> Result<Seen, BoxError> {
        self.0.exchange().await
    }
}

impl Peer for Default {
    const DEPTH: Depth = Depth::Types;

    async fn connect(server: &Server, work: &Work) -> Result<Self, BoxError> {
        if work.wire == Wire::Plain {
            let progress = Counting::default();
            let service =
                progress.clone().serve(StreamableHttpClientTransport::from_uri(server.uri())).await?;
            return Ok(Self(Client::new(service, progress, work)));
        }
        // The same but for what it trusts and speaks, which cannot be told to the one that rmcp makes.
        let client = reqwest_builder(server)?.pool_max_idle_per_host(0).build()?;
        Client::over_reqwest(client, server, work).await.map(Self)
    }

    async fn exchange(&mut self) -> Result<Seen, BoxError> {
        self.0.exchange().await
    }
}

impl Peer for Pooled {
    const DEPTH: Depth = Depth::Types;

    async fn connect(server: &Server, work: &Work) -> Result<Self, BoxError> {
        Client::over_reqwest(reqwest_builder(server)?.build()?, server, work).await.map(Self)
    }

    async fn exchange(&mut self) -> Result<Seen, BoxError> {
        self.0.exchange().await
    }
}
