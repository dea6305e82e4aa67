//! Resuming: how the stream of a request goes on after its connection has ended, and when that is given up.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "in a test a panic is how it fails, in its helpers too"
)]

#[path = "../common/mod.rs"]
mod common;
mod duplicates;
mod ends;
mod from;
mod gets;
mod refusals;
mod sessions;
mod waits;
mod wire;

use common::*;
use wire::*;
