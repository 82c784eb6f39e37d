//! Facts (`kv_tokens`, `weights_bytes`, `max_model_len`, …) that an adapter's patterns find in log lines and JSON
//! pages, and the phase of a start. Each fact keeps its location; `std/memory` interprets them.

use std::collections::BTreeMap;

use console::strip_ansi_codes;
use serde::Serialize;
use serde_json::{Number, Value};

use crate::engine::adapter::{Pattern, Patterns, ProgressRule};
use crate::telemetry::UsedByDevice;

/// Values by fact name; sizes in bytes.
pub(crate) type FactValues = BTreeMap<String, Value>;

/// Finds facts in these lines. Each fact uses its first pattern with any match; the last match wins, because an engine
/// that retries (llama.cpp's fit) reports the final value last.
pub(crate) fn find(patterns: &Patterns, lines: &[String]) -> FactValues {
    matches(patterns, &[], lines, "")
        .into_iter()
        .map(|fact| (fact.name, fact.value))
        .collect()
}

/// Every line that reports a fact, for example one per rank or device, with its number. Sorted by fact, then by line.
/// Per fact, only the first pattern with any match is used. `ranks` find the prefix that names the rank.
pub(crate) fn matches(patterns: &Patterns, ranks: &[Pattern], lines: &[String], origin: &str) -> Vec<ReportedFact> {
    let matches_of = |fact: &str, pattern: &Pattern| -> Vec<ReportedFact> {
        (0..)
            .zip(lines)
            .filter_map(|(number, line)| {
                Some(ReportedFact {
                    origin: origin.to_owned(),
                    line: Some(number),
                    ..reported(fact, pattern, line, ranks)?
                })
            })
            .collect()
    };
    let first_with_matches = |(fact, patterns): (&String, &Vec<Pattern>)| {
        patterns
            .iter()
            .map(|pattern| matches_of(fact, pattern))
            .find(|matches| !matches.is_empty())
            .unwrap_or_default()
    };
    patterns.iter().flat_map(first_with_matches).collect()
}

