//! A sweep: loads that differ only in concurrency or request rate, with the findings over its levels. A level may have
//! been measured several times.

use std::collections::BTreeSet;

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::compare::{LoadMetric, load_metrics};
use crate::fmt::number;
pub(in crate::report::sections) use crate::load::engine_side::SweepAxis;
use crate::load::engine_side::{LevelFigures, SweepFindings};
use crate::load::{LoadAnswer, stats::Slo};
use crate::run::{RecordedLoad, RecordedRun};

/// Load options that may differ within a sweep: the level, options that follow from it, and options that do not change
/// the workload.
const IGNORED_LOAD_OPTIONS: &str = "concurrency rate seed prompts_from requests duration warmup repeats precision \
    metrics_hz price_per_hour timeout stall";

/// Launch options that may differ within a sweep.
const IGNORED_LAUNCH_OPTIONS: &str = "limits start_timeout settle_timeout stop_grace request_timeout sample_hz";

/// Loads of one engine with the same workload.
#[derive(Clone, Debug)]
pub(in crate::report::sections) struct Sweep {
    /// A name that distinguishes it from the other sweeps; empty if it is the only one.
    pub name: String,
    pub axis: SweepAxis,
    /// Settings shared by all loads, flat: `engine`, `model`, `input`, …
    pub settings: Map<String, Value>,
    /// In ascending order.
    pub levels: Vec<SweepLevel>,
    /// The findings over all levels; empty without a curve.
    pub findings: SweepFindings,
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
    /// A metric over all loads of the level: the sum of a count, the mean of any other; none if a load lacks it.
    pub(super) fn value(&self, metric: &str) -> Option<f64> {
        LoadMetric::named(metric)?.combined(&self.loads)
    }

    pub(super) fn throughput(&self) -> Option<f64> {
        self.value("output_throughput")
    }
}

impl Sweep {
    /// A level in a sentence: `concurrency 64`.
    pub(super) fn level_text(&self, level: f64) -> String {
        self.axis.level_text(&number(level))
    }

    /// The SLO that its requests were held against.
    pub(super) fn slo(&self) -> Option<Slo> {
        let mut loads = self.levels.iter().flat_map(|level| &level.loads);
        Some(loads.find_map(|load| load.stats.goodput.as_ref())?.slo)
    }

    /// A curve with a point for each level.
    pub(super) fn points(&self, value: impl Fn(&SweepLevel) -> Option<f64>) -> Vec<(f64, Option<f64>)> {
        self.levels.iter().map(|level| (level.at, value(level))).collect()
    }

    /// The level of the saturation point.
    pub(super) fn knee(&self) -> Option<&SweepLevel> {
        let knee = self.findings.knee?;
        self.levels.iter().find(|level| level.at == knee.x)
    }

    /// The lowest level, the saturation point and the highest level, each once.
    pub(super) fn key_levels(&self) -> Vec<&SweepLevel> {
        let all = [self.levels.first(), self.knee(), self.levels.last()];
        let mut levels: Vec<&SweepLevel> = all.into_iter().flatten().collect();
        levels.dedup_by_key(|level| level.at);
        levels
    }

    pub(in crate::report::sections) fn has_curve(&self) -> bool {
        self.axis != SweepAxis::Other && self.levels.len() > 1
    }

    fn find(&self) -> SweepFindings {
        if !self.has_curve() {
            return SweepFindings::default();
        }
        let figures = |at: f64, load: &LoadAnswer| LevelFigures {
            level: at,
            queue_grows: load.queue_grows(),
            ..LevelFigures::deserialize(Value::Object(load_metrics::row(load))).unwrap_or_default()
        };
        let levels: Vec<LevelFigures> = self
            .levels
            .iter()
            .flat_map(|level| level.loads.iter().map(|load| figures(level.at, load)))
            .collect();
        SweepFindings::new(self.axis, &levels)
    }
}

/// The sweeps of a run in the order of their first loads, with distinct names. Loads of experiments count only if they
/// have several levels; otherwise the experiment's section shows them.
pub(in crate::report::sections) fn sweeps(found: &RecordedRun) -> Vec<Sweep> {
    /// The engines that a script compared, from its result.
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Compared {
        engines: Vec<NamedEngine>,
    }
    let mut sweeps = group_loads(&found.loads);
    let of_experiments = group_loads(&found.experiment_loads);
    sweeps.extend(of_experiments.into_iter().filter(Sweep::has_curve));
    let compared = found.result().and_then(|result| Compared::deserialize(result).ok());
    assign_names(&mut sweeps, &compared.unwrap_or_default().engines);
    for sweep in &mut sweeps {
        sweep.findings = sweep.find();
    }
    sweeps
}

