//! Every client on this transport against every server: one table. `tests/matrix/run` installs the servers and starts
//! this; `docs/interoperability.md` explains what comes out.
//!
//! `servers` has the servers, `client` the clients, `features` the checks, and `expectations` which of them are made.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "the table is what this is for")]

// Of the suite next door, by path: an unpublished package cannot be a dependency of one that is packaged.
mod client;
mod document;
mod expectations;
mod features;
#[allow(
    dead_code,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "there it is a library, of which more is used, and which may panic"
)]
#[path = "../../interop/src/server.rs"]
mod processes;
#[allow(
    dead_code,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "there it is a library, of which more is used, and which may panic"
)]
#[path = "../../interop/src/relay.rs"]
mod relay;
mod servers;
mod table;
mod versions;

use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use crate::client::{Bridge, Direct, Json, Rmcp};
use crate::expectations::{Cell, expected};
use crate::features::Feature;
use crate::servers::{Profile, SERVERS};
use crate::table::{Outcome, Row, render};

type Result<T, E = Box<dyn Error + Send + Sync>> = std::result::Result<T, E>;

/// Generous, as it only bounds how long a check that hangs takes to fail.
const PATIENCE: Duration = Duration::from_secs(30);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Driver {
    Direct,
    Bridge,
    Rmcp,
}

impl Driver {
    const ALL: [Self; 3] = [Self::Direct, Self::Bridge, Self::Rmcp];

    fn name(self) -> String {
        match self {
            Self::Direct => "`StreamableHttp`".to_owned(),
            Self::Bridge => "`examples/bridge.rs`".to_owned(),
            Self::Rmcp => format!("rmcp {}", versions::rmcp()),
        }
    }
}

#[derive(Debug, Default)]
struct Options {
    document: Option<PathBuf>,
    write: bool,
    only: Option<String>,
}

#[tokio::main]
async fn main() -> Result<ExitCode> {
    let options = options(std::env::args().skip(1))?;
    let mut rows = Vec::new();
    for profile in &SERVERS {
        for driver in Driver::ALL {
            rows.extend(row(profile, driver, options.only.as_deref()).await);
        }
    }
    if rows.is_empty() {
        return Err("no row has such a name".into());
    }
    let table = render(&rows);
    println!("{table}");
    let failures = failures(&rows);
    for failure in &failures {
        eprintln!("✗ {failure}");
    }
    if !failures.is_empty() {
        return Ok(ExitCode::FAILURE);
    }
    conclude(&options, &table)
}

/// Compares the table with the document, or puts it there.
fn conclude(options: &Options, table: &str) -> Result<ExitCode> {
    let (Some(document), None) = (&options.document, &options.only) else { return Ok(ExitCode::SUCCESS) };
    if options.write {
        document::write(document, table)?;
    } else if !document::agrees(document, table)? {
        eprintln!("{} has another table: run tests/matrix/run --write-docs", document.display());
        return Ok(ExitCode::FAILURE);
    }
    Ok(ExitCode::SUCCESS)
}

/// Makes the checks of a row, if it is wanted.
async fn row(profile: &'static Profile, driver: Driver, only: Option<&str>) -> Option<Row> {
    let (server, client) = (profile.name(), driver.name());
    let name = format!("{server}, {client}");
    if only.is_some_and(|only| !name.contains(only)) {
        return None;
    }
    eprintln!("{name}");
    let mut cells = Vec::with_capacity(Feature::ALL.len());
    for feature in Feature::ALL {
        cells.push(match expected(profile.kind, driver, feature) {
            Cell::Empty(reason) => Outcome::Empty(reason),
            Cell::Works => match bounded(profile, driver, feature).await {
                Ok(()) => Outcome::Works,
                Err(error) => Outcome::Fails(error.to_string()),
            },
        });
    }
    Some(Row { server, client, cells })
}

/// Makes a check, in a task of its own: a panic fails this cell alone.
async fn bounded(profile: &'static Profile, driver: Driver, feature: Feature) -> Result<()> {
    let check = async move {
        match driver {
            Driver::Direct => feature.check::<Json<Direct>>(profile).await,
            Driver::Bridge => feature.check::<Json<Bridge>>(profile).await,
            Driver::Rmcp => feature.check::<Rmcp>(profile).await,
        }
    };
    match tokio::spawn(tokio::time::timeout(PATIENCE, check)).await {
        Ok(Ok(outcome)) => outcome,
        Ok(Err(_)) => Err(format!("it hangs: no end after {PATIENCE:?}").into()),
        Err(panic) => Err(panic.into()),
    }
}

fn failures(rows: &[Row]) -> Vec<String> {
    let mut failures = Vec::new();
    for row in rows {
        for (feature, cell) in Feature::ALL.iter().zip(&row.cells) {
            if let Outcome::Fails(error) = cell {
                failures.push(format!("{}, {}, {}: {error}", row.server, row.client, feature.name()));
            }
        }
    }
    failures
}

fn options(mut arguments: impl Iterator<Item = String>) -> Result<Options> {
    let usage = "usage: matrix [--document PATH] [--write-docs] [--only TEXT]";
    let mut options = Options::default();
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--document" => options.document = Some(arguments.next().ok_or(usage)?.into()),
            "--write-docs" => options.write = true,
            "--only" => options.only = Some(arguments.next().ok_or(usage)?),
            _ => return Err(usage.into()),
        }
    }
    Ok(options)
}
