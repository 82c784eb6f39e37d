//! Helpers for the regular expressions of adapters and for log lines.

use regex::Regex;

use crate::fault::{Fault, Result};

/// Compiles a pattern. `place` names its location in the adapter for the error message.
pub(super) fn compile(pattern: &str, place: &str) -> Result<Regex> {
    Regex::new(pattern).map_err(|error| {
        // The last line of the error states the reason; the lines before it show the pattern.
        let text = error.to_string();
        let reason = text
            .lines()
            .last()
            .unwrap_or_default()
            .trim_start_matches("error: ")
            .to_owned();
        Fault::usage(format!(
            "`{place}` of the adapter: the pattern `{pattern}` is wrong: {reason}"
        ))
        .hint("patterns are those of Rust's regex crate: no look-around, no back-references")
    })
}

/// Removes ANSI colour codes (ECMA-48 control sequences), which some engines write even to pipes.
pub(super) fn without_colour(line: &str) -> std::borrow::Cow<'_, str> {
    if !line.contains('\u{1b}') {
        return line.into();
    }
    let mut plain = String::with_capacity(line.len());
    let mut rest = line.chars();
    while let Some(c) = rest.next() {
        if c != '\u{1b}' {
            plain.push(c);
        } else if rest.as_str().starts_with('[') {
            rest.next();
            rest.find(|c| ('\u{40}'..='\u{7e}').contains(c));
        }
    }
    plain.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_go_and_text_stays() {
        assert_eq!(
            without_colour("\u{1b}[2m2026\u{1b}[0m \u{1b}[32m INFO\u{1b}[0m x"),
            "2026  INFO x"
        );
        assert_eq!(without_colour("plain"), "plain");
        assert_eq!(without_colour("cut \u{1b}["), "cut ");
    }

    #[test]
    fn a_wrong_pattern_is_named() {
        let fault = compile("a(", "failures()[2]").unwrap_err();
        assert!(
            fault.message.contains("failures()[2]") && fault.message.contains("a("),
            "{fault}"
        );
    }
}
