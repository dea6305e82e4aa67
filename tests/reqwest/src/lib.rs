//! `reqwest::Client` as the HTTP client of the transport.
//!
//! For programs that have a `reqwest::Client` already, with its proxies, its certificates and its pool. The `client` feature of
//! the transport can then be off.
//!
//! ```no_run
//! use mcp_streamable_http::StreamableHttp;
//! use mcp_streamable_http_reqwest_example::over;
//! use reqwest::redirect;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let client = reqwest::Client::builder().redirect(redirect::Policy::none()).build()?;
//! let transport = StreamableHttp::with_client("http://localhost:8000/mcp".parse()?, over(client)).build()?;
//! # Ok(())
//! # }
//! ```

use bytes::Bytes;
use futures_util::FutureExt;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use mcp_streamable_http::error::NotSent;
use tower::{BoxError, Service, ServiceBuilder};

/// Makes a client of reqwest's one that the transport can use.
///
/// It must not follow redirects (`redirect::Policy::none()`), or the transport's own rules, which send no token elsewhere, are
/// of no use. Nor should it have a timeout (`ClientBuilder::timeout` counts the whole body, and streams last), but for
/// connecting.
pub fn over(
    client: reqwest::Client,
) -> impl Service<
    Request<Full<Bytes>>,
    Response = Response<reqwest::Body>,
    Error = BoxError,
    Future: Send + 'static,
> + Clone
+ Send
+ Sync
+ 'static {
    ServiceBuilder::new()
        // Outermost, as it turns the request into one of reqwest's. `map_request` would have no way to fail, and a URL that is
        // good enough for `http` need not be for reqwest.
        .filter(request)
        .map_response(Response::<reqwest::Body>::from)
        .map_err(error)
        .service(client)
}

fn request(request: Request<Full<Bytes>>) -> Result<reqwest::Request, BoxError> {
    let (head, body) = request.into_parts();
    // All of it is there, so there is nothing to wait for. As bytes it has a length, and reqwest can send it anew when a
    // pooled connection turns out to be closed; as a stream it would have neither.
    let body = body.collect().now_or_never().ok_or("the body is not there yet")??.to_bytes();
    Ok(Request::from_parts(head, body).try_into()?)
}

fn error(error: reqwest::Error) -> BoxError {
    // A URL may have secrets in its query.
    let error = error.without_url();
    // What was never sent can safely be sent again, and the transport does so.
    if error.is_connect() { NotSent(error.into()).into() } else { error.into() }
}
