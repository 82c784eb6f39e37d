//! One configuration of a batch (`scripts/batch.rhai`) as a case: its memory by component, and the metrics of its load.
//! Its file and its trial in the journal have the same keys.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use super::{Case, Unit, load_metrics};
use crate::load::LoadAnswer;
use crate::memory::compare::{ModelFacts, implausible};
use crate::memory::{Breakdown, Component, Footprint, Part};

/// The coordinates that name a case, in the order of a load's name.
const AXES: [&str; 3] = ["concurrency", "input", "output"];

/// A configuration with its point and its answer.
pub(super) fn case(point: &Value, seen: &Value) -> Case {
    let axis = |name: &str| point[name].as_u64();
    let parts = AXES.iter().filter_map(|name| Some(format!("{name}={}", axis(name)?)));
    let mut case = Case::new(parts.collect::<Vec<_>>().join(" "));
    let memory = &seen["memory"];
    let devices: Vec<Breakdown> = memory["devices"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(device)
        .collect();
    case.facts = ModelFacts {
        tensor_parallel: u64::try_from(devices.len()).ok().filter(|devices| *devices > 0),
        input: axis("input"),
        output: axis("output"),
        concurrency: axis("concurrency"),
        kv_tokens: seen["info"]["kv_tokens"].as_u64(),
        ..ModelFacts::default()
    }
    .counted();
    case.metric("baseline", memory["baseline"].as_f64(), Unit::Bytes);
    case.metric("warmed_up", memory["warmed"].as_f64(), Unit::Bytes);
    case.metric("total_measured", memory["peak"].as_f64(), Unit::Bytes);
    case.breakdown = Footprint::new(devices, None, Value::Null).ok().map(|found| found.all);
    for part in case.breakdown.clone().map_or_else(Vec::new, |all| all.parts) {
        if part.component != Component::Unexplained {
            case.metric(part.component.name(), Some(part.bytes as f64), Unit::Bytes);
        }
    }
    case.implausible = implausible(case.breakdown.as_ref(), &case.facts);
    if seen["load"].is_object() {
        load_metrics::add(&mut case, &LoadAnswer::read(&seen["load"]));
    }
    case
}

/// Names of settings and their values.
pub(super) type Settings = Vec<(&'static str, Option<String>)>;

/// Cases with what was set for each; the last setting is the entry's number. Names get the model and the settings that
/// are not the same for all cases, so that configurations of the same lengths stay apart. Those that are still equal get
/// their entry, and are else numbered.
pub(super) fn told_apart(cases: Vec<(Case, Settings)>) -> Vec<Case> {
    let differ = |value: &dyn Fn(&(Case, Settings)) -> Option<String>| {
        let mut values = cases.iter().map(value);
        let first = values.next();
        values.any(|other| Some(other) != first)
    };
    let models = differ(&|(case, _)| case.model.clone());
    let last = cases
        .first()
        .map_or(0, |(_, settings)| settings.len().saturating_sub(1));
    let shown: Vec<usize> = (0..last)
        .filter(|index| differ(&|(_, all)| all[*index].1.clone()))
        .collect();
    let mut named: Vec<(Case, Option<String>)> = Vec::new();
    for (mut case, settings) in cases {
        let model = case.model.clone().filter(|_| models);
        let text = |(name, value): &(&str, Option<String>)| Some(format!("{name}={}", value.as_ref()?));
        let values = shown.iter().filter_map(|index| text(&settings[*index]));
        let parts: Vec<String> = model.into_iter().chain([case.name]).chain(values).collect();
        case.name = parts.join(" ");
        named.push((case, settings.last().and_then(text)));
    }
    let mut equal = BTreeMap::<String, usize>::new();
    for (case, _) in &named {
        *equal.entry(case.name.clone()).or_default() += 1;
    }
    let mut earlier = BTreeMap::<String, usize>::new();
    named
        .into_iter()
        .map(|(mut case, entry)| {
            if let Some(entry) = entry.filter(|_| equal[&case.name] > 1) {
                case.name = format!("{} {entry}", case.name);
            }
            let before = earlier.entry(case.name.clone()).or_default();
            *before += 1;
            if *before > 1 {
                case.name = format!("{} #{before}", case.name);
            }
            case
        })
        .collect()
}

/// A value as text; `None` for one that is not given.
pub(super) fn text(value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::String(text) => Some(text.clone()).filter(|text| !text.is_empty()),
        other => Some(other.to_string()),
    }
}

/// A device as the script explained it; `None` if it is damaged.
fn device(value: &Value) -> Option<Breakdown> {
    let parts = Vec::<Part>::deserialize(&value["parts"]).ok()?;
    Breakdown::new(
        value["device"].as_str().map(str::to_owned),
        value["total"].as_u64()?,
        parts,
    )
    .ok()
}

/// The note on a configuration that was not measured, or not by a start of its own.
pub(super) fn note(name: &str, seen: &Value) -> Option<String> {
    let message = seen["message"].as_str().unwrap_or("without a message");
    match (seen["load"].is_object(), seen["starts"].as_u64()) {
        (false, _) => Some(format!(
            "{name}: {}: {message}",
            seen["verdict"].as_str().unwrap_or("error")
        )),
        (true, Some(0)) => Some(format!(
            "{name}: its memory is that since the engine's start, with what earlier configurations took (`isolate` in a batch starts it anew for each)"
        )),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Names of cases of equal lengths, by `dtype` and `entry`.
    fn names(all: &[(&str, Option<&str>)]) -> Vec<String> {
        let owned = |value: &str| Some(value.to_owned());
        let case = |(dtype, entry): &(&str, Option<&str>)| {
            let settings = vec![("dtype", owned(dtype)), ("entry", entry.and_then(owned))];
            (Case::new("input=8"), settings)
        };
        let named = told_apart(all.iter().map(case).collect());
        named.into_iter().map(|case| case.name).collect()
    }

    #[test]
    fn names_that_are_still_equal_get_their_entry() {
        assert_eq!(
            names(&[("a", Some("1")), ("a", Some("2")), ("b", Some("3"))]),
            ["input=8 dtype=a entry=1", "input=8 dtype=a entry=2", "input=8 dtype=b"]
        );
        assert_eq!(names(&[("a", None), ("a", None)]), ["input=8", "input=8 #2"]);
        assert_eq!(
            names(&[("a", Some("1")), ("a", Some("1"))]),
            ["input=8 entry=1", "input=8 entry=1 #2"]
        );
    }
}
