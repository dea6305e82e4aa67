//! The modern era, and telling it from the one before, over a server without a network.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "in a test a panic is how it fails, in its helpers too"
)]

mod again;
mod asked;
mod cached;
#[path = "../channel/common.rs"]
#[allow(dead_code, reason = "it is shared, and not all of it is used here")]
mod common;
mod edges;
mod hostile;
mod matrix;
mod probing;
#[path = "../channel/support.rs"]
#[allow(dead_code, reason = "it is shared, and not all of it is used here")]
mod support;
mod switching;
