//! How long the parts take: run it with `benches/parts`, which makes a table of it.
#![allow(clippy::unwrap_used, reason = "a benchmark that is set up wrongly is to stop")]

mod decoder;
mod layers;
mod message;
mod mirroring;
mod stack;

use std::time::Duration;

use criterion::Criterion;
use mcp_streamable_http_benches::meter;

fn main() {
    // Short, so that all of it takes a few minutes: what regresses by less than such a run shows is in the counts of
    // instructions.
    let mut criterion = Criterion::default()
        .without_plots()
        .warm_up_time(Duration::from_millis(200))
        .measurement_time(Duration::from_millis(800))
        .sample_size(30)
        .nresamples(10_000)
        .configure_from_args();
    let runtime = meter::runtime();
    let _entered = runtime.enter();
    decoder::run(&mut criterion);
    message::run(&mut criterion);
    mirroring::run(&mut criterion);
    layers::run(&mut criterion);
    stack::run(&mut criterion);
    criterion.final_summary();
}
