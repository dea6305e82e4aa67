//! The copy of the table in the repository.

use std::fs;
use std::path::Path;

use crate::Result;

const BEGIN: &str = "<!-- What follows is written by tests/matrix/run --write-docs -->\n";
const END: &str = "<!-- End of what is written -->\n";

/// Whether the table stands in the document between the two comments.
pub(crate) fn agrees(path: &Path, table: &str) -> Result<bool> {
    let text = fs::read_to_string(path)?;
    Ok(split(&text)?.1 == wrapped(table))
}

/// Puts the table there.
pub(crate) fn write(path: &Path, table: &str) -> Result<()> {
    let text = fs::read_to_string(path)?;
    let (before, _, after) = split(&text)?;
    Ok(fs::write(path, format!("{before}{}{after}", wrapped(table)))?)
}

fn wrapped(table: &str) -> String {
    format!("\n{table}\n")
}

/// What is before the table, with the first comment, the table, and what is after.
fn split(text: &str) -> Result<(&str, &str, &str)> {
    let missing = |comment: &str| format!("the document has no comment {comment:?}");
    let begin = text.find(BEGIN).ok_or_else(|| missing(BEGIN))? + BEGIN.len();
    let end = begin + text[begin..].find(END).ok_or_else(|| missing(END))?;
    Ok((&text[..begin], &text[begin..end], &text[end..]))
}
