//! Renders the documentation as Markdown.

use std::fmt::Write;

use super::{Found, FunctionDoc, FunctionKind, RHAI_BOOK, Reference, Section};

impl Reference {
    /// The whole documentation, with a heading per section.
    #[must_use]
    pub fn markdown(&self) -> String {
        let mut text = format!(
            "# Script API\n\nLengths are in tokens, memory in bytes, times in seconds, unless the name says otherwise. \
             Arithmetic, strings, arrays and maps are Rhai's own: <{RHAI_BOOK}>.\n"
        );
        for section in &self.sections {
            text.push('\n');
            text.push_str(&section_text(section, 2));
        }
        text
    }
}

impl Found<'_> {
    /// Only this entry.
    #[must_use]
    pub fn markdown(&self) -> String {
        match self {
            Found::Section(section) => section_text(section, 1),
            Found::Function(function) => function_text(function, 1),
        }
    }
}

fn section_text(section: &Section, level: usize) -> String {
    let mut text = format!("{} {}\n", "#".repeat(level), section.title());
    if !section.docs.is_empty() {
        let _ = write!(text, "\n{}\n", shift_headings(&section.docs, level));
    }
    for function in &section.functions {
        text.push('\n');
        text.push_str(&function_text(function, level + 1));
    }
    text
}

fn function_text(function: &FunctionDoc, level: usize) -> String {
    let mut text = format!("{} `{}`\n", "#".repeat(level), function.signature());
    let paragraphs = [function.summary.as_str(), function.docs.as_str()];
    for paragraph in paragraphs.into_iter().filter(|paragraph| !paragraph.is_empty()) {
        let _ = write!(text, "\n{}\n", shift_headings(paragraph, level));
    }
    if function.kind == FunctionKind::Property && function.settable {
        text.push_str("\nCan be assigned.\n");
    }
    text
}

/// Shifts the headings of a comment below `level`, except in code. Removes `needs-…` from examples.
fn shift_headings(markdown: &str, level: usize) -> String {
    let mut code = false;
    let lines: Vec<String> = markdown
        .lines()
        .map(|line| {
            if line.trim_start().starts_with("```") {
                code = !code;
                return match line.trim_start().starts_with("```rhai") {
                    true => "```rhai".to_owned(),
                    false => line.to_owned(),
                };
            }
            match !code && line.starts_with('#') {
                true => format!("{}{line}", "#".repeat(level)),
                false => line.to_owned(),
            }
        })
        .collect();
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headings_of_comments_are_below_their_function() {
        let text = shift_headings("# Example\n\n```rhai,needs-docker\n# not a heading\n```\n\n# Errors", 2);
        assert_eq!(text, "### Example\n\n```rhai\n# not a heading\n```\n\n### Errors");
    }
}