/// The arguments of a load in the journal.
#[derive(Default, Deserialize)]
#[serde(default)]
struct LoadArgs {
    engine: Value,
    launch: Map<String, Value>,
    load: Map<String, Value>,
}

impl LoadArgs {
    /// The axis and the level.
    fn level(&self) -> (SweepAxis, f64) {
        let option = |name: &str| self.load.get(name).filter(|value| !value.is_null());
        let varies = ["steps", "trace", "ramp"]
            .into_iter()
            .any(|name| option(name).is_some());
        let number = |name: &str| option(name).and_then(Value::as_f64);
        match (number("concurrency"), number("rate")) {
            (Some(concurrency), _) if !varies => (SweepAxis::Concurrency, concurrency),
            (None, Some(rate)) if !varies => (SweepAxis::Rate, rate),
            _ => (SweepAxis::Other, 0.0),
        }
    }

    /// The settings that group loads into sweeps, flat; unset ones are left out.
    fn settings(self) -> Map<String, Value> {
        let wanted = |options: Map<String, Value>, ignored: &'static str| {
            let is_ignored = move |name: &str| ignored.split(' ').any(|other| other == name);
            let given = move |(name, value): &(String, Value)| !value.is_null() && !is_ignored(name);
            options.into_iter().filter(given)
        };
        let launch = wanted(self.launch, IGNORED_LAUNCH_OPTIONS);
        let load = wanted(self.load, IGNORED_LOAD_OPTIONS);
        std::iter::once(("engine".to_owned(), self.engine))
            .chain(launch)
            .chain(load)
            .collect()
    }
}

fn group_loads(loads: &[RecordedLoad]) -> Vec<Sweep> {
    let mut sweeps: Vec<Sweep> = Vec::new();
    for (args, answer) in loads {
        let args = LoadArgs::deserialize(args).unwrap_or_default();
        let (axis, at) = args.level();
        let settings = args.settings();
        let mut load = answer.clone();
        if let Some(goodput) = load.stats.goodput.as_mut().filter(|_| axis == SweepAxis::Rate) {
            // At a request rate, times count from when a request was due, including its wait in the client's queue. The
            // verdict of the script does the same.
            goodput.counts = goodput.response;
        }
        let same = |sweep: &Sweep| axis != SweepAxis::Other && sweep.axis == axis && sweep.settings == settings;
        let index = sweeps.iter().position(same).unwrap_or(sweeps.len());
        if index == sweeps.len() {
            sweeps.push(Sweep {
                name: String::new(),
                axis,
                settings,
                levels: Vec::new(),
                findings: SweepFindings::default(),
            });
        }
        let levels = &mut sweeps[index].levels;
        match levels.iter_mut().find(|level| level.at == at) {
            Some(level) => level.loads.push(load),
            None => levels.push(SweepLevel { at, loads: vec![load] }),
        }
    }
    for sweep in &mut sweeps {
        sweep.levels.sort_by(|a, b| a.at.total_cmp(&b.at));
    }
    sweeps
}

/// An engine that a script named, with its options.
#[derive(Deserialize)]
struct NamedEngine {
    name: String,
    options: Map<String, Value>,
}

/// Names sweeps after the script's engines, or else after the settings that differ.
fn assign_names(sweeps: &mut [Sweep], engines: &[NamedEngine]) {
    if sweeps.len() < 2 {
        return;
    }
    let settings: Vec<Map<String, Value>> = sweeps.iter().map(|sweep| sweep.settings.clone()).collect();
    let mut names = distinguishing_labels(&settings);
    for (name, settings) in names.iter_mut().zip(&settings) {
        let has = |(name, value): (&String, &Value)| settings.get(name) == Some(value);
        let mut named = engines.iter().filter(|engine| engine.options.iter().all(has));
        if let (Some(only), None) = (named.next(), named.next()) {
            name.clone_from(&only.name);
        }
    }
    number_alike(&mut names, "");
    for (sweep, name) in sweeps.iter_mut().zip(names) {
        sweep.name = name;
    }
}

