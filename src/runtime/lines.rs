//! Splits a byte stream into lines at `\n`, `\r\n` and `\r` (which progress bars end with).

/// Longer lines are split, so that output without line ends cannot fill the memory.
const MAX_LINE_BYTES: usize = 64 * 1024;

#[derive(Debug, Default)]
pub(crate) struct LineSplitter {
    partial: Vec<u8>,
    // If the last byte was `\r`, a following `\n` belongs to it.
    after_carriage_return: bool,
}

impl LineSplitter {
    /// Adds bytes and returns the lines they complete.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Vec<String> {
        let mut done = Vec::new();
        for &byte in bytes {
            let after_carriage_return = std::mem::replace(&mut self.after_carriage_return, byte == b'\r');
            match byte {
                b'\n' if after_carriage_return => {}
                b'\n' | b'\r' => done.push(self.take()),
                _ => {
                    self.partial.push(byte);
                    if self.partial.len() >= MAX_LINE_BYTES {
                        done.push(self.take());
                    }
                }
            }
        }
        done
    }

    /// Returns the last line if the stream ended without a line end.
    pub(crate) fn finish(&mut self) -> Option<String> {
        (!self.partial.is_empty()).then(|| self.take())
    }

    fn take(&mut self) -> String {
        String::from_utf8_lossy(&std::mem::take(&mut self.partial)).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn all(pieces: &[&[u8]]) -> Vec<String> {
        let mut lines = LineSplitter::default();
        let mut out: Vec<_> = pieces.iter().flat_map(|piece| lines.push(piece)).collect();
        out.extend(lines.finish());
        out
    }

    #[test]
    fn carriage_returns_and_windows_line_ends_split() {
        assert_eq!(all(&[b"a\r\nb\rc\n\nd"]), ["a", "b", "c", "", "d"]);
    }

    #[test]
    fn a_long_line_is_split() {
        let lines = all(&[&vec![b'x'; MAX_LINE_BYTES * 2 + 1]]);
        assert_eq!(
            lines.iter().map(String::len).collect::<Vec<_>>(),
            [MAX_LINE_BYTES, MAX_LINE_BYTES, 1]
        );
    }

    proptest! {
        #[test]
        fn chunk_boundaries_do_not_matter(text in "[a-c\r\né]{0,40}", cut in 0_usize..80) {
            let bytes = text.as_bytes();
            let cut = cut.min(bytes.len());
            prop_assert_eq!(all(&[&bytes[..cut], &bytes[cut..]]), all(&[bytes]));
        }
    }
}
