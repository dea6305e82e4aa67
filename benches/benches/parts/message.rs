//! Messages, from JSON and to it.

use std::hint::black_box;

use bytes::Bytes;
use criterion::{Criterion, Throughput};
use mcp_streamable_http::JsonRpcMessage;
use mcp_streamable_http_benches::texts;

pub(crate) fn run(criterion: &mut Criterion) {
    let texts: [(&str, Bytes); 5] = [
        ("a call", texts::legacy_call().encode()),
        ("a modern call", texts::modern_call().encode()),
        ("a notification of 150 B", texts::notification(150).into()),
        ("a response of 1 KiB", texts::result(1 << 10).into()),
        ("a response of 64 KiB", texts::result(64 << 10).into()),
    ];

    let mut group = criterion.benchmark_group("decode");
    for (name, text) in &texts {
        group.throughput(Throughput::Bytes(text.len() as u64));
        group.bench_function(*name, |bencher| bencher.iter(|| JsonRpcMessage::decode(text.clone())));
    }
    group.finish();

    // What the transport reads of a request before it is sent, once for each.
    let mut group = criterion.benchmark_group("scan");
    for (name, message) in [("a call", texts::legacy_call()), ("a modern call", texts::modern_call())] {
        group.throughput(Throughput::Bytes(message.encode().len() as u64));
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                let fresh = message.clone();
                fresh.as_request().unwrap().protocol_version().unwrap().cloned()
            });
        });
    }
    group.finish();

    let mut group = criterion.benchmark_group("encode");
    for (name, text) in &texts {
        let message = JsonRpcMessage::decode(text.clone()).unwrap();
        group.throughput(Throughput::Bytes(text.len() as u64));
        group.bench_function(*name, |bencher| bencher.iter(|| black_box(&message).encode()));
    }
    group.finish();
}
