//! A channel over a server without a network, on a clock that stands still while anything is left to do.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "in a test a panic is how it fails, in its helpers too"
)]

mod answers;
mod barriers;
mod bounds;
mod closing;
mod common;
mod delivery;
mod ending;
mod full;
mod lane;
mod last_words;
mod late;
mod limits;
mod listening;
mod order;
mod panics;
mod reuse;
mod spans;
mod superseded;
mod support;
mod traffic;
mod turns;
