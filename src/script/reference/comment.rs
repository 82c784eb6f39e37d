//! Parses doc comments into summary, text, and examples (which a test runs).

use serde::Serialize;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Comment {
    /// The first paragraph, on one line.
    pub(super) summary: String,
    /// The text after the summary.
    pub(super) docs: String,
    /// The `rhai` code blocks.
    pub(super) examples: Vec<Example>,
}

/// A code block of a comment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Example {
    /// The code.
    pub code: String,
    /// What it needs to run.
    pub needs: Option<Needs>,
}

/// What an example needs to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Needs {
    /// A Docker daemon: ```` ```rhai,needs-docker ````.
    Docker,
    /// A usable GPU: ```` ```rhai,needs-gpu ````.
    Gpu,
}

impl Comment {
    /// Parses comments as Rhai stores them: pieces of one or more lines, with comment markers.
    pub(super) fn parse<'a>(pieces: impl IntoIterator<Item = &'a str>) -> Self {
        let text: Vec<String> = pieces.into_iter().flat_map(strip_markers).collect();
        Self::from_text(&text.join("\n"))
    }

    /// Parses text without comment markers.
    fn from_text(text: &str) -> Self {
        let text = text.trim();
        let (summary, docs) = text.split_once("\n\n").unwrap_or((text, ""));
        Self {
            summary: summary.split_whitespace().collect::<Vec<_>>().join(" "),
            docs: docs.trim().to_owned(),
            examples: examples(text),
        }
    }

    pub(super) fn markdown(&self) -> String {
        match self.docs.is_empty() {
            true => self.summary.clone(),
            false => format!("{}\n\n{}", self.summary, self.docs),
        }
    }
}

/// The lines of a piece without `///`, `//!`, or block comment markers.
fn strip_markers(piece: &str) -> Vec<String> {
    let piece = piece.trim();
    if let Some(block) = piece.strip_prefix("/**").or_else(|| piece.strip_prefix("/*!")) {
        let block = block.strip_suffix("*/").unwrap_or(block);
        return block
            .lines()
            .map(|line| {
                let line = line.trim();
                let line = line.strip_prefix('*').unwrap_or(line);
                line.strip_prefix(' ').unwrap_or(line).to_owned()
            })
            .collect();
    }
    piece
        .lines()
        .map(|line| {
            let line = line.trim();
            let line = line
                .strip_prefix("///")
                .or_else(|| line.strip_prefix("//!"))
                .unwrap_or(line);
            line.strip_prefix(' ').unwrap_or(line).to_owned()
        })
        .collect()
}

/// The fenced code blocks with language `rhai`.
fn examples(markdown: &str) -> Vec<Example> {
    let mut found = Vec::new();
    let mut open: Option<Example> = None;
    // Fences inside a block of another language are ignored.
    let mut other = false;
    for line in markdown.lines() {
        let fence = line.trim().strip_prefix("```");
        match (&mut open, fence) {
            (Some(_), Some(_)) => found.extend(open.take()),
            (Some(example), None) => {
                example.code.push_str(line);
                example.code.push('\n');
            }
            (None, Some(_)) if other => other = false,
            (None, Some(info)) => {
                let mut words = info.split(',').map(str::trim);
                if words.next() == Some("rhai") {
                    let needs = words.find_map(|word| match word {
                        "needs-docker" => Some(Needs::Docker),
                        "needs-gpu" => Some(Needs::Gpu),
                        _ => None,
                    });
                    open = Some(Example {
                        code: String::new(),
                        needs,
                    });
                } else {
                    other = true;
                }
            }
            (None, None) => {}
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_and_block_comments_read_the_same() {
        let lines = Comment::parse(["/// Starts it\n/// now.\n///\n/// # Errors\n///\n/// None."]);
        let block = Comment::parse(["/** Starts it\n * now.\n *\n * # Errors\n *\n * None.\n */"]);
        assert_eq!(lines, block);
        assert_eq!(lines.summary, "Starts it now.");
        assert_eq!(lines.docs, "# Errors\n\nNone.");
        assert_eq!(lines.markdown(), "Starts it now.\n\n# Errors\n\nNone.");
    }

    #[test]
    fn rhai_blocks_are_examples_and_say_what_they_need() {
        let comment = Comment::from_text(
            "A.\n\n```rhai\nlet x = 1;\n  x\n```\n\n```text\n```\n\n```rhai,needs-docker\ny()\n```\n\n```rhai, needs-gpu\nz()\n```",
        );
        let seen: Vec<_> = comment.examples.iter().map(|e| (e.code.as_str(), e.needs)).collect();
        assert_eq!(
            seen,
            [
                ("let x = 1;\n  x\n", None),
                ("y()\n", Some(Needs::Docker)),
                ("z()\n", Some(Needs::Gpu))
            ]
        );
    }

    #[test]
    fn nothing_is_an_empty_comment() {
        assert_eq!(Comment::parse([]), Comment::default());
    }
}
