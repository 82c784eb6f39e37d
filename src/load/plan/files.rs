//! Reads input files: arrival traces and user-written prompts, each in the formats of other tools as well.
//!
//! A format is recognised by the names of its fields or columns, never by the file's name; what no format has is refused.

use std::time::Duration;

use serde_json::{Map, Value};

use crate::csv;
use crate::fault::{Fault, Result};
use crate::outside;
use crate::prompt::MAX_TOKENS;

/// A format of traces: names of time, input and output, and the number of time units per second.
struct Form {
    names: [&'static str; 3],
    per_second: f64,
    /// A further field that only this format has.
    mark: Option<&'static str>,
    /// Whether a request without output has failed and is left out.
    records_failures: bool,
}

/// Formats, the first that fits: ours, Qwen-Bailian (seconds) before Mooncake (milliseconds, with the same names),
/// BurstGPT (both versions) and Azure's traces of LLM inference (dates).
const FORMS: [Form; 5] = [
    Form {
        names: ["at", "input", "output"],
        per_second: 1.0,
        mark: None,
        records_failures: false,
    },
    Form {
        names: ["timestamp", "input_length", "output_length"],
        per_second: 1.0,
        mark: Some("chat_id"),
        records_failures: true,
    },
    Form {
        names: ["timestamp", "input_length", "output_length"],
        per_second: 1000.0,
        mark: None,
        records_failures: true,
    },
    Form {
        names: ["Timestamp", "Request tokens", "Response tokens"],
        per_second: 1.0,
        mark: None,
        records_failures: true,
    },
    Form {
        names: ["TIMESTAMP", "ContextTokens", "GeneratedTokens"],
        per_second: 1.0,
        mark: None,
        records_failures: true,
    },
];

const TRACES: &str = "a trace has a JSON object a line with `at` (seconds), `input` and `output`; or it is one of Mooncake or Qwen-Bailian (JSON lines), \
                      BurstGPT or Azure's LLM inference (CSV)";

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

/// The requests of a trace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    /// In order of time.
    pub arrivals: Vec<Arrival>,
    /// The number of requests that were left out, because they had failed when the trace was recorded.
    pub failed: u64,
}

/// Parses the text of a trace. Blank lines are skipped. Times are relative to the first request that did not fail.
///
/// # Errors
///
/// `usage` with the line number if a line is invalid or out of order, and for a format that is not known.
pub fn read_trace(text: &str) -> Result<Trace> {
    let mut lines = numbered(text).peekable();
    // Anything but an object is the heading of a table.
    let columns = lines
        .next_if(|(_, line)| !line.trim_start().starts_with('{'))
        .map(|(_, line)| cells(line));
    if let Some(columns) = &columns
        && !FORMS.iter().any(|form| {
            form.names
                .iter()
                .all(|name| columns.iter().any(|column| column == name))
        })
    {
        let known = columns.len() > 1 && !text.trim_start().starts_with('[');
        let what = if known {
            "has columns of no known format"
        } else {
            "is not a JSON object"
        };
        return Err(Fault::usage(format!("line 1 of the trace {what}")).hint(TRACES));
    }
    let mut trace = Trace::default();
    let mut first = None;
    for (number, line) in lines {
        let invalid = |why: String| Fault::usage(format!("line {number} of the trace {why}")).hint(TRACES);
        let fields = match &columns {
            Some(columns) => row(columns, line),
            None => {
                outside::json(line.as_bytes()).map_err(|error| invalid(format!("is not a JSON object: {error}")))?
            }
        };
        let Some((seconds, input, output)) = arrival(&fields).map_err(invalid)? else {
            trace.failed += 1;
            continue;
        };
        let since = seconds - *first.get_or_insert(seconds);
        let at = Duration::try_from_secs_f64(since)
            .ok()
            .filter(|at| trace.arrivals.last().is_none_or(|last| last.at <= *at))
            .ok_or_else(|| invalid("comes before the line above it".to_owned()))?;
        trace.arrivals.push(Arrival { at, input, output });
    }
    if trace.arrivals.is_empty() {
        return Err(Fault::usage("the trace has no requests").hint("give a file with one JSON object a line"));
    }
    Ok(trace)
}

