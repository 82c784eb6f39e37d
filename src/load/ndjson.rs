//! Reads newline-delimited JSON, Ollama's streaming format.

use super::lines::Lines;
use crate::fault::Result;

/// An incremental reader of non-empty lines.
#[derive(Debug, Default)]
pub struct Ndjson {
    lines: Lines,
}

impl Ndjson {
    /// Creates a reader for a new stream.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Feeds bytes and calls `value` for every completed line.
    ///
    /// # Errors
    ///
    /// `engine` if a line exceeds 64 MiB.
    pub fn push(&mut self, bytes: &[u8], mut value: impl FnMut(&str)) -> Result<()> {
        self.lines.push(bytes, |line| {
            emit(line, &mut value);
            Ok(())
        })
    }

    /// Ends the stream: calls `value` for a last line without a line end.
    pub fn finish(&mut self, mut value: impl FnMut(&str)) {
        if let Some(line) = self.lines.finish() {
            emit(&line, &mut value);
        }
    }
}

fn emit(line: &[u8], value: &mut impl FnMut(&str)) {
    if !line.trim_ascii().is_empty() {
        value(&String::from_utf8_lossy(line));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn returns_lines_for_all_splits() {
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
