//! Proxies: which one a connection goes through, and what it says to it.

mod error;
mod hop;
mod rules;
mod tunnel;

use std::fmt;
use std::net::IpAddr;

pub use self::error::ProxyError;
pub(super) use self::hop::Hop;
pub(super) use self::rules::{Choice, Rules};
pub(super) use self::tunnel::through;

/// A proxy for [`ClientBuilder::proxy`](super::ClientBuilder::proxy).
///
/// Its URL begins with
/// - `http://` or `https://` (TLS to the proxy itself), or with no scheme, which means `http://`: connections are
///   tunnelled with CONNECT (RFC 9110 §9.3.6), those of `http` URLs too. So what the proxy says is never mistaken for
///   an answer of the server, and the proxy's credentials reach nobody else. Some proxies allow CONNECT to port 443
///   only unless they are told otherwise.
/// - `socks5h://` or `socks5://`: SOCKS5 (RFC 1928), where the proxy looks up the names of servers, or the client does,
///   which then prefers an IPv4 address.
///
/// Without a port it is 80, 443 or, for SOCKS, 1080. A user name and a password may be in the URL, percent-encoded.
///
/// ```
/// use mcp_streamable_http::Client;
/// use mcp_streamable_http::client::Proxy;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let proxy = Proxy::new("http://proxy.example:3128").credentials("me", "s3cret").except("10.0.0.0/8, example.com");
/// let client = Client::builder().proxy(proxy).build()?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
#[must_use = "a proxy does nothing until it is given to a client"]
pub struct Proxy {
    url: String,
    credentials: Option<(String, String)>,
    except: Vec<String>,
}

impl Proxy {
    /// The proxy at `url`. Whether it can be used is for [`ClientBuilder::build`](super::ClientBuilder::build) to say.
    ///
    /// ```
    /// use mcp_streamable_http::client::Proxy;
    ///
    /// let http = Proxy::new("http://me:s3cret@proxy.example:3128");
    /// let socks = Proxy::new("socks5h://127.0.0.1:1080");
    /// ```
    pub fn new(url: impl Into<String>) -> Self {
        Self { url: url.into(), credentials: None, except: Vec::new() }
    }

    /// Tells the proxy this user name and password, as they are, instead of those in its URL. None by default.
    ///
    /// ```
    /// # use mcp_streamable_http::client::Proxy;
    /// let proxy = Proxy::new("socks5h://proxy.example").credentials("me", "p@ss:word");
    /// ```
    pub fn credentials(self, user: impl Into<String>, password: impl Into<String>) -> Self {
        Self { credentials: Some((user.into(), password.into())), ..self }
    }

    /// Makes direct connections to these hosts: domains with all that is below them, IP addresses, networks
    /// (`10.0.0.0/8`), or `*` for all hosts; several separated by commas. It adds to what was given before. There are
    /// no exceptions by default.
    ///
    /// ```
    /// # use mcp_streamable_http::client::Proxy;
    /// let proxy = Proxy::new("http://proxy.example:3128").except("localhost, 127.0.0.0/8").except("example.com");
    /// ```
    pub fn except(mut self, hosts: impl AsRef<str>) -> Self {
        self.except.extend(hosts.as_ref().split(',').map(|host| host.trim().to_owned()));
        self
    }

    /// Its URL with the credentials that hold.
    fn url(&self) -> Result<String, String> {
        let Some((user, password)) = &self.credentials else { return Ok(self.url.clone()) };
        let (scheme, rest) = self.url.split_once("://").unwrap_or(("http", &self.url));
        if user.contains(':') && scheme.starts_with("http") {
            return Err("over HTTP its user name cannot have a colon".to_owned());
        }
        let host = rest.rsplit_once('@').map_or(rest, |(_, host)| host);
        Ok(format!("{scheme}://{}:{}@{host}", percent_encoded(user), percent_encoded(password)))
    }

    /// Its exceptions, in the format of `NO_PROXY`.
    fn exceptions(&self) -> Result<String, String> {
        match self.except.iter().find(|entry| !is_exception(entry)) {
            Some(entry) => Err(format!("its exception `{entry}` is no domain, IP address or network")),
            None => Ok(self.except.join(",")),
        }
    }
}

fn percent_encoded(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

/// Whether it means something in `NO_PROXY`, where what means nothing is passed over.
fn is_exception(entry: &str) -> bool {
    let (address, bits) = match entry.split_once('/') {
        Some((address, bits)) => (address, Some(bits)),
        None => (entry, None),
    };
    match (address.parse::<IpAddr>(), bits) {
        (Ok(ip), Some(bits)) => {
            bits.parse::<u8>().is_ok_and(|bits| bits <= if ip.is_ipv4() { 32 } else { 128 })
        }
        (Ok(_), None) => true,
        (Err(_), Some(_)) => false,
        (Err(_), None) => {
            entry == "*"
                || !entry.is_empty()
                    && entry.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte))
        }
    }
}

/// Without its credentials.
impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hop = self.url().and_then(|url| Hop::parse(&url)).ok();
        f.debug_struct("Proxy")
            .field("url", &hop.as_ref().map_or("(not usable)", Hop::name))
            .field("except", &self.except)
            .finish_non_exhaustive()
    }
}
