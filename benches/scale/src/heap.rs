//! What is on this process's heap: how much, at most, and in blocks of which sizes.
//!
//! The sizes are those that the program asked for. What the allocator rounds them up to is its own business, and differs
//! from one to the other.

use std::sync::atomic::{AtomicIsize, AtomicUsize, Ordering::Relaxed};

use tracking_allocator::{AllocationGroupId, AllocationRegistry, AllocationTracker};

use crate::BoxError;

/// Blocks up to this size are counted apart by their size; larger ones are rare, and are counted together.
const LARGEST: usize = 16 << 10;

static IN_USE: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);
static BLOCKS: [AtomicIsize; LARGEST + 1] = [const { AtomicIsize::new(0) }; LARGEST + 1];
static LARGE_BYTES: AtomicUsize = AtomicUsize::new(0);

struct Tracker;

impl AllocationTracker for Tracker {
    fn allocated(&self, _: usize, size: usize, _: usize, _: AllocationGroupId) {
        let in_use = IN_USE.fetch_add(size, Relaxed) + size;
        PEAK.fetch_max(in_use, Relaxed);
        match BLOCKS.get(size) {
            Some(blocks) => drop(blocks.fetch_add(1, Relaxed)),
            None => drop(LARGE_BYTES.fetch_add(size, Relaxed)),
        }
    }

    fn deallocated(&self, _: usize, size: usize, _: usize, _: AllocationGroupId, _: AllocationGroupId) {
        IN_USE.fetch_sub(size, Relaxed);
        match BLOCKS.get(size) {
            Some(blocks) => drop(blocks.fetch_sub(1, Relaxed)),
            None => drop(LARGE_BYTES.fetch_sub(size, Relaxed)),
        }
    }
}

/// Counts from now on. What was allocated before is never counted, nor is its end.
pub(crate) fn track() -> Result<(), BoxError> {
    AllocationRegistry::set_global_tracker(Tracker)?;
    AllocationRegistry::enable_tracking();
    Ok(())
}

/// The bytes that are allocated at the moment.
pub(crate) fn in_use() -> usize {
    IN_USE.load(Relaxed)
}

/// The most that there was at a time since [`restart_peak`].
pub(crate) fn peak() -> usize {
    PEAK.load(Relaxed)
}

pub(crate) fn restart_peak() {
    PEAK.store(in_use(), Relaxed);
}

/// What is on the heap at a moment, itself not counted.
pub(crate) struct Snapshot {
    bytes: usize,
    blocks: Vec<isize>,
    large_bytes: usize,
}

/// What has come onto the heap between two moments.
#[derive(Clone)]
pub(crate) struct Growth {
    pub(crate) bytes: isize,
    /// Sizes, and how many more blocks there are of each; only those that there are more of, or fewer.
    pub(crate) blocks: Vec<(usize, isize)>,
    /// Of all blocks that are too large to be counted apart.
    pub(crate) large_bytes: isize,
}

impl Snapshot {
    pub(crate) fn take() -> Self {
        let (bytes, large_bytes) = (in_use(), LARGE_BYTES.load(Relaxed));
        let blocks =
            AllocationRegistry::untracked(|| BLOCKS.iter().map(|blocks| blocks.load(Relaxed)).collect());
        Self { bytes, blocks, large_bytes }
    }

    pub(crate) fn growth(&self) -> Growth {
        let now = Self::take();
        let blocks = self.blocks.iter().zip(&now.blocks).map(|(before, after)| after - before);
        Growth {
            bytes: difference(now.bytes, self.bytes),
            blocks: blocks.enumerate().filter(|(_, more)| *more != 0).collect(),
            large_bytes: difference(now.large_bytes, self.large_bytes),
        }
    }
}

/// How much more there is.
pub(crate) fn difference(after: usize, before: usize) -> isize {
    signed(after) - signed(before)
}

/// A count of bytes or blocks, which is far from the end of either type.
pub(crate) fn signed(count: usize) -> isize {
    isize::try_from(count).unwrap_or(isize::MAX)
}
