//! Which way a figure is better: the one place that knows it, for every name that runs and files of other tools give.
//!
//! A name without an entry is somebody's own: nothing is said of it unless a threshold names its side.

use serde::Serialize;

use super::Unit;
use crate::memory::Component;

/// Which way a figure is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// The more the better: throughput, room, what fits.
    More,
    /// The less the better: latency, memory that is spent, failures.
    Less,
    /// Neither: what was asked, how long it was looked, and what is gain and cost at once.
    Neutral,
}

/// What was done in a time, what fits, and the room for it.
const MORE: &[&str] = &[
    "request_throughput",
    "request_goodput",
    "output_throughput",
    "total_token_throughput",
    "max_output_tokens_per_s",
    "requests_per_second",
    "tokens_per_second",
    "kv_tokens",
    "largest_total_that_succeeded",
    "smallest_total_that_failed",
    "largest input + output that fits",
    "volume",
    "newly fitting",
];

/// What is lost, waited for, or spent on each engine whatever it serves.
const LESS: &[&str] = &[
    "failed",
    "cut_off",
    "preemptions",
    "newly failing",
    "start_time",
    "kv_tokens_lost",
    "physical",
    "memory",
    "memory_per_gpu",
    "memory_beside_kv",
    "memory_for_each_graph",
    "graphs_memory",
    "peak_memory",
    "mean_latency_ms",
    "mean_memory",
    "peak_memory_share",
    "increase_under_load",
    "overhead",
    "overhead_share",
    "total",
    "total_measured",
    "net_increase",
    "model_weights",
    "parameters_size",
    "framework_overhead",
    "multi_gpu_overhead",
    "graph_capture",
    "timeline_min",
    "timeline_mean",
    "timeline_median",
    "timeline_p95",
    "timeline_max",
    "allocated_after",
    "allocated_added",
    "allocated_overhead",
    "allocated_overhead_share",
    "max_allocated_after",
    "max_allocated_added",
    "reserved_after",
    "reserved_added",
    "reserved_overhead",
    "reserved_overhead_share",
    "reserved_for_each_graph",
];

const NEUTRAL: &[&str] = &[
    // How much was asked and looked at, and what follows from it at a given throughput.
    "issued",
    "completed",
    "duration",
    "elapsed_time",
    "prompts",
    "num_requests",
    "max_concurrent_requests",
    "total_input_tokens",
    "total_output_tokens",
    "runs",
    "samples",
    "sampled_for",
    "timeline_samples",
    "points",
    "succeeded",
    "not_succeeded",
    "additional_cuda_graphs",
    // What was there before.
    "allocated_before",
    "max_allocated_before",
    "reserved_before",
    "baseline",
    "baseline_memory",
    "total_memory",
    // A pool of KV cache is room and cost at once, and what is used of it follows what was asked.
    "kv_cache",
    "kv_cache_pool",
    "kv_cache_used",
    "peak_kv_usage",
    "mean_kv_usage",
    // A card that does more draws more.
    "power_mean",
    "power_max",
    "temperature_mean",
    "temperature_max",
];

/// Names of which only the beginning is known. What spreads is no figure of its own, the safest point may move along the boundary, and how many drafts there were says
/// nothing of their worth.
const BEGINNINGS: [(&str, Direction); 9] = [
    ("std_", Direction::Neutral),
    ("safe ", Direction::Neutral),
    ("recommended ", Direction::More),
    ("cuda_graphs_draft_", Direction::Neutral),
    ("kv_tokens_of_", Direction::More),
    ("scaling_efficiency_of_", Direction::More),
    ("spec_decode_acceptance", Direction::More),
    ("spec_decode_per_position_acceptance", Direction::More),
    ("spec_decode_", Direction::Neutral),
];

impl Direction {
    /// Which way the figure of that name is better; none where nobody said.
    #[must_use]
    pub fn of(name: &str, unit: Unit) -> Option<Self> {
        for (names, direction) in [(MORE, Self::More), (LESS, Self::Less), (NEUTRAL, Self::Neutral)] {
            if names.contains(&name) {
                return Some(direction);
            }
        }
        if let Some(component) = Component::ALL.into_iter().find(|component| component.name() == name) {
            return Some(of_component(component, unit));
        }
        let begun = BEGINNINGS.iter().find(|(beginning, _)| name.starts_with(beginning));
        begun
            .map(|(_, direction)| *direction)
            .or_else(|| (unit == Unit::Milliseconds && name.ends_with("_ms")).then_some(Self::Less))
    }
}

