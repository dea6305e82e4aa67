#![doc = include_str!("../README.md")]

mod closed;
mod error;
mod message;
mod transport;

use mcp_streamable_http::StreamableHttp;
use mcp_streamable_http::channel::Channel;

pub use self::error::TransportError;
pub use self::transport::RmcpTransport;

/// Makes a transport of rmcp's out of one of ours.
///
/// ```no_run
/// use mcp_streamable_http::StreamableHttp;
/// use mcp_streamable_http::channel::ChannelOptions;
/// use mcp_streamable_http_rmcp::IntoRmcp;
/// use rmcp::ServiceExt;
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let transport = StreamableHttp::new("https://example.com/mcp".parse()?)?;
/// // The session outlives the client: another can take it up.
/// let channel = transport.channel_with(ChannelOptions::default().terminate(false));
/// let client = ().serve(channel.into_rmcp()).await?;
/// # Ok(())
/// # }
/// ```
pub trait IntoRmcp {
    /// What `serve` takes.
    fn into_rmcp(self) -> RmcpTransport;
}

/// By [`StreamableHttp::channel`], so within a tokio runtime.
impl IntoRmcp for StreamableHttp {
    fn into_rmcp(self) -> RmcpTransport {
        self.channel().into_rmcp()
    }
}

impl IntoRmcp for Channel {
    fn into_rmcp(self) -> RmcpTransport {
        RmcpTransport::new(self)
    }
}
