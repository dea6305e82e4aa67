//! Whole calls through the transport, over a server in memory.

use criterion::{Criterion, Throughput};
use mcp_streamable_http_benches::meter::drive;
use mcp_streamable_http_benches::stack::{CASES, Stack, Unit};

/// How many events come before the answer, where events are measured.
const EVENTS: usize = 1_000;

pub(crate) fn run(criterion: &mut Criterion) {
    for (unit, name) in [(Unit::Call, "whole calls"), (Unit::Event, "whole calls with 1,000 events")] {
        let mut group = criterion.benchmark_group(name);
        group.throughput(Throughput::Elements(if unit == Unit::Event { EVENTS as u64 } else { 1 }));
        for case in CASES.iter().filter(|case| case.per == unit) {
            let mut stack = Stack::new(case, EVENTS);
            group.bench_function(case.name, |bencher| bencher.iter(|| drive(stack.call())));
        }
        group.finish();
    }
}
