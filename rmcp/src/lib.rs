//! The official Rust SDK, `rmcp`, over this transport.
