//! Sections that compare several runs: one chart and table for each kind of result. Each run is named by what
//! distinguishes it: engine, model, GPU and script if they differ, else parameters, else start time.

mod bars;
mod frontiers;

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use crate::compare::ComparisonInput;
use crate::fault::Result;
use crate::report::comparison::{self, Comparison, MAX_NAMED, differences};
use crate::report::plot::{Entry, Sheet};
use crate::report::sections::format::list;
use crate::report::sections::loads::{
    Sweep, SweepFindings, comparison_section, distinguishing_labels, findings, sweeps,
};
use crate::report::sections::{Section, Source, facts};
use crate::run::Manifest;

/// What a page of several runs begins with.
#[derive(Clone, Debug, Default)]
pub struct Together {
    /// The result of the comparison in one line.
    pub headline: String,
    /// A distinct name of each run.
    pub names: Vec<String>,
    /// The sections; none for fewer than two runs.
    pub sections: Vec<Section>,
}

/// The comparison of several runs with the first.
pub(super) fn together(sources: &[Source]) -> Together {
    if sources.len() < 2 {
        return Together::default();
    }
    let names = names(sources);
    let named: Vec<(&str, &Source)> = names.iter().map(String::as_str).zip(sources).collect();
    let (headline, differences) = match compare(&named) {
        Ok(comparison) => (
            comparison::findings(&comparison, &names, 1).join("; "),
            differences_section(&names, &comparison),
        ),
        Err(fault) => (
            format!("{} runs", names.len()),
            Section {
                paragraphs: vec![format!("The runs cannot be compared: {}", fault.message)],
                ..differences_section(&names, &Comparison::default())
            },
        ),
    };
    let mut sections = vec![differences, runs(&named)];
    sections.extend(frontiers::section(&named));
    sections.extend(load_sections(&named));
    sections.extend(bars::memory_section(&named));
    sections.extend(bars::experiment_sections(&named));
    Together {
        headline,
        names,
        sections,
    }
}

fn compare(named: &[(&str, &Source)]) -> Result<Comparison> {
    let inputs = named
        .iter()
        .map(|(name, source)| ComparisonInput::from_run(source.found, name));
    Comparison::new(&inputs.collect::<Result<Vec<_>>>()?)
}

/// The findings, and every metric that several runs have.
fn differences_section(names: &[String], comparison: &Comparison) -> Section {
    Section {
        name: "together-differences".to_owned(),
        title: "Differences".to_owned(),
        paragraphs: comparison::findings(comparison, names, MAX_NAMED)
            .into_iter()
            .map(|finding| finding + ".")
            .chain(comparison.advice.iter().cloned())
            .collect(),
        sheets: differences(comparison),
        ..Section::default()
    }
}

/// The list of the runs.
fn runs(named: &[(&str, &Source)]) -> Section {
    let simulated: Vec<&str> = named
        .iter()
        .filter(|(_, source)| source.found.manifest.simulated)
        .map(|one| one.0)
        .collect();
    let mut paragraphs = Vec::new();
    if !simulated.is_empty() && simulated.len() < named.len() {
        paragraphs.push(format!(
            "SIMULATED, compared with measured runs: {}.",
            simulated.join("; ")
        ));
    }
    let rows = named.iter().enumerate().map(|(index, (name, source))| {
        let manifest = &source.found.manifest;
        let settings = settings(manifest);
        let setting = |key: &str| {
            settings
                .get(key)
                .and_then(|value| value.as_str())
                .map_or(Entry::None, Entry::from)
        };
        vec![
            format!("[{}] {name}", index + 1).into(),
            if manifest.simulated {
                "SIMULATED".into()
            } else {
                Entry::None
            },
            manifest.script.path.as_str().into(),
            setting("engine"),
            setting("model"),
            setting("GPU"),
            source.found.state().into(),
            manifest.run.as_str().into(),
        ]
    });
    Section {
        name: "together-runs".to_owned(),
        title: "The runs".to_owned(),
        paragraphs,
        sheets: vec![Sheet::new(
            ["name", "", "script", "engine", "model", "GPU", "status", "run"],
            rows,
        )],
        ..Section::default()
    }
}

/// Maximum number of parameters in a name.
const MAX_PARAMETERS: usize = 3;

/// Settings that name a run, most important first.
const PRIMARY_KEYS: [&str; 4] = ["engine", "model", "GPU", "script"];

