//! Decides whether Enter submits the input or adds a line.

use rhai::{Engine, ParseErrorType, Position};

use super::mask::{Inside, Mask};

/// Parses inputs without the API: unknown names are reported by the session.
pub(super) struct Validator {
    grammar: Engine,
}

impl Validator {
    pub(super) fn new() -> Self {
        let mut grammar = Engine::new_raw();
        grammar.set_max_expr_depths(0, 0);
        Self { grammar }
    }

    /// Whether `text` can be submitted. Erroneous input counts as complete, so that the error is shown.
    pub(super) fn is_complete(&self, text: &str) -> bool {
        if text.trim_start().starts_with(':') {
            return true;
        }
        let mask = Mask::new(text);
        if matches!(mask.end, Inside::BlockComment | Inside::LongText) {
            return false;
        }
        if is_only_documentation(&mask) {
            return false;
        }
        let Err(error) = self.grammar.compile(text) else {
            return true;
        };
        match error.err_type() {
            ParseErrorType::UnexpectedEOF => false,
            ParseErrorType::MissingToken(..) => !is_past_the_end(text, error.position()),
            _ => true,
        }
    }
}

/// Whether the text is a doc comment without its function.
fn is_only_documentation(mask: &Mask) -> bool {
    let last = mask.text.trim_end().lines().next_back().unwrap_or_default();
    last.trim_start().starts_with("///") && mask.code().all(|(_, c)| c.is_whitespace())
}

/// Whether only white space and comments follow `position`.
fn is_past_the_end(text: &str, position: Position) -> bool {
    let (Some(line), column) = (position.line(), position.position().unwrap_or(1)) else {
        return true;
    };
    let before: usize = text.split_inclusive('\n').take(line - 1).map(str::len).sum();
    let on_line = text[before..]
        .chars()
        .take(column - 1)
        .map(char::len_utf8)
        .sum::<usize>();
    Mask::new(text)
        .code()
        .all(|(at, c)| at < before + on_line || c.is_whitespace())
}

#[cfg(test)]
mod tests;
