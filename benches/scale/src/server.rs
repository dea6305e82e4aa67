//! The server as seen by a measurement: a process of its own.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use http::Uri;

use crate::{BoxError, serving};

/// A server that ends with this handle.
pub(crate) struct Server {
    process: Child,
    port: u16,
}

/// The versions of HTTP that are measured, both without TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    Http1,
    Http2,
}

impl Protocol {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Http1 => "HTTP/1.1",
            Self::Http2 => "HTTP/2",
        }
    }
}

impl Server {
    /// `gathers`: how many calls of its tool `gather` it waits for before it answers any of them.
    pub(crate) fn start(protocol: Protocol, gathers: usize) -> Result<Self, BoxError> {
        let mut process = Command::new(std::env::current_exe()?)
            .args([serving::COMMAND, serving::word(protocol), &gathers.to_string()])
            // It runs until its input ends, so it ends with this process however that does.
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let output = process.stdout.take();
        // Made before the port is known, so that the process is ended if there is none.
        let mut server = Self { process, port: 0 };
        let mut line = String::new();
        BufReader::new(output.ok_or("the server has no output")?).read_line(&mut line)?;
        server.port = line.trim().parse()?;
        Ok(server)
    }

    pub(crate) fn uri(&self) -> Result<Uri, BoxError> {
        Ok(format!("http://127.0.0.1:{}/mcp", self.port).parse()?)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // If it has ended already there is nothing to do.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
