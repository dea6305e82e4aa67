//! What stands between clients and servers in real networks: nginx, tinyproxy and microsocks, as processes.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU16, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use std::{env, process, thread};

use http::Uri;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose,
};

/// Generous, as it only bounds how long a part that does not start takes to fail a test.
const PATIENCE: Duration = Duration::from_secs(20);

/// After so many seconds a part ends, even if whoever started it is gone without a word.
const LIFETIME: &str = "120";

/// What nginx notes of each request, when it has ended.
const LOG: &str = "$connection|$server_protocol|$request_method|$uri|$status|$upstream_addr\
    |$http_mcp_session_id|$http_accept_encoding|$sent_http_content_encoding|$http_last_event_id";

/// nginx, for one test alone.
#[derive(Debug)]
pub struct Nginx {
    part: Part,
    scheme: &'static str,
    authority: Option<String>,
}

/// A request that nginx has served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Served {
    /// The number of its connection.
    pub connection: String,
    /// `HTTP/2.0`, say.
    pub protocol: String,
    /// The method.
    pub method: String,
    /// The path, as it is after nginx has rewritten it.
    pub path: String,
    /// The status of the answer.
    pub status: String,
    /// The server behind it.
    pub upstream: String,
    /// The session that the client named.
    pub session: String,
    /// The compressions that the client allows; `-` if there are none.
    pub accept_encoding: String,
    /// How the answer is compressed; `-` if it is not.
    pub encoding: String,
    /// The id of the event after which the client takes a stream up; `-` if there is none.
    pub last_event: String,
}

impl Nginx {
    /// Starts it with these directives in the block `http` and in that of its server.
    pub async fn plain(http: impl Into<String>, server: impl Into<String>) -> Self {
        let (http, server) = (http.into(), server.into());
        blocking(move || Self::start(&http, &server, None)).await
    }

    /// The same with TLS and HTTP/2, for the hosts `127.0.0.1` and `0.0.0.0`, by an authority of its own.
    pub async fn tls(http: impl Into<String>, server: impl Into<String>) -> Self {
        let (http, server) = (http.into(), server.into());
        blocking(move || Self::start(&http, &server, Some(Pki::new()))).await
    }

