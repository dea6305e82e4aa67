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
const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/benchmarks/peers.md");
/// And where it puts the overview, between these two lines.
const README: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../README.md");
const BEGIN: &str = "<!-- Written by the command below; changes belong in benches/peers. -->\n";
const END: &str = "<!-- End of what it writes. -->\n";
/// Shows what the command does, which is the same in both.
const COMMAND: &str = "```console\n$ cargo run --release -p mcp-streamable-http-peers -- --write-docs\n```\n";

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
        // First, on a heap that nothing else has used: how its memory lies is half of what a long event costs.
        let decoders =
            args.wants("decoders").then(|| decoders::run(args.rounds.min(DECODER_ROUNDS))).transpose()?;
        let answers = Arc::new(Answers::new());
        let clients: Vec<_> = CLIENTS.into_iter().filter(|client| args.wants_client(client.name)).collect();
        let works = WORKS.into_iter().filter(|work| args.wants(&work.letter.to_string()));
        let results =
            works.map(|work| run::run(work, &clients, args.rounds, &answers)).collect::<Result<_, _>>()?;
        Ok(Self { rounds: args.rounds, results, decoders })
    }

    /// Writes the document, and the overview into the README.
    pub(crate) fn write(&self) -> Result<(), BoxError> {
        std::fs::write(PATH, self.to_string())?;
        let readme = std::fs::read_to_string(README)?;
        let (before, rest) = readme.split_once(BEGIN).ok_or("the README has no place for the table")?;
        let (_, after) = rest.split_once(END).ok_or("the table in the README has no end")?;
        let made = format!("Made on {}, {}:", environment::date(), environment::processor());
        let overview = Overview(&self.results);
        std::fs::write(README, format!("{before}{BEGIN}\n{made}\n\n{COMMAND}\n{overview}\n{END}{after}"))?;
        Ok(())
    }
}

impl Display for Document {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, "# This transport and its peers at the same work\n")?;
        writeln!(f, "{BEGIN}\n{COMMAND}")?;
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
