//! Facts that an engine reports (`kv_tokens`, `weights_bytes`, `max_model_len`, …): extracted from log lines with the
//! adapter's patterns, or read from JSON pages. Each keeps its location; `std/memory` interprets them.

use std::collections::BTreeMap;

use regex::Regex;
use serde::{Deserialize, Serialize};
use serde_json::{Number, Value};

use super::limits::EngineBounds;
use crate::fault::{Fault, Result};
use crate::telemetry::UsedByDevice;

/// Values by fact name; sizes in bytes.
pub(super) type FactValues = BTreeMap<String, Value>;

#[derive(Clone, Debug, Default)]
pub(super) struct FactRules {
    rules: Vec<(String, Vec<Regex>)>,
}

/// One line that reports a fact.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct FactMatch {
    /// The fact's name without a unit suffix.
    pub(super) fact: String,
    /// A number if it parses as one (sizes in bytes), otherwise text.
    pub(super) value: Value,
    /// Index of the line.
    pub(super) line: usize,
    /// Byte offset of the match in the line.
    pub(super) begins: usize,
    /// The device named by the pattern.
    pub(super) device: Option<String>,
}

impl FactRules {
    /// Compiles patterns by fact. `place` names their location in the adapter for error messages.
    pub(super) fn new(patterns: &BTreeMap<String, Vec<String>>, place: &str) -> Result<Self> {
        let rules = patterns
            .iter()
            .map(|(fact, patterns)| {
                let patterns = patterns
                    .iter()
                    .map(|pattern| compile(pattern, &format!("{place}.{fact}")))
                    .collect::<Result<_>>()?;
                Ok((fact.clone(), patterns))
            })
            .collect::<Result<_>>()?;
        Ok(Self { rules })
    }

    /// Facts in these lines. Per fact, the first pattern with any match is used, and its last match wins, because an
    /// engine that retries (llama.cpp's fit) reports the final value last.
    pub(super) fn find(&self, lines: &[String]) -> FactValues {
        let found = self.matches(lines);
        found.into_iter().map(|found| (found.fact, found.value)).collect()
    }

    /// Every line that reports a fact, for example one per rank or device. Sorted by fact, then by line. Per fact, only
    /// the first pattern with any match is used.
    pub(super) fn matches(&self, lines: &[String]) -> Vec<FactMatch> {
        let found = |(fact, patterns): &(String, Vec<Regex>)| {
            let found = patterns.iter().map(|pattern| {
                let lines = lines.iter().enumerate();
                lines
                    .filter_map(|(at, line)| found(fact, pattern, at, line))
                    .collect::<Vec<_>>()
            });
            found.into_iter().find(|found| !found.is_empty()).unwrap_or_default()
        };
        self.rules.iter().flat_map(found).collect()
    }
}

fn found(fact: &str, pattern: &Regex, at: usize, line: &str) -> Option<FactMatch> {
    let captures = pattern.captures(line)?;
    let text = captures.name("value").or_else(|| captures.get(1))?.as_str();
    let (fact, value) = match captures.name("unit") {
        Some(unit) => value(&format!("{fact}_{}", unit.as_str().to_lowercase()), text),
        None => value(fact, text),
    };
    Some(FactMatch {
        fact,
        value,
        line: at,
        begins: captures.get(0)?.start(),
        device: captures.name("device").map(|device| device.as_str().to_owned()),
    })
}

/// Unit suffixes of fact names, in bytes. TGI logs `GB` as 10^9 bytes; other engines write `GB` for GiB.
const UNITS: [(&str, f64); 6] = [
    ("_b", 1.0),
    ("_kib", 1024.0),
    ("_mib", 1_048_576.0),
    ("_gib", 1_073_741_824.0),
    ("_mb", 1e6),
    ("_gb", 1e9),
];

/// Converts a JSON value into a fact: a number in the unit of the fact's name, the sum of a map's numbers, or the value
/// itself.
pub(super) fn fact_from_json(fact: &str, value: &Value) -> Option<(String, Value)> {
    let number = match value {
        Value::Number(number) => number.as_f64(),
        Value::Object(parts) if !parts.is_empty() => parts.values().map(Value::as_f64).sum(),
        _ => None,
    };
    for (suffix, bytes) in UNITS {
        if let (Some(stem), Some(number)) = (fact.strip_suffix(suffix), number) {
            return Some((format!("{stem}_bytes"), in_bytes(number, bytes)));
        }
    }
    (!value.is_null()).then(|| (fact.to_owned(), value.clone()))
}