/// Lines that are not blank, with their numbers from 1; without a byte order mark.
fn numbered(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let lines = text.strip_prefix('\u{feff}').unwrap_or(text).lines().enumerate();
    let lines = lines.map(|(index, line)| (index + 1, line));
    lines.filter(|(_, line)| !line.trim().is_empty())
}

/// Seconds, input and output of a line, `None` if the request had failed; the error describes the defect.
fn arrival(fields: &Map<String, Value>) -> std::result::Result<Option<(f64, u64, u64)>, String> {
    let fits =
        |form: &&Form| fields.contains_key(form.names[0]) && form.mark.is_none_or(|mark| fields.contains_key(mark));
    let Some(form) = FORMS.iter().find(fits) else {
        return Err("has no time: none of `at`, `timestamp`, `Timestamp` and `TIMESTAMP`".to_owned());
    };
    let [time, input, output] = form.names;
    let value = |name: &str| fields.get(name).ok_or_else(|| format!("has no `{name}`"));
    let number = |name: &str| {
        let value = value(name)?;
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
    if form.records_failures && (number(output)? == 0.0 || number(input)? == 0.0) {
        return Ok(None);
    }
    let seconds = match value(time)? {
        Value::String(text) => {
            date(text).ok_or_else(|| format!("has `{time}` \"{text}\", which is neither a number nor a date"))
        }
        _ => number(time),
    };
    Ok(Some((seconds? / form.per_second, tokens(input)?, tokens(output)?)))
}

/// Seconds of a date, as `2023-11-16 18:15:46.6805900` or with an offset from UTC.
fn date(text: &str) -> Option<f64> {
    let seconds = |at: jiff::Timestamp| at.as_second() as f64 + f64::from(at.subsec_nanosecond()) / 1e9;
    if let Ok(at) = text.parse::<jiff::Timestamp>() {
        return Some(seconds(at));
    }
    let civil: jiff::civil::DateTime = text.parse().ok()?;
    let zoned = civil.to_zoned(jiff::tz::TimeZone::UTC).ok()?;
    Some(seconds(zoned.timestamp()))
}

fn cells(line: &str) -> Vec<String> {
    if line.contains('"') {
        return csv::columns(line).unwrap_or_default();
    }
    line.split(',').map(|cell| cell.trim().to_owned()).collect()
}

fn row(columns: &[String], line: &str) -> Map<String, Value> {
    let value = |cell: String| match serde_json::from_str(&cell) {
        Ok(number) => Value::Number(number),
        Err(_) => Value::String(cell),
    };
    columns
        .iter()
        .cloned()
        .zip(cells(line).into_iter().map(value))
        .collect()
}

/// Keys for the answer's length in files of other tools.
const OUTPUT_KEYS: [&str; 6] = [
    "output",
    "output_len",
    "max_tokens",
    "max_completion_tokens",
    "output_tokens",
    "output_length",
];

/// One prompt of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilePrompt {
    /// The text.
    pub prompt: String,
    /// Requested output tokens, if the file states them.
    pub output: Option<u64>,
}

const PROMPTS: &str = "a line is `{\"prompt\": \"…\"}`, perhaps with `output`, the tokens to generate; or the file is an array of such objects, of ShareGPT's \
                       `conversations` or of OpenAI's `messages`; or it is plain text, a prompt a line";

/// Parses the text of a file of prompts: at least one, in file order. A file that begins as JSON is a list of objects, one
/// a line or in an array: with `prompt`, ShareGPT's `conversations` (the human's first turn is the prompt, as in vLLM's
/// bench) or OpenAI's `messages`, and optionally the tokens to generate; other keys are ignored. Otherwise each line is a
/// prompt. Blank lines are skipped.
///
/// # Errors
///
/// `usage` with the number of the line or entry if one is invalid.
pub fn read_prompts(text: &str) -> Result<Vec<FilePrompt>> {
    let invalid = |place: String, why: String| Fault::usage(format!("{place} of the prompts {why}")).hint(PROMPTS);
    let start = text.trim_start_matches('\u{feff}').trim_start();
    let array = start
        .strip_prefix('[')
        .is_some_and(|rest| rest.trim_start().starts_with(['{', '"', ']']));
    let prompts = if array {
        let list: Vec<Value> = outside::json(start.as_bytes()).map_err(|error| {
            Fault::usage(format!("the file of prompts is not a whole JSON array: {error}")).hint(PROMPTS)
        })?;
        let read =
            |(index, value): (usize, &Value)| entry(value).map_err(|why| invalid(format!("entry {}", index + 1), why));
        list.iter().enumerate().map(read).collect::<Result<Vec<_>>>()?
    } else if start.starts_with('{') {
        let read = |(number, line): (usize, &str)| {
            let value: std::result::Result<Value, String> =
                outside::json(line.as_bytes()).map_err(|error| format!("is not a JSON object: {error}"));
            value
                .and_then(|value| entry(&value))
                .map_err(|why| invalid(format!("line {number}"), why))
        };
        numbered(text).map(read).collect::<Result<Vec<_>>>()?
    } else {
        let plain = |(_, line): (usize, &str)| FilePrompt {
            prompt: line.trim_end_matches('\r').to_owned(),
            output: None,
        };
        numbered(text).map(plain).collect()
    };
    if prompts.is_empty() {
        return Err(Fault::usage("the file of prompts has none").hint("give a file with a prompt a line"));
    }
    Ok(prompts)
}

