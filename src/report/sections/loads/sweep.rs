//! A sweep: loads that differ only in concurrency or request rate. A level may have been measured
//! several times.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

pub(in crate::report::sections) use crate::load::engine_side::SweepAxis;
use crate::load::stats::Spread;
use crate::load::{LoadAnswer, Summary};
use crate::report::sections::format::number;
use crate::run::RecordedRun;

/// Load options that may differ within a sweep: the level, what follows from it, and what does not change the workload.
const IGNORED_LOAD_OPTIONS: [&str; 12] = [
    "concurrency",
    "rate",
    "seed",
    "requests",
    "duration",
    "warmup",
    "repeats",
    "precision",
    "metrics_hz",
    "price_per_hour",
    "timeout",
    "stall",
];

/// Launch options that may differ within a sweep.
const IGNORED_LAUNCH_OPTIONS: [&str; 5] = ["limits", "start_timeout", "settle_timeout", "stop_grace", "sample_hz"];

/// Loads of one engine with the same workload.
#[derive(Clone, Debug)]
pub(in crate::report::sections) struct Sweep {
    /// What distinguishes it from the other sweeps; empty if it is the only one.
    pub name: String,
    pub axis: SweepAxis,
    /// Settings shared by all loads, flat: `engine`, `model`, `input`, …
    pub settings: Map<String, Value>,
    /// In ascending order.
    pub levels: Vec<SweepLevel>,
}

/// One level of a sweep.
#[derive(Clone, Debug)]
pub(in crate::report::sections) struct SweepLevel {
    /// Concurrency or request rate.
    pub at: f64,
    /// In the order of measurement.
    pub loads: Vec<LoadAnswer>,
}

impl SweepLevel {
    /// The mean of a value over the loads; none if one lacks it.
    pub(in crate::report::sections) fn mean(&self, figure: impl Fn(&LoadAnswer) -> Option<f64>) -> Option<f64> {
        Spread::from_values(self.loads.iter().map(figure)).map(|spread| spread.mean)
    }

    /// The sum of a count over the loads; none if one lacks it.
    pub(in crate::report::sections) fn sum(&self, count: impl Fn(&LoadAnswer) -> Option<u64>) -> Option<f64> {
        let counts: Option<Vec<u64>> = self.loads.iter().map(count).collect();
        counts.map(|counts| counts.iter().sum::<u64>() as f64)
    }

    /// The smallest and the largest output throughput of repeated measurements.
    pub(in crate::report::sections) fn repeat_range(&self) -> Option<(f64, f64)> {
        let spread = match self.loads.as_slice() {
            [one] => one.repeats.as_ref()?.stats.output_throughput?,
            several => Spread::from_values(several.iter().map(|load| load.stats.rates.output_throughput))?,
        };
        (spread.max > spread.min).then_some((spread.min, spread.max))
    }
}

impl Sweep {
    /// A level in a sentence: `concurrency 64`.
    pub(in crate::report::sections) fn level_text(&self, level: f64) -> String {
        self.axis.level_text(&number(level))
    }

    /// A curve with a point for each level.
    pub(super) fn points(&self, value: impl Fn(&SweepLevel) -> Option<f64>) -> Vec<(f64, Option<f64>)> {
        self.levels.iter().map(|level| (level.at, value(level))).collect()
    }

    /// Ranges of output throughput of levels that were measured several times.
    pub(super) fn repeat_ranges(&self) -> Vec<(f64, f64, f64)> {
        let ranges = self.levels.iter().map(|level| Some((level.at, level.repeat_range()?)));
        ranges.flatten().map(|(at, (low, high))| (at, low, high)).collect()
    }

    /// Output throughput by level.
    pub(in crate::report::sections) fn throughput(&self) -> Vec<(f64, f64)> {
        let levels = self.levels.iter();
        levels
            .filter_map(|level| Some((level.at, level.mean(|load| load.stats.rates.output_throughput)?)))
            .collect()
    }

    pub(in crate::report::sections) fn has_curve(&self) -> bool {
        self.axis != SweepAxis::Other && self.levels.len() > 1
    }
}

