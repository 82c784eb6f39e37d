//! Loads that differ only in how much was asked at once, or a second, are one sweep; its levels may have been measured several times.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::load::Load;
use crate::load::figures::Spread;
use crate::run::Found;

/// What of a load's options does not set it apart from the others of its sweep: the level, what follows from it, and what is only looked at.
const NOT_APART: [&str; 12] = [
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

/// What of a launch sets no engine apart: how large one start was made, and how long it was waited for.
const NOT_APART_LAUNCH: [&str; 5] = ["limits", "start_timeout", "settle_timeout", "stop_grace", "sample_hz"];

/// What a sweep goes along.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::report::story) enum Along {
    /// Requests at once.
    Concurrency,
    /// Requests a second.
    Rate,
    /// Neither: a trace, steps, a ramp.
    Nothing,
}

/// Loads of one engine with the same requests.
#[derive(Clone, Debug)]
pub(in crate::report::story) struct Sweep {
    /// What sets it apart from the other sweeps beside it; empty where it is alone.
    pub name: String,
    /// What its levels are.
    pub along: Along,
    /// What all its loads have in common, flat: `engine`, `model`, `input`, …
    pub common: Map<String, Value>,
    /// Its levels, the lowest first.
    pub levels: Vec<Point>,
}

/// One level of a sweep.
#[derive(Clone, Debug)]
pub(in crate::report::story) struct Point {
    /// Requests at once, or a second.
    pub at: f64,
    /// The loads of that level, in the order in which they were done.
    pub loads: Vec<Load>,
}

impl Along {
    /// The level's name: `concurrency`.
    pub(in crate::report::story) fn word(self) -> &'static str {
        match self {
            Self::Concurrency => "concurrency",
            Self::Rate => "rate",
            Self::Nothing => "load",
        }
    }

    /// What stands behind the number of a level: `64 at once`.
    pub(in crate::report::story) fn behind(self) -> &'static str {
        match self {
            Self::Concurrency => " at once",
            Self::Rate => " requests/s",
            Self::Nothing => "",
        }
    }
}

impl Point {
    /// A figure of this level, the mean of its loads; none where one of them lacks it.
    pub(in crate::report::story) fn mean(&self, figure: impl Fn(&Load) -> Option<f64>) -> Option<f64> {
        Spread::of(self.loads.iter().map(figure)).map(|spread| spread.mean)
    }

    /// A count of this level, of all its loads together; none where one of them lacks it.
    pub(in crate::report::story) fn sum(&self, count: impl Fn(&Load) -> Option<u64>) -> Option<f64> {
        let counts: Option<Vec<u64>> = self.loads.iter().map(count).collect();
        counts.map(|counts| counts.iter().sum::<u64>() as f64)
    }

    /// The smallest and the largest output throughput of its repeats; none where it was measured once.
    pub(in crate::report::story) fn apart(&self) -> Option<(f64, f64)> {
        let spread = match self.loads.as_slice() {
            [one] => one.repeats?.output_throughput?,
            several => Spread::of(several.iter().map(|load| load.output_throughput))?,
        };
        (spread.max > spread.min).then_some((spread.min, spread.max))
    }
}

impl Sweep {
    /// Output throughput by level, where it is known.
    pub(in crate::report::story) fn throughput(&self) -> Vec<(f64, f64)> {
        let levels = self.levels.iter();
        levels
            .filter_map(|level| Some((level.at, level.mean(|load| load.output_throughput)?)))
            .collect()
    }

    /// Whether there is a curve to see.
    pub(in crate::report::story) fn rises(&self) -> bool {
        self.along != Along::Nothing && self.levels.len() > 1
    }
}

/// The sweeps of a run, in the order of their first loads, each named by what sets it apart from the others. Loads within experiments are sweeps
/// only where they go along several levels: otherwise the experiment tells them.
pub(in crate::report::story) fn sweeps(found: &Found) -> Vec<Sweep> {
    let mut sweeps = gathered(&found.loads);
    sweeps.extend(gathered(&found.inner_loads).into_iter().filter(Sweep::rises));
    let entries = found.result().map_or(&Value::Null, |result| &result["engines"]);
    name(&mut sweeps, entries.as_array().map_or(&[], Vec::as_slice));
    sweeps
}

fn gathered(loads: &[(Value, Value)]) -> Vec<Sweep> {
    let mut sweeps: Vec<Sweep> = Vec::new();
    for (args, answer) in loads {
        let (along, at) = level(&args["load"]);
        let common = common(args);
        let known = sweeps
            .iter_mut()
            .find(|sweep| along != Along::Nothing && sweep.along == along && sweep.common == common);
        let load = Load::of(answer);
        let Some(sweep) = known else {
            let levels = vec![Point { at, loads: vec![load] }];
            sweeps.push(Sweep {
                name: String::new(),
                along,
                common,
                levels,
            });
            continue;
        };
        match sweep.levels.iter_mut().find(|level| level.at == at) {
            Some(level) => level.loads.push(load),
            None => sweep.levels.push(Point { at, loads: vec![load] }),
        }
    }
    for sweep in &mut sweeps {
        sweep.levels.sort_by(|a, b| a.at.total_cmp(&b.at));
    }
    sweeps
}

