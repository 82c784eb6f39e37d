//! A place in a script: file, line, column, and how much of the line is meant.

use std::fmt;
use std::ops::Range;

use rhai::Position;

use crate::script::source::{Source, Sources};

/// A place in a script.
#[derive(Clone, Debug)]
pub(in crate::script) struct Place {
    pub(super) source: Source,
    line: usize,
    column: usize,
}

impl Place {
    /// The place of a position, if it is one and the text is known.
    pub(in crate::script) fn find(sources: &Sources, key: &str, at: Position) -> Option<Self> {
        Some(Self::of(sources.get(key)?, at))
    }

    /// A place in a text; without a position, its beginning.
    pub(in crate::script) fn of(source: Source, at: Position) -> Self {
        Self {
            source,
            line: at.line().unwrap_or(1),
            column: at.position().unwrap_or(1),
        }
    }

    /// The bytes meant: the word, string or sign that begins there.
    pub(super) fn span(&self) -> Range<usize> {
        let text = &*self.source.text;
        let line_start = text
            .split_inclusive('\n')
            .take(self.line - 1)
            .map(str::len)
            .sum::<usize>();
        let line = text[line_start..].lines().next().unwrap_or_default();
        // Columns count characters.
        let offset = line
            .char_indices()
            .nth(self.column.saturating_sub(1))
            .map_or(line.len(), |(offset, _)| offset);
        let start = line_start + offset;
        start..start + width(&line[offset..])
    }
}

/// How many bytes the token at the start of `rest` takes, as far as an underline needs to know.
fn width(rest: &str) -> usize {
    let Some(first) = rest.chars().next() else { return 0 };
    let taken = |keep: fn(char) -> bool| rest.find(|c| !keep(c)).unwrap_or(rest.len());
    match first {
        '"' | '`' | '\'' => rest[1..].find(first).map_or(rest.len(), |end| end + 2),
        '_' | '0'..='9' => taken(|c| c.is_alphanumeric() || c == '_'),
        c if c.is_alphabetic() => {
            // A qualified name is one thing to a reader.
            let mut end = taken(|c| c.is_alphanumeric() || c == '_');
            while let Some(more) = rest[end..].strip_prefix("::") {
                let next = more
                    .find(|c: char| !c.is_alphanumeric() && c != '_')
                    .unwrap_or(more.len());
                if next == 0 {
                    break;
                }
                end += 2 + next;
            }
            end
        }
        c => c.len_utf8(),
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.source.key, self.line, self.column)
    }
}

#[cfg(test)]
mod tests {
    use rhai::Position;

    use super::Place;
    use crate::script::source::Source;

    fn meant(text: &str, line: u16, column: u16) -> String {
        let place = Place::of(Source::new("a.rhai", text), Position::new(line, column));
        text[place.span()].to_owned()
    }

    #[test]
    fn the_whole_token_is_meant() {
        assert_eq!(meant("let x = 1;\nlet ü = wrong + 2;", 2, 9), "wrong");
        assert_eq!(meant("docker::start(1)", 1, 1), "docker::start");
        assert_eq!(meant("x = \"ab c\";", 1, 5), "\"ab c\"");
        assert_eq!(meant("a + b", 1, 3), "+");
    }

    #[test]
    fn a_position_past_the_end_is_empty() {
        assert_eq!(meant("let x = ", 1, 40), "");
        assert_eq!(meant("", 7, 3), "");
    }
}
