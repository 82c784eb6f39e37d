//! Reads input files: arrival traces and user-written prompts.
//!
//! A trace has one JSON object per line, in one of three formats, recognized by their field names: ours (`at` in
//! seconds, `input`, `output`), Mooncake (`timestamp` in milliseconds, `input_length`, `output_length`; `hash_ids` is
//! ignored), and BurstGPT (`Timestamp` in seconds, `Request tokens`, `Response tokens`), as JSON or as the published
//! CSV. Times are relative to the first request.

use std::time::Duration;

use serde_json::{Map, Value};

use crate::fault::{Fault, Result};
use crate::prompt::MAX_TOKENS;

/// Field names of time, input and output in each format, and the number of time units per second.
const FORMS: [([&str; 3], f64); 3] = [
    (["at", "input", "output"], 1.0),
    (["timestamp", "input_length", "output_length"], 1000.0),
    (["Timestamp", "Request tokens", "Response tokens"], 1.0),
];

/// One request of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Time since the first request.
    pub at: Duration,
    /// Prompt tokens.
    pub input: u64,
    /// Output tokens.
    pub output: u64,
}

/// Parses the text of a trace: its requests, in order of time. Blank lines are skipped.
///
/// # Errors
///
/// `usage` with the line number if a line is invalid or out of order.
pub fn read_trace(text: &str) -> Result<Vec<Arrival>> {
    let mut lines = text
        .lines()
        .enumerate()
        .map(|(index, line)| (index + 1, line.trim()))
        .filter(|(_, line)| !line.is_empty())
        .peekable();
    let columns: Option<Vec<String>> = lines
        .next_if(|(_, line)| line.starts_with(FORMS[2].0[0]))
        .map(|(_, header)| cells(header).map(str::to_owned).collect());
    let mut arrivals: Vec<Arrival> = Vec::new();
    let mut first = None;
    for (number, line) in lines {
        let invalid = |why: String| {
            Fault::usage(format!("line {number} of the trace {why}")).hint(
                    "a line is a JSON object with `at` (seconds), `input` and `output`, or with the names of a Mooncake or BurstGPT trace",
                )
        };
        let fields = match &columns {
            Some(columns) => row(columns, line),
            None => serde_json::from_str(line).map_err(|error| invalid(format!("is not a JSON object: {error}")))?,
        };
        let (seconds, input, output) = arrival(&fields).map_err(invalid)?;
        let since = seconds - *first.get_or_insert(seconds);
        let at = Duration::try_from_secs_f64(since)
            .ok()
            .filter(|at| arrivals.last().is_none_or(|last| last.at <= *at))
            .ok_or_else(|| invalid("comes before the line above it".to_owned()))?;
        arrivals.push(Arrival { at, input, output });
    }
    if arrivals.is_empty() {
        return Err(Fault::usage("the trace has no requests").hint("give a file with one JSON object a line"));
    }
    Ok(arrivals)
}

/// Seconds, input and output of a line; the error describes the defect.
fn arrival(fields: &Map<String, Value>) -> std::result::Result<(f64, u64, u64), String> {
    let format = FORMS.iter().find(|([time, ..], _)| fields.contains_key(*time));
    let Some(([time, input, output], second)) = format else {
        return Err("has no time: none of `at`, `timestamp` and `Timestamp`".to_owned());
    };
    let number = |name: &str| {
        let value = fields.get(name).ok_or_else(|| format!("has no `{name}`"))?;
        let read = value.as_f64().filter(|number| number.is_finite() && *number >= 0.0);
        read.ok_or_else(|| format!("has `{name}` {value}, which is not a number of at least 0"))
    };
    let tokens = |name: &str| {
        let given = number(name)?;
        if given.fract() == 0.0 && (1.0..=MAX_TOKENS as f64).contains(&given) {
            return Ok(given as u64);
        }
        Err(format!(
            "has `{name}` {given}, which is not a number of tokens from 1 to {MAX_TOKENS}"
        ))
    };
    Ok((number(time)? / second, tokens(input)?, tokens(output)?))
}

/// Splits a CSV line. The published files contain no quotes.
fn cells(line: &str) -> impl Iterator<Item = &str> {
    line.split(',').map(str::trim)
}

fn row(columns: &[String], line: &str) -> Map<String, Value> {
    let named = columns.iter().zip(cells(line));
    let value = |cell: &str| serde_json::from_str(cell).unwrap_or_else(|_| Value::from(cell));
    named.map(|(name, cell)| (name.clone(), value(cell))).collect()
}

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

