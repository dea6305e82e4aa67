//! Helpers of the interoperability suite, which drives the transport against MCP servers of other makers.
//!
//! The tests are in `tests/suite`, the servers in `servers`. `tests/interop/run` installs the servers, tells the tests
//! where they are, and runs them. Without that every test fails: a suite that skips what it cannot reach proves
//! nothing.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "test support: a panic is how a test fails"
)]

mod client;
mod parts;
mod raw;
mod relay;
mod server;

pub use self::client::{Client, ToolResult};
pub use self::parts::{Nginx, Proxy, Served, free_port};
pub use self::raw::send as send_raw;
pub use self::relay::Relay;
pub use self::server::{OwnServer, Server};
