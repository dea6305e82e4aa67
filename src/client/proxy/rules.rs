//! Which connections go through a proxy.

use std::ffi::OsString;
use std::fmt;
use std::net::IpAddr;

use http::Uri;
use hyper_util::client::proxy::matcher::{Intercept, Matcher};

use super::{Hop, Proxy};
use crate::error::{Error, InvalidOption};

/// Where the rules come from.
#[derive(Clone, Default)]
pub(in crate::client) enum Choice {
    /// The variables of the process, as they are when the client is built.
    #[default]
    Environment,
    Variables(Vec<(OsString, OsString)>),
    Proxy(Proxy),
    Off,
}

/// Without values, in which there may be passwords.
impl fmt::Debug for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Environment => f.write_str("Environment"),
            Self::Variables(variables) => {
                f.debug_set().entries(variables.iter().map(|(name, _)| name)).finish()
            }
            Self::Proxy(proxy) => proxy.fmt(f),
            Self::Off => f.write_str("Off"),
        }
    }
}

impl Choice {
    /// The variables that mean something to [`rules`](Self::rules).
    pub(in crate::client) fn variables(all: impl Iterator<Item = (OsString, OsString)>) -> Self {
        let known = |name: &OsString| NAMES.iter().flatten().chain([&CGI]).any(|known| name == *known);
        Self::Variables(all.filter(|(name, _)| known(name)).collect())
    }

    /// `None`: no connection goes through a proxy.
    pub(in crate::client) fn rules(&self) -> Result<Option<Rules>, Error> {
        match self {
            Self::Environment => from_variables(|name| std::env::var_os(name)),
            Self::Variables(variables) => from_variables(|name| {
                // As in a process, where what is set last is what holds.
                variables.iter().rev().find(|(set, _)| set == name).map(|(_, value)| value.clone())
            }),
            Self::Proxy(proxy) => {
                let invalid = |reason: String| invalid(format!("the proxy: {reason}"));
                let url = proxy.url().map_err(invalid)?;
                Hop::parse(&url).map_err(invalid)?;
                let no = proxy.exceptions().map_err(invalid)?;
                let matcher = Matcher::builder().all(url).no(everywhere(no)).build();
                Ok(Some(Rules { matcher, spares_loopback: false }))
            }
            Self::Off => Ok(None),
        }
    }
}

const HTTP: [&str; 2] = ["HTTP_PROXY", "http_proxy"];
const HTTPS: [&str; 2] = ["HTTPS_PROXY", "https_proxy"];
const ALL: [&str; 2] = ["ALL_PROXY", "all_proxy"];
const NO: [&str; 2] = ["NO_PROXY", "no_proxy"];
const NAMES: [[&str; 2]; 4] = [HTTP, HTTPS, ALL, NO];
/// A CGI program is told the header `Proxy` of its request as `HTTP_PROXY`, so there the variables are not to be trusted.
const CGI: &str = "REQUEST_METHOD";

/// `Matcher::from_env` reads the same, but passes over what it cannot use.
fn from_variables(get: impl Fn(&str) -> Option<OsString>) -> Result<Option<Rules>, Error> {
    if get(CGI).is_some() {
        return Ok(None);
    }
    let text = |names: [&'static str; 2]| {
        let Some((name, value)) = names.iter().find_map(|name| Some((*name, get(name)?))) else {
            return Ok((names[0], String::new()));
        };
        match value.into_string() {
            Ok(value) => Ok((name, value)),
            Err(_) => Err(invalid(format!("the variable `{name}` is not UTF-8"))),
        }
    };
    let usable = |(name, url): (&str, String)| {
        if !url.is_empty() {
            Hop::parse(&url)
                .map_err(|reason| invalid(format!("the proxy in the variable `{name}`: {reason}")))?;
        }
        Ok::<_, Error>(url)
    };
    let (http, https) = (usable(text(HTTP)?)?, usable(text(HTTPS)?)?);
    // Not looked at where it is not used: desktops set one of a kind of their own, beside the other two.
    let all = match http.is_empty() || https.is_empty() {
        true => usable(text(ALL)?)?,
        false => String::new(),
    };
    if http.is_empty() && https.is_empty() && all.is_empty() {
        return Ok(None);
    }
    let matcher = Matcher::builder().http(http).https(https).all(all).no(everywhere(text(NO)?.1)).build();
    Ok(Some(Rules { matcher, spares_loopback: true }))
}

/// To the matcher `*` is all names, but no address.
fn everywhere(no: String) -> String {
    match no.split(',').any(|entry| entry.trim() == "*") {
        true => "*,0.0.0.0/0,::/0".to_owned(),
        false => no,
    }
}

pub(in crate::client) struct Rules {
    matcher: Matcher,
    spares_loopback: bool,
}

impl Rules {
    /// The proxy for a connection to `target`; `None`: there is none.
    pub(in crate::client) fn intercept(&self, target: &Uri) -> Option<Intercept> {
        match self.spares_loopback && target.host().is_some_and(is_loopback) {
            true => None,
            false => self.matcher.intercept(target),
        }
    }
}

fn is_loopback(host: &str) -> bool {
    match host.trim_matches(['[', ']']).parse::<IpAddr>() {
        Ok(ip) => ip.to_canonical().is_loopback(),
        Err(_) => {
            let name = host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
            name == "localhost" || name.ends_with(".localhost")
        }
    }
}

fn invalid(reason: String) -> Error {
    Error::new(InvalidOption::new(reason))
}
