//! The example `quickstart` as its readers run it, against servers that are not its own.

use std::env;
use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use crate::profile::Profile;

/// Generous: the example may have to be built first.
const PATIENCE: Duration = Duration::from_secs(300);

pub(crate) fn drives(profile: &Profile, result: &str) {
    let output = run(&profile.server.uri().to_string());
    let connected = format!("Connected to {:?}, protocol version 2025-11-25.", profile.name);
    let result = format!("  result: {result}");
    let essential = [
        connected.as_str(),
        "  notifications/progress: 1 of 3",
        "  notifications/progress: 2 of 3",
        "  notifications/progress: 3 of 3",
        result.as_str(),
        "Calling a method that does not exist:",
        "-32601",
        "The session has ended.",
    ];
    // They come in this order, whatever is between them.
    let mut lines = output.lines();
    for expected in essential {
        let found =
            lines.any(|line| if expected == "-32601" { line.contains(expected) } else { line == expected });
        assert!(found, "{expected:?} is missing, or not in its place:\n{output}");
    }
}

/// What it prints. It must succeed.
fn run(url: &str) -> String {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../Cargo.toml");
    let mut child = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args(["run", "--quiet", "--example", "quickstart", "--manifest-path"])
        .arg(manifest)
        .args(["--", url])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdout = child.stdout.take().unwrap();
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let mut output = String::new();
        let _ = sender.send(stdout.read_to_string(&mut output).map(|_| output));
    });
    let Ok(output) = receiver.recv_timeout(PATIENCE) else {
        child.kill().unwrap();
        panic!("it hangs");
    };
    let (output, status) = (output.unwrap(), child.wait().unwrap());
    assert!(status.success(), "{status}:\n{output}");
    output
}
