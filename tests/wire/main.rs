//! The default client on real connections: TLS, HTTP/2, connections that break, and how many of them it uses.

#![cfg(all(feature = "client", any(feature = "ring", feature = "aws-lc-rs")))]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "in a test a panic is how it fails, in its helpers too"
)]

mod common;
mod connect;
mod goaway;
mod http2;
mod hygiene;
mod idle;
mod peer;
mod pings;
mod pki;
mod proxy;
mod proxy_rules;
mod raw;
mod relay;
mod socks;
#[path = "../support/mod.rs"]
mod support;
mod tls;
mod tls_options;
#[cfg(target_os = "linux")]
mod trust_store;
mod tunnels;
#[cfg(unix)]
mod unix;
mod unsent;
