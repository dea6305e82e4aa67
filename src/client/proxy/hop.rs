//! A proxy as it is used.

use http::uri::Authority;
use http::{HeaderValue, Uri};
use hyper_util::client::proxy::matcher::{Intercept, Matcher};

/// The first stop of a connection. It has no `Debug`, for its credentials.
pub(in crate::client) struct Hop {
    name: String,
    address: Uri,
    pub(super) speaks: Speaks,
}

pub(super) enum Speaks {
    /// With the value of `Proxy-Authorization`.
    Connect(Option<HeaderValue>),
    Socks5 {
        credentials: Option<(String, String)>,
        /// The client looks up the names of servers.
        looks_up: bool,
    },
}

impl Hop {
    /// Reads what a user has written; the matcher passes over what it cannot use. An error is the end of a sentence that
    /// begins with which proxy it is, and tells nothing of the URL in which there may be a password.
    pub(super) fn parse(url: &str) -> Result<Self, String> {
        let uri: Uri = url.parse().map_err(|_| "its URL cannot be read".to_owned())?;
        if !matches!(uri.path(), "" | "/") || uri.query().is_some() {
            return Err(
                "its URL has a path; what is special in a user name or password must be percent-encoded"
                    .into(),
            );
        }
        let matcher = Matcher::builder().all(url).build();
        match matcher.intercept(&Uri::from_static("http://host.invalid/")) {
            Some(intercept) => Self::new(&intercept),
            None => Err(uri.scheme_str().map_or_else(|| "its URL names no host".to_owned(), unknown)),
        }
    }

    pub(in crate::client) fn new(intercept: &Intercept) -> Result<Self, String> {
        let uri = intercept.uri();
        let scheme = uri.scheme_str().unwrap_or_default();
        let (transport, default_port) = match scheme {
            "http" => ("http", 80),
            "https" => ("https", 443),
            "socks5" | "socks5h" => ("http", 1080),
            _ => return Err(unknown(scheme)),
        };
        let authority = uri.authority().ok_or("its URL names no host")?;
        let authority = host_and_port(authority, default_port)?;
        let speaks = match scheme {
            "http" | "https" => Speaks::Connect(intercept.basic_auth().cloned()),
            _ => {
                let credentials =
                    intercept.raw_auth().map(|(user, password)| (user.to_owned(), password.to_owned()));
                if credentials.as_ref().is_some_and(|(user, password)| user.len().max(password.len()) > 255) {
                    return Err("over SOCKS5 its user name and password have at most 255 bytes each".into());
                }
                Speaks::Socks5 { credentials, looks_up: scheme == "socks5" }
            }
        };
        let address = format!("{transport}://{authority}/").parse();
        let address = address.map_err(|_| "its URL names no host".to_owned())?;
        Ok(Self { name: format!("{scheme}://{authority}"), address, speaks })
    }

    /// Its URL without credentials.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// What to connect to, as an `http` or `https` URL.
    pub(in crate::client) fn address(&self) -> &Uri {
        &self.address
    }
}

fn unknown(scheme: &str) -> String {
    format!("the scheme `{scheme}` is not one of `http`, `https`, `socks5` and `socks5h`")
}

fn host_and_port(authority: &Authority, default: u16) -> Result<String, String> {
    let host = authority.host();
    if host.is_empty() || !authority.as_str().starts_with(host) {
        return Err("its URL names no host".into());
    }
    match (&authority.as_str()[host.len()..], authority.port_u16()) {
        ("", _) => Ok(format!("{host}:{default}")),
        (_, Some(port)) => Ok(format!("{host}:{port}")),
        (_, None) => Err("the port in its URL is no number".into()),
    }
}
