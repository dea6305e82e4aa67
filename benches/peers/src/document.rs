//! The document: all figures, with what they were made on and how.

use std::fmt::{self, Display, Formatter};
use std::sync::Arc;

use tower::BoxError;

use crate::answers::Answers;
use crate::args::Args;
use crate::clients::CLIENTS;
use crate::decoders::{self, Decoders};
use crate::environment;
use crate::ratios::Ratios;
use crate::run::{self, Results};
use crate::table::Overview;
use crate::work::WORKS;

/// Where `--write-docs` puts it.
pub(crate) const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/benchmarks/peers.md");

/// Decoding is even work, and one of the decoders is slow at it: more rounds would tell no more.
const DECODER_ROUNDS: usize = 7;

/// What was measured.
#[derive(Debug)]
pub(crate) struct Document {
    rounds: usize,
    results: Vec<Results>,
    decoders: Option<Decoders>,
}

impl Document {
    /// Measures all that is wanted.
    pub(crate) fn make(args: &Args) -> Result<Self, BoxError> {
        let answers = Arc::new(Answers::new());
        let clients: Vec<_> = CLIENTS.into_iter().filter(|client| args.wants_client(client.name)).collect();
        let works = WORKS.into_iter().filter(|work| args.wants(&work.letter.to_string()));
        let results =
            works.map(|work| run::run(work, &clients, args.rounds, &answers)).collect::<Result<_, _>>()?;
        let decoders =
            args.wants("decoders").then(|| decoders::run(args.rounds.min(DECODER_ROUNDS))).transpose()?;
        Ok(Self { rounds: args.rounds, results, decoders })
    }
}

impl Display for Document {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, "# This transport and its peers at the same work\n")?;
        writeln!(f, "<!-- Written by the command below; changes belong in benches/peers. -->\n")?;
        writeln!(f, "```console\n$ cargo run --release -p mcp-streamable-http-peers -- --write-docs\n```\n")?;
        writeln!(f, "- {}, {}", environment::date(), environment::processor())?;
        writeln!(f, "- {}", environment::compiler())?;
        writeln!(f, "- {}\n", environment::versions())?;
        writeln!(f, "{}\n", include_str!("method.md").trim().replace("{rounds}", &self.rounds.to_string()))?;
        writeln!(f, "## Targets\n\n{}", Ratios::of(&self.results, self.decoders.as_ref()))?;
        if !self.results.is_empty() {
            writeln!(f, "## Calls\n\n{}", Overview(&self.results))?;
        }
        for results in &self.results {
            writeln!(f, "{results}")?;
        }
        if let Some(decoders) = &self.decoders {
            write!(f, "## Decoders alone\n\n{}\n\n{decoders}", include_str!("decoders.md").trim())?;
        }
        Ok(())
    }
}
