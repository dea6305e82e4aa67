//! The SSE decoder: the rules of WHATWG HTML §9.2, however the stream is cut, and the limit on an event.

use std::iter;

use bytes::Bytes;
use mcp_streamable_http_layers::sse::{Decoder, EventTooLarge, Frame};
use proptest::{collection::vec, prelude::*, sample::select};

const UNLIMITED: usize = usize::MAX;

/// All that a stream gave: its frames, how it failed, and what its end added.
#[derive(Debug, Default, PartialEq)]
struct Outcome {
    frames: Vec<Frame>,
    error: Option<EventTooLarge>,
    rest: Option<Frame>,
}

/// Pushes each chunk and then takes at most as many items as it says, in the end all.
fn decode_lazily<'a>(limit: usize, chunks: impl IntoIterator<Item = (&'a [u8], usize)>) -> Outcome {
    let (mut decoder, mut outcome) = (Decoder::new(limit), Outcome::default());
    for (chunk, items) in chunks.into_iter().chain([(&b""[..], usize::MAX)]) {
        decoder.push(Bytes::copy_from_slice(chunk));
        for item in iter::from_fn(|| decoder.next()).take(items) {
            assert_eq!(outcome.error, None, "an item after the error");
            match item {
                Ok(frame) => outcome.frames.push(frame),
                Err(error) => outcome.error = Some(error),
            }
        }
    }
    outcome.rest = decoder.finish();
    outcome
}

fn decode<'a>(limit: usize, chunks: impl IntoIterator<Item = &'a [u8]>) -> Outcome {
    decode_lazily(limit, chunks.into_iter().map(|chunk| (chunk, usize::MAX)))
}

/// Decodes `input` whole, in every two pieces, in single bytes, and with all those pushed before any `next`.
fn decode_every_way(limit: usize, input: &[u8]) -> Outcome {
    let (whole, shown) = (decode(limit, [input]), input.escape_ascii());
    for cut in 0..=input.len() {
        let (head, tail) = input.split_at(cut);
        assert_eq!(decode(limit, [head, tail]), whole, "cut at {cut}: {shown}");
    }
    assert_eq!(decode(limit, input.chunks(1)), whole, "single bytes: {shown}");
    let queued = decode_lazily(limit, input.chunks(1).map(|byte| (byte, 0)));
    assert_eq!(queued, whole, "queued: {shown}");
    whole
}

fn bytes(value: &str) -> Option<Bytes> {
    Some(Bytes::copy_from_slice(value.as_bytes()))
}

fn data(value: &str) -> Frame {
    Frame { data: bytes(value), ..Frame::default() }
}

fn id(value: &str) -> Frame {
    Frame { id: bytes(value), ..Frame::default() }
}

fn retry(milliseconds: u64) -> Frame {
    Frame { retry: Some(milliseconds), ..Frame::default() }
}

fn check(table: &[(&str, &[Frame])]) {
    for (input, frames) in table {
        assert_eq!(decode_every_way(UNLIMITED, input.as_bytes()).frames, *frames, "{input:?}");
    }
}

#[test]
fn fields_are_split_at_the_first_colon_or_have_an_empty_value() {
    check(&[
        ("data:x\n\ndata: y\n\n", &[data("x"), data("y")]),
        ("data:  x \n\n", &[data(" x ")]),
        ("data:\tx\n\n", &[data("\tx")]),
        ("data: a:b: c\n\ndata::x\n\n", &[data("a:b: c"), data(":x")]),
        ("event: ping\ndata: 1\n\n", &[Frame { event: bytes("ping"), ..data("1") }]),
        ("data: é😀\n\n", &[data("é😀")]),
        ("data\n\n", &[data("")]),
        ("data\ndata\n\n", &[data("\n")]),
        ("id\n\n", &[id("")]),
        ("retry\n\n", &[]),
        ("event: a\nevent\ndata: x\n\n", &[data("x")]),
    ]);
}

