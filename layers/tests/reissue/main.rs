//! Reissuing: which requests of the modern era are sent again, under which id, and what the caller sees of it.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "in a test a panic is how it fails, in its helpers too"
)]

mod breaks;
#[path = "../common/mod.rs"]
mod common;
mod edges;
mod ends;
mod given_up;
mod listing;
mod messages;
mod mismatch;
mod never;
mod options;
mod renaming;
mod subscriptions;
mod support;

use common::*;
use messages::*;
use support::*;
