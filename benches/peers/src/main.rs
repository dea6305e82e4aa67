//! This transport and its peers at the same work, in one process: see `docs/benchmarks/peers.md`.
#![allow(clippy::print_stdout, reason = "a program that prints its figures")]

mod answers;
mod args;
mod clients;
mod decoders;
mod document;
mod environment;
mod meter;
mod peer;
mod ratios;
mod run;
mod server;
mod statistics;
mod table;
mod work;

use tower::BoxError;

use crate::args::Args;
use crate::document::Document;

fn main() -> Result<(), BoxError> {
    let args = Args::parse(std::env::args().skip(1))?;
    // The one of all clients: with two of them compiled in, those that are not told would not know which to take.
    rustls::crypto::ring::default_provider()
        .install_default()
        .map_err(|_| "there is a provider of cryptography already")?;
    let document = Document::make(&args)?;
    if args.write_docs {
        document.write()?;
        println!("written: docs/benchmarks/peers.md, and the table in README.md");
    } else {
        println!("{document}");
    }
    Ok(())
}
