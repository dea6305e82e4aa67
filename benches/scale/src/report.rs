//! What is shown, and written into the documentation.

use std::io::Write;
use std::path::Path;
use std::time::SystemTime;

use crate::{BoxError, in_flight, listeners, sequential};

/// The command, as a reader would repeat it.
const COMMAND: &str = "cargo run --release -p mcp-streamable-http-scale -- all --write-docs";

pub(crate) fn show(text: &str) -> Result<(), BoxError> {
    Ok(std::io::stdout().write_all(text.as_bytes())?)
}

pub(crate) fn complain(text: &str) {
    // Where nobody listens there is nobody to complain to.
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// With commas between thousands.
pub(crate) fn number(number: usize) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Everything, with the default counts.
pub(crate) fn all(write_docs: bool) -> Result<(), BoxError> {
    let sections = [
        listeners::run(listeners::DEFAULT)?,
        in_flight::run(in_flight::DEFAULT)?,
        sequential::run(sequential::DEFAULT)?,
    ];
    let text = format!("{}\n{}", preamble(), sections.join("\n"));
    show(&text)?;
    if write_docs {
        let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/benchmarks");
        std::fs::create_dir_all(&docs)?;
        std::fs::write(docs.join("scale.md"), text)?;
    }
    Ok(())
}

fn preamble() -> String {
    let cpu = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpu.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let model = model.map_or("unknown", |(_, model)| model);
    let cores = std::thread::available_parallelism().map_or_else(|_| "?".into(), |cores| cores.to_string());
    let date = httpdate::fmt_http_date(SystemTime::now());
    format!(
        "# Scale\n\n\
         This page is written by `{COMMAND}`; do not edit it.\n\n\
         {date}; {model}, {cores} cores; {}.\n",
        std::env::consts::OS
    )
}
