//! The example `bridge` as its users run it: an MCP client of other makers starts it, and uses a server through it.

use std::env;
use std::ffi::OsString;
use std::io::Read;
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

use crate::profile::Profile;

/// More than the client gives itself, so it ends by itself and takes the bridge with it.
const PATIENCE: Duration = Duration::from_secs(60);

/// How long the rest of what a client that was killed has printed is waited for.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// Plays a scenario of `clients/python_client.py`, which says itself what is wrong.
pub(crate) fn carries(profile: &Profile, scenario: &str) {
    let mut child = Command::new(variable("INTEROP_PYTHON"))
        // Without bytecode among the sources.
        .arg("-B")
        .arg(variable("INTEROP_CLIENT"))
        .args([scenario, profile.key])
        .arg(variable("INTEROP_BRIDGE"))
        .arg(profile.server.uri().to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let stdout = text(child.stdout.take().unwrap());
    let stderr = text(child.stderr.take().unwrap());
    // The end of its output is taken for its own: nothing tells of that within a time limit.
    if let Ok(stdout) = stdout.recv_timeout(PATIENCE) {
        let status = child.wait().unwrap();
        let stderr = stderr.recv_timeout(LAST_WORDS).unwrap_or_default();
        assert!(status.success(), "{status}:\n{stdout}{stderr}");
        return;
    }
    child.kill().unwrap();
    child.wait().unwrap();
    panic!("it hangs:\n{}", stderr.recv_timeout(LAST_WORDS).unwrap_or_default());
}

/// All that is read until the end, in the background.
fn text(mut output: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = output.read_to_end(&mut bytes);
        let _ = sender.send(String::from_utf8_lossy(&bytes).into_owned());
    });
    receiver
}

fn variable(name: &str) -> OsString {
    env::var_os(name).unwrap_or_else(|| panic!("{name} is not set: run the suite with tests/interop/run"))
}
