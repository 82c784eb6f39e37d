//! Reads runs and other tools' files into one comparable form: [`ComparisonInput`].
//!
//! [`import`] reads the files of other tools, [`export`] writes files that they read, `from_run` reads our runs.
//! [`load_metrics`] is the table of all metrics of a load. Only [`Direction`] knows which direction of a metric is better.

mod configuration;
pub mod export;
mod from_run;
pub mod import;
pub mod load_metrics;
mod serving;

use std::collections::BTreeMap;
use std::path::Path;

pub use load_metrics::LoadMetric;
use serde::{Serialize, Serializer};
use serde_json::{Value, json};
pub use serving::{Origin, Role, ServingPoint, dominated, serving_points};

use crate::experiment::{self, Experiment};
use crate::fault::Result;
pub use crate::fmt::Unit;
use crate::load::stats::Spread;
use crate::memory::compare::{ExternalEstimate, Implausible, ModelFacts};
use crate::memory::{Breakdown, Component};
use crate::run::{RecordedBoundary, RecordedLoad, RecordedRun, is_pack};

/// Opens a run's folder or a packed run, or a file of another tool.
pub fn open(path: &Path) -> Result<ComparisonInput> {
    if !import::is_foreign(path) && (path.is_dir() || is_pack(path)) {
        let found = RecordedRun::read(path)?;
        return Ok(ComparisonInput::from_run(&found, &path.display().to_string()));
    }
    import::read(path)
}

/// Whether higher values of an experiment's metric are better; `None` if the metric is neutral or unknown.
pub fn higher_is_better(metric: &experiment::Metric) -> Option<bool> {
    // Metrics of one level of a sweep are called `output_throughput at 8`.
    let name = metric.name.split(" at ").next().unwrap_or_default();
    match Direction::of_metric(name, metric.unit)? {
        Direction::More => Some(true),
        Direction::Less => Some(false),
        Direction::Neutral => None,
    }
}

/// Reads an experiment of a journal or a script.
///
/// # Errors
///
/// `usage` for anything else.
pub fn read_experiment(value: &Value) -> Result<Experiment> {
    Ok(Experiment::read(value, higher_is_better)?)
}

/// The experiments of a run by name. Reading the run has already dropped unreadable ones and noted that.
pub fn experiments(found: &RecordedRun) -> impl Iterator<Item = (&str, Experiment)> {
    found
        .experiments
        .iter()
        .filter_map(|(name, value)| Some((name.as_str(), read_experiment(value).ok()?)))
}

/// The loads of a script's trials, if no value of the run has their figures, as that of an experiment or a batch has.
pub fn trial_loads(found: &RecordedRun) -> &[RecordedLoad] {
    let are_told = !found.experiments.is_empty() || !found.configurations.is_empty();
    if are_told { &[] } else { &found.experiment_loads }
}

/// A run or a file, to show or to compare.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ComparisonInput {
    /// The file or folder as the user named it.
    pub title: String,
    /// Its writer: `run`, or the name of another tool's format.
    pub format: &'static str,
    /// The kind of content, for display.
    pub holds: &'static str,
    /// How the run ended, if it did not finish.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unfinished: Option<String>,
    /// The model, as the source names it.
    pub model: Option<String>,
    /// The engine and its version, if known.
    pub engine: Option<String>,
    /// The GPUs that the source names: indices or UUIDs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpus: Option<Value>,
    /// Whether anything in it was simulated.
    pub simulated: bool,
    /// Other properties of the setup by name: the GPU, the script, its parameters.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub setup: BTreeMap<String, String>,
    /// The tested points, as a boundary that can be drawn.
    #[serde(serialize_with = "serialize_boundary")]
    pub boundary: Option<RecordedBoundary>,
    /// The measurements: one case per configuration, in the order of the source.
    pub cases: Vec<Case>,
    /// Values over time.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub series: Vec<Series>,
    /// Where its loads stand between users and GPUs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub serving: Vec<ServingPoint>,
    /// Caveats about the numbers: assumed units, doubts, quirks of the source.
    pub notes: Vec<String>,
}

