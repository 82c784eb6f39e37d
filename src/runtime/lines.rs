//! Lines out of bytes as they come: split at `\n`, `\r\n` and at `\r`, which progress bars end with. Pure.

/// The longest line kept whole; a longer one is cut into pieces, so that a server without line ends cannot fill the memory.
const LONGEST: usize = 64 * 1024;

/// Collects the bytes of one stream until a line is complete.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    open: Vec<u8>,
    // The last byte was `\r`: a `\n` that follows belongs to it.
    returned: bool,
}

impl Lines {
    /// Takes the next bytes and gives the lines that they complete.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Vec<String> {
        let mut done = Vec::new();
        for &byte in bytes {
            let after_return = std::mem::replace(&mut self.returned, byte == b'\r');
            match byte {
                b'\n' if after_return => {}
                b'\n' | b'\r' => done.push(self.take()),
                _ => {
                    self.open.push(byte);
                    if self.open.len() >= LONGEST {
                        done.push(self.take());
                    }
                }
            }
        }
        done
    }

    /// What is left when the stream ends without a line end.
    pub(crate) fn rest(&mut self) -> Option<String> {
        (!self.open.is_empty()).then(|| self.take())
    }

    fn take(&mut self) -> String {
        String::from_utf8_lossy(&std::mem::take(&mut self.open)).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn all(pieces: &[&[u8]]) -> Vec<String> {
        let mut lines = Lines::default();
        let mut out: Vec<_> = pieces.iter().flat_map(|piece| lines.push(piece)).collect();
        out.extend(lines.rest());
        out
    }

    #[test]
    fn progress_bars_and_windows_ends_split() {
        assert_eq!(all(&[b"a\r\nb\rc\n\nd"]), ["a", "b", "c", "", "d"]);
    }

    #[test]
    fn a_line_without_end_is_cut() {
        let lines = all(&[&vec![b'x'; LONGEST * 2 + 1]]);
        assert_eq!(lines.iter().map(String::len).collect::<Vec<_>>(), [LONGEST, LONGEST, 1]);
    }

    proptest! {
        #[test]
        fn where_reads_end_changes_nothing(text in "[a-c\r\né]{0,40}", cut in 0_usize..80) {
            let bytes = text.as_bytes();
            let cut = cut.min(bytes.len());
            prop_assert_eq!(all(&[&bytes[..cut], &bytes[cut..]]), all(&[bytes]));
        }
    }
}
