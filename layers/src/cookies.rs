//! Send the cookies of a load balancer back to it, so that a session stays with one server. Feature `cookies`.
//!
//! # Example
//!
//! ```
//! use bytes::Bytes;
//! use http::{Request, Response};
//! use http_body_util::Full;
//! use mcp_streamable_http_layers::CookieLayer;
//! use mcp_streamable_http_layers::error::BoxError;
//! use tower::{Service, ServiceBuilder, ServiceExt, service_fn};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), mcp_streamable_http_layers::error::BoxError> {
//! let server = service_fn(|request: Request<Full<Bytes>>| async move {
//!     let response = Response::builder().header("set-cookie", "route=b; Path=/; HttpOnly");
//!     let status = if request.headers().contains_key("cookie") { 200 } else { 204 };
//!     Ok::<_, BoxError>(response.status(status).body(Full::<Bytes>::default())?)
//! });
//! let uri = "http://localhost/mcp";
//! let mut service = ServiceBuilder::new().layer(CookieLayer::new(&uri.parse()?)?).service(server);
//! for status in [204, 200] {
//!     let request = Request::post(uri).body(Full::default())?;
//!     assert_eq!(service.ready().await?.call(request).await?.status(), status);
//! }
//! # Ok(())
//! # }
//! ```

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use cookie_store::{Cookie, CookieDomain, CookieStore};
use http::header::{COOKIE, HeaderMap, HeaderValue, SET_COOKIE};
use http::{Request, Response, Uri};
use pin_project_lite::pin_project;
use tower_layer::Layer;
use tower_service::Service;
use url::Url;

use crate::error::InvalidOption;

/// How many cookies are kept at most; RFC 6265 §6.1 asks for 50 per host.
const MAX_COOKIES: usize = 50;

const MAX_COOKIE_BYTES: usize = 4096;

/// Applies [`Cookies`]: see the [module's documentation](self).
#[derive(Clone)]
pub struct CookieLayer {
    jar: Arc<Jar>,
}

struct Jar {
    origin: Url,
    store: Mutex<CookieStore>,
}

impl CookieLayer {
    /// Keeps the cookies of the origin of `uri`, and sends them there and nowhere else. Clones share them.
    ///
    /// # Errors
    /// It is no full URL.
    pub fn new(uri: &Uri) -> Result<Self, InvalidOption> {
        let origin = Url::parse(&uri.to_string()).ok().filter(Url::has_host);
        let origin =
            origin.ok_or_else(|| InvalidOption::new("cookies need a URL with a scheme and a host"))?;
        Ok(Self { jar: Arc::new(Jar { origin, store: Mutex::new(CookieStore::default()) }) })
    }
}

impl<S> Layer<S> for CookieLayer {
    type Service = Cookies<S>;

    fn layer(&self, inner: S) -> Self::Service {
        Cookies { inner, jar: self.jar.clone() }
    }
}

/// Keeps the cookies that one origin sets (RFC 6265), in memory, and sends them back to it.
///
/// Scheme, host and port must be those of the origin: a cookie for a whole domain goes to no other host of it, and one of
/// `http` not to `https`. Paths, expiry and `Secure` count as ever. At most 50 are kept, of 4,096 bytes each, and a cookie of the caller's own is sent
/// along with them. It lives on the wire floor, outside of [`Redirect`](crate::Redirect).
#[derive(Clone)]
pub struct Cookies<S> {
    inner: S,
    jar: Arc<Jar>,
}

impl<S, B, R> Service<Request<B>> for Cookies<S>
where
    S: Service<Request<B>, Response = Response<R>>,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = ResponseFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        let url = Url::parse(&request.uri().to_string()).ok();
        let url = url.filter(|url| url.origin() == self.jar.origin.origin());
        if let Some(url) = &url {
            self.jar.send(url, request.headers_mut());
        }
        ResponseFuture {
            call: self.inner.call(request),
            keep: url.map(|url| Keep { url, jar: self.jar.clone() }),
        }
    }
}

impl Jar {
    fn send(&self, url: &Url, headers: &mut HeaderMap) {
        let store = self.lock();
        let mut kept = store.get_request_values(url).peekable();
        if kept.peek().is_none() {
            return;
        }
        // RFC 6265 §5.4: one header, the caller's own first.
        let mut cookies: Vec<u8> = Vec::new();
        let own = headers.get_all(COOKIE).iter().map(|own| own.as_bytes().to_vec());
        for cookie in own.chain(kept.map(|(name, value)| format!("{name}={value}").into_bytes())) {
            if !cookies.is_empty() {
                cookies.extend_from_slice(b"; ");
            }
            cookies.extend_from_slice(&cookie);
        }
        if let Ok(mut value) = HeaderValue::from_bytes(&cookies) {
            value.set_sensitive(true);
            headers.insert(COOKIE, value);
        }
    }

    fn keep(&self, url: &Url, headers: &HeaderMap) {
        if !headers.contains_key(SET_COOKIE) {
            return;
        }
        let mut store = self.lock();
        for cookie in headers.get_all(SET_COOKIE).iter().filter_map(|cookie| cookie.to_str().ok()) {
            // RFC 6265 §6.1 asks for so much and no more.
            if cookie.len() > MAX_COOKIE_BYTES {
                continue;
            }
            let Ok(cookie) = Cookie::parse(cookie.to_owned(), url) else { continue };
            let domain = match &cookie.domain {
                CookieDomain::HostOnly(domain) | CookieDomain::Suffix(domain) => domain.clone(),
                _ => continue,
            };
            let is_known = store.contains_any(&domain, &cookie.path, cookie.name());
            if !is_known && store.iter_any().count() >= MAX_COOKIES {
                forget_expired(&mut store);
                if store.iter_any().count() >= MAX_COOKIES {
                    continue;
                }
            }
            // One of another host is not kept.
            let _ = store.insert(cookie.into_owned(), url);
        }
    }

    fn lock(&self) -> MutexGuard<'_, CookieStore> {
        self.store.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The store keeps them until they are replaced.
fn forget_expired(store: &mut CookieStore) {
    let expired = store.iter_any().filter(|cookie| cookie.is_expired());
    let keys: Vec<_> = expired
        .map(|cookie| (cookie.domain.clone(), cookie.path.to_string(), cookie.name().to_owned()))
        .collect();
    for (domain, path, name) in keys {
        if let CookieDomain::HostOnly(domain) | CookieDomain::Suffix(domain) = domain {
            store.remove(&domain, &path, &name);
        }
    }
}

struct Keep {
    url: Url,
    jar: Arc<Jar>,
}

pin_project! {
    /// The response future of [`Cookies`].
    #[must_use = "futures do nothing unless polled"]
    pub struct ResponseFuture<F> {
        #[pin]
        call: F,
        keep: Option<Keep>,
    }
}

impl<F, R, E> Future for ResponseFuture<F>
where
    F: Future<Output = Result<Response<R>, E>>,
{
    type Output = Result<Response<R>, E>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let outcome = ready!(this.call.poll(cx));
        if let (Ok(response), Some(Keep { url, jar })) = (&outcome, this.keep.take()) {
            jar.keep(&url, response.headers());
        }
        Poll::Ready(outcome)
    }
}

/// Without the cookies.
impl fmt::Debug for CookieLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CookieLayer").field("host", &self.jar.origin.host_str()).finish_non_exhaustive()
    }
}

impl<S: fmt::Debug> fmt::Debug for Cookies<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cookies").field("inner", &self.inner).finish_non_exhaustive()
    }
}

impl<F> fmt::Debug for ResponseFuture<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseFuture").finish_non_exhaustive()
    }
}