impl ComparisonInput {
    /// Whether it has no measurement at all.
    pub fn is_empty(&self) -> bool {
        let points = self.boundary.as_ref().map_or(0, |boundary| boundary.points.len());
        let is_empty = |case: &Case| case.breakdown.is_none() && case.figures.is_empty();
        points == 0 && self.cases.iter().all(is_empty)
    }
}

/// One value over time.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Series {
    /// The name that people read.
    pub name: String,
    /// The unit of the values.
    pub unit: Unit,
    /// Seconds and value, in the order of time.
    pub points: Vec<(f64, f64)>,
}

/// The first word of the name of a case that a search of settings recommends.
const RECOMMENDED: &str = "recommended";

/// The measurements of one configuration.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Case {
    /// Its coordinates, or its name in the source. Cases with equal names are compared.
    pub name: String,
    /// Its model, if the cases of the source have several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Memory by component, of all devices together.
    pub breakdown: Option<Breakdown>,
    /// Named metrics in display order.
    pub figures: Vec<Metric>,
    /// Facts about the model and the setup that explain differences.
    pub facts: ModelFacts,
    /// Impossible values.
    pub implausible: Vec<Implausible>,
    /// An estimate of its memory that the source itself holds against it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub claim: Option<ExternalEstimate>,
}

/// One named metric.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Metric {
    /// The source's own name if it has one, without the unit unless that belongs to the name (`mean_ttft_ms`).
    pub name: String,
    /// The value, in `unit`.
    pub value: f64,
    /// Its unit.
    pub unit: Unit,
    /// The 95 % confidence interval, low and high, in `unit`; `None` if unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interval: Option<[f64; 2]>,
    /// Whether it is a percentile that too few independent requests support: it is shown, but gets no verdict.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub thin: bool,
}

impl Case {
    /// An empty case of that name.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            ..Self::default()
        }
    }

    /// Merges repeats into one case: the means of the metrics that all of them have, with intervals. A single case is
    /// returned unchanged.
    pub(super) fn mean(mut repeats: Vec<Self>) -> Self {
        if repeats.len() < 2 {
            return repeats.pop().unwrap_or_default();
        }
        let first = &repeats[0];
        let mean = |figure: &Metric| {
            let same: Vec<&Metric> = repeats
                .iter()
                .map(|case| case.figure(&figure.name))
                .collect::<Option<_>>()?;
            let spread = Spread::from_values(same.iter().map(|one| Some(one.value)))?;
            Some(Metric {
                value: spread.mean,
                interval: spread.ci,
                thin: same.iter().any(|one| one.thin),
                ..figure.clone()
            })
        };
        Self {
            name: first.name.clone(),
            facts: first.facts.clone(),
            figures: first.figures.iter().filter_map(mean).collect(),
            ..Self::default()
        }
    }

    /// The metric of that name.
    pub fn figure(&self, name: &str) -> Option<&Metric> {
        self.figures.iter().find(|figure| figure.name == name)
    }

    /// Adds a metric, if it has a finite value.
    pub(super) fn metric(&mut self, name: &str, value: Option<f64>, unit: Unit) {
        self.metric_with_interval(name, value, unit, None);
    }

    /// Adds a metric with a confidence interval, if its value is finite.
    pub(super) fn metric_with_interval(
        &mut self,
        name: &str,
        value: Option<f64>,
        unit: Unit,
        interval: Option<[f64; 2]>,
    ) {
        if let Some(value) = value.filter(|value| value.is_finite()) {
            self.figures.push(Metric {
                name: name.to_owned(),
                value,
                unit,
                interval,
                thin: false,
            });
        }
    }
}

/// Serializes a boundary: its axes, and its points with the answers as they were read.
fn serialize_boundary<S: Serializer>(boundary: &Option<RecordedBoundary>, serializer: S) -> Result<S::Ok, S::Error> {
    let document = boundary.as_ref().map(|boundary| {
        let points = boundary
            .points
            .iter()
            .map(|(point, answer)| json!({ "point": point, "answer": answer }));
        json!({ "axes": boundary.described["axes"], "points": points.collect::<Vec<_>>() })
    });
    document.serialize(serializer)
}

