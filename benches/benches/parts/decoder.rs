//! The decoder of event streams: by the size of the events, and by the size of the chunks that they arrive in.

use bytes::Bytes;
use criterion::{BenchmarkId, Criterion, Throughput};
use mcp_streamable_http::layers::sse::Decoder;
use mcp_streamable_http_benches::texts;

/// What a client reads from its connection at a time, at most.
const CHUNK: usize = 64 << 10;

pub(crate) fn run(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("decoder, events of");
    // Each takes long enough to be steady.
    group.sample_size(10);
    for (name, size, count) in
        [("120 B", 120, 1_000), ("1 KiB", 1 << 10, 1_000), ("64 KiB", 64 << 10, 16), ("16 MiB", 16 << 20, 1)]
    {
        let chunks = chunks(&stream(size, count), CHUNK);
        group.throughput(Throughput::Bytes((size * count) as u64));
        group.bench_function(name, |bencher| bencher.iter(|| decode(&chunks, count)));
    }
    group.finish();

    let mut group = criterion.benchmark_group("decoder, events of 1 KiB in chunks of");
    group.sample_size(10);
    for (name, size) in [
        ("1 B", 1),
        ("16 B", 16),
        ("256 B", 256),
        ("1,000 B", 1_000),
        ("4 KiB", 4 << 10),
        ("16 KiB", 16 << 10),
        ("64 KiB", 64 << 10),
    ] {
        const COUNT: usize = 64;
        let stream = stream(1 << 10, COUNT);
        let chunks = chunks(&stream, size);
        group.throughput(Throughput::Bytes(stream.len() as u64));
        group.bench_with_input(BenchmarkId::from_parameter(name), &chunks, |bencher, chunks| {
            bencher.iter(|| decode(chunks, COUNT));
        });
    }
    group.finish();
}

/// So many events of so many bytes each.
fn stream(size: usize, count: usize) -> Bytes {
    let around = texts::event("", None).len();
    texts::event(&texts::notification(size - around), None).repeat(count).into()
}

fn chunks(stream: &Bytes, size: usize) -> Vec<Bytes> {
    stream.chunks(size).map(|chunk| stream.slice_ref(chunk)).collect()
}

fn decode(chunks: &[Bytes], expected: usize) {
    // An event of 16 MiB with its field's name is a little above the default.
    let mut decoder = Decoder::new(32 << 20);
    let mut events = 0;
    for chunk in chunks {
        decoder.push(chunk.clone());
        while let Some(frame) = decoder.next() {
            std::hint::black_box(frame).ok();
            events += 1;
        }
    }
    assert_eq!(events, expected);
}
