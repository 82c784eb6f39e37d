//! Which direction of a metric is better: the only place that knows this, for the metrics of runs and of other
//! tools.
//!
//! A name that is not listed belongs to a script's author: no direction is assumed.

use serde::Serialize;

use super::Unit;
use super::load_metrics::LoadMetric;
use crate::memory::Component;

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
    largest_total_that_succeeded smallest_total_that_failed largest_input_+_output_that_fits volume newly_fitting
";

/// Losses, waiting, and costs of each engine whatever it serves.
const LOWER: &str = "
    newly_failing start_time kv_tokens_lost mean_latency_ms
    physical memory memory_per_gpu memory_beside_kv memory_for_each_graph graphs_memory
    overhead overhead_share total total_measured net_increase
    model_weights framework_overhead graph_capture
    timeline_min timeline_mean timeline_median timeline_p95 timeline_max
    allocated_after allocated_added allocated_overhead allocated_overhead_share
    max_allocated_after max_allocated_added
    reserved_after reserved_added reserved_overhead reserved_overhead_share reserved_for_each_graph
";

/// Settings, the extent of a measurement, and what follows from them at a given throughput. The state before the
/// measurement. A KV pool is both capacity and cost, and its use follows the load. A GPU that does more draws more
/// power.
const NEUTRAL: &str = "
    elapsed_time prompts num_requests max_concurrent_requests total_input_tokens total_output_tokens
    runs timeline_samples points succeeded not_succeeded additional_cuda_graphs
    allocated_before max_allocated_before reserved_before baseline
    kv_cache kv_cache_pool kv_cache_used
    power_mean power_max temperature_mean temperature_max
";

/// Prefixes of names. A standard deviation is no result of its own, and the number of drafts says nothing about their quality.
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
        let files = entries("tests/data/foreign").into_iter();
        let files = files.filter(|file| file.extension().is_some_and(|ending| ending != "md"));
        let seen: usize = files.map(|file| check_directions(&import::read(&file).unwrap())).sum();
        assert!(seen > 100, "{seen} figures");
    }

    #[test]
    fn every_metric_of_a_real_run_has_a_direction() {
        let runs = entries("tests/data/runs").into_iter();
        let runs = runs.map(|run| ComparisonInput::from_run(&RecordedRun::read(&run).unwrap(), "a run"));
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

    /// Importers spell out their metrics' names: this finds those that no fixture has.
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

    /// The same for the metrics of the standard library and the shipped scripts.
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
        let all = [HIGHER, LOWER, NEUTRAL].concat();
        let all: Vec<&str> = all.split_whitespace().collect();
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