fn reported(fact: &str, pattern: &Pattern, line: &str, ranks: &[Pattern]) -> Option<ReportedFact> {
    let captures = pattern.captures(line)?;
    let text = captures.name("value").or_else(|| captures.get(1))?.as_str();
    let (name, value) = match captures.name("unit") {
        Some(unit) => value(&format!("{fact}_{}", unit.as_str().to_lowercase()), text),
        None => value(fact, text),
    };
    // The rank is named before the match; the rest of the line is the engine's text.
    let prefix = &line[..captures.get(0)?.start()];
    let rank = ranks.iter().find_map(|pattern| pattern.captures(prefix)?.get(1));
    Some(ReportedFact {
        name,
        value,
        text: line.trim().to_owned(),
        rank: rank.and_then(|rank| rank.as_str().parse().ok()),
        device: captures.name("device").map(|device| device.as_str().to_owned()),
        ..ReportedFact::default()
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
pub(crate) fn fact_from_json(fact: &str, value: &Value) -> Option<(String, Value)> {
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

/// Removes the colour codes that some engines write even to pipes.
pub(crate) fn strip_colours(lines: &[String]) -> Vec<String> {
    lines.iter().map(|line| strip_ansi_codes(line).into_owned()).collect()
}

/// One reported fact.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ReportedFact {
    /// Name, such as `weights_bytes`.
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
    /// The tensor-parallel rank that wrote the line, if the line names it.
    pub rank: Option<u64>,
    /// The device named by the line: `CUDA0`, `CPU`.
    pub device: Option<String>,
    /// Bytes in use by device id in the last sample before the line, if memory was sampled then.
    pub before: Option<UsedByDevice>,
    /// Bytes in use by device id in the first sample after the line.
    pub after: Option<UsedByDevice>,
}

/// Groups facts by name, oldest first.
pub(crate) fn group_by_name(reported: Vec<ReportedFact>) -> BTreeMap<String, Vec<ReportedFact>> {
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
    pub(crate) fn from_page(field: &str, path: &str, pointer: &str, at_pointer: &Value) -> Option<Self> {
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

/// Reasons why the engine runs a different configuration than requested: its own log line, and parts that are not on
/// the GPUs. A part that is wholly on the host counts only if GPUs were requested (`on_gpus`).
pub(crate) fn degraded(facts: &FactValues, parts: &BTreeMap<String, String>, on_gpus: bool) -> Vec<String> {
    let logged = facts
        .get("degraded")
        .map(|line| line.as_str().map_or_else(|| line.to_string(), str::to_owned));
    let count = |fact: &str| facts.get(fact).and_then(Value::as_u64);
    let partly = parts.iter().filter_map(|(part, whole)| {
        let (some, all) = (count(part)?, count(whole)?);
        (some < all && (some > 0 || on_gpus)).then(|| format!("`{part}` is {some} of {all}, the rest is on the host"))
    });
    logged.into_iter().chain(partly).collect()
}

/// The phase before the first match.
const FIRST: &str = "weights";

/// The phase of a ready engine.
pub(crate) const REQUEST: &str = "request";

/// The phase of a start with this log: the phase of the last matching line. `None` if the adapter defines no phases.
pub(crate) fn phase_of(rules: &[ProgressRule], log: &[String]) -> Option<String> {
    let of_line = |line: &String| rules.iter().find(|rule| rule.pattern.is_match(line));
    let last = log.iter().rev().find_map(of_line);
    (!rules.is_empty()).then(|| last.map_or(FIRST, |rule| rule.phase.as_str()).to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pattern(text: &str) -> Pattern {
        text.to_owned().try_into().unwrap()
    }

    fn find(rules: &[(&str, &[&str])], lines: &[&str]) -> Value {
        let log = rules
            .iter()
            .map(|(fact, patterns)| ((*fact).to_owned(), patterns.iter().map(|one| pattern(one)).collect()))
            .collect();
        let lines: Vec<String> = lines.iter().map(|line| (*line).to_owned()).collect();
        json!(super::find(&log, &lines))
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
        let buffer = pattern(r"(?<device>\w+) buffer = (?<value>[\d.]+) (?<unit>\w+)");
        let patterns = BTreeMap::from([("weights".to_owned(), vec![buffer])]);
        let lines = [
            "TP3: CUDA0 buffer = 1.5 GiB".to_owned(),
            "a: CPU buffer = 2 KiB, TP1".to_owned(),
        ];
        let found: Vec<_> = matches(&patterns, &[pattern(r"TP(\d)")], &lines, "log")
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

    #[test]
    fn what_is_only_partly_on_the_gpus_is_degraded() {
        let parts = [("layers_on_gpu".to_owned(), "layers".to_owned())].into();
        let reasons = |layers: u64, on_gpus| {
            let facts = [("layers_on_gpu", layers), ("layers", 33)].map(|(name, n)| (name.to_owned(), json!(n)));
            degraded(&facts.into(), &parts, on_gpus)
        };
        assert_eq!(reasons(33, true), [""; 0]);
        assert_eq!(
            reasons(20, true),
            ["`layers_on_gpu` is 20 of 33, the rest is on the host"]
        );
        assert_eq!(reasons(20, false).len(), 1);
        assert_eq!((reasons(0, true).len(), reasons(0, false).len()), (1, 0));
        let words = [("degraded".to_owned(), json!("context size reduced"))].into();
        assert_eq!(degraded(&words, &parts, true), ["context size reduced"]);
    }

    fn phase(rules: &[(&str, &str)], log: &[&str]) -> Option<String> {
        let rules: Vec<ProgressRule> = rules
            .iter()
            .map(|(text, phase)| ProgressRule {
                pattern: pattern(text),
                phase: (*phase).to_owned(),
            })
            .collect();
        let log: Vec<String> = log.iter().map(|line| (*line).to_owned()).collect();
        phase_of(&rules, &log)
    }

    #[test]
    fn the_last_matching_line_determines_the_phase() {
        let rules = [("loading took", "profiling"), ("KV cache size", "graph_capture")];
        assert_eq!(phase(&rules, &["boot"]).as_deref(), Some("weights"));
        assert_eq!(phase(&rules, &["loading took 3 s", "?"]).as_deref(), Some("profiling"));
        let log = ["loading took 3 s", "KV cache size: 9", "CUDA out of memory"];
        assert_eq!(phase(&rules, &log).as_deref(), Some("graph_capture"));
    }

    #[test]
    fn an_adapter_without_phases_has_none() {
        assert_eq!(phase(&[], &["loading took 3 s"]), None);
    }
}
