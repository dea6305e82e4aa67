//! The whole transport, with its default client, against a scripted server on the loopback interface.

#![cfg(all(feature = "client", any(feature = "ring", feature = "aws-lc-rs")))]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "in a test a panic is how it fails, in its helpers too"
)]

mod answers;
mod bad_input;
mod cancellation;
mod common;
mod composition;
mod concurrency;
mod connections;
mod errors;
mod expiry;
mod headers;
mod listening;
mod listening_trouble;
mod modern;
mod notifications;
mod parallel_sessions;
mod redirects;
mod secrets;
mod sessions;
mod sse;
mod sse_framing;
#[path = "../support/mod.rs"]
mod support;
mod swap;
mod termination;
mod timeouts;
