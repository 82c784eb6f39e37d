//! Reads `summary.json` and `summary.csv` of `vllm bench sweep`: many runs; those with equal settings are
//! averaged.

use std::collections::{BTreeSet, HashMap};

use serde::Deserialize;

use super::lenient::bounded_list;
use super::scalars::{Scalar, Scalars};
use super::source::{Shape, Source};
use super::vllm_bench::{self, TOOL};
use crate::compare::ComparisonInput;
use crate::compare::{Case, Metric, Unit};
use crate::fault::Result;

#[derive(Deserialize)]
#[serde(transparent)]
struct Runs(#[serde(deserialize_with = "bounded_list")] Vec<Scalars>);

/// Keys that differ between runs with equal settings.
const OF_EACH: [&str; 6] = ["date", "run_number", "label", "endpoint_type", "burstiness", ""];

pub(super) fn read(source: &Source) -> Result<ComparisonInput> {
    let runs = match &source.shape {
        Shape::Table(_) => source.rows(TOOL)?.into_iter().map(Scalars::from_row).collect(),
        _ => source.parse::<Runs>(TOOL)?.0,
    };
    let mut groups: Vec<(String, Vec<&Scalars>)> = Vec::new();
    let mut known: HashMap<String, usize> = HashMap::new();
    let swept = swept(&runs);
    for run in &runs {
        let name = name(run, &swept);
        let index = *known.entry(name.clone()).or_insert(groups.len());
        match groups.get_mut(index) {
            Some((_, group)) => group.push(run),
            None => groups.push((name, vec![run])),
        }
    }
    let mut notes: BTreeSet<String> = runs.iter().flat_map(vllm_bench::notes).collect();
    if groups.len() < runs.len() {
        notes.insert("runs of equal settings are averaged; `runs` says how many".to_owned());
    }
    let first = runs.first();
    Ok(ComparisonInput {
        model: first.and_then(|run| run.text("model_id")),
        engine: Some(
            first
                .and_then(|run| run.text("backend"))
                .unwrap_or_else(|| "vllm".to_owned()),
        ),
        cases: groups.iter().map(|(name, group)| mean(name, group)).collect(),
        notes: notes.into_iter().collect(),
        ..ComparisonInput::default()
    })
}

/// Settings that differ between the runs, except concurrency and rate, which every name has.
fn swept(runs: &[Scalars]) -> BTreeSet<String> {
    let cases = runs.iter().map(vllm_bench::case);
    let measured: BTreeSet<String> = cases.flat_map(|case| case.figures).map(|figure| figure.name).collect();
    let names: BTreeSet<&String> = runs.iter().flat_map(|run| run.0.keys()).collect();
    let differs = |name: &&String| {
        let mut values = runs.iter().map(|run| run.0.get(*name));
        let first = values.next().flatten();
        values.any(|value| value != first)
    };
    names
        .into_iter()
        .filter(|name| !OF_EACH.contains(&name.as_str()))
        .filter(|name| !["max_concurrency", "request_rate", "num_prompts"].contains(&name.as_str()))
        .filter(|name| !measured.contains(*name))
        .filter(differs)
        .cloned()
        .collect()
}

fn name(run: &Scalars, swept: &BTreeSet<String>) -> String {
    let mut name = vllm_bench::case(run).name;
    for key in swept {
        if let Some(value) = run.0.get(key).map(Scalar::to_string) {
            name.push_str(&format!(" {key}={value}"));
        }
    }
    name
}

/// The means of the metrics that all runs of a group have.
fn mean(name: &str, group: &[&Scalars]) -> Case {
    let cases: Vec<Case> = group.iter().map(|run| vllm_bench::case(run)).collect();
    let mut mean = Case::new(name);
    let Some(first) = cases.first() else { return mean };
    mean.facts = first.facts.clone();
    let count = cases.len() as f64;
    for figure in &first.figures {
        let values = cases.iter().map(|case| {
            let same = |other: &&Metric| other.name == figure.name;
            case.figures.iter().find(same).map(|figure| figure.value)
        });
        let sum: Option<f64> = values.sum();
        mean.metric(&figure.name, sum.map(|sum| sum / count), figure.unit);
    }
    if cases.len() > 1 {
        mean.metric("runs", Some(count), Unit::Count);
    }
    mean
}