#[test]
fn only_id_retry_and_data_make_a_frame() {
    check(&[
        (": keep-alive\n\n:\n\n", &[]),
        (":data: x\n:id: 1\n\n", &[]),
        ("data: a\n: between\ndata: b\n\n", &[data("a\nb")]),
        ("dat: x\ndatas: x\nData: x\n data: x\ndata : x\n\n", &[]),
        ("\n\n\n", &[]),
        ("id: 1\n\n", &[id("1")]),
        ("id: 1\ndata:\n\n", &[Frame { data: bytes(""), ..id("1") }]),
        ("retry: 50\n\n", &[retry(50)]),
        ("event: ping\n\n", &[]),
        ("event: ping\n\ndata: x\n\n", &[data("x")]),
        ("id: 1\ndata: x\n\ndata: y\n\n", &[Frame { id: bytes("1"), ..data("x") }, data("y")]),
    ]);
}

#[test]
fn data_lines_join_with_lf_and_the_last_of_other_fields_wins() {
    check(&[
        ("data: a\ndata: b\n\n", &[data("a\nb")]),
        ("data:\ndata: b\ndata:\n\n", &[data("\nb\n")]),
        ("data:\ndata:\ndata:\n\ndata: z\n\n", &[data("\n\n"), data("z")]),
        ("data: a\ndata: b\ndata: c\n\ndata: d\ndata: e\n\n", &[data("a\nb\nc"), data("d\ne")]),
        ("event: a\nevent: b\ndata: x\n\n", &[Frame { event: bytes("b"), ..data("x") }]),
        ("retry: 1\nretry: 2\n\nretry: 1\nretry: x\n\n", &[retry(2), retry(1)]),
        ("id: 1\nid: 2\n\nid: 1\nid:\n\n", &[id("2"), id("")]),
        ("id: 1\nid: 2\0\n\n", &[id("1")]),
        ("id: \0\n\n", &[]),
    ]);
}

#[test]
fn retry_takes_ascii_digits_only_and_saturates() {
    check(&[
        ("retry: 0\n\nretry:007\n\n", &[retry(0), retry(7)]),
        ("retry: 18446744073709551615\n\n", &[retry(u64::MAX)]),
        ("retry: 18446744073709551616\n\n", &[retry(u64::MAX)]),
        ("retry: 99999999999999999999999999\n\n", &[retry(u64::MAX)]),
        ("retry:\n\nretry: +5\n\nretry: -5\n\nretry:  5\n\nretry: 5x\n\nretry: 5 \n\n", &[]),
        ("retry: 5.0\n\nretry: 0x5\n\nretry: ٥\n\nretry: 1e3\n\n", &[]),
    ]);
}

#[test]
fn lf_cr_and_crlf_end_a_line_and_nothing_else_does() {
    let expected = [Frame { id: bytes("1"), ..data("a\nb") }, data("c")];
    for first in ["\n", "\r", "\r\n"] {
        for second in ["\n", "\r", "\r\n"] {
            // A blank line that starts with LF after a line that ended with CR would be one CRLF.
            for blank in ["\n", "\r", "\r\n"].iter().filter(|blank| second != "\r" || **blank != "\n") {
                let input = format!("id: 1{first}data: a{first}data: b{second}{blank}data: c\r\n\r\n");
                check(&[(&input, &expected)]);
            }
        }
    }
    check(&[("data: a\n\r\ndata: b\r\r\n\n\r", &[data("a"), data("b")])]);

    for text in ["a\u{2028}b", "a\u{2029}b", "a\u{85}b", "a\u{b}b", "a\u{c}b", "a\0b", "a\u{1e}b"] {
        check(&[(&format!("data: {text}\n\n"), &[data(text)])]);
    }
}

#[test]
fn a_cr_dispatches_without_the_byte_after_it() {
    let mut decoder = Decoder::default();
    for chunk in ["data: x\r\n\r", "\ndata: x\r\r", "\ndata: x\n\r", "data: x\r\n\r\n"] {
        decoder.push(chunk.into());
        assert_eq!(decoder.next(), Some(Ok(data("x"))), "{chunk:?}");
        assert_eq!(decoder.next(), None);
    }
}

