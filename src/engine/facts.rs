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

impl FactRules {
    /// Compiles `facts().log`.
    pub(super) fn new(log: &BTreeMap<String, Vec<String>>) -> Result<Self> {
        let rules = log
            .iter()
            .map(|(fact, patterns)| {
                let patterns = patterns
                    .iter()
                    .map(|pattern| compile(pattern, &format!("facts().log.{fact}")))
                    .collect::<Result<_>>()?;
                Ok((fact.clone(), patterns))
            })
            .collect::<Result<_>>()?;
        Ok(Self { rules })
    }

    /// The facts in these lines. The first pattern that matches anywhere decides; of its matches the last one, as an engine
    /// that tries something twice (llama.cpp's fit) means the last.
    pub(super) fn find(&self, lines: &[String]) -> Found {
        self.rules
            .iter()
            .filter_map(|(fact, patterns)| {
                let text = patterns
                    .iter()
                    .find_map(|pattern| lines.iter().rev().find_map(|line| capture(pattern, line)))?;
                Some(value(fact, text))
            })
            .collect()
    }
}

fn capture<'a>(pattern: &Regex, line: &'a str) -> Option<&'a str> {
    pattern.captures(line)?.get(1).map(|group| group.as_str())
}

/// Units that a fact's name may end in, and their bytes. In logs of TGI `GB` is 10^9; elsewhere it means GiB.
const UNITS: [(&str, f64); 5] = [
    ("_kib", 1024.0),
    ("_mib", 1_048_576.0),
    ("_gib", 1_073_741_824.0),
    ("_mb", 1e6),
    ("_gb", 1e9),
];

/// The fact's name without its unit, and the value: a number where it is one (thousands separators taken out), else text.
fn value(fact: &str, text: &str) -> (String, Value) {
    let plain = text.replace(',', "");
    for (suffix, bytes) in UNITS {
        if let (Some(stem), Ok(number)) = (fact.strip_suffix(suffix), plain.parse::<f64>()) {
            #[expect(clippy::cast_possible_truncation, reason = "bytes of a device")]
            return (format!("{stem}_bytes"), Value::from((number * bytes).round() as i64));
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
        json!(FactRules::new(&log).unwrap().find(&lines))
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
    fn the_first_pattern_that_matches_decides_and_its_last_match_counts() {
        let rules: &[(&str, &[&str])] = &[("n", &[r"new (\d+)", r"old (\d+)"])];
        assert_eq!(find(rules, &["old 1", "new 2", "new 3", "old 4"]), json!({ "n": 3 }));
        assert_eq!(find(rules, &["old 1"]), json!({ "n": 1 }));
        assert_eq!(find(rules, &["none"]), json!({}));
    }
}
