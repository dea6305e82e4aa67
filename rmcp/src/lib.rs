//! The official Rust SDK, [`rmcp`], over the transport of [`mcp_streamable_http`].
mod closed;
mod error;
mod message;
mod transport;

use mcp_streamable_http::StreamableHttp;
use mcp_streamable_http::channel::Channel;

pub use self::error::TransportError;
pub use self::transport::RmcpTransport;

/// Makes a transport of rmcp's out of one of ours.
pub trait IntoRmcp {
    /// To be given to `serve`. It must be called within a tokio runtime.
    fn into_rmcp(self) -> RmcpTransport;
}

/// With the default [`ChannelOptions`](mcp_streamable_http::channel::ChannelOptions).
impl IntoRmcp for StreamableHttp {
    fn into_rmcp(self) -> RmcpTransport {
        self.channel().into_rmcp()
    }
}

/// With the options of the channel.
impl IntoRmcp for Channel {
    fn into_rmcp(self) -> RmcpTransport {
        RmcpTransport::new(self)
    }
}