/// A distinct name for each run.
fn names(sources: &[Source]) -> Vec<String> {
    let manifests: Vec<&Manifest> = sources.iter().map(|source| &source.found.manifest).collect();
    let user_name: Vec<String> = sources.iter().map(user_name).collect();
    distinct_names(&manifests, &user_name)
}

/// The name of the run's folder, or its start time if the folder's name was generated.
fn user_name(source: &Source) -> String {
    let manifest = &source.found.manifest;
    let folder = source
        .folder
        .path()
        .file_name()
        .map(|name| name.to_string_lossy().into_owned());
    folder
        .filter(|name| *name != manifest.run)
        .unwrap_or_else(|| start_time(manifest))
}

fn start_time(manifest: &Manifest) -> String {
    manifest.started.get(..19).unwrap_or(&manifest.run).replace('T', " ")
}

fn distinct_names(manifests: &[&Manifest], user_name: &[String]) -> Vec<String> {
    let settings: Vec<Map<String, Value>> = manifests.iter().map(|manifest| settings(manifest)).collect();
    // Use as few settings as distinguish all runs.
    let mut names = Vec::new();
    for count in 1..=PRIMARY_KEYS.len() {
        let only = settings.iter().map(|one| {
            let present = PRIMARY_KEYS[..count]
                .iter()
                .filter_map(|key| Some(((*key).to_owned(), one.get(*key)?.clone())));
            present.collect()
        });
        names = distinguishing_labels(&only.collect::<Vec<Map<String, Value>>>());
        if all_distinct(&names) {
            return names;
        }
    }
    let parameters: Vec<Map<String, Value>> = manifests.iter().map(|manifest| parameters(manifest)).collect();
    let keys: BTreeSet<&String> = parameters.iter().flat_map(Map::keys).collect();
    let differs = |key: &&&String| parameters.iter().any(|one| one.get(**key) != parameters[0].get(**key));
    let kept: Vec<&String> = keys.iter().filter(differs).take(MAX_PARAMETERS).copied().collect();
    let only = parameters.iter().map(|one| {
        let present = kept
            .iter()
            .filter_map(|key| Some(((*key).clone(), one.get(*key)?.clone())));
        present.collect()
    });
    let labels = distinguishing_labels(&only.collect::<Vec<Map<String, Value>>>());
    for (name, labels) in names.iter_mut().zip(labels) {
        *name = join_labels(name, &labels);
    }
    if !all_distinct(&names) {
        for (name, user_name) in names.iter_mut().zip(user_name) {
            *name = join_labels(name, user_name);
        }
    }
    let all = names.clone();
    for (index, name) in names.iter_mut().enumerate() {
        if name.is_empty() || all.iter().filter(|other| *other == name).count() > 1 {
            *name = join_labels(name, &format!("run {}", index + 1));
        }
    }
    names
}

fn join_labels(one: &str, other: &str) -> String {
    let both = [one, other].into_iter().filter(|part| !part.is_empty());
    both.collect::<Vec<_>>().join(", ")
}

fn all_distinct(names: &[String]) -> bool {
    let all: BTreeSet<&String> = names.iter().filter(|name| !name.is_empty()).collect();
    // A run may lack the settings that name the others; its name is then empty.
    all.len() == names.len()
}

/// The settings of [`PRIMARY_KEYS`] that are known.
fn settings(manifest: &Manifest) -> Map<String, Value> {
    let engine = manifest.engines.first();
    let info = |name: &str| engine.and_then(|engine| engine["info"][name].as_str());
    let mut all = Map::new();
    let mut add = |name: &str, value: Option<String>| {
        if let Some(value) = value {
            all.insert(name.to_owned(), value.into());
        }
    };
    add(
        "engine",
        info("engine")
            .map(|name| info("version").map_or_else(|| name.to_owned(), |version| format!("{name} {version}"))),
    );
    add(
        "model",
        info("model")
            .or_else(|| engine.and_then(|engine| engine["options"]["model"].as_str()))
            .map(str::to_owned),
    );
    let gpus: Vec<&str> = manifest.gpus.iter().filter_map(|gpu| gpu["name"].as_str()).collect();
    let several = if gpus.len() > 1 {
        format!("{} × ", gpus.len())
    } else {
        String::new()
    };
    let simulated = || facts::cards(manifest).into_iter().next();
    add(
        "GPU",
        gpus.first().map(|name| format!("{several}{name}")).or_else(simulated),
    );
    add("script", Some(manifest.script.name.clone()));
    all
}