/// Which direction of a metric is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// Higher is better: throughput, capacity, what fits.
    More,
    /// Lower is better: latency, memory used, failures.
    Less,
    /// Neither: settings, the length of a measurement, and trade-offs.
    Neutral,
}

/// Throughput, what fits, and capacity.
const HIGHER: &str = "
    max_output_tokens_per_s requests_per_second tokens_per_second kv_tokens
    agreement largest_total_that_succeeded smallest_total_that_failed largest_input_+_output_that_fits volume newly_fitting
";

/// Losses, waiting times, and costs that do not depend on the load.
const LOWER: &str = "
    newly_failing start_time kv_tokens_lost mean_latency_ms nats_per_token
    physical memory memory_per_gpu memory_beside_kv memory_for_each_graph graphs_memory
    overhead overhead_share total total_measured net_increase
    model_weights framework_overhead graph_capture
    timeline_min timeline_mean timeline_median timeline_p95 timeline_max
    allocated_after allocated_added allocated_overhead allocated_overhead_share
    max_allocated_after max_allocated_added
    reserved_after reserved_added reserved_overhead reserved_overhead_share reserved_for_each_graph
";

/// Settings, the extent of a measurement, and values that follow from both at a given throughput; the state before the
/// measurement. A KV pool is both capacity and cost, and its use follows the load. A GPU that does more work draws more
/// power.
const NEUTRAL: &str = "
    elapsed_time prompts num_requests max_concurrent_requests total_input_tokens total_output_tokens
    mean_concurrency runs warmed_up timeline_samples points succeeded not_succeeded additional_cuda_graphs
    allocated_before max_allocated_before reserved_before baseline
    kv_cache kv_cache_pool kv_cache_used calculator_total
    power_mean power_max temperature_mean temperature_max
";

/// Prefixes of names. A standard deviation alone is no better or worse, and the number of drafts does not show their
/// quality.
const PREFIXES: [(&str, Direction); 8] = [
    ("std_", Direction::Neutral),
    ("recommended ", Direction::More),
    ("cuda_graphs_draft_", Direction::Neutral),
    ("kv_tokens_of_", Direction::More),
    ("scaling_efficiency_of_", Direction::More),
    ("spec_decode_acceptance", Direction::More),
    ("spec_decode_per_position_acceptance", Direction::More),
    ("spec_decode_", Direction::Neutral),
];

impl Direction {
    /// The better direction of a metric; `None` if unknown.
    pub fn of_metric(name: &str, unit: Unit) -> Option<Self> {
        if let Some(metric) = LoadMetric::named(name) {
            return Some(metric.better);
        }
        for (names, direction) in [(HIGHER, Self::More), (LOWER, Self::Less), (NEUTRAL, Self::Neutral)] {
            // Blanks separate names here.
            if names.split_whitespace().any(|listed| listed == name.replace(' ', "_")) {
                return Some(direction);
            }
        }
        if let Some(component) = Component::ALL.into_iter().find(|component| component.name() == name) {
            return Some(of_component(component, unit));
        }
        let prefixed = PREFIXES.iter().find(|(prefix, _)| name.starts_with(prefix));
        prefixed
            .map(|(_, direction)| *direction)
            .or_else(|| (unit == Unit::Milliseconds && name.ends_with("_ms")).then_some(Self::Less))
    }
}