fn in_bytes(number: f64, unit: f64) -> Value {
    Value::from((number * unit).round() as i64)
}

/// The fact's name without its unit suffix, and the value: a number if it parses as one (thousands separators removed),
/// otherwise text.
fn value(fact: &str, text: &str) -> (String, Value) {
    let plain = text.replace(',', "");
    for (suffix, bytes) in UNITS {
        if let (Some(stem), Ok(number)) = (fact.strip_suffix(suffix), plain.parse::<f64>()) {
            return (format!("{stem}_bytes"), in_bytes(number, bytes));
        }
    }
    let value = plain
        .parse::<i64>()
        .map(Value::from)
        .ok()
        .or_else(|| plain.parse().ok().and_then(Number::from_f64).map(Value::Number))
        .unwrap_or_else(|| Value::from(text));
    (fact.to_owned(), value)
}

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

/// Removes colour codes.
pub(super) fn strip_colours(lines: Vec<String>) -> Vec<String> {
    lines
        .into_iter()
        .map(|line| match without_colour(&line) {
            std::borrow::Cow::Borrowed(_) => line,
            std::borrow::Cow::Owned(strip_colours) => strip_colours,
        })
        .collect()
}

/// One reported fact.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ReportedFact {
    /// Such as `weights_bytes`.
    #[serde(skip)]
    pub name: String,
    /// A number if it parses as one (sizes in bytes), otherwise text.
    pub value: Value,
    /// `log`, or the path of the page.
    pub origin: String,
    /// The log line, the line of the metrics page, or the pointer into the information page.
    pub text: String,
    /// Number of the log line, from 0.
    pub line: Option<u64>,
    /// The tensor-parallel rank that wrote the line, if it is named.
    pub rank: Option<u64>,
    /// The device named by the line: `CUDA0`, `CPU`.
    pub device: Option<String>,
    /// Bytes in use by device id in the last sample before the line, if memory was sampled then.
    pub before: Option<UsedByDevice>,
    /// The same in the first sample after the line.
    pub after: Option<UsedByDevice>,
}

/// Groups facts by name, oldest first.
pub(super) fn group_by_name(reported: Vec<ReportedFact>) -> BTreeMap<String, Vec<ReportedFact>> {
    let mut facts: BTreeMap<String, Vec<ReportedFact>> = BTreeMap::new();
    for one in reported {
        facts.entry(one.name.clone()).or_default().push(one);
    }
    // A fact may be reported in several units, each with its own pattern.
    facts.values_mut().for_each(|same| same.sort_by_key(|one| one.line));
    facts
}

/// The facts in a log, without arrival times.
pub(super) fn facts_in_log(rules: &FactRules, ranks: &[Regex], log: &[String]) -> Vec<ReportedFact> {
    let fact = |found: FactMatch| {
        let text = &log[found.line];
        ReportedFact {
            rank: rank(ranks, text, found.begins),
            line: Some(found.line as u64),
            ..ReportedFact::from_match(found, "log", text)
        }
    };
    rules.matches(log).into_iter().map(fact).collect()
}

/// The rank named before the match; the rest of the line is the engine's text.
fn rank(ranks: &[Regex], line: &str, begins: usize) -> Option<u64> {
    let prefix = &line[..begins];
    let number = ranks.iter().find_map(|pattern| pattern.captures(prefix)?.get(1));
    number?.as_str().parse().ok()
}

impl ReportedFact {
    pub(super) fn from_match(found: FactMatch, origin: &str, text: &str) -> Self {
        Self {
            name: found.fact,
            value: found.value,
            origin: origin.to_owned(),
            text: text.trim().to_owned(),
            device: found.device,
            ..Self::default()
        }
    }

    /// The fact in a field of an information page, if it has a value.
    pub(super) fn from_page(field: &str, path: &str, pointer: &str, at_pointer: &Value) -> Option<Self> {
        let (name, value) = fact_from_json(field, at_pointer)?;
        Some(Self {
            name,
            value,
            origin: path.to_owned(),
            text: pointer.to_owned(),
            ..Self::default()
        })
    }
}