/// Reads one entry; the error describes the defect.
fn entry(value: &Value) -> std::result::Result<FilePrompt, String> {
    // OpenAI's batches have the request as `body`.
    let value = value.get("body").filter(|body| body.is_object()).unwrap_or(value);
    let turns = ["conversations", "conversation"].iter().find_map(|key| value.get(*key));
    let prompt = match (value.get("prompt"), turns, value.get("messages")) {
        (Some(Value::String(prompt)), ..) if !prompt.is_empty() => prompt.clone(),
        (Some(other), ..) => return Err(format!("has `prompt` {other}, which is not text")),
        (None, Some(turns), _) => said(turns, "from", "value", |turns| {
            turns.first().cloned().into_iter().collect()
        })
        .ok_or("has `conversations` in which no human says anything (ShareGPT's format)")?,
        (None, None, Some(messages)) => said(messages, "role", "content", |turns| turns)
            .ok_or("has `messages` whose `content` is not text (OpenAI's format)")?,
        (None, None, None) => match value {
            Value::String(prompt) if !prompt.is_empty() => prompt.clone(),
            _ => return Err("has no `prompt`".to_owned()),
        },
    };
    let given = OUTPUT_KEYS.iter().find_map(|name| {
        Some((
            name,
            value
                .get(name)
                .filter(|value| value.is_number() || value.is_boolean())?,
        ))
    });
    let output = match given {
        None => None,
        Some((name, value)) => {
            let tokens = value.as_u64().filter(|tokens| *tokens > 0);
            Some(tokens.ok_or_else(|| format!("has `{name}` {value}, which is not a number of tokens (at least 1)"))?)
        }
    };
    Ok(FilePrompt { prompt, output })
}

/// The text of the chosen turns among those that no model wrote.
fn said(turns: &Value, who: &str, what: &str, choose: impl Fn(Vec<String>) -> Vec<String>) -> Option<String> {
    let models = ["gpt", "assistant", "model", "chatgpt", "bing", "bard"];
    let mut texts = Vec::new();
    for turn in turns.as_array()? {
        if turn[who]
            .as_str()
            .is_some_and(|name| models.contains(&name) || (who == "from" && name == "system"))
        {
            continue;
        }
        match &turn[what] {
            Value::String(text) => texts.push(text.clone()),
            // Parts of a message; other parts than text are inputs that a load does not send.
            Value::Array(parts) => {
                let parts = parts.iter().map(|part| part["text"].as_str().map(str::to_owned));
                texts.push(parts.collect::<Option<Vec<_>>>()?.join("\n"));
            }
            _ => return None,
        }
    }
    texts.retain(|text| !text.trim().is_empty());
    let texts = choose(texts);
    (!texts.is_empty()).then(|| texts.join("\n"))
}

#[cfg(test)]
mod trace_tests {
    use super::*;