/// Parses the text of a file of prompts: at least one, in file order. If its first line begins with `{`, each line is an
/// object with `prompt` and optionally `output`, `output_len`, `max_tokens` or `output_tokens`; other keys are ignored.
/// Otherwise each line is a prompt. Blank lines are skipped.
///
/// # Errors
///
/// `usage` with the line number if a line is invalid.
pub fn read_prompts(text: &str) -> Result<Vec<FilePrompt>> {
    let lines = || {
        let numbered = text.lines().enumerate().map(|(index, line)| (index + 1, line));
        numbered.filter(|(_, line)| !line.trim().is_empty())
    };
    let json = lines()
        .next()
        .is_some_and(|(_, line)| line.trim_start().starts_with('{'));
    let prompts = lines()
        .map(|(number, line)| {
            if !json {
                let prompt = line.trim_end_matches('\r').to_owned();
                return Ok(FilePrompt { prompt, output: None });
            }
            parse_line(line).map_err(|why| {
                Fault::usage(format!("line {number} of the prompts {why}"))
                    .hint("a line is `{\"prompt\": \"…\"}`, perhaps with `output`, the tokens to generate; or the file is plain text, a prompt a line")
            })
        })
        .collect::<Result<Vec<_>>>()?;
    if prompts.is_empty() {
        return Err(Fault::usage("the file of prompts has none").hint("give a file with a prompt a line"));
    }
    Ok(prompts)
}

/// Parses one JSON line; the error describes the defect.
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
mod trace_tests {
    use super::*;

    fn read(text: &str) -> Vec<(u64, u64, u64)> {
        let arrivals = read_trace(text).unwrap();
        arrivals
            .iter()
            .map(|arrival| (arrival.at.as_millis() as u64, arrival.input, arrival.output))
            .collect()
    }

    #[test]
    fn parses_all_formats_relative_to_the_first_request() {
        let ours = "{\"at\": 0, \"input\": 10, \"output\": 2}\n\n{\"at\": 0.25, \"input\": 5, \"output\": 1}\n";
        assert_eq!(read(ours), [(0, 10, 2), (250, 5, 1)]);
        let mooncake = "{\"timestamp\": 27000, \"input_length\": 6955, \"output_length\": 52, \"hash_ids\": [46, 47]}\n\
                        {\"timestamp\": 30000, \"input_length\": 6472, \"output_length\": 26, \"hash_ids\": []}";
        assert_eq!(read(mooncake), [(0, 6955, 52), (3000, 6472, 26)]);
        let burst = "{\"Timestamp\": 5, \"Model\": \"ChatGPT\", \"Request tokens\": 472, \"Response tokens\": 18}";
        assert_eq!(read(burst), [(0, 472, 18)]);
        let csv = "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n\
                   5,ChatGPT,472,18,490,Conversation log\n45,ChatGPT,1087,230,1317,Conversation log\n";
        assert_eq!(read(csv), [(0, 472, 18), (40_000, 1087, 230)]);
    }

    #[test]
    fn invalid_line_is_reported_with_its_number() {
        for (text, part) in [
            (
                "{\"at\": 0, \"input\": 1, \"output\": 1}\nnonsense",
                "line 2 of the trace is not a JSON object",
            ),
            ("{\"when\": 0}", "line 1 of the trace has no time"),
            ("{\"at\": 0, \"input\": 1}", "has no `output`"),
            ("{\"at\": 0, \"input\": 0, \"output\": 1}", "has `input` 0"),
            ("{\"at\": 0, \"input\": \"x\", \"output\": 1}", "has `input` \"x\""),
            ("{\"at\": 0, \"input\": 1.5, \"output\": 1}", "has `input` 1.5"),
            (
                "{\"at\": 3, \"input\": 1, \"output\": 1}\n{\"at\": 2, \"input\": 1, \"output\": 1}",
                "line 2 of the trace comes before the line above it",
            ),
            ("\n", "has no requests"),
        ] {
            let fault = read_trace(text).unwrap_err();
            assert!(fault.message.contains(part), "{fault}");
        }
    }
}

#[cfg(test)]
mod corpus_tests {
    use super::*;

    fn read(text: &str) -> Vec<(String, Option<u64>)> {
        read_prompts(text)
            .unwrap()
            .into_iter()
            .map(|written| (written.prompt, written.output))
            .collect()
    }

    #[test]
    fn parses_text_and_json_lines() {
        assert_eq!(
            read("one prompt\r\n\n  two\n"),
            [("one prompt".to_owned(), None), ("  two".to_owned(), None)]
        );
        let json = "{\"prompt\": \"a\\nb\", \"output\": 3}\n{\"prompt\": \"c\", \"max_tokens\": 4, \"x\": 1}\n{\"prompt\": \"d\", \"output\": null}";
        assert_eq!(
            read(json),
            [
                ("a\nb".to_owned(), Some(3)),
                ("c".to_owned(), Some(4)),
                ("d".to_owned(), None)
            ]
        );
    }

    #[test]
    fn invalid_line_is_reported_with_its_number() {
        for (text, part) in [
            (
                "{\"prompt\": \"a\"}\nplain",
                "line 2 of the prompts is not a JSON object",
            ),
            ("{\"text\": \"a\"}", "line 1 of the prompts has no `prompt`"),
            ("{\"prompt\": [1, 2]}", "`prompt` [1,2]"),
            ("{\"prompt\": \"a\", \"output\": 0}", "`output` 0"),
            ("  \n", "has none"),
        ] {
            let fault = read_prompts(text).unwrap_err();
            assert!(fault.message.contains(part), "{fault}");
        }
    }
}