#[test]
fn one_byte_order_mark_is_stripped_at_the_start_only() {
    check(&[
        ("\u{feff}data: x\n\n", &[data("x")]),
        ("\u{feff}: comment\n\ndata: x\n\n", &[data("x")]),
        ("\u{feff}\ndata: x\n\n", &[data("x")]),
        ("\u{feff}\u{feff}data: x\n\ndata: y\n\n", &[data("y")]),
        ("\n\u{feff}data: x\n\ndata: y\n\n", &[data("y")]),
        ("data: \u{feff}x\n\n", &[data("\u{feff}x")]),
        ("\u{feff}", &[]),
    ]);
    // A mark that breaks off is a part of the first field's name.
    for input in [&b"\xEFdata: x\n\ndata: y\n\n"[..], b"\xEF\xBBdata: x\n\ndata: y\n\n", b"\xEF\ndata: y\n\n"]
    {
        assert_eq!(decode_every_way(UNLIMITED, input).frames, [data("y")]);
    }
}

#[test]
fn invalid_utf8_passes_through() {
    let frames = decode_every_way(UNLIMITED, b"data: \xC3\ndata: \xA9\n\n").frames;
    assert_eq!(frames, [Frame { data: Some(Bytes::from_static(b"\xC3\n\xA9")), ..Frame::default() }]);
}

#[test]
fn the_end_discards_an_unfinished_block_but_not_its_retry() {
    for (input, rest) in [
        ("data: x", None),
        ("id: 1\ndata: x\n", None),
        ("retry: 5", None),
        ("retry: 5\n\n", None),
        ("retry: 5\n\ndata: x\n", None),
        ("retry: x\n", None),
        ("retry: 5\n", Some(retry(5))),
        ("retry: 5\r", Some(retry(5))),
        ("id: 1\nevent: e\nretry: 5\ndata: x\nretry: 6", Some(retry(5))),
    ] {
        assert_eq!(decode_every_way(UNLIMITED, input.as_bytes()).rest, rest, "{input:?}");
    }
}

#[test]
fn the_end_leaves_nothing_to_the_next_stream() {
    for leftover in ["id: 1\nevent: e\nretry: 1\ndata: a\ndata: b\nda", "\u{feff}", "\u{feff}a\n"] {
        let mut decoder = Decoder::new(60);
        decoder.push(leftover.into());
        assert_eq!(decoder.next(), None);
        decoder.push("data: never taken\n\n".into());
        decoder.finish();
        assert_eq!(decoder.finish(), None);
        // A value that takes up the whole limit.
        let value = "x".repeat(53);
        decoder.push(format!("\u{feff}data: {value}\n\n").into());
        assert_eq!(decoder.next(), Some(Ok(data(&value))), "{leftover:?}");
    }
}

#[test]
fn the_limit_is_on_the_lines_of_one_block() {
    // Each frame is there at its limit, and is an error one below.
    for (input, limit) in [
        ("data:x\r\n\r\n", 7),
        ("\u{feff}data:x\n\n", 7),
        ("id:1\ndata:x\ndata:y\n\n", 19),
        ("unknown: field\ndata:x\n\n", 22),
        (": a comment is free\ndata:x\n: and here\n\n", 7),
        ("data:x\n\n: as are blocks before it\n\nid:1\n\ndata:x\n\n", 7),
    ] {
        let at = decode_every_way(limit, input.as_bytes());
        assert_eq!((at.error, at.frames.is_empty()), (None, false), "{input:?}");
        let over = decode_every_way(limit - 1, input.as_bytes());
        assert_eq!(over.error, Some(EventTooLarge { limit: limit - 1 }), "{input:?}");
    }
    // A line fails with its first byte too many, not with its end.
    assert_eq!(decode_every_way(10, b"id:1\ndata:").error, None);
    assert_eq!(decode_every_way(10, b"id:1\ndata:x").error, Some(EventTooLarge { limit: 10 }));

    assert_eq!(decode_every_way(6, b"id:1\n\ndata:x\n\nid:2\n\n").frames, [id("1")]);
    assert_eq!(decode_every_way(0, "\u{feff}\n\r\n: comment\n".as_bytes()), Outcome::default());
    assert!(EventTooLarge { limit: 6 }.to_string().contains("`max_event_bytes`, 6 bytes"));
}