    fn read(text: &str) -> Vec<(u64, u64, u64)> {
        let trace = read_trace(text).unwrap();
        trace
            .arrivals
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
        let bailian = "{\"chat_id\": 159, \"timestamp\": 61.114, \"input_length\": 521, \"output_length\": 132, \"turn\": 1}\n\
                       {\"chat_id\": 160, \"timestamp\": 64.114, \"input_length\": 600, \"output_length\": 20, \"turn\": 1}";
        assert_eq!(read(bailian), [(0, 521, 132), (3000, 600, 20)]);
        let azure = "\u{feff}TIMESTAMP,ContextTokens,GeneratedTokens\r\n2023-11-16 18:15:46.6805900,374,44\r\n2023-11-16 18:15:50.9951690,396,109\r\n";
        assert_eq!(read(azure), [(0, 374, 44), (4314, 396, 109)]);
        let later = "TIMESTAMP,ContextTokens,GeneratedTokens\n2024-05-10 00:00:00.009930+00:00,2162,5\n2024-05-10 00:00:01.009930+00:00,1,1";
        assert_eq!(read(later), [(0, 2162, 5), (1000, 1, 1)]);
    }

    #[test]
    fn failed_requests_of_published_traces_are_left_out() {
        let second = "\"Timestamp\",\"Session ID\",\"Elapsed time\",\"Model\",\"Request tokens\",\"Response tokens\",\"Total tokens\",\"Log Type\"\n\
                      \"3\",\"a,b\",\"2.5\",\"ChatGPT\",\"9\",\"0\",\"9\",\"API log\"\n\
                      \"5\",\"a,b\",\"2.5\",\"ChatGPT\",\"472\",\"18\",\"490\",\"API log\"";
        assert_eq!(read(second), [(0, 472, 18)]);
        assert_eq!(read_trace(second).unwrap().failed, 1);
        let all = "Timestamp,Request tokens,Response tokens\n3,9,0";
        assert!(read_trace(all).unwrap_err().message.contains("has no requests"));
    }

    #[test]
    fn invalid_line_is_reported_with_its_number() {
        for (text, part) in [
            (
                "{\"at\": 0, \"input\": 1, \"output\": 1}\nnonsense",
                "line 2 of the trace is not a JSON object",
            ),
            ("{\"when\": 0}", "line 1 of the trace has no time"),
            ("when,input,output\n0,1,1", "columns of no known format"),
            (
                "TIMESTAMP,ContextTokens,GeneratedTokens\nsoon,1,1",
                "neither a number nor a date",
            ),
            ("[{\"at\": 0}]", "line 1 of the trace is not a JSON object"),
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
    fn prompts_of_other_tools_are_read() {
        let share = r#"[{"id": "x", "conversations": [{"from": "system", "value": "s"}, {"from": "human", "value": "a b"}, {"from": "gpt", "value": "c"}]}]"#;
        assert_eq!(read(share), [("a b".to_owned(), None)]);
        let openai = "{\"messages\": [{\"role\": \"system\", \"content\": \"s\"}, {\"role\": \"user\", \"content\": [{\"type\": \"text\", \"text\": \"u\"}]}], \"max_tokens\": 7}";
        assert_eq!(read(openai), [("s\nu".to_owned(), Some(7))]);
        let batch = "{\"custom_id\": \"1\", \"body\": {\"messages\": [{\"role\": \"user\", \"content\": \"u\"}], \"max_completion_tokens\": 3}}";
        assert_eq!(read(batch), [("u".to_owned(), Some(3))]);
        assert_eq!(
            read("\u{feff}{\"prompt\": \"one\", \"output_tokens\": 2}"),
            [("one".to_owned(), Some(2))]
        );
        assert_eq!(read("[\"a\", \"b\"]"), [("a".to_owned(), None), ("b".to_owned(), None)]);
        assert_eq!(read("[INST] a [/INST]"), [("[INST] a [/INST]".to_owned(), None)]);
        assert_eq!(read("\u{feff}plain"), [("plain".to_owned(), None)]);
    }

    #[test]
    fn invalid_line_is_reported_with_its_number() {
        for (text, part) in [
            ("[\n{\"prompt\": \"a\"},\n{\"promp", "not a whole JSON array"),
            (
                "[{\"prompt\": \"a\"}, {\"x\": 1}]",
                "entry 2 of the prompts has no `prompt`",
            ),
            (
                "{\"conversations\": [{\"from\": \"gpt\", \"value\": \"a\"}]}",
                "ShareGPT",
            ),
            (
                "{\"messages\": [{\"role\": \"user\", \"content\": [{\"type\": \"image_url\"}]}]}",
                "OpenAI",
            ),
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
