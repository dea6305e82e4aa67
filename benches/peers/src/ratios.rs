//! What the figures should be, beside what they are.

use std::fmt::{self, Display, Formatter};

use crate::decoders::{Decoders, OURS, SSE_STREAM};
use crate::run::{Figure, Results};
use crate::statistics::Spread;

/// A bound on a figure.
#[derive(Clone, Copy, Debug)]
enum Target {
    AtMost(f64),
    AtLeast(f64),
}

/// A line of the table.
#[derive(Debug)]
struct Line {
    what: String,
    target: Target,
    unit: &'static str,
    measured: Option<Spread>,
}

/// Targets and what was measured.
#[derive(Debug)]
pub(crate) struct Ratios(Vec<Line>);

impl Ratios {
    /// What of it can be told from these results.
    pub(crate) fn of(results: &[Results], decoders: Option<&Decoders>) -> Self {
        use Figure::{Allocations, Cpu};
        use Target::{AtLeast, AtMost};

        let all = Sources { results };
        let mut lines = vec![
            all.ratio(('a', 1), "this", "bare", AtMost(1.15)),
            all.ratio(('a', 64), "this", "bare", AtMost(1.2)),
            all.ratio(('a', 1), "rmcp", "this", AtLeast(3.0)),
            all.ratio(('a', 64), "rmcp", "this", AtLeast(6.0)),
            all.ratio(('a', 1), "tower-mcp", "this", AtLeast(1.4)),
            all.ratio(('a', 1), "rmcp-this", "rmcp", AtMost(0.5)),
            all.ratio(('c', 1), "rmcp", "this", AtLeast(10.0)),
            all.ratio(('d', 1), "this", "bare", AtMost(1.3)),
            all.beyond(('c', 1), Cpu, " µs", AtMost(0.45)),
            all.beyond(('a', 1), Allocations, "", AtMost(8.0)),
            all.beyond(('c', 1), Allocations, "", AtMost(1.0)),
        ];
        for (size, name, least) in [(120, "120 B", 2.0), (1 << 10, "1 KiB", 2.0), (1 << 20, "1 MiB", 1.0)] {
            lines.push(Line {
                what: format!("decoding events of {name}, throughput: `Decoder` ÷ sse-stream"),
                target: AtLeast(least),
                unit: "",
                measured: decoders.and_then(|decoders| decoders.ratio(size, OURS, SSE_STREAM)),
            });
        }
        lines.retain(|line| line.measured.is_some());
        Self(lines)
    }
}

struct Sources<'a> {
    results: &'a [Results],
}

impl Sources<'_> {
    fn find(&self, (letter, in_flight): (char, usize)) -> Option<&Results> {
        self.results
            .iter()
            .find(|results| (results.work.letter, results.work.in_flight) == (letter, in_flight))
    }

    /// The processor time of one in terms of another's.
    fn ratio(&self, which: (char, usize), one: &str, other: &str, target: Target) -> Line {
        let results = self.find(which);
        let title =
            |name| results.and_then(|results| results.entry(name)).map_or("", |entry| entry.client.title);
        Line {
            what: format!("{}, CPU: {} ÷ {}", name(which), title(one), title(other)),
            target,
            unit: "",
            measured: results.and_then(|results| results.ratio(one, other, Figure::Cpu)),
        }
    }

    /// What this transport takes that the bare client does not.
    fn beyond(&self, which: (char, usize), figure: Figure, unit: &'static str, target: Target) -> Line {
        let results = self.find(which);
        let what = if figure == Figure::Allocations { "allocations" } else { "CPU" };
        let each = results.map_or("call", |results| results.work.unit());
        Line {
            what: format!("{}, {what} an {each} beyond bare", name(which)).replace("an call", "a call"),
            target,
            unit,
            measured: results.and_then(|results| results.beyond("this", "bare", figure)),
        }
    }
}

fn name((letter, in_flight): (char, usize)) -> String {
    match (letter, in_flight) {
        ('a', 1) => "(a) one after the other".to_owned(),
        ('a', _) => format!("(a) {in_flight} in flight"),
        _ => format!("({letter})"),
    }
}

impl Display for Target {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::AtMost(bound) => write!(f, "≤ {bound}"),
            Self::AtLeast(bound) => write!(f, "≥ {bound}"),
        }
    }
}

impl Target {
    /// To the digits that are printed: a connection that makes room once in a thousand calls is no allocation a call.
    fn met(self, value: f64) -> bool {
        let value = (value * 100.0).round() / 100.0;
        match self {
            Self::AtMost(bound) => value <= bound,
            Self::AtLeast(bound) => value >= bound,
        }
    }
}

impl Display for Ratios {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, "| | target | measured | met |\n|---|--:|--:|---|")?;
        for Line { what, target, unit, measured } in &self.0 {
            if let Some(measured) = measured {
                let met = if target.met(measured.median) { "yes" } else { "no" };
                writeln!(f, "| {what} | {target}{unit} | {measured}{unit} | {met} |")?;
            }
        }
        Ok(())
    }
}