#[test]
fn after_the_error_there_is_nothing_and_no_memory_is_held() {
    let chunks = ["id: 1\n", "data: 2\n", "data: 3456789\n\ndata: x\n\n", "data: y\n\n"];
    let chunks = chunks.map(|chunk| Bytes::from(chunk.to_owned()));
    let mut decoder = Decoder::new(20);
    chunks.iter().for_each(|chunk| decoder.push(chunk.clone()));
    assert_eq!(decoder.next(), Some(Err(EventTooLarge { limit: 20 })));
    assert!(chunks.iter().all(Bytes::is_unique));
    for chunk in &chunks {
        decoder.push(chunk.clone());
        assert!(chunk.is_unique());
        assert_eq!((decoder.next(), decoder.finish()), (None, None));
    }
}

#[test]
fn comments_without_blank_lines_go_on_for_ever() {
    let mut decoder = Decoder::new(16);
    for chunk in [": keep-alive\n", ": longer than the limit, and ", "never ended "] {
        for _ in 0..10_000 {
            decoder.push(chunk.into());
            assert_eq!(decoder.next(), None);
        }
    }
    decoder.push("\ndata: x\n\n".into());
    assert_eq!(decoder.next(), Some(Ok(data("x"))));
}

#[test]
fn values_that_arrive_whole_are_not_copied() {
    let chunk = Bytes::from("id: 1\nevent: e\ndata: first\n\nda".to_owned());
    let mut decoder = Decoder::default();
    decoder.push(chunk.clone());
    let frame = decoder.next().unwrap().unwrap();
    for value in [frame.id, frame.event, frame.data].map(Option::unwrap) {
        assert!(chunk.as_ptr_range().contains(&value.as_ptr()), "{value:?}");
    }
    // Nor is the chunk held once it is used up.
    assert_eq!(decoder.next(), None);
    assert!(chunk.is_unique());
}

#[test]
fn a_hundred_thousand_priming_blocks_fit_in_one_chunk() {
    let input = "id: 7\ndata:\n\n: keep-alive\n\nevent: e\n\n".repeat(100_000);
    let outcome = decode(UNLIMITED, [input.as_bytes()]);
    assert_eq!(outcome.frames.len(), 100_000);
    assert!(outcome.frames.iter().all(|frame| *frame == Frame { data: bytes(""), ..id("7") }));
}

#[test]
fn events_of_the_default_limit_pass_in_chunks_of_any_size() {
    let room = Decoder::DEFAULT_MAX_EVENT_BYTES;
    let one_line = format!("data:{}\n\n", "x".repeat(room - 6));
    let lines = "data:56789abcdef\r\n".repeat(room / 17) + "\r\n";
    for (input, len) in [(one_line, room - 6), (lines, room / 17 * 12 - 1)] {
        for size in [7, 64 * 1024, usize::MAX] {
            let outcome = decode(room, input.as_bytes().chunks(size));
            assert_eq!(outcome.frames.len(), 1, "in chunks of {size}");
            assert_eq!(outcome.frames[0].data.as_ref().map(Bytes::len), Some(len), "in chunks of {size}");
        }
    }
}

#[test]
fn long_lines_in_parts_keep_their_bytes() {
    let value = Vec::from_iter((0..3_000).map(|number| number.to_string())).join(",");
    let input = format!("data: {value}\ndata: {value}\n\n");
    for size in [1, 1_000, 2_048, 2_049, 5_000, usize::MAX] {
        let frames = decode(UNLIMITED, input.as_bytes().chunks(size)).frames;
        assert_eq!(frames, [data(&format!("{value}\n{value}"))], "in chunks of {size}");
    }
}

#[test]
fn debug_output_has_no_payload() {
    let mut decoder = Decoder::default();
    decoder.push("data: 1\n\ndata: secret\nid: secret\nsecret".into());
    assert_eq!(decoder.next(), Some(Ok(data("1"))));
    let shown = [format!("{decoder:?}"), format!("{:?}", (decoder.next(), &decoder))].concat();
    assert!(!shown.contains("secret") && !shown.contains("115, 101"), "{shown}");
}