/// Appends a number to each name that is empty or not unique.
pub(in crate::report::sections) fn number_alike(names: &mut [String], noun: &str) {
    let all = names.to_vec();
    for (number, name) in (1..).zip(names) {
        if name.is_empty() || all.iter().filter(|other| *other == name).count() > 1 {
            extend(name, &format!("{noun}{number}"));
        }
    }
}

/// Adds another part to a name, if there is one.
pub(in crate::report::sections) fn extend(name: &mut String, part: &str) {
    let comma = if name.is_empty() || part.is_empty() { "" } else { ", " };
    name.extend([comma, part]);
}

/// A label for each map of settings, made of the settings that differ: `tgi, input=512`. Engine, model, script and GPU
/// are named without their key.
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

#[cfg(test)]
pub(super) mod tests {
    use serde_json::json;

    use super::*;

    /// A sweep over concurrency with one load at each level, given by its answer.
    pub(in crate::report::sections::loads) fn sweep(levels: &[(f64, Value)]) -> Sweep {
        let level = |(at, answer): &(f64, Value)| SweepLevel {
            at: *at,
            loads: vec![LoadAnswer::read(answer)],
        };
        Sweep {
            name: String::new(),
            axis: SweepAxis::Concurrency,
            settings: Map::new(),
            levels: levels.iter().map(level).collect(),
            findings: SweepFindings::default(),
        }
    }

    fn load(engine: &str, concurrency: u64, seed: u64, tokens: f64) -> RecordedLoad {
        let args = json!({
            "engine": engine, "launch": { "model": "m", "limits": { "concurrency": concurrency } },
            "load": { "concurrency": concurrency, "rate": null, "input": 512, "seed": seed },
        });
        let answer = json!({ "issued": 20, "completed": 20, "output_throughput": tokens });
        (args, LoadAnswer::read(&answer))
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
        let throughput: Vec<f64> = sweeps[0].levels.iter().filter_map(SweepLevel::throughput).collect();
        assert_eq!(throughput, [10.0, 100.0]);
        assert_eq!(sweeps[0].levels[1].value("issued"), Some(40.0));
        assert!(sweeps[0].has_curve() && !sweeps[1].has_curve());
        let names = |sweeps: &[Sweep]| [0, 1].map(|index: usize| sweeps[index].name.clone());
        assign_names(&mut sweeps, &[]);
        assert_eq!(names(&sweeps), ["vllm", "tgi"]);
        let engine = json!({ "name": "TGI of today", "options": { "engine": "tgi" } });
        assign_names(&mut sweeps, &[serde_json::from_value(engine).unwrap()]);
        assert_eq!(names(&sweeps), ["vllm", "TGI of today"]);
    }

    #[test]
    fn loads_without_a_level_are_not_grouped() {
        let trace = json!({ "engine": "vllm", "launch": {}, "load": { "trace": "t.jsonl", "concurrency": null } });
        let sweeps = group_loads(&[(trace.clone(), LoadAnswer::default()), (trace, LoadAnswer::default())]);
        assert_eq!(sweeps.len(), 2);
        assert_eq!(sweeps[0].axis, SweepAxis::Other);
    }

    #[test]
    fn labels_contain_only_what_differs() {
        let settings = [
            json!({ "engine": "vllm", "dtype": "fp8", "model": "m" }),
            json!({ "engine": "vllm", "model": "m" }),
        ]
        .map(|one| one.as_object().unwrap().clone());
        assert_eq!(distinguishing_labels(&settings), ["dtype=fp8", ""]);
    }

    fn saturating() -> Sweep {
        let levels = [(1.0, 20.0), (8.0, 160.0), (32.0, 640.0), (64.0, 650.0), (256.0, 655.0)];
        sweep(&levels.map(|(at, tokens)| {
            (
                at,
                json!({ "output_throughput": tokens, "preemptions": u64::from(at > 32.0) }),
            )
        }))
    }

    #[test]
    fn findings_are_those_of_the_levels() {
        let found = saturating().find();
        assert_eq!(found.knee.unwrap().x, 32.0);
        let preemption = found.preemption.unwrap();
        assert_eq!((preemption.last_without, preemption.first_with), (Some(32.0), 64.0));
        assert_eq!(found.queue, None);
    }
}
