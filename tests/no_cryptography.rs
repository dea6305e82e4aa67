//! What the default client says where it was compiled without cryptography.

#![cfg(all(feature = "client", not(any(feature = "ring", feature = "aws-lc-rs"))))]
#![allow(clippy::unwrap_used, reason = "in a test a panic is how it fails")]

use mcp_streamable_http::error::InvalidOption;
use mcp_streamable_http::{Client, Error, StreamableHttp};

fn assert_names_the_features(error: &Error) {
    assert!(error.find::<InvalidOption>().is_some(), "{error:?}");
    let text = error.to_string();
    assert!(text.contains("`ring`") && text.contains("`aws-lc-rs`"), "{text}");
}

#[test]
fn a_client_names_the_features_that_it_lacks() {
    assert_names_the_features(&Client::new().unwrap_err());
    assert_names_the_features(&Client::builder().http1_only().build().unwrap_err());
    for url in ["https://localhost/mcp", "http://localhost/mcp"] {
        let error = StreamableHttp::new(url.parse().unwrap()).unwrap_err();
        assert_names_the_features(&error);
    }
}
