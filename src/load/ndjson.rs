//! Reads one JSON value a line, as Ollama streams.

use super::lines::Lines;
use crate::fault::Result;

/// An incremental reader of lines that are not blank.
#[derive(Debug, Default)]
pub struct Ndjson {
    lines: Lines,
}

impl Ndjson {
    /// A reader at the start of a stream.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the next bytes and gives every line that they complete.
    ///
    /// # Errors
    ///
    /// `engine` for a line beyond 64 MiB.
    pub fn push(&mut self, bytes: &[u8], mut value: impl FnMut(&str)) -> Result<()> {
        self.lines.push(bytes, |line| {
            give(line, &mut value);
            Ok(())
        })
    }

    /// The stream ended: gives the line that had no end.
    pub fn finish(&mut self, mut value: impl FnMut(&str)) {
        if let Some(line) = self.lines.finish() {
            give(&line, &mut value);
        }
    }
}

fn give(line: &[u8], value: &mut impl FnMut(&str)) {
    if !line.trim_ascii().is_empty() {
        value(&String::from_utf8_lossy(line));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gives_lines_whatever_the_splits() {
        let text = "{\"a\":1}\n\r\n{\"b\":\"é\"}\n{\"c\":3}".as_bytes();
        for at in 0..text.len() {
            let mut reader = Ndjson::new();
            let mut seen = Vec::new();
            reader.push(&text[..at], |line| seen.push(line.to_owned())).unwrap();
            reader.push(&text[at..], |line| seen.push(line.to_owned())).unwrap();
            reader.finish(|line| seen.push(line.to_owned()));
            assert_eq!(seen, ["{\"a\":1}", "{\"b\":\"é\"}", "{\"c\":3}"], "split at {at}");
        }
    }
}
