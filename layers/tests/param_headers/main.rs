//! Arguments of tool calls that are repeated in headers: what is learned of them, what is sent, and which tools are
//! left out of a listing.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "in a test a panic is how it fails, in its helpers too"
)]

mod arguments;
#[path = "../common/mod.rs"]
mod common;
mod edges;
mod hostile;
mod knowledge;
mod learning;
mod removal;
mod rules;
mod support;
mod values;