/// WHATWG HTML §9.2.6 step by step over the whole stream, with each byte as the character of its number.
fn reference(limit: usize, input: &[u8]) -> Outcome {
    let text: String = input.iter().map(|&byte| char::from(byte)).collect();
    let text = text.strip_prefix("\u{ef}\u{bb}\u{bf}").unwrap_or(&text);
    let text = text.replace("\r\n", "\n").replace('\r', "\n");
    let latin1 = |value: &str| Bytes::from_iter(value.chars().map(|char| char as u8));
    let (lines, unfinished) = text.rsplit_once('\n').unwrap_or(("", &text));

    let mut outcome = Outcome::default();
    let (mut frame, mut size) = (Frame::default(), 0);
    for line in lines.split('\n') {
        let (name, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match name {
            _ if line.is_empty() => {
                if frame.id.is_some() || frame.data.is_some() || frame.retry.is_some() {
                    outcome.frames.push(frame);
                }
                (frame, size) = (Frame::default(), 0);
                continue;
            }
            "" => continue,
            "event" => frame.event = Some(latin1(value)).filter(|event| !event.is_empty()),
            "data" => match frame.data {
                None => frame.data = Some(latin1(value)),
                Some(data) => frame.data = Some([data, latin1("\n"), latin1(value)].concat().into()),
            },
            "id" if !value.contains('\0') => frame.id = Some(latin1(value)),
            "retry" if !value.is_empty() && value.chars().all(|char| char.is_ascii_digit()) => {
                frame.retry = Some(value.parse().unwrap_or(u64::MAX));
            }
            _ => {}
        }
        size += line.chars().count() + 1;
        if size > limit {
            return Outcome { error: Some(EventTooLarge { limit }), ..outcome };
        }
    }
    if !unfinished.starts_with(':') && size + unfinished.chars().count() > limit {
        return Outcome { error: Some(EventTooLarge { limit }), ..outcome };
    }
    Outcome { rest: frame.retry.map(retry), ..outcome }
}

fn stream() -> impl Strategy<Value = Vec<u8>> {
    let name = select(vec!["data", "data", "event", "id", "retry", "", "dat", "Data", " id", "\u{feff}id"]);
    let colon = select(vec!["", ":", ": ", ":  ", "::"]);
    let value = select(vec!["", "x", "10", "99999999999999999999", "+5", "a\0b", "\u{2028}", "long value"]);
    let end = select(vec!["\n", "\r", "\r\n", "\n\n", "\r\r", "\r\n\r\n", "\n\r", ""]);
    let line = (name, colon, value, end).prop_map(|(a, b, c, d)| [a, b, c, d].concat().into_bytes());
    let raw = vec(prop_oneof![any::<u8>(), select(b"\n\r: \0\xEF\xBB\xBF".to_vec())], 0..8);
    let start = select(vec![&b""[..], b"", b"\xEF\xBB\xBF", b"\xEF\xBB", b"\xEF"]);
    (start, vec(prop_oneof![6 => line, 1 => raw], 0..24))
        .prop_map(|(start, parts)| [start.to_vec(), parts.concat()].concat())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_stream_cut_anywhere_decodes_as_the_specification_says(
        input in stream(),
        // From 2 on, since a mark that breaks off after two bytes does not count before the third.
        limit in prop_oneof![2..80_usize, Just(UNLIMITED)],
        pieces in vec((0..12_usize, select(vec![0, 1, usize::MAX])), 0..64),
    ) {
        let expected = reference(limit, &input);
        prop_assert_eq!(&decode(limit, [&input[..]]), &expected);
        prop_assert_eq!(&decode(limit, input.chunks(1)), &expected);

        let (mut left, mut chunks) = (&input[..], Vec::new());
        for (len, items) in pieces {
            let (chunk, rest) = left.split_at(len.min(left.len()));
            chunks.push((chunk, items));
            left = rest;
        }
        chunks.push((left, 0));
        prop_assert_eq!(decode_lazily(limit, chunks), expected);
    }
}
