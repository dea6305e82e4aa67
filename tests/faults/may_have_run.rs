//! What broke once may have run, whatever comes after.

use std::sync::atomic::{AtomicUsize, Ordering};

use mcp_streamable_http::error::NotSent;
use mcp_streamable_http::options::Idempotent;
use mcp_streamable_http::{JsonRpcMessage, StreamableHttp};
use serde_json::json;
use tower::{BoxError, ServiceExt, service_fn};

use crate::common::in_time;

#[tokio::test(start_paused = true)]
async fn a_request_that_was_written_once_may_have_run_even_if_it_could_not_be_written_again() {
    let attempts = std::sync::Arc::new(AtomicUsize::new(0));
    let counted = attempts.clone();
    let client = service_fn(move |_: http::Request<http_body_util::Full<bytes::Bytes>>| {
        let first = counted.fetch_add(1, Ordering::Relaxed) == 0;
        let refused = std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
        // The server has read the first, and then goes down.
        let error: BoxError =
            if first { "the connection broke".into() } else { NotSent(refused.into()).into() };
        std::future::ready(Err::<http::Response<http_body_util::Full<bytes::Bytes>>, _>(error))
    });
    let transport =
        StreamableHttp::with_client("http://in.memory/mcp".parse().unwrap(), client).build().unwrap();
    let call = JsonRpcMessage::request(1, "tools/call", json!({ "name": "pay" })).with(Idempotent);
    let error = in_time(transport.oneshot(call)).await.unwrap_err();
    assert!(attempts.load(Ordering::Relaxed) > 1);
    assert!(error.may_have_run(), "{error}");
    assert!(!error.is_connect(), "{error}");
}