/// What a load goes along, and how much of it.
fn level(options: &Value) -> (Along, f64) {
    let varies = ["steps", "trace", "ramp"].iter().any(|name| !options[*name].is_null());
    match (options["concurrency"].as_f64(), options["rate"].as_f64()) {
        (Some(concurrency), _) if !varies => (Along::Concurrency, concurrency),
        (None, Some(rate)) if !varies => (Along::Rate, rate),
        _ => (Along::Nothing, 0.0),
    }
}

/// What the loads of a sweep have in common, flat; what is not set is left out.
fn common(args: &Value) -> Map<String, Value> {
    let mut all = Map::new();
    all.insert("engine".into(), args["engine"].clone());
    let parts = [("launch", &NOT_APART_LAUNCH[..]), ("load", &NOT_APART[..])];
    for (part, left_out) in parts {
        for (name, value) in args[part].as_object().into_iter().flatten() {
            if !value.is_null() && !left_out.contains(&name.as_str()) {
                all.insert(name.clone(), value.clone());
            }
        }
    }
    all
}

/// Names sweeps by the engines that the script named, else by what of their settings differs.
fn name(sweeps: &mut [Sweep], entries: &[Value]) {
    if sweeps.len() < 2 {
        return;
    }
    let settings: Vec<Map<String, Value>> = sweeps.iter().map(|sweep| sweep.common.clone()).collect();
    let apart = apart(&settings);
    for (sweep, apart) in sweeps.iter_mut().zip(apart) {
        let fits = |entry: &&Value| {
            let options = entry["options"].as_object();
            options.is_some_and(|options| {
                options
                    .iter()
                    .all(|(name, value)| sweep.common.get(name) == Some(value))
            })
        };
        let mut named = entries.iter().filter(fits).filter_map(|entry| entry["name"].as_str());
        sweep.name = match (named.next(), named.next()) {
            (Some(only), None) => only.to_owned(),
            _ => apart,
        };
    }
    // Where names do not tell them apart, numbers do.
    let names: Vec<String> = sweeps.iter().map(|sweep| sweep.name.clone()).collect();
    for (index, sweep) in sweeps.iter_mut().enumerate() {
        let twice = names.iter().filter(|name| **name == sweep.name).count() > 1;
        if twice || sweep.name.is_empty() {
            let space = if sweep.name.is_empty() { "" } else { ", " };
            sweep.name = format!("{}{space}{}", sweep.name, index + 1);
        }
    }
}

/// For each of several settings what sets it apart from the others: `engine=tgi, input=512`, of the engine and the model the value alone.
pub(in crate::report::story) fn apart(settings: &[Map<String, Value>]) -> Vec<String> {
    let names: BTreeSet<&String> = settings.iter().flat_map(Map::keys).collect();
    let differs = |name: &&&String| {
        let first = settings.first().and_then(|one| one.get(**name));
        settings.iter().any(|one| one.get(**name) != first)
    };
    let mut differing: Vec<&String> = names.iter().filter(differs).copied().collect();
    differing.sort_by_key(|name| ["engine", "model"].iter().position(|first| first == name).unwrap_or(2));
    let told = |one: &Map<String, Value>| {
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
    settings.iter().map(told).collect()
}

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
        let mut sweeps = gathered(&loads);
        assert_eq!(sweeps.len(), 2);
        assert_eq!(sweeps[0].throughput(), [(1.0, 10.0), (8.0, 100.0)]);
        assert_eq!(sweeps[0].levels[1].apart(), Some((90.0, 110.0)));
        assert_eq!(sweeps[0].levels[1].sum(|load| Some(load.issued)), Some(40.0));
        assert!(sweeps[0].rises() && !sweeps[1].rises());
        name(&mut sweeps, &[]);
        assert_eq!((sweeps[0].name.as_str(), sweeps[1].name.as_str()), ("vllm", "tgi"));
        let entries = [json!({ "name": "TGI of today", "options": { "engine": "tgi" } })];
        name(&mut sweeps, &entries);
        assert_eq!(
            (sweeps[0].name.as_str(), sweeps[1].name.as_str()),
            ("vllm", "TGI of today")
        );
    }

    #[test]
    fn what_has_no_level_stands_alone() {
        let trace = json!({ "engine": "vllm", "launch": {}, "load": { "trace": "t.jsonl", "concurrency": null } });
        let sweeps = gathered(&[(trace.clone(), json!({})), (trace, json!({}))]);
        assert_eq!(sweeps.len(), 2);
        assert_eq!(sweeps[0].along, Along::Nothing);
    }

    #[test]
    fn only_what_differs_names() {
        let settings = [
            json!({ "engine": "vllm", "dtype": "fp8", "model": "m" }),
            json!({ "engine": "vllm", "model": "m" }),
        ];
        let settings = settings.map(|one| one.as_object().unwrap().clone());
        assert_eq!(apart(&settings), ["dtype=fp8", ""]);
    }
}
