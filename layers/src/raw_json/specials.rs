//! Finds the bytes that end a string, or interrupt it, many bytes at a time.

/// How many bytes are looked at together.
const BLOCK: usize = u64::BITS as usize;

/// A stretch without any that is longer than this many blocks is likely to be much longer.
const SHORT: usize = 4;

/// How much is gone over twice, so that it is in the cache the second time.
const WINDOW: usize = 16 << 10;

/// Which bytes of a block are not just a part of a string: quotes, backslashes and control characters.
///
/// Most strings are short, so that one block holds several: that it is looked at once, and not once for each of them, is
/// what makes this fast.
#[derive(Clone, Copy, Default)]
pub(super) struct Specials {
    /// A one for each of them, the first byte's the lowest.
    bits: u64,
    /// Where the block ends in the text. It is a block's length at least, but for the start.
    end: usize,
}

impl Specials {
    /// Where the next one is at `at` or after it, or a place beyond the text. `at` never goes back.
    #[inline(always)]
    pub(super) fn next(&mut self, text: &[u8], at: usize) -> usize {
        if at < self.end {
            let bits = self.bits >> (at + BLOCK - self.end);
            if bits != 0 {
                return at + bits.trailing_zeros() as usize;
            }
        }
        *self = Self::search(text, self.end, at);
        self.end + self.bits.trailing_zeros() as usize - BLOCK
    }

    /// The first block with any at `at` or after it, where all before `from` were looked at. Without any, it ends beyond the
    /// text.
    #[inline(never)]
    fn search(text: &[u8], from: usize, at: usize) -> Self {
        // Mostly it is the next block. That it does not depend on `at` where it begins lets a processor look at it before it
        // is done with the one before.
        let ahead = at.saturating_sub(from);
        match text.get(from..).and_then(<[u8]>::first_chunk) {
            Some(block) if ahead < BLOCK => {
                let bits = specials(block) & (u64::MAX << ahead);
                let end = from + BLOCK;
                if bits != 0 { Self { bits, end } } else { Self::farther(text, end) }
            }
            _ => Self::farther(text, from.max(at)),
        }
    }

    /// The same without a guess at where the block is.
    #[inline(never)]
    fn farther(text: &[u8], from: usize) -> Self {
        let mut at = from;
        for _ in 0..SHORT {
            let Some(block) = text.get(at..).and_then(<[u8]>::first_chunk) else {
                return Self::last(text, at);
            };
            let bits = specials(block);
            at += BLOCK;
            if bits != 0 {
                return Self { bits, end: at };
            }
        }
        Self::far(text, at)
    }

    /// The same at the end of the text, where there is less than a block.
    fn last(text: &[u8], from: usize) -> Self {
        let (bits, end) = match text.last_chunk() {
            Some(block) => (specials(block), text.len()),
            None => {
                let mut block = [b' '; BLOCK];
                for (to, byte) in block.iter_mut().zip(text) {
                    *to = *byte;
                }
                (specials(&block), BLOCK)
            }
        };
        // What is before `from` was seen already.
        let bits = bits & u64::MAX.checked_shl((from + BLOCK - end) as u32).unwrap_or(0);
        Self { bits, end }
    }

    /// The same in a long string.
    fn far(text: &[u8], from: usize) -> Self {
        let mut at = from;
        for window in text.get(from..).unwrap_or_default().chunks(WINDOW) {
            let end = memchr::memchr2(b'"', b'\\', window);
            let plain = window.get(..end.unwrap_or(window.len())).unwrap_or_default();
            // This way it is done by many bytes at a time.
            let least = plain.iter().fold(u8::MAX, |least, byte| least.min(*byte));
            let control = if least < 0x20 { plain.iter().position(|byte| *byte < 0x20) } else { None };
            if let Some(found) = control.or(end) {
                // The last byte of a block: blocks without any were before it.
                return Self { bits: 1 << (BLOCK - 1), end: at + found + 1 };
            }
            at += window.len();
        }
        Self { bits: 0, end: at }
    }
}

/// A one for each special byte of a block, the first byte's the lowest.
///
/// The loops are as plain as they can be, so that compilers make SIMD instructions of the first one, whatever is around it.
fn specials(block: &[u8; BLOCK]) -> u64 {
    let mut flags = [0; BLOCK];
    for (flag, byte) in flags.iter_mut().zip(block) {
        *flag = u8::from((*byte == b'"') | (*byte == b'\\') | (*byte < 0x20));
    }
    let mut bits = 0;
    for (row, flags) in flags.chunks_exact(8).enumerate() {
        let flags = u64::from_le_bytes(flags.first_chunk().copied().unwrap_or_default());
        // Brings the lowest bits of all eight bytes together in the highest byte.
        bits |= (flags.wrapping_mul(0x0102_0408_1020_4080) >> 56) << (8 * row);
    }
    bits
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// All that are found, one after the other, and what there is.
    #[track_caller]
    fn check(text: &[u8]) {
        let expected: Vec<usize> =
            (0..text.len()).filter(|at| matches!(text[*at], b'"' | b'\\' | 0..0x20)).collect();
        for step in [1, 2, 63, 64, 65, 200] {
            let mut specials = Specials::default();
            let mut at = 0;
            while at < text.len() {
                let found = specials.next(text, at);
                let next = expected.get(expected.partition_point(|place| *place < at));
                assert_eq!(Some(&found).filter(|found| **found < text.len()), next, "at {at} of {text:?}");
                at = found.saturating_add(step);
            }
        }
    }

    #[test]
    fn each_is_found_wherever_it_is() {
        for length in [1, 63, 64, 65, 127, 128, 129, 200, 255, 256, 257, 320, 321, 400] {
            for at in 0..length {
                for special in *b"\"\\\0\x1f" {
                    let mut text = vec![0xc3; length];
                    text[at] = special;
                    check(&text);
                    text[at / 2] = b'"';
                    check(&text);
                }
            }
        }
    }

    #[test]
    fn long_stretches_have_none() {
        for at in [WINDOW - 1, WINDOW, WINDOW + SHORT * BLOCK, 3 * WINDOW] {
            for special in *b"\"\\\n" {
                let mut text = vec![b'~'; 4 * WINDOW];
                text[at] = special;
                check(&text);
            }
        }
    }

    proptest! {
        #[test]
        fn all_are_found(text in "[a-z\"\\\\\n\u{1f}\u{20}\u{7f}üÿ]{0,200}", plain in "[a-z]{0,300}") {
            check(text.as_bytes());
            check(format!("{text}{plain}{text}").as_bytes());
        }
    }
}
