//! The table as text.

use std::fmt::Write as _;

use crate::expectations::Reason;
use crate::features::Feature;

/// A cell that was looked at.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// It works.
    Works,
    /// It was not tried, for this reason.
    Empty(Reason),
    /// It fails, with this error.
    Fails(String),
}

/// A row.
#[derive(Debug)]
pub(crate) struct Row {
    /// The server.
    pub(crate) server: String,
    /// The client.
    pub(crate) client: String,
    /// Its cells, in the order of [`Feature::ALL`].
    pub(crate) cells: Vec<Outcome>,
}

/// The table in Markdown, with the reasons of its empty cells below.
pub(crate) fn render(rows: &[Row]) -> String {
    let mut notes = Vec::new();
    let mut lines = vec![vec!["server".to_owned(), "client".to_owned()]];
    lines[0].extend(Feature::ALL.map(|feature| feature.name().to_owned()));
    for row in rows {
        let mut line = vec![row.server.clone(), row.client.clone()];
        line.extend(row.cells.iter().map(|cell| mark(cell, &mut notes)));
        lines.push(line);
    }
    let mut text = aligned(&lines);
    for (index, note) in notes.iter().enumerate() {
        let gap = if index == 0 { "\n" } else { "" };
        let _ = writeln!(text, "{gap}{}. {}", index + 1, note.text());
    }
    text
}

fn mark(cell: &Outcome, notes: &mut Vec<Reason>) -> String {
    match cell {
        Outcome::Works => "✓".to_owned(),
        Outcome::Fails(_) => "✗".to_owned(),
        Outcome::Empty(reason) => {
            let known = notes.iter().position(|note| note == reason);
            let index = known.unwrap_or_else(|| {
                notes.push(*reason);
                notes.len() - 1
            });
            superscript(index + 1)
        }
    }
}

fn superscript(number: usize) -> String {
    let digit =
        |digit: char| ['⁰', '¹', '²', '³', '⁴', '⁵', '⁶', '⁷', '⁸', '⁹'][digit as usize - '0' as usize];
    number.to_string().chars().map(digit).collect()
}

fn aligned(lines: &[Vec<String>]) -> String {
    let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<_> = (0..lines[0].len()).map(width).collect();
    let mut text = String::new();
    for (index, line) in lines.iter().enumerate() {
        for (cell, width) in line.iter().zip(&widths) {
            let _ = write!(text, "| {cell:width$} ");
        }
        text.push_str("|\n");
        if index == 0 {
            for width in &widths {
                let _ = write!(text, "|{:-<1$}", "", width + 2);
            }
            text.push_str("|\n");
        }
    }
    text
}