    fn start(http: &str, server: &str, pki: Option<Pki>) -> Self {
        let part = Part::start("nginx", |place| {
            let Place { dir, port } = place;
            let mut own = String::new();
            for kind in ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"] {
                writeln!(own, "{kind}_temp_path {kind};").unwrap();
            }
            let mut listen = format!("listen 127.0.0.1:{port};");
            if let Some(pki) = &pki {
                fs::write(dir.join("server.pem"), &pki.certificate).unwrap();
                fs::write(dir.join("server.key"), &pki.key).unwrap();
                listen = format!(
                    "listen 127.0.0.1:{port} ssl http2; ssl_certificate server.pem; ssl_certificate_key server.key;"
                );
            }
            let configuration = format!(
                "daemon off; master_process off; pid pid; error_log errors info;
                events {{ worker_connections 512; }}
                http {{
                    {own}
                    log_format served '{LOG}';
                    access_log served served;
                    proxy_http_version 1.1;
                    proxy_set_header Connection '';
                    {http}
                    server {{ {listen} server_name _; {server} }}
                }}"
            );
            fs::write(dir.join("conf"), configuration).unwrap();
            let mut command = Command::new("timeout");
            command.args(["-k", "1", LIFETIME, "nginx", "-e", "errors", "-c", "conf", "-p"]).arg(dir);
            (command, Ready::Pid)
        });
        let scheme = if pki.is_some() { "https" } else { "http" };
        Self { part, scheme, authority: pki.map(|pki| pki.authority) }
    }

    /// A path at it.
    pub fn at(&self, path: &str) -> Uri {
        self.at_host("127.0.0.1", path)
    }

    /// The same, where the host has another name.
    pub fn at_host(&self, host: &str, path: &str) -> Uri {
        format!("{}://{host}:{}{path}", self.scheme, self.part.port).parse().unwrap()
    }

    /// Its own certificate authority, in PEM.
    pub fn authority(&self) -> &str {
        self.authority.as_deref().expect("it speaks TLS")
    }

    /// What it has served.
    pub fn served(&self) -> Vec<Served> {
        let text = self.part.text("served");
        // The last line may be one that is still being written.
        let lines = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
        lines.map(|line| Served::read(line.trim_end())).collect()
    }

    /// Waits until it has served what `wanted` says.
    pub async fn until_served(&self, wanted: impl Fn(&[Served]) -> bool) -> Vec<Served> {
        loop {
            let served = self.served();
            if wanted(&served) {
                return served;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

impl Served {
    fn read(line: &str) -> Self {
        let fields: Vec<_> = line.split('|').map(str::to_owned).collect();
        let [
            connection,
            protocol,
            method,
            path,
            status,
            upstream,
            session,
            accept_encoding,
            encoding,
            last_event,
        ] = <[String; 10]>::try_from(fields).unwrap();
        Self {
            connection,
            protocol,
            method,
            path,
            status,
            upstream,
            session,
            accept_encoding,
            encoding,
            last_event,
        }
    }
}

/// A proxy, for one test alone.
#[derive(Debug)]
pub struct Proxy {
    part: Part,
    log: &'static str,
}

impl Proxy {
    /// tinyproxy, which speaks HTTP, and may want a user name and a password.
    pub async fn http(credentials: Option<(&'static str, &'static str)>) -> Self {
        let part = blocking(move || {
            Part::start("tinyproxy", |Place { dir, port }| {
                let basic = credentials
                    .map(|(user, password)| format!("BasicAuth {user} {password}"))
                    .unwrap_or_default();
                let shown = dir.display();
                let configuration = format!(
                    "Port {port}\nListen 127.0.0.1\nTimeout 60\nMaxClients 100\nLogLevel Connect\n\
                    LogFile \"{shown}/log\"\nPidFile \"{shown}/pid\"\n{basic}\n"
                );
                fs::write(dir.join("conf"), configuration).unwrap();
                let mut command = Command::new("timeout");
                command.args(["-k", "1", LIFETIME, "tinyproxy", "-d", "-c"]).arg(dir.join("conf"));
                (command, Ready::Pid)
            })
        });
        Self { part: part.await, log: "log" }
    }

    /// microsocks, which speaks SOCKS5, and may want a user name and a password.
    pub async fn socks(credentials: Option<(&'static str, &'static str)>) -> Self {
        let part = blocking(move || {
            Part::start("microsocks", |Place { port, .. }| {
                let mut command = Command::new("timeout");
                command
                    .args(["-k", "1", LIFETIME, "microsocks", "-i", "127.0.0.1", "-p"])
                    .arg(port.to_string());
                if let Some((user, password)) = credentials {
                    command.args(["-u", user, "-P", password]);
                }
                (command, Ready::Connection)
            })
        });
        Self { part: part.await, log: "stderr" }
    }

    /// Its URL with this scheme, in which `user` is all that stands before the host.
    pub fn url(&self, scheme: &str, user: &str) -> String {
        format!("{scheme}://{user}127.0.0.1:{}", self.part.port)
    }

    /// How often it was asked to connect to the host and the port of `target`.
    pub fn connections_to(&self, target: &Uri) -> usize {
        let authority = target.authority().unwrap().as_str();
        let text = self.part.text(self.log);
        let asked = |line: &&str| {
            (line.contains("CONNECT ") || line.contains("connected to ")) && line.contains(authority)
        };
        text.lines().filter(asked).count()
    }
}

/// A port on which nobody listens. Those of the system's own choice are elsewhere.
pub fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let first = 10_000 + (process::id() % 200) as u16 * 100;
    for _ in 0..1000 {
        let port = first + NEXT.fetch_add(1, Ordering::Relaxed) % 1000;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
    panic!("no port is free")
}

/// A process with a directory of its own.
#[derive(Debug)]
struct Part {
    child: Child,
    dir: PathBuf,
    port: u16,
}

struct Place<'a> {
    dir: &'a Path,
    port: u16,
}

/// How it shows that it listens.
enum Ready {
    /// It writes the file `pid`.
    Pid,
    /// It can be connected to.
    Connection,
}

impl Part {
    fn start(name: &str, command: impl Fn(Place<'_>) -> (Command, Ready)) -> Self {
        // Another process may have taken the port first.
        for _ in 0..5 {
            let (dir, port) = (directory(name), free_port());
            let (mut command, ready) = command(Place { dir: &dir, port });
            let stderr = File::create(dir.join("stderr")).unwrap();
            let child =
                command.current_dir(&dir).stdin(Stdio::null()).stdout(Stdio::null()).stderr(stderr).spawn();
            let child = child.unwrap_or_else(|error| panic!("{command:?} does not start: {error}"));
            let mut part = Self { child, dir, port };
            if part.is_ready(&ready) {
                return part;
            }
        }
        panic!("{name} does not start: see {}", parts().display());
    }

    fn is_ready(&mut self, ready: &Ready) -> bool {
        let begun = Instant::now();
        while begun.elapsed() < PATIENCE {
            if self.child.try_wait().unwrap().is_some() {
                return false;
            }
            let is_ready = match ready {
                Ready::Pid => !self.text("pid").is_empty(),
                Ready::Connection => TcpStream::connect(("127.0.0.1", self.port)).is_ok(),
            };
            if is_ready {
                return true;
            }
            // None of the three says on a channel that it listens; it does after a few milliseconds.
            thread::yield_now();
        }
        false
    }

    fn text(&self, file: &str) -> String {
        let bytes = fs::read(self.dir.join(file)).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        // A signal that `timeout` passes on, unlike that of `Child::kill`.
        let _ = Command::new("kill").arg(self.child.id().to_string()).stderr(Stdio::null()).status();
        let _ = self.child.wait();
    }
}

fn parts() -> PathBuf {
    let parts = env::var_os("INTEROP_PARTS");
    parts.unwrap_or_else(|| panic!("INTEROP_PARTS is not set: run the suite with tests/interop/run")).into()
}

fn directory(name: &str) -> PathBuf {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let dir = parts().join(format!("{name}-{}-{number}", process::id()));
    fs::create_dir_all(&dir).unwrap();
    dir
}

/// While others go on.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(work).await.unwrap()
}

/// A certificate authority, and what it has issued, all in PEM.
struct Pki {
    authority: String,
    certificate: String,
    key: String,
}

impl Pki {
    fn new() -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, "interop");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();

        let key = KeyPair::generate().unwrap();
        let hosts = ["127.0.0.1".to_owned(), "0.0.0.0".to_owned()];
        let mut params = CertificateParams::new(hosts).unwrap();
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let certificate = params.signed_by(&key, &authority).unwrap().pem();
        Self { authority: authority.pem(), certificate, key: key.serialize_pem() }
    }
}
