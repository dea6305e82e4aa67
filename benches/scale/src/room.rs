//! How many connections the system allows.

use rlimit::Resource;

use crate::BoxError;

/// Files that are open for something else.
const RESERVED_FILES: u64 = 100;

/// The ports that Linux gives to clients by default, of one address to another; those of other systems are fewer.
const PORTS: usize = 28_000;

/// How many connections this process and its server, which inherits the limit, can have: `wanted`, or as many as there can be.
pub(crate) fn for_connections(wanted: usize) -> Result<usize, BoxError> {
    // Up to the hard limit. Where it cannot be raised, what there is must do.
    let files =
        rlimit::increase_nofile_limit(u64::MAX).or_else(|_| Resource::NOFILE.get().map(|(soft, _)| soft))?;
    let files = usize::try_from(files.saturating_sub(RESERVED_FILES)).unwrap_or(PORTS);
    Ok(wanted.clamp(1, files.min(PORTS)))
}

/// What to say if they are fewer than wanted.
pub(crate) fn shortage(wanted: usize, count: usize) -> String {
    if count >= wanted {
        return String::new();
    }
    let [wanted, count] = [wanted, count].map(crate::report::number);
    format!("{wanted} were asked for, but the system allows only {count} connections.\n\n")
}
