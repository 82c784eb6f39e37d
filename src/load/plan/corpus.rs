//! User-written prompts from a file: one text per line, or JSON lines.

use serde_json::Value;

use crate::fault::{Fault, Result};

/// Keys for the answer's length in files of other tools.
const OUTPUT_KEYS: [&str; 4] = ["output", "output_len", "max_tokens", "output_tokens"];

/// One prompt of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilePrompt {
    /// The text.
    pub prompt: String,
    /// Requested output tokens, if the file states them.
    pub output: Option<u64>,
}

/// The prompts of a file, in file order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Corpus(Vec<FilePrompt>);

impl Corpus {
    /// Parses the text of a file. If its first line begins with `{`, each line is an object with `prompt` and
    /// optionally `output`, `output_len`, `max_tokens` or `output_tokens`; other keys are ignored. Otherwise each line
    /// is a prompt. Blank lines are skipped.
    ///
    /// # Errors
    ///
    /// `usage` with the line number if a line is invalid.
    pub fn read(text: &str) -> Result<Self> {
        let lines = || {
            let numbered = text.lines().enumerate().map(|(index, line)| (index + 1, line));
            numbered.filter(|(_, line)| !line.trim().is_empty())
        };
        let json = lines()
            .next()
            .is_some_and(|(_, line)| line.trim_start().starts_with('{'));
        let prompts = lines().map(|(number, line)| {
            if !json {
                let prompt = line.trim_end_matches('\r').to_owned();
                return Ok(FilePrompt { prompt, output: None });
            }
            parse_line(line).map_err(|why| {
                Fault::usage(format!("line {number} of the prompts {why}"))
                    .hint("a line is `{\"prompt\": \"…\"}`, perhaps with `output`, the tokens to generate; or the file is plain text, a prompt a line")
            })
        });
        let prompts = prompts.collect::<Result<Vec<_>>>()?;
        if prompts.is_empty() {
            return Err(Fault::usage("the file of prompts has none").hint("give a file with a prompt a line"));
        }
        Ok(Self(prompts))
    }

    /// The prompts, at least one.
    #[must_use]
    pub fn prompts(&self) -> &[FilePrompt] {
        &self.0
    }
}

/// Parses one JSON line; the error says what is wrong with it.
fn parse_line(line: &str) -> std::result::Result<FilePrompt, String> {
    let value: Value = serde_json::from_str(line).map_err(|error| format!("is not a JSON object: {error}"))?;
    let prompt = match value.get("prompt") {
        Some(Value::String(prompt)) if !prompt.is_empty() => prompt.clone(),
        Some(other) => return Err(format!("has `prompt` {other}, which is not text")),
        None => return Err("has no `prompt`".to_owned()),
    };
    let given = OUTPUT_KEYS
        .iter()
        .find_map(|name| Some((name, value.get(name).filter(|value| !value.is_null())?)));
    let output = match given {
        None => None,
        Some((name, value)) => {
            let tokens = value.as_u64().filter(|tokens| *tokens > 0);
            Some(tokens.ok_or_else(|| format!("has `{name}` {value}, which is not a number of tokens (at least 1)"))?)
        }
    };
    Ok(FilePrompt { prompt, output })
}

#[cfg(test)]
mod tests;
