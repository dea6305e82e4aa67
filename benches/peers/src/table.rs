//! The figures as tables in Markdown.

use std::fmt::{self, Display, Formatter};

use crate::run::{Figure, Results};
use crate::statistics::Spread;

/// A number with as many digits as mean something.
pub(crate) struct Short(pub(crate) f64);

impl Display for Short {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.0.abs() {
            0.0 => write!(f, "0"),
            ..10.0 => write!(f, "{:.2}", self.0),
            ..100.0 => write!(f, "{:.1}", self.0),
            _ => write!(f, "{:.0}", self.0),
        }
    }
}

/// `median (least..most)`.
impl Display for Spread {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}..{})", Short(self.median), Short(self.least), Short(self.most))
    }
}

/// One work: a line for each client.
impl Display for Results {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let (work, unit) = (&self.work, self.work.unit());
        writeln!(f, "### ({}) {}\n", work.letter, work.title)?;
        writeln!(
            f,
            "| client | CPU µs/{unit} | ÷ bare | wall µs/{unit} | allocations/{unit} | connections a round |"
        )?;
        writeln!(f, "|---|--:|--:|--:|--:|--:|")?;
        for entry in &self.entries {
            let client = entry.client;
            let cell =
                |figure| self.each(client.name, figure).map_or("–".to_owned(), |spread| spread.to_string());
            let ratio = match self.ratio(client.name, "bare", Figure::Cpu) {
                Some(ratio) => format!("{:.2}", ratio.median),
                None => "–".to_owned(),
            };
            let connections = self
                .each(client.name, Figure::Connections)
                .map_or("–".to_owned(), |spread| format!("{:.0}", spread.median * work.units() as f64));
            let allocations = self
                .each(client.name, Figure::Allocations)
                .map_or("–".to_owned(), |spread| Short(spread.median).to_string());
            writeln!(
                f,
                "| {} | {} | {ratio} | {} | {allocations} | {connections} |",
                client.title,
                cell(Figure::Cpu),
                cell(Figure::Wall),
            )?;
        }
        for client in crate::clients::CLIENTS {
            if let Some(reason) = client.absence(work) {
                writeln!(f, "| {} | {reason} |||||", client.title)?;
            }
        }
        Ok(())
    }
}