/// The sweeps of a run in the order of their first loads, with distinct names. Loads of experiments count only if they
/// have several levels; otherwise the experiment's section shows them.
pub(in crate::report::sections) fn sweeps(found: &RecordedRun) -> Vec<Sweep> {
    let mut sweeps = group_loads(&found.loads);
    sweeps.extend(
        group_loads(&found.experiment_loads)
            .into_iter()
            .filter(Sweep::has_curve),
    );
    let entries = found.result().map_or(&Value::Null, |result| &result["engines"]);
    assign_names(&mut sweeps, entries.as_array().map_or(&[], Vec::as_slice));
    sweeps
}

fn group_loads(loads: &[(Value, Value)]) -> Vec<Sweep> {
    let mut sweeps: Vec<Sweep> = Vec::new();
    for (args, answer) in loads {
        let (axis, at) = level(&args["load"]);
        let settings = settings(args);
        let existing = sweeps
            .iter_mut()
            .find(|sweep| axis != SweepAxis::Other && sweep.axis == axis && sweep.settings == settings);
        let load = LoadAnswer::read(answer);
        let Some(sweep) = existing else {
            let levels = vec![SweepLevel { at, loads: vec![load] }];
            sweeps.push(Sweep {
                name: String::new(),
                axis,
                settings,
                levels,
            });
            continue;
        };
        match sweep.levels.iter_mut().find(|level| level.at == at) {
            Some(level) => level.loads.push(load),
            None => sweep.levels.push(SweepLevel { at, loads: vec![load] }),
        }
    }
    for sweep in &mut sweeps {
        sweep.levels.sort_by(|a, b| a.at.total_cmp(&b.at));
    }
    sweeps
}

/// The axis and the level of a load.
fn level(options: &Value) -> (SweepAxis, f64) {
    let varies = ["steps", "trace", "ramp"].iter().any(|name| !options[*name].is_null());
    match (options["concurrency"].as_f64(), options["rate"].as_f64()) {
        (Some(concurrency), _) if !varies => (SweepAxis::Concurrency, concurrency),
        (None, Some(rate)) if !varies => (SweepAxis::Rate, rate),
        _ => (SweepAxis::Other, 0.0),
    }
}

/// The settings of a load by which it is grouped, flat; unset ones are left out.
fn settings(args: &Value) -> Map<String, Value> {
    let mut all = Map::new();
    all.insert("engine".into(), args["engine"].clone());
    let parts = [
        ("launch", &IGNORED_LAUNCH_OPTIONS[..]),
        ("load", &IGNORED_LOAD_OPTIONS[..]),
    ];
    for (part, left_out) in parts {
        for (name, value) in args[part].as_object().into_iter().flatten() {
            if !value.is_null() && !left_out.contains(&name.as_str()) {
                all.insert(name.clone(), value.clone());
            }
        }
    }
    all
}

/// Names sweeps as the script named its engines, else by the settings that differ.
fn assign_names(sweeps: &mut [Sweep], entries: &[Value]) {
    if sweeps.len() < 2 {
        return;
    }
    let settings: Vec<Map<String, Value>> = sweeps.iter().map(|sweep| sweep.settings.clone()).collect();
    let distinguishing_labels = distinguishing_labels(&settings);
    for (sweep, distinguishing_labels) in sweeps.iter_mut().zip(distinguishing_labels) {
        let fits = |entry: &&Value| {
            let options = entry["options"].as_object();
            options.is_some_and(|options| {
                options
                    .iter()
                    .all(|(name, value)| sweep.settings.get(name) == Some(value))
            })
        };
        let mut named = entries.iter().filter(fits).filter_map(|entry| entry["name"].as_str());
        sweep.name = match (named.next(), named.next()) {
            (Some(only), None) => only.to_owned(),
            _ => distinguishing_labels,
        };
    }
    // Number sweeps with the same name.
    let names: Vec<String> = sweeps.iter().map(|sweep| sweep.name.clone()).collect();
    for (index, sweep) in sweeps.iter_mut().enumerate() {
        let twice = names.iter().filter(|name| **name == sweep.name).count() > 1;
        if twice || sweep.name.is_empty() {
            let space = if sweep.name.is_empty() { "" } else { ", " };
            sweep.name = format!("{}{space}{}", sweep.name, index + 1);
        }
    }
}

