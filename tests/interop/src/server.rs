//! The servers, as processes.

use std::env;
use std::ffi::OsString;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{OnceLock, mpsc};
use std::thread;
use std::time::Duration;

use http::Uri;

/// Generous, as it only bounds how long a broken server takes to fail the tests.
const PATIENCE: Duration = Duration::from_secs(30);

/// A server, which runs from its first use until the test binary ends: it stops when its stdin closes. All tests of a
/// binary share it.
#[derive(Debug)]
pub struct Server {
    program: Program,
    running: OnceLock<(Child, Uri)>,
}

/// `servers/python_server.py` for one test alone, which may kill it, and start it again where it was.
#[derive(Debug)]
pub struct OwnServer {
    mode: &'static str,
    child: Child,
    uri: Uri,
}

#[derive(Debug)]
enum Program {
    Python {
        mode: &'static str,
    },
    TypeScript {
        mode: &'static str,
    },
    Everything,
    /// The program that this variable names.
    Named {
        variable: &'static str,
        mode: &'static str,
    },
}

impl Server {
    /// `servers/python_server.py`, which stands on the official Python SDK.
    pub const fn python(mode: &'static str) -> Self {
        Self { program: Program::Python { mode }, running: OnceLock::new() }
    }

    /// The reference server `@modelcontextprotocol/server-everything`, which stands on the official TypeScript SDK.
    pub const fn everything() -> Self {
        Self { program: Program::Everything, running: OnceLock::new() }
    }

    /// `servers/typescript_server.mjs`, which stands on the official TypeScript SDK.
    pub const fn typescript(mode: &'static str) -> Self {
        Self { program: Program::TypeScript { mode }, running: OnceLock::new() }
    }

    /// The program whose path is in the environment variable `variable`, started with the argument `mode`. It must say
    /// where it listens as the others do.
    pub const fn named(variable: &'static str, mode: &'static str) -> Self {
        Self { program: Program::Named { variable, mode }, running: OnceLock::new() }
    }

    /// Where it listens. The first call starts it, and blocks until it is ready.
    pub fn uri(&self) -> Uri {
        self.running.get_or_init(|| start(self.program.command())).1.clone()
    }
}

impl OwnServer {
    /// Starts it.
    pub async fn start(mode: &'static str) -> Self {
        let (child, uri) = launch(Program::Python { mode }.command()).await;
        Self { mode, child, uri }
    }

    /// Where it listens, or did so.
    pub fn uri(&self) -> Uri {
        self.uri.clone()
    }

    /// Kills it: it has no time to say anything to anyone.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Starts it again after it was killed, on the same port.
    pub async fn start_again(&mut self) {
        let mut command = Program::Python { mode: self.mode }.command();
        command.arg(self.uri.port_u16().unwrap().to_string());
        let (child, uri) = launch(command).await;
        assert_eq!(uri, self.uri);
        self.child = child;
    }
}

impl Drop for OwnServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Program {
    fn command(&self) -> Command {
        let servers = variable("INTEROP_SERVERS");
        let servers = Path::new(&servers);
        match self {
            Self::Python { mode } => {
                let mut command = Command::new(variable("INTEROP_PYTHON"));
                command.arg(servers.join("python_server.py")).arg(mode);
                command
            }
            Self::TypeScript { mode } => {
                let mut command = Command::new("node");
                command.arg(servers.join("typescript_server.mjs"));
                command.arg(variable("INTEROP_MODULES")).arg(mode);
                command
            }
            Self::Named { variable: name, mode } => {
                let mut command = Command::new(variable(name));
                command.arg(mode);
                command
            }
            Self::Everything => {
                let mut command = Command::new("node");
                command.arg("--import").arg(servers.join("everything.mjs"));
                command.arg(variable("INTEROP_EVERYTHING")).arg("streamableHttp");
                command
            }
        }
    }
}

fn variable(name: &str) -> OsString {
    env::var_os(name).unwrap_or_else(|| panic!("{name} is not set: start it with its script `run`"))
}

/// While others go on.
async fn launch(command: Command) -> (Child, Uri) {
    tokio::task::spawn_blocking(|| start(command)).await.unwrap()
}

fn start(mut command: Command) -> (Child, Uri) {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("{command:?} does not start: {error}"));
    let stdout = child.stdout.take().expect("it is piped");
    let (sender, receiver) = mpsc::channel();
    // Reads on after the first line, so that a server which prints more is never blocked.
    thread::spawn(move || {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            let _ = sender.send(line);
        }
    });
    let line = receiver
        .recv_timeout(PATIENCE)
        .unwrap_or_else(|error| panic!("{command:?} does not say where it listens: {error}"));
    let uri = line.strip_prefix("LISTENING ").and_then(|uri| uri.parse().ok());
    (child, uri.unwrap_or_else(|| panic!("{command:?} printed {line:?}")))
}
