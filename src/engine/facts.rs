//! What an engine's log says of itself (`kv_tokens`, `weights_bytes`, `max_model_len`, …), by the adapter's patterns. Pure.

use std::collections::BTreeMap;

use regex::Regex;
use serde_json::{Number, Value};

use super::pattern::compile;
use crate::fault::Result;

/// Facts by name; sizes in bytes.
pub(super) type Found = BTreeMap<String, Value>;

/// The patterns of an adapter, compiled.
#[derive(Clone, Debug, Default)]
pub(super) struct FactRules {
    rules: Vec<(String, Vec<Regex>)>,
}

/// One place where a fact is told.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Match {
    /// The fact, without the unit in its name.
    pub(super) fact: String,
    /// A number where it is one, sizes in bytes; else text.
    pub(super) value: Value,
    /// The index of the line.
    pub(super) line: usize,
    /// Where in the line the match begins, in bytes.
    pub(super) begins: usize,
    /// What the pattern calls the device.
    pub(super) device: Option<String>,
}

impl FactRules {
    /// Compiles patterns by fact; `place` says where the adapter gives them.
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

    /// The facts in these lines. The first pattern that matches anywhere decides; of its matches the last one, as an engine
    /// that tries something twice (llama.cpp's fit) means the last.
    pub(super) fn find(&self, lines: &[String]) -> Found {
        let found = self.matches(lines);
        found.into_iter().map(|found| (found.fact, found.value)).collect()
    }

    /// Every place where these lines tell a fact, by fact and in the order of the lines: a line of each rank, of each device, of each
    /// graph. The first pattern that matches anywhere decides.
    pub(super) fn matches(&self, lines: &[String]) -> Vec<Match> {
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

fn found(fact: &str, pattern: &Regex, at: usize, line: &str) -> Option<Match> {
    let captures = pattern.captures(line)?;
    let text = captures.name("value").or_else(|| captures.get(1))?.as_str();
    let (fact, value) = match captures.name("unit") {
        Some(unit) => value(&format!("{fact}_{}", unit.as_str().to_lowercase()), text),
        None => value(fact, text),
    };
    Some(Match {
        fact,
        value,
        line: at,
        begins: captures.get(0)?.start(),
        device: captures.name("device").map(|device| device.as_str().to_owned()),
    })
}

/// Units that a fact's name may end in, and their bytes. In logs of TGI `GB` is 10^9; elsewhere it means GiB.
const UNITS: [(&str, f64); 6] = [
    ("_b", 1.0),
    ("_kib", 1024.0),
    ("_mib", 1_048_576.0),
    ("_gib", 1_073_741_824.0),
    ("_mb", 1e6),
    ("_gb", 1e9),
];

/// What a page tells, as a fact: a number in the unit of the fact's name, the sum of a map's numbers, or what else stands there.
pub(super) fn told(fact: &str, value: &Value) -> Option<(String, Value)> {
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

/// The fact's name without its unit, and the value: a number where it is one (thousands separators taken out), else text.
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
    fn a_page_tells_numbers_in_the_units_of_their_names() {
        assert_eq!(
            told("kv_gib", &json!(1.5)),
            Some(("kv_bytes".into(), json!(1_610_612_736)))
        );
        let parts = json!({ "prefill": 0.25, "decode": 0.25 });
        assert_eq!(
            told("graphs_gib", &parts),
            Some(("graphs_bytes".into(), json!(536_870_912)))
        );
        assert_eq!(told("version", &json!("1.2")), Some(("version".into(), json!("1.2"))));
        assert_eq!(told("kv_tokens", &json!(7)), Some(("kv_tokens".into(), json!(7))));
        assert_eq!(told("kv_gib", &Value::Null), None);
    }

    #[test]
    fn the_first_pattern_that_matches_decides_and_its_last_match_counts() {
        let rules: &[(&str, &[&str])] = &[("n", &[r"new (\d+)", r"old (\d+)"])];
        assert_eq!(find(rules, &["old 1", "new 2", "new 3", "old 4"]), json!({ "n": 3 }));
        assert_eq!(find(rules, &["old 1"]), json!({ "n": 1 }));
        assert_eq!(find(rules, &["none"]), json!({}));
    }

    #[test]
    fn every_match_is_told_with_its_device_and_unit() {
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
