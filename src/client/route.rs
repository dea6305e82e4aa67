//! The options for the way to the server.

use std::ffi::OsString;
#[cfg(unix)]
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::ClientBuilder;
use super::proxy::{Choice, Proxy, Rules};
use crate::error::Error;
#[cfg(unix)]
use crate::error::InvalidOption;

/// As they were given: errors are for `build`.
#[derive(Clone, Debug, Default)]
pub(super) struct RouteOptions {
    proxies: Choice,
    #[cfg(unix)]
    unix_socket: Option<PathBuf>,
}

pub(super) enum Route {
    Direct,
    Proxies(Arc<Rules>),
    #[cfg(unix)]
    Unix(PathBuf),
}

impl RouteOptions {
    pub(super) fn build(&self) -> Result<Route, Error> {
        #[cfg(unix)]
        if let Some(path) = &self.unix_socket {
            return match self.proxies {
                Choice::Environment | Choice::Off => usable(path).map(Route::Unix),
                _ => Err(Error::new(InvalidOption::new("a Unix socket leaves no room for a proxy"))),
            };
        }
        Ok(self.proxies.rules()?.map_or(Route::Direct, |rules| Route::Proxies(Arc::new(rules))))
    }
}

#[cfg(unix)]
fn usable(path: &Path) -> Result<PathBuf, Error> {
    let invalid = |reason: &str| Error::new(InvalidOption::new(format!("the Unix socket's path: {reason}")));
    if path.as_os_str().is_empty() {
        return Err(invalid("it is empty"));
    }
    match std::os::unix::net::SocketAddr::from_pathname(path) {
        Ok(_) => Ok(path.to_owned()),
        Err(error) => Err(invalid(&error.to_string())),
    }
}

/// # The way to the server
impl ClientBuilder {
    /// Makes all connections through this proxy, those to the own host too, unless it has
    /// [exceptions](Proxy::except). By default the environment says what goes through a proxy, as it does for curl, when
    /// the client is built: `HTTP_PROXY`, `HTTPS_PROXY`, `ALL_PROXY` and `NO_PROXY`, or the same in lower case;
    /// connections to the own host (`localhost`, names below it, loopback addresses) never do then. In a CGI program,
    /// which has `REQUEST_METHOD`, the environment is not asked, because the request could have set it.
    ///
    /// What a proxy refuses was never sent, and fails with a [`ProxyError`](super::ProxyError). TLS to an `https://`
    /// proxy has the options of TLS to the server, the client's certificate among them.
    ///
    /// [`build`](Self::build) fails if the proxy cannot be used.
    ///
    /// ```
    /// use mcp_streamable_http::client::Proxy;
    /// use mcp_streamable_http::{Client, StreamableHttp};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let client = Client::builder().proxy(Proxy::new("http://me:s3cret@proxy.example:3128")).build()?;
    /// let transport = StreamableHttp::with_client("http://mcp.example/mcp".parse()?, client).build()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn proxy(mut self, proxy: Proxy) -> Self {
        self.route.proxies = Choice::Proxy(proxy);
        self
    }

    /// Reads these variables instead of those of the process, where [`proxy`](Self::proxy) says what they mean. Others
    /// may be among them.
    ///
    /// [`build`](Self::build) fails if they name a proxy that cannot be used.
    ///
    /// ```
    /// use mcp_streamable_http::Client;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let variables = [("HTTPS_PROXY", "http://proxy.example:3128"), ("NO_PROXY", "10.0.0.0/8, example.com")];
    /// let client = Client::builder().proxy_from(variables).build()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn proxy_from<N, V>(mut self, variables: impl IntoIterator<Item = (N, V)>) -> Self
    where
        N: Into<OsString>,
        V: Into<OsString>,
    {
        let variables = variables.into_iter().map(|(name, value)| (name.into(), value.into()));
        self.route.proxies = Choice::variables(variables);
        self
    }

    /// Makes all connections directly, whatever the environment says.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let client = mcp_streamable_http::Client::builder().no_proxy().build()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn no_proxy(mut self) -> Self {
        self.route.proxies = Choice::Off;
        self
    }

    /// Makes all connections to this Unix domain socket, whatever host the URL names: that is only what the server is
    /// told (`Host`), and what its certificate must be for if the URL is one of `https`. None by default. The proxies of
    /// the environment are not used then; options of TCP mean nothing.
    ///
    /// [`build`](Self::build) fails if there cannot be a socket with such a path, or if there is a
    /// [`proxy`](Self::proxy) too.
    ///
    /// ```
    /// use mcp_streamable_http::{Client, StreamableHttp};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let client = Client::builder().unix_socket("/run/mcp/server.sock").build()?;
    /// let transport = StreamableHttp::with_client("http://localhost/mcp".parse()?, client).build()?;
    /// # Ok(())
    /// # }
    /// ```
    #[cfg(unix)]
    pub fn unix_socket(mut self, path: impl Into<PathBuf>) -> Self {
        self.route.unix_socket = Some(path.into());
        self
    }
}
