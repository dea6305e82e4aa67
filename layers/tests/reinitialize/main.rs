//! A session that has expired: when another is started in its place, and what is sent again in it.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "in a test a panic is how it fails, in its helpers too"
)]

#[path = "../common/mod.rs"]
mod common;
mod dropped;
mod failures;
mod handshake;
mod own_initialize;
mod replay;
mod support;
mod together;
