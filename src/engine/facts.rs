//! Extracts facts (`kv_tokens`, `weights_bytes`, `max_model_len`, …) from log lines with the adapter's patterns.

use std::collections::BTreeMap;

use regex::Regex;
use serde_json::{Number, Value};

use super::pattern::compile;
use crate::fault::Result;

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