/// The run's parameters without those that name it already.
fn parameters(manifest: &Manifest) -> Map<String, Value> {
    let all = manifest.parameters.as_ref().and_then(Value::as_object);
    let mut all = all.unwrap_or(&manifest.set).clone();
    all.retain(|name, value| {
        !value.is_null() && !["engine", "model", "seed", "port", "url", "container"].contains(&name.as_str())
    });
    all
}

/// One section for each sweep axis.
fn load_sections(named: &[(&str, &Source)]) -> Vec<Section> {
    let mut all: Vec<(Sweep, SweepFindings)> = Vec::new();
    for (name, source) in named {
        for mut sweep in sweeps(source.found) {
            let findings = findings(&sweep, source.found);
            sweep.name = if sweep.name.is_empty() {
                (*name).to_owned()
            } else {
                format!("{name}, {}", sweep.name)
            };
            all.push((sweep, findings));
        }
    }
    let axes: BTreeSet<&str> = all.iter().map(|(sweep, _)| sweep.axis.name()).collect();
    let parts = axes.into_iter().filter_map(|name| {
        let same_axis: Vec<(&Sweep, &SweepFindings)> = all
            .iter()
            .filter(|(sweep, _)| sweep.axis.name() == name)
            .map(|(sweep, findings)| (sweep, findings))
            .collect();
        let mut section = comparison_section(&same_axis, &format!("together-{name}"), &format!("Loads along {name}"))?;
        section.paragraphs.extend(workload_differences(&same_axis));
        Some(section)
    });
    parts.collect()
}

/// Workload settings that differ and make the curves incomparable.
fn workload_differences(sweeps: &[(&Sweep, &SweepFindings)]) -> Option<String> {
    let differences = ["input", "output", "shared_prefix", "prompts"]
        .into_iter()
        .filter_map(|key| {
            let text = |sweep: &Sweep| {
                sweep
                    .settings
                    .get(key)
                    .map_or_else(|| "none".to_owned(), ToString::to_string)
            };
            let all: BTreeSet<String> = sweeps.iter().map(|(sweep, _)| text(sweep)).collect();
            (all.len() > 1).then(|| format!("{key} ({})", all.into_iter().collect::<Vec<_>>().join(" against ")))
        });
    let differences: Vec<String> = differences.collect();
    (!differences.is_empty()).then(|| {
        format!(
            "Their workloads differ in {}, so their throughput is not comparable.",
            list(&differences)
        )
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn manifest(engine: &str, parameters: Value, started: &str) -> Manifest {
        serde_json::from_value(json!({
            "schema": 1, "profiler": "0.1.0", "run": "r", "status": "done", "started": started, "ended": null,
            "script": { "name": "throughput", "path": "throughput", "sha256": "" }, "modules": {}, "set": {},
            "parameters": parameters, "seed": 1, "permissions": [], "simulated": false,
            "engines": [{ "info": { "engine": engine, "version": "1.0", "model": "m" } }],
            "gpus": [{ "name": "H200" }], "driver": null, "host": { "name": "", "kernel": "", "cpus": 1 },
        }))
        .unwrap()
    }

    fn named(all: &[Manifest]) -> Vec<String> {
        distinct_names(
            &all.iter().collect::<Vec<_>>(),
            &all.iter().map(start_time).collect::<Vec<_>>(),
        )
    }

    #[test]
    fn runs_are_named_by_what_differs() {
        let when = "2026-11-21T10:59:56.849Z";
        assert_eq!(
            named(&[
                manifest("vllm", json!({ "dtype": "a" }), when),
                manifest("tgi", json!({ "dtype": "b" }), when)
            ]),
            ["vllm 1.0", "tgi 1.0"]
        );
        assert_eq!(
            named(&[
                manifest("vllm", json!({ "dtype": "a" }), when),
                manifest("vllm", json!({ "dtype": "b" }), when)
            ]),
            ["dtype=a", "dtype=b"]
        );
        let later = "2026-11-22T10:59:56.849Z";
        assert_eq!(
            named(&[manifest("vllm", json!({}), when), manifest("vllm", json!({}), later)]),
            ["2026-11-21 10:59:56", "2026-11-22 10:59:56"]
        );
        assert_eq!(
            named(&[manifest("vllm", json!({}), when), manifest("vllm", json!({}), when)]),
            ["2026-11-21 10:59:56, run 1", "2026-11-21 10:59:56, run 2"]
        );
    }
}