fn of_component(component: Component, unit: Unit) -> Direction {
    match component {
        // How many graphs there are is a choice.
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
    use crate::compare::{ComparisonInput, from_run, import};
    use crate::run::Found;

    #[track_caller]
    fn known(subject: &ComparisonInput) -> usize {
        let mut seen = 0;
        for figure in subject.cases.iter().flat_map(|case| &case.figures) {
            seen += 1;
            assert!(
                Direction::of(&figure.name, figure.unit).is_some(),
                "nobody said which way `{}` of {} is better",
                figure.name,
                subject.title
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
    fn every_figure_of_a_file_of_another_tool_has_a_direction() {
        let files = entries("tests/data/foreign").into_iter();
        let files = files.filter(|file| file.extension().is_some_and(|ending| ending != "md"));
        let seen: usize = files.map(|file| known(&import::read(&file).unwrap())).sum();
        assert!(seen > 100, "{seen} figures");
    }

    #[test]
    fn every_figure_of_a_real_run_has_a_direction() {
        let runs = entries("tests/data/runs").into_iter();
        let runs = runs.map(|run| ComparisonInput::of(&Found::read(&run).unwrap(), "a run").unwrap());
        let seen: usize = runs.map(|run| known(&run)).sum();
        assert!(seen > 20, "{seen} figures");
    }

    #[test]
    fn every_figure_of_a_load_has_a_direction() {
        for (name, unit) in from_run::names() {
            assert!(Direction::of(&name, unit).is_some(), "{name}");
        }
        assert_eq!(Direction::of("p99_ttft_ms", Unit::Milliseconds), Some(Direction::Less));
        assert_eq!(
            Direction::of("std_ttft_ms", Unit::Milliseconds),
            Some(Direction::Neutral)
        );
        for component in Component::ALL {
            assert!(Direction::of(component.name(), Unit::Bytes).is_some(), "{component}");
        }
    }

    /// Names that importers write out: what no fixture has is found in their source.
    #[test]
    fn every_figure_that_an_importer_names_has_a_direction() {
        let written = regex::Regex::new(r#"figure\(\s*"([a-z_0-9]+)"[^;]*?Unit::(\w+)"#).unwrap();
        let mut seen = 0;
        for file in entries("src/compare/import") {
            let text = std::fs::read_to_string(file).unwrap();
            for found in written.captures_iter(&text) {
                seen += 1;
                assert!(Direction::of(&found[1], Unit::Bytes).is_some(), "{}", &found[1]);
            }
        }
        assert!(seen > 30, "{seen} names");
    }

    /// The same of what the standard library and the shipped scripts measure and conclude.
    #[test]
    fn every_figure_of_a_shipped_experiment_has_a_direction() {
        let written = regex::Regex::new(r#"name: ["`]([a-z_0-9]+)[^"`]*["`], unit: "#).unwrap();
        let mut seen = 0;
        for file in ["stdlib", "stdlib/experiment", "scripts"].into_iter().flat_map(entries) {
            let Ok(text) = std::fs::read_to_string(&file) else {
                continue;
            };
            let shipped = text.lines().filter(|line| !line.trim_start().starts_with("///"));
            for found in shipped.flat_map(|line| written.captures_iter(line)) {
                seen += 1;
                assert!(Direction::of(&found[1], Unit::Milliseconds).is_some(), "{}", &found[1]);
            }
        }
        assert!(seen > 15, "{seen} names");
    }

    #[test]
    fn no_name_has_two_directions() {
        let all: Vec<&str> = [MORE, LESS, NEUTRAL].concat();
        for (index, name) in all.iter().enumerate() {
            assert!(!all[..index].contains(name), "{name}");
        }
        assert_eq!(Direction::of("cuda_graphs", Unit::Count), Some(Direction::Neutral));
        assert_eq!(Direction::of("cuda_graphs", Unit::Bytes), Some(Direction::Less));
        assert_eq!(Direction::of("colour", Unit::Count), None);
    }
}
