//! What a piece of work costs the thread that does it.

use std::time::{Duration, Instant};

use alloc_counter::{AllocCounterSystem, count_alloc};
use cpu_time::ThreadTime;
use tokio::runtime::Runtime;

/// Counts for each thread by itself. The server runs in this process too, and what it allocates must not count.
#[global_allocator]
static ALLOCATOR: AllocCounterSystem = AllocCounterSystem;

/// What was used up.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cost {
    /// Time on the clock.
    pub(crate) wall: Duration,
    /// Processor time of this thread, with what the kernel did on its behalf.
    pub(crate) cpu: Duration,
    /// Allocations and reallocations.
    pub(crate) allocations: usize,
}

/// Meters this thread while `work` runs.
pub(crate) fn metered<T>(work: impl FnOnce() -> T) -> (Cost, T) {
    let (wall, cpu) = (Instant::now(), ThreadTime::now());
    let ((allocations, reallocations, _), output) = count_alloc(work);
    let (cpu, wall) = (cpu.elapsed(), wall.elapsed());
    (Cost { wall, cpu, allocations: allocations + reallocations }, output)
}

/// Meters a future on a runtime that has no thread but this one. So the tasks that a client has running, such as those that
/// drive its connections, are part of the cost.
pub(crate) fn metered_on<T>(runtime: &Runtime, work: impl Future<Output = T>) -> (Cost, T) {
    metered(|| runtime.block_on(work))
}
