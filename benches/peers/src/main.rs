//! This transport and its peers at the same work, in one process: see `docs/benchmarks/peers.md`.
#![allow(clippy::print_stdout, reason = "a program that prints its figures")]

mod answers;
mod args;
mod clients;
mod meter;
mod peer;
mod run;
mod server;
mod statistics;
mod table;
mod work;

use std::sync::Arc;

use tower::BoxError;

use crate::answers::Answers;
use crate::args::Args;
use crate::clients::CLIENTS;
use crate::work::WORKS;

fn main() -> Result<(), BoxError> {
    let args = Args::parse(std::env::args().skip(1))?;
    let answers = Arc::new(Answers::new());
    let clients: Vec<_> = CLIENTS.into_iter().filter(|client| args.wants_client(client.name)).collect();
    for work in WORKS.into_iter().filter(|work| args.wants(&work.letter.to_string())) {
        println!("{}", run::run(work, &clients, args.rounds, &answers)?);
    }
    Ok(())
}