fn of_component(component: Component, unit: Unit) -> Direction {
    match component {
        // The number of graphs is a setting.
        Component::CudaGraphs if unit == Unit::Count => Direction::Neutral,
        Component::Weights
        | Component::Activations
        | Component::CudaGraphs
        | Component::RuntimeContext
        | Component::Unexplained => Direction::Less,
        Component::KvPool | Component::KvUsed | Component::OtherTenants => Direction::Neutral,
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::compare::{ComparisonInput, import};
    use crate::run::RecordedRun;

    #[track_caller]
    fn check_directions(input: &ComparisonInput) -> usize {
        let mut seen = 0;
        for figure in input.cases.iter().flat_map(|case| &case.figures) {
            seen += 1;
            assert!(
                Direction::of_metric(&figure.name, figure.unit).is_some(),
                "nobody said which way `{}` of {} is better",
                figure.name,
                input.title
            );
        }
        seen
    }

    fn entries(folder: &str) -> Vec<std::path::PathBuf> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
        let entries = std::fs::read_dir(folder).unwrap();
        entries.map(|entry| entry.unwrap().path()).collect()
    }

    #[test]
    fn every_metric_of_a_file_of_another_tool_has_a_direction() {
        let files = entries("tests/data/foreign")
            .into_iter()
            .filter(|file| file.extension().is_some_and(|ending| ending != "md"));
        let seen: usize = files.map(|file| check_directions(&import::read(&file).unwrap())).sum();
        assert!(seen > 100, "{seen} figures");
    }

    #[test]
    fn every_metric_of_a_real_run_has_a_direction() {
        let runs = entries("tests/data/runs")
            .into_iter()
            .map(|run| ComparisonInput::from_run(&RecordedRun::read(&run).unwrap(), "a run"));
        let seen: usize = runs.map(|run| check_directions(&run)).sum();
        assert!(seen > 20, "{seen} figures");
    }

    #[test]
    fn every_metric_of_a_load_has_a_direction() {
        assert_eq!(
            Direction::of_metric("p99_ttft_ms", Unit::Milliseconds),
            Some(Direction::Less)
        );
        assert_eq!(
            Direction::of_metric("std_ttft_ms", Unit::Milliseconds),
            Some(Direction::Neutral)
        );
        for component in Component::ALL {
            assert!(
                Direction::of_metric(component.name(), Unit::Bytes).is_some(),
                "{component}"
            );
        }
    }

    /// Scans the source, because no fixture covers every metric name in an importer.
    #[test]
    fn every_metric_that_an_importer_names_has_a_direction() {
        let written = regex::Regex::new(r#"\(\s*"([a-z][a-z_0-9]+)",[^;()]*?Unit::\w+"#).unwrap();
        let mut seen = 0;
        for file in entries("src/compare/import") {
            let text = std::fs::read_to_string(file).unwrap();
            for found in written.captures_iter(&text) {
                seen += 1;
                assert!(Direction::of_metric(&found[1], Unit::Bytes).is_some(), "{}", &found[1]);
            }
        }
        assert!(seen > 30, "{seen} names");
    }

    /// Scans the standard library and the shipped scripts for their metrics.
    #[test]
    fn every_metric_of_a_shipped_experiment_has_a_direction() {
        let written = regex::Regex::new(r#"name: ["`]([a-z_0-9]+)[^"`]*["`], unit: "#).unwrap();
        let mut seen = 0;
        for file in ["stdlib", "stdlib/experiment", "scripts"].into_iter().flat_map(entries) {
            let Ok(text) = std::fs::read_to_string(&file) else {
                continue;
            };
            let shipped = text.lines().filter(|line| !line.trim_start().starts_with("///"));
            for found in shipped.flat_map(|line| written.captures_iter(line)) {
                seen += 1;
                assert!(
                    Direction::of_metric(&found[1], Unit::Milliseconds).is_some(),
                    "{}",
                    &found[1]
                );
            }
        }
        assert!(seen > 15, "{seen} names");
    }

    #[test]
    fn no_name_has_two_directions() {
        let text = [HIGHER, LOWER, NEUTRAL].concat();
        let all: Vec<&str> = text.split_whitespace().collect();
        for (index, name) in all.iter().enumerate() {
            assert!(!all[..index].contains(name), "{name}");
        }
        assert_eq!(
            Direction::of_metric("cuda_graphs", Unit::Count),
            Some(Direction::Neutral)
        );
        assert_eq!(Direction::of_metric("cuda_graphs", Unit::Bytes), Some(Direction::Less));
        assert_eq!(Direction::of_metric("colour", Unit::Count), None);
    }
}
