//! Prompts that somebody wrote, read from a file: a text a line, or JSON lines.

use serde_json::Value;

use crate::fault::{Fault, Result};

/// The names under which files of others tell how long the answer shall be.
const OUTPUTS: [&str; 4] = ["output", "output_len", "max_tokens", "output_tokens"];

/// One prompt of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// Its text.
    pub prompt: String,
    /// Tokens of the answer to ask for, where the file says so.
    pub output: Option<u64>,
}

/// The prompts of a file, in its order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Corpus(Vec<Written>);

impl Corpus {
    /// Reads the text of a file. Where its first line begins with `{`, each line is an object with `prompt` and perhaps `output`, `output_len`,
    /// `max_tokens` or `output_tokens`; other keys are not used. Else each line is a prompt. Blank lines are left out.
    ///
    /// # Errors
    ///
    /// `usage` with the number of the line for one that is no prompt.
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
                return Ok(Written { prompt, output: None });
            }
            written(line).map_err(|why| {
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

    /// The prompts, first to last; at least one.
    #[must_use]
    pub fn prompts(&self) -> &[Written] {
        &self.0
    }
}

/// The prompt of a line; else what is wrong with it.
fn written(line: &str) -> std::result::Result<Written, String> {
    let value: Value = serde_json::from_str(line).map_err(|error| format!("is no JSON object: {error}"))?;
    let prompt = match value.get("prompt") {
        Some(Value::String(prompt)) if !prompt.is_empty() => prompt.clone(),
        Some(other) => return Err(format!("has `prompt` {other}, which is no text")),
        None => return Err("has no `prompt`".to_owned()),
    };
    let given = OUTPUTS
        .iter()
        .find_map(|name| Some((name, value.get(name).filter(|value| !value.is_null())?)));
    let output = match given {
        None => None,
        Some((name, value)) => {
            let tokens = value.as_u64().filter(|tokens| *tokens > 0);
            Some(tokens.ok_or_else(|| format!("has `{name}` {value}, which is no number of tokens from 1 up"))?)
        }
    };
    Ok(Written { prompt, output })
}

#[cfg(test)]
mod tests;
