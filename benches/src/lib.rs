//! What the benchmarks have in common: a server in memory, the calls that are made to it, and how they are driven.
//!
//! `benches/parts` measures how long the parts take, and `benches/instructions` counts the instructions of whole calls;
//! see there.
#![allow(clippy::unwrap_used, reason = "a benchmark that is set up wrongly is to stop")]

pub mod memory;
pub mod meter;
pub mod noop;
pub mod stack;
pub mod texts;
