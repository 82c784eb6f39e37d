//! One configuration of a batch (`scripts/batch.rhai`) as a case: its memory by component, and the metrics of its load.
//! Its file and its trial in the journal have the same keys.

use serde::Deserialize;
use serde_json::Value;

use super::{Case, Unit, load_metrics};
use crate::load::LoadAnswer;
use crate::memory::compare::{ModelFacts, implausible};
use crate::memory::{Breakdown, Component, Footprint, Part};

/// The coordinates of a point that name a case, in the order in which loads are named.
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

/// Cases with what was set for each. Names get the model and the settings that are not the same for all cases, so that
/// configurations of the same lengths stay apart; equal ones are numbered.
pub(super) fn told_apart(cases: Vec<(Case, Settings)>) -> Vec<Case> {
    let differ = |value: &dyn Fn(&(Case, Settings)) -> Option<String>| {
        let mut values = cases.iter().map(value);
        let first = values.next();
        values.any(|other| Some(other) != first)
    };
    let models = differ(&|(case, _)| case.model.clone());
    let count = cases.first().map_or(0, |(_, settings)| settings.len());
    // An entry's number says nothing once a setting does.
    let last = count.saturating_sub(1);
    let mut shown: Vec<usize> = (0..last)
        .filter(|index| differ(&|(_, all)| all[*index].1.clone()))
        .collect();
    if shown.is_empty() && !models {
        shown.extend((last..count).filter(|index| differ(&|(_, all)| all[*index].1.clone())));
    }
    let mut named: Vec<Case> = Vec::new();
    for (mut case, settings) in cases {
        let model = case.model.clone().filter(|_| models);
        let values = shown.iter().filter_map(|index| {
            let (name, value) = &settings[*index];
            Some(format!("{name}={}", value.as_ref()?))
        });
        let parts: Vec<String> = model.into_iter().chain([case.name]).chain(values).collect();
        case.name = parts.join(" ");
        let same = |other: &&Case| other.name.split(" #").next() == Some(&*case.name);
        let earlier = named.iter().filter(same).count();
        if earlier > 0 {
            case.name = format!("{} #{}", case.name, earlier + 1);
        }
        named.push(case);
    }
    named
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
