//! The command line.

use tower::BoxError;

/// What to run.
#[derive(Debug)]
pub(crate) struct Args {
    /// Letters of works; all if there are none.
    pub(crate) only: Vec<String>,
    /// Names of clients; all if there are none.
    pub(crate) clients: Vec<String>,
    pub(crate) rounds: usize,
    pub(crate) write_docs: bool,
}

pub(crate) const HELP: &str = "\
Options:
  --only a,c,decoders     these works only
  --clients bare,this     these clients only
  --rounds N              rounds that count, after one that does not
  --write-docs            write docs/benchmarks/peers.md and the table in README.md instead of printing";

/// Keeps a run within four minutes.
const ROUNDS: usize = 15;

impl Args {
    pub(crate) fn parse(mut args: impl Iterator<Item = String>) -> Result<Self, BoxError> {
        let mut parsed = Self { only: Vec::new(), clients: Vec::new(), rounds: ROUNDS, write_docs: false };
        while let Some(arg) = args.next() {
            let mut value = || args.next().ok_or_else(|| format!("{arg} needs a value\n{HELP}"));
            match arg.as_str() {
                "--only" => parsed.only = list(&value()?),
                "--clients" => parsed.clients = list(&value()?),
                "--rounds" => parsed.rounds = value()?.parse::<usize>()?.clamp(1, 200),
                "--write-docs" => parsed.write_docs = true,
                _ => return Err(format!("there is no option {arg}\n{HELP}").into()),
            }
        }
        if parsed.write_docs && !(parsed.only.is_empty() && parsed.clients.is_empty()) {
            return Err(
                "the document has everything in it: --write-docs goes without --only and --clients".into()
            );
        }
        Ok(parsed)
    }

    pub(crate) fn wants(&self, section: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|only| only == section)
    }

    pub(crate) fn wants_client(&self, name: &str) -> bool {
        self.clients.is_empty() || self.clients.iter().any(|client| client == name)
    }
}

fn list(value: &str) -> Vec<String> {
    value.split(',').map(|item| item.trim().to_owned()).filter(|item| !item.is_empty()).collect()
}
