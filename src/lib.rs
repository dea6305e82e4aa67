//! The *Streamable HTTP* transport of the Model Context Protocol (MCP), for clients, as a [`tower`] service.
//!
//! [`StreamableHttp`] is a `Service<JsonRpcMessage>`: send a JSON-RPC message, get a [`Reply`], the stream of messages
//! that the server answers with. It speaks every revision of the transport, from `2025-03-26` to `2026-07-28`, and
//! keeps the session, the protocol version and the headers that each wants.
//!
//! ```no_run
//! use mcp_streamable_http::{JsonRpcMessage, StreamableHttp};
//! use serde_json::{Value, json};
//! use tower::ServiceExt;
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let transport = StreamableHttp::new("https://example.com/mcp".parse()?)?;
//!
//! let initialize = JsonRpcMessage::request(1, "initialize", json!({
//!     "protocolVersion": "2025-11-25",
//!     "capabilities": {},
//!     "clientInfo": { "name": "example", "version": "1.0.0" },
//! }));
//! let server: Value = transport.clone().oneshot(initialize).await?.response().await?.result()?;
//! println!("connected to {}", server["serverInfo"]["name"]);
//!
//! let initialized = JsonRpcMessage::notification("notifications/initialized", ());
//! transport.clone().oneshot(initialized).await?;
//! # Ok(())
//! # }
//! ```
//!
//! # Put your own layers around it, or under it
//!
//! The transport is a stack of small tower layers, on three floors. Yours go on the floor of the messages, with
//! [`StreamableHttp::layer`], or on that of plain HTTP, with [`Builder::http_layer`]:
//!
//! ```text
#![doc = include_str!("stack.txt")]
//! ```
//!
//! The layers themselves are in the crate [`layers`], for stacks put together by hand.
//!
//! # Features
//!
//! - `client`, on by default: the [`Client`] of [`StreamableHttp::new`], which is hyper with rustls. Without it there
//!   is [`StreamableHttp::with_client`], which takes any HTTP client that is a tower service.
//! - `ring`, on by default, and `aws-lc-rs`: the client's cryptography. With both, *ring* is used.
//! - `metrics`: [`layers::metrics`]. `cookies`: [`layers::cookies`]. `decompression`: [`Builder::decompression`].

mod builder;
pub mod channel;
#[cfg(feature = "client")]
pub mod client;
mod on_demand;
mod probe;
mod transport;

pub use mcp_streamable_http_layers as layers;

pub use self::builder::{Builder, Wire};
pub use self::channel::Channel;
#[cfg(feature = "client")]
pub use self::client::Client;
pub use self::transport::StreamableHttp;
pub use layers::probe::{Probe, ProbeCache};
pub use layers::sse::Limits;
pub use layers::{
    Backoff, Endpoint, Era, Error, Event, Events, Expects, JsonRpcError, JsonRpcMessage, JsonRpcNotification,
    JsonRpcRequest, JsonRpcResponse, Params, Payload, ProtocolVersion, RawJson, ReinitializePolicy, Reply,
    RequestId, ResultError, RetryPolicy, SavedSession, Session, SessionStatus, SessionWatch, ToolHeaders,
    error, options,
};

#[cfg(all(doctest, feature = "client"))]
#[doc = include_str!("../README.md")]
mod readme {}

#[cfg(test)]
mod tests {
    #[test]
    fn the_readme_shows_the_stack_as_it_is() {
        assert!(include_str!("../README.md").contains(include_str!("stack.txt")));
    }
}