/// What is known about an engine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Info {
    /// The engine's name, such as `vllm` or `sim`.
    pub engine: String,
    /// The engine's version.
    pub version: Option<String>,
    /// The model's name as reported by the engine.
    pub model: Option<String>,
    /// Maximum input and output together, in tokens.
    pub max_model_len: Option<u64>,
    /// KV cache size in tokens.
    pub kv_tokens: Option<u64>,
    /// Vocabulary size, if reported. Prompt ids must be below it.
    #[serde(skip)]
    pub(super) vocabulary: Option<u32>,
    /// The engine's own bounds, for verdicts.
    #[serde(skip)]
    pub(super) reported: EngineBounds,
    /// Whether this is the simulated engine, so that nothing was measured.
    pub simulated: bool,
}

impl Info {
    pub(super) fn before(engine: &str, model: Option<&str>, simulated: bool) -> Self {
        Self {
            engine: engine.to_owned(),
            model: model.map(str::to_owned),
            simulated,
            ..Self::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn find(rules: &[(&str, &[&str])], lines: &[&str]) -> Value {
        let log = rules
            .iter()
            .map(|(fact, patterns)| {
                (
                    (*fact).to_owned(),
                    patterns.iter().map(|pattern| (*pattern).to_owned()).collect(),
                )
            })
            .collect();
        let lines: Vec<String> = lines.iter().map(|line| (*line).to_owned()).collect();
        json!(FactRules::new(&log, "facts().log").unwrap().find(&lines))
    }

    #[test]
    fn units_become_bytes_and_separators_go() {
        let found = find(
            &[
                ("kv_gib", &[r"KV memory: (-?[\d.]+) GiB"]),
                ("kv_tokens", &[r"size: ([\d,]+) tokens"]),
                ("free_gb", &[r"Free ([\d.]+)GB"]),
                ("version", &[r"version (\S+)"]),
                ("share", &[r"share ([\d.]+)"]),
            ],
            &[
                "KV memory: -0.66 GiB",
                "size: 910,336 tokens, version 0.24.0",
                "Free 1.5GB share 0.9",
            ],
        );
        assert_eq!(
            found,
            json!({ "kv_bytes": -708_669_604, "kv_tokens": 910_336, "free_bytes": 1_500_000_000, "version": "0.24.0", "share": 0.9 })
        );
    }

    #[test]
    fn json_values_are_converted_by_their_unit_suffix() {
        assert_eq!(
            fact_from_json("kv_gib", &json!(1.5)),
            Some(("kv_bytes".into(), json!(1_610_612_736)))
        );
        let parts = json!({ "prefill": 0.25, "decode": 0.25 });
        assert_eq!(
            fact_from_json("graphs_gib", &parts),
            Some(("graphs_bytes".into(), json!(536_870_912)))
        );
        assert_eq!(
            fact_from_json("version", &json!("1.2")),
            Some(("version".into(), json!("1.2")))
        );
        assert_eq!(
            fact_from_json("kv_tokens", &json!(7)),
            Some(("kv_tokens".into(), json!(7)))
        );
        assert_eq!(fact_from_json("kv_gib", &Value::Null), None);
    }

    #[test]
    fn the_first_pattern_that_matches_decides_and_its_last_match_counts() {
        let rules: &[(&str, &[&str])] = &[("n", &[r"new (\d+)", r"old (\d+)"])];
        assert_eq!(find(rules, &["old 1", "new 2", "new 3", "old 4"]), json!({ "n": 3 }));
        assert_eq!(find(rules, &["old 1"]), json!({ "n": 1 }));
        assert_eq!(find(rules, &["none"]), json!({}));
    }

    #[test]
    fn every_match_keeps_its_device_and_unit() {
        let pattern = r"(?<device>\w+) buffer = (?<value>[\d.]+) (?<unit>\w+)".to_owned();
        let rules = FactRules::new(&BTreeMap::from([("weights".to_owned(), vec![pattern])]), "facts().log").unwrap();
        let lines = [
            "a: CUDA0 buffer = 1.5 GiB".to_owned(),
            "a: CPU buffer = 2 KiB".to_owned(),
        ];
        let found: Vec<_> = rules
            .matches(&lines)
            .into_iter()
            .map(|found| (found.fact, found.value, found.line, found.begins, found.device.unwrap()))
            .collect();
        let name = || "weights_bytes".to_owned();
        assert_eq!(
            found,
            [
                (name(), json!(1_610_612_736), 0, 3, "CUDA0".to_owned()),
                (name(), json!(2048), 1, 3, "CPU".to_owned())
            ]
        );
    }
}

#[cfg(test)]
mod pattern_tests {
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
