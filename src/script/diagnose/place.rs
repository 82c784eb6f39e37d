//! A position in a script: file, line, column, and the extent of the token there.

use std::fmt;
use std::ops::Range;

use rhai::Position;

use crate::script::source::{Source, Sources};

#[derive(Clone, Debug)]
pub(in crate::script) struct Place {
    pub(super) source: Source,
    line: usize,
    column: usize,
}

impl Place {
    /// The place of a position, if it and the text are known.
    pub(in crate::script) fn find(sources: &Sources, key: &str, at: Position) -> Option<Self> {
        Some(Self::new(sources.get(key)?, at))
    }

    /// A place in a text; its beginning if there is no position.
    pub(in crate::script) fn new(source: Source, at: Position) -> Self {
        Self {
            source,
            line: at.line().unwrap_or(1),
            column: at.position().unwrap_or(1),
        }
    }

    /// Byte range of the token at this place.
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

/// Byte length of the token at the start of `rest`, accurate enough for underlining.
fn width(rest: &str) -> usize {
    let Some(first) = rest.chars().next() else { return 0 };
    let taken = |keep: fn(char) -> bool| rest.find(|c| !keep(c)).unwrap_or(rest.len());
    match first {
        '"' | '`' | '\'' => rest[1..].find(first).map_or(rest.len(), |end| end + 2),
        '_' | '0'..='9' => taken(|c| c.is_alphanumeric() || c == '_'),
        c if c.is_alphabetic() => {
            // A qualified name counts as one token.
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

    fn spanned(text: &str, line: u16, column: u16) -> String {
        let place = Place::new(Source::new("a.rhai", text), Position::new(line, column));
        text[place.span()].to_owned()
    }

    #[test]
    fn the_span_is_the_whole_token() {
        assert_eq!(spanned("let x = 1;\nlet ü = wrong + 2;", 2, 9), "wrong");
        assert_eq!(spanned("docker::start(1)", 1, 1), "docker::start");
        assert_eq!(spanned("x = \"ab c\";", 1, 5), "\"ab c\"");
        assert_eq!(spanned("a + b", 1, 3), "+");
    }

    #[test]
    fn a_position_past_the_end_is_empty() {
        assert_eq!(spanned("let x = ", 1, 40), "");
        assert_eq!(spanned("", 7, 3), "");
    }
}
