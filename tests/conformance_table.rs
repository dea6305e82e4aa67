//! `docs/conformance.md` names tests that are there, and each of its rows has one or says why not.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of a test")]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

const TABLE: &str = "docs/conformance.md";

/// How the last cell of a row begins that has no test.
const REASONS: [&str; 4] = ["application", "elsewhere", "choice", "not supported"];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn table() -> String {
    let path = root().join(TABLE);
    fs::read_to_string(&path)
        .unwrap_or_else(|error| panic!("{TABLE} is not in the workspace's root: {error}"))
}

/// What stands in backticks and has a `::` after the name of a file.
fn references(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.split('`').skip(1).step_by(2).filter_map(|code| {
        let (path, test) = code.split_once("::")?;
        path.ends_with(".rs").then_some((path, test))
    })
}

/// The rows of requirements: their cells.
fn rows(table: &str) -> Vec<Vec<&str>> {
    let is_row = |line: &&str| {
        line.starts_with('|') && !line.starts_with("|---") && !line.starts_with("| requirement |")
    };
    table
        .lines()
        .filter(is_row)
        .map(|line| line.trim_matches('|').split('|').map(str::trim).collect())
        .collect()
}

/// What is wrong with a reference, if anything.
fn missing(path: &str, test: &str) -> Option<String> {
    let Ok(source) = fs::read_to_string(root().join(path)) else {
        return Some(format!("{path}: there is no such file, which is to have the test {test}"));
    };
    let lines: Vec<_> = source.lines().map(str::trim).collect();
    let head = format!("fn {test}(");
    let Some(at) =
        lines.iter().position(|line| line.strip_prefix("async ").unwrap_or(line).starts_with(&head))
    else {
        return Some(format!("{path}: it has no function {test}"));
    };
    let attributes =
        lines[..at].iter().rev().take_while(|line| line.starts_with("#[") || line.starts_with("//"));
    let is_test =
        attributes.into_iter().any(|line| line.starts_with("#[test]") || line.starts_with("#[tokio::test"));
    (!is_test).then(|| format!("{path}: the function {test} is no test"))
}

#[test]
fn each_test_that_the_table_names_is_there() {
    let table = table();
    let named: BTreeSet<_> = references(&table).collect();
    assert!(named.len() > 100, "the table is read: {}", named.len());
    let missing: Vec<_> = named.into_iter().filter_map(|(path, test)| missing(path, test)).collect();
    assert!(missing.is_empty(), "{TABLE} names what is not there:\n{}", missing.join("\n"));
}

#[test]
fn each_row_has_a_test_or_a_reason() {
    let table = table();
    let rows = rows(&table);
    assert!(rows.len() > 80, "the table is read: {}", rows.len());
    for cells in rows {
        assert!([4, 5].contains(&cells.len()) && cells.iter().all(|cell| !cell.is_empty()), "{}", cells[0]);
        let proof = cells[cells.len() - 1];
        let has_reason = REASONS.iter().any(|reason| proof.starts_with(reason));
        assert_eq!(
            references(proof).count() == 0,
            has_reason,
            "no test, or a test and a reason: {}",
            cells[0]
        );
        // What is meant as a test must be read as one.
        let quoted = proof.split('`').skip(1).step_by(2).count();
        assert!(has_reason || references(proof).count() == quoted, "an odd reference: {}", cells[0]);
    }
}