/// For each map of settings, those that differ from the others: `engine=tgi, input=512`; engine and model without the
/// key.
pub(in crate::report::sections) fn distinguishing_labels(settings: &[Map<String, Value>]) -> Vec<String> {
    let names: BTreeSet<&String> = settings.iter().flat_map(Map::keys).collect();
    let differs = |name: &&&String| {
        let first = settings.first().and_then(|one| one.get(**name));
        settings.iter().any(|one| one.get(**name) != first)
    };
    let mut differing: Vec<&String> = names.iter().filter(differs).copied().collect();
    differing.sort_by_key(|name| ["engine", "model"].iter().position(|first| first == name).unwrap_or(2));
    let describe = |one: &Map<String, Value>| {
        let parts = differing.iter().filter_map(|name| {
            let value = match one.get(*name)? {
                Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            Some(match name.as_str() {
                "engine" | "model" | "script" | "GPU" => value,
                name => format!("{name}={value}"),
            })
        });
        parts.collect::<Vec<_>>().join(", ")
    };
    settings.iter().map(describe).collect()
}

/// Reads a value of a load.
pub(super) type LoadValue = fn(&LoadAnswer) -> Option<f64>;

/// Reads a latency of a load.
pub(super) type Latency = fn(&LoadAnswer) -> &Summary;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn load(engine: &str, concurrency: u64, seed: u64, tokens: f64) -> (Value, Value) {
        let args = json!({
            "engine": engine, "launch": { "model": "m", "limits": { "concurrency": concurrency } },
            "load": { "concurrency": concurrency, "rate": null, "input": 512, "seed": seed },
        });
        (
            args,
            json!({ "issued": 20, "completed": 20, "output_throughput": tokens }),
        )
    }

    #[test]
    fn loads_that_differ_only_in_their_level_are_one_sweep() {
        let loads = [
            load("vllm", 8, 2, 90.0),
            load("vllm", 1, 1, 10.0),
            load("vllm", 8, 3, 110.0),
            load("tgi", 1, 1, 9.0),
        ];
        let mut sweeps = group_loads(&loads);
        assert_eq!(sweeps.len(), 2);
        assert_eq!(sweeps[0].throughput(), [(1.0, 10.0), (8.0, 100.0)]);
        assert_eq!(sweeps[0].levels[1].repeat_range(), Some((90.0, 110.0)));
        assert_eq!(sweeps[0].levels[1].sum(|load| Some(load.stats.issued)), Some(40.0));
        assert!(sweeps[0].has_curve() && !sweeps[1].has_curve());
        assign_names(&mut sweeps, &[]);
        assert_eq!((sweeps[0].name.as_str(), sweeps[1].name.as_str()), ("vllm", "tgi"));
        let entries = [json!({ "name": "TGI of today", "options": { "engine": "tgi" } })];
        assign_names(&mut sweeps, &entries);
        assert_eq!(
            (sweeps[0].name.as_str(), sweeps[1].name.as_str()),
            ("vllm", "TGI of today")
        );
    }

    #[test]
    fn loads_without_a_level_are_not_grouped() {
        let trace = json!({ "engine": "vllm", "launch": {}, "load": { "trace": "t.jsonl", "concurrency": null } });
        let sweeps = group_loads(&[(trace.clone(), json!({})), (trace, json!({}))]);
        assert_eq!(sweeps.len(), 2);
        assert_eq!(sweeps[0].axis, SweepAxis::Other);
    }

    #[test]
    fn labels_contain_only_what_differs() {
        let settings = [
            json!({ "engine": "vllm", "dtype": "fp8", "model": "m" }),
            json!({ "engine": "vllm", "model": "m" }),
        ];
        let settings = settings.map(|one| one.as_object().unwrap().clone());
        assert_eq!(distinguishing_labels(&settings), ["dtype=fp8", ""]);
    }
}
