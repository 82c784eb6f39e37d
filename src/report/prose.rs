//! Markdown of the documentation as text for a terminal: wrapped between words, headings without their marks, code as it is.

use console::Style;

use crate::fmt::wrap;

/// `markdown` for a terminal of `width` columns.
pub(super) fn prose(markdown: &str, width: usize, colour: bool) -> String {
    let bold = |text: &str| Style::new().bold().force_styling(colour).apply_to(text).to_string();
    let mut lines: Vec<String> = Vec::new();
    let mut paragraph = String::new();
    let mut is_code = false;
    for line in markdown.lines() {
        let text = line.trim();
        let heading = text.trim_start_matches('#');
        let is_fence = text.starts_with("```");
        let starts_block = text.is_empty() || is_fence || heading.len() < text.len() || is_item(text);
        if is_code || starts_block {
            lines.extend(wrapped(&std::mem::take(&mut paragraph), width));
        }
        match () {
            () if is_fence => is_code = !is_code,
            () if is_code => lines.push(format!("    {line}")),
            () if heading.len() < text.len() => lines.push(bold(heading.trim().trim_matches('`'))),
            () if text.is_empty() || text.starts_with('|') => lines.push(text.to_owned()),
            () if paragraph.is_empty() => line.trim_end().clone_into(&mut paragraph),
            () => paragraph.extend([" ", text]),
        }
    }
    lines.extend(wrapped(&paragraph, width));
    lines.dedup_by(|line, before| line.is_empty() && before.is_empty());
    lines.join("\n")
}

/// Whether a line begins a list item.
fn is_item(text: &str) -> bool {
    let number = text.trim_start_matches(|c: char| c.is_ascii_digit());
    text.starts_with("- ") || text.starts_with("* ") || (number.len() < text.len() && number.starts_with(". "))
}

/// A paragraph or list item in lines. Those after the first of an item are indented.
fn wrapped(paragraph: &str, width: usize) -> Option<String> {
    let text = paragraph.trim_start();
    let indent = " ".repeat(paragraph.len() - text.len());
    let hanging = if is_item(text) { 2 } else { 0 };
    let lines = wrap(text, width.saturating_sub(indent.len()), hanging);
    (!text.is_empty()).then(|| format!("{indent}{}", lines.replace('\n', &format!("\n{indent}"))))
}

#[cfg(test)]
mod tests {
    use super::prose;

    #[test]
    fn documentation_is_wrapped_between_words_and_code_is_kept() {
        let markdown = "# `f(a)`\n\nOne two three\nfour.\n\n- item of many words\n- second\n\n## Example\n\n```rhai\nlet a_long_line = f(1, 2, 3);\n```";
        assert_eq!(
            prose(markdown, 14, false),
            "f(a)\n\nOne two three\nfour.\n\n- item of many\n  words\n- second\n\nExample\n\n    let a_long_line = f(1, 2, 3);"
        );
    }
}
