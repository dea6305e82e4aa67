//! How the transport scales: many idle streams, many calls at once, many calls in a row.
//!
//! ```text
//! cargo run --release -p mcp-streamable-http-scale -- listeners [N] | in-flight [N] | sequential [N] | all [--write-docs]
//! ```
//!
//! Everything goes over the loopback interface. The server is this same program, started once more for each measurement:
//! so its heap does not count, and no two measurements compete for ports.

mod bare;
mod heap;
mod hold;
mod in_flight;
mod listeners;
mod ours;
mod report;
mod room;
mod sequential;
mod server;
mod serving;

use std::alloc::System;
use std::process::ExitCode;
use std::time::Duration;

use tokio::time::timeout;
use tracking_allocator::Allocator;

#[global_allocator]
static ALLOCATOR: Allocator<System> = Allocator::system();

type BoxError = Box<dyn std::error::Error + Send + Sync>;

const USAGE: &str = "listeners [N] | in-flight [N] | sequential [N] | all [--write-docs]";

/// A measurement that takes longer hangs.
const AT_MOST: Duration = Duration::from_secs(15 * 60);

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            report::complain(&error.to_string());
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), BoxError> {
    let mut arguments = std::env::args().skip(1);
    let (command, argument) = (arguments.next().unwrap_or_default(), arguments.next());
    let count = |default: usize| argument.as_deref().map_or(Ok(default), str::parse);
    if command == serving::COMMAND {
        return serving::run(argument, arguments.next());
    }
    heap::track()?;
    match &*command {
        "listeners" => report::show(&listeners::run(count(listeners::DEFAULT)?)?),
        "in-flight" => report::show(&in_flight::run(count(in_flight::DEFAULT)?)?),
        "sequential" => report::show(&sequential::run(count(sequential::DEFAULT)?)?),
        "all" => report::all(argument.as_deref() == Some("--write-docs")),
        _ => Err(USAGE.into()),
    }
}

/// Runs a measurement on a runtime of its own, and with that ends all that it has started: the next one finds a heap
/// without leftovers. One thread, since the server needs one too, and so that nothing happens between two readings.
fn measure<T>(measurement: impl Future<Output = Result<T, BoxError>>) -> Result<T, BoxError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let result = runtime.block_on(async { timeout(AT_MOST, measurement).await });
    result.unwrap_or_else(|_| Err("it takes too long".into()))
}
