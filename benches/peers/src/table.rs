//! The figures as tables in Markdown.

use std::fmt::{self, Display, Formatter};

use crate::clients::CLIENTS;
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
        Ok(())
    }
}

/// All works on one page: the medians of the processor time, and how many times as much as the bare client's that is.
#[derive(Debug)]
pub(crate) struct Overview<'a>(pub(crate) &'a [Results]);

impl Display for Overview<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let clients: Vec<_> = CLIENTS
            .into_iter()
            .filter(|client| self.0.iter().any(|results| results.entry(client.name).is_some()))
            .collect();
        write!(f, "| CPU µs a call (÷ bare); an event in (c) |")?;
        clients.iter().try_for_each(|client| write!(f, " {} |", client.title))?;
        write!(f, "\n|---|")?;
        clients.iter().try_for_each(|_| write!(f, "--:|"))?;
        writeln!(f)?;
        for results in self.0 {
            let work = &results.work;
            write!(f, "| ({}) {} |", work.letter, work.title)?;
            for client in &clients {
                match results.each(client.name, Figure::Cpu) {
                    Some(cpu) => write!(f, " {}", Short(cpu.median))?,
                    None => write!(f, " –")?,
                }
                match results.ratio(client.name, "bare", Figure::Cpu) {
                    Some(ratio) if client.name != "bare" => write!(f, " ({:.2}) |", ratio.median)?,
                    _ => write!(f, " |")?,
                }
            }
            writeln!(f)?;
        }
        Ok(())
    }
}
