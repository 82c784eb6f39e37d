//! Facts that an engine reports (`kv_tokens`, `weights_bytes`, `max_model_len`, …): extracted from log lines with the
//! adapter's patterns, or read from JSON pages. Each keeps its location; `std/memory` interprets them.

use std::collections::BTreeMap;

use console::strip_ansi_codes;
use regex::Regex;
use serde::{Deserialize, Serialize};
use serde_json::{Number, Value};

use super::limits::EngineBounds;
use crate::fault::{Fault, Result};
use crate::telemetry::UsedByDevice;

/// Values by fact name; sizes in bytes.
pub(super) type FactValues = BTreeMap<String, Value>;

/// An adapter's patterns for the lines that report facts.
#[derive(Clone, Debug, Default)]
pub(super) struct FactRules {
    rules: Vec<(String, Vec<Regex>)>,
    /// Patterns of the prefix that names the rank.
    ranks: Vec<Regex>,
}

impl FactRules {
    /// Compiles patterns by fact, and those of ranks. `place` names the location of the first in the adapter, for error
    /// messages.
    pub(super) fn new(patterns: &BTreeMap<String, Vec<String>>, ranks: &[String], place: &str) -> Result<Self> {
        let all = |patterns: &[String], place: &str| -> Result<Vec<Regex>> {
            patterns.iter().map(|pattern| compile(pattern, place)).collect()
        };
        let rules = patterns
            .iter()
            .map(|(fact, patterns)| Ok((fact.clone(), all(patterns, &format!("{place}.{fact}"))?)))
            .collect::<Result<_>>()?;
        let ranks = all(ranks, "facts().rank")?;
        Ok(Self { rules, ranks })
    }

    /// Facts in these lines. Per fact, the first pattern with any match is used, and its last match wins, because an
    /// engine that retries (llama.cpp's fit) reports the final value last.
    pub(super) fn find(&self, lines: &[String]) -> FactValues {
        let found = self.matches(lines, "").into_iter();
        found.map(|fact| (fact.name, fact.value)).collect()
    }

    /// Every line that reports a fact, for example one per rank or device, with its number. Sorted by fact, then by line.
    /// Per fact, only the first pattern with any match is used.
    pub(super) fn matches(&self, lines: &[String], origin: &str) -> Vec<ReportedFact> {
        let found = |(fact, patterns): &(String, Vec<Regex>)| {
            let found = patterns.iter().map(|pattern| {
                let numbered = (0..).zip(lines);
                let found = numbered.filter_map(|(number, line)| self.found(fact, pattern, line, number, origin));
                found.collect::<Vec<_>>()
            });
            found.into_iter().find(|found| !found.is_empty()).unwrap_or_default()
        };
        self.rules.iter().flat_map(found).collect()
    }

    fn found(&self, fact: &str, pattern: &Regex, line: &str, number: u64, origin: &str) -> Option<ReportedFact> {
        let captures = pattern.captures(line)?;
        let text = captures.name("value").or_else(|| captures.get(1))?.as_str();
        let (name, value) = match captures.name("unit") {
            Some(unit) => value(&format!("{fact}_{}", unit.as_str().to_lowercase()), text),
            None => value(fact, text),
        };
        // The rank is named before the match; the rest of the line is the engine's text.
        let prefix = &line[..captures.get(0)?.start()];
        let rank = self.ranks.iter().find_map(|pattern| pattern.captures(prefix)?.get(1));
        Some(ReportedFact {
            name,
            value,
            origin: origin.to_owned(),
            text: line.trim().to_owned(),
            line: Some(number),
            rank: rank.and_then(|rank| rank.as_str().parse().ok()),
            device: captures.name("device").map(|device| device.as_str().to_owned()),
            ..ReportedFact::default()
        })
    }
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
    let converted = number.and_then(|number| in_bytes(fact, number));
    converted.or_else(|| (!value.is_null()).then(|| (fact.to_owned(), value.clone())))
}

/// A number in bytes, if the fact's name ends with a unit.
fn in_bytes(fact: &str, number: f64) -> Option<(String, Value)> {
    let of_unit = |(suffix, bytes): &(&str, f64)| {
        let stem = fact.strip_suffix(suffix)?;
        Some((format!("{stem}_bytes"), Value::from((number * bytes).round() as i64)))
    };
    UNITS.iter().find_map(of_unit)
}

/// The fact's name without its unit suffix, and the value: a number if it parses as one (thousands separators removed),
/// otherwise text.
fn value(fact: &str, text: &str) -> (String, Value) {
    let plain = text.replace(',', "");
    if let Some(converted) = plain.parse().ok().and_then(|number| in_bytes(fact, number)) {
        return converted;
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

/// Removes the colour codes that some engines write even to pipes.
pub(super) fn strip_colours(lines: &[String]) -> Vec<String> {
    lines.iter().map(|line| strip_ansi_codes(line).into_owned()).collect()
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

impl ReportedFact {
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
        json!(FactRules::new(&log, &[], "facts().log").unwrap().find(&lines))
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
        let patterns = BTreeMap::from([("weights".to_owned(), vec![pattern])]);
        let rules = FactRules::new(&patterns, &[r"TP(\d)".to_owned()], "facts().log").unwrap();
        let lines = [
            "TP3: CUDA0 buffer = 1.5 GiB".to_owned(),
            "a: CPU buffer = 2 KiB, TP1".to_owned(),
        ];
        let found: Vec<_> = rules
            .matches(&lines, "log")
            .into_iter()
            .map(|found| (found.name, found.value, found.line, found.rank, found.device.unwrap()))
            .collect();
        let name = || "weights_bytes".to_owned();
        assert_eq!(
            found,
            [
                (name(), json!(1_610_612_736), Some(0), Some(3), "CUDA0".to_owned()),
                (name(), json!(2048), Some(1), None, "CPU".to_owned())
            ]
        );
    }
}

#[cfg(test)]
mod pattern_tests {
    use super::*;

    #[test]
    fn a_wrong_pattern_is_named() {
        let fault = compile("a(", "failures()[2]").unwrap_err();
        assert!(
            fault.message.contains("failures()[2]") && fault.message.contains("a("),
            "{fault}"
        );
    }
}
