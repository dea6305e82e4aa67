//! The whole transport over a server that fails in every way, on a clock that stands still while anything is left to do.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "in a test a panic is how it fails, in its helpers too"
)]

mod chaos;
#[path = "../channel/common.rs"]
#[allow(dead_code, reason = "it is shared, and not all of it is used here")]
mod common;
mod faults;
mod may_have_run;
mod playback;
mod record;
mod restart;
#[path = "../channel/support.rs"]
#[allow(dead_code, reason = "it is shared, and not all of it is used here")]
mod support;
