//! What users of rmcp rely on over HTTP, on a clock that stands still while anything is left to do.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "in a test a panic is how it fails, in its helpers too"
)]

mod accepted;
mod answers;
mod asking;
mod cancelling;
mod challenges;
mod closing;
mod common;
mod concurrency;
mod headers;
mod origin;
mod sessions;
mod starting;
mod streams;
mod subscriptions;
#[allow(dead_code, reason = "the tests of the channel use more of it")]
#[path = "../../../tests/channel/support.rs"]
mod support;
