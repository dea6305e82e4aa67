//! tower-mcp, an implementation of MCP that also builds on tower, with its HTTP client.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::Value;
use tower::BoxError;
use tower_mcp::client::{HttpClientTransport, McpClient, NotificationHandler};

use super::reqwest_builder;
use crate::peer::Peer;
use crate::server::Server;
use crate::work::{Depth, Seen, Shape, Wire, Work};

#[derive(Clone)]
pub(crate) struct TowerMcp {
    client: Arc<McpClient>,
    progress: Arc<AtomicUsize>,
    shape: Shape,
    arguments: Value,
}

impl Peer for TowerMcp {
    const DEPTH: Depth = Depth::Types;

    async fn connect(server: &Server, work: &Work) -> Result<Self, BoxError> {
        let transport = match work.wire {
            Wire::Plain => HttpClientTransport::new(server.uri()),
            // The one that it makes for itself knows no other certificates and no prior knowledge.
            Wire::Tls | Wire::Http2 => {
                HttpClientTransport::with_client(server.uri(), reqwest_builder(server)?.build()?)
            }
        };
        let progress = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&progress);
        let handler = NotificationHandler::new().on_progress(move |_| {
            counted.fetch_add(1, Ordering::Relaxed);
        });
        let mut builder = McpClient::builder();
        if work.shape == Shape::Events {
            builder = builder.request_progress();
        }
        let client = builder.connect(transport, handler).await?;
        client.initialize("peers", "1.0.0").await?;
        Ok(Self {
            client: Arc::new(client),
            progress,
            shape: work.shape,
            arguments: work.shape.params()["arguments"].clone(),
        })
    }

    async fn exchange(&mut self) -> Result<Seen, BoxError> {
        if self.shape == Shape::List {
            return Ok(Seen { notifications: 0, size: self.client.list_tools().await?.tools.len() });
        }
        let before = self.progress.load(Ordering::Relaxed);
        let result = self.client.call_tool(self.shape.tool(), self.arguments.clone()).await?;
        let size = result.first_text().map_or(0, str::len);
        // Notifications are handled in the order in which they came, before the response.
        Ok(Seen { notifications: self.progress.load(Ordering::Relaxed) - before, size })
    }
}
