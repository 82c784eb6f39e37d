//! Sections that compare several runs: the differences, what fits, and loads in one chart. Each run is named by what
//! distinguishes it: engine, model, GPU and script if they differ, else parameters, else start time.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use crate::boundary::{self, Boundary, Easier, Point};
use crate::compare::ComparisonInput;
use crate::fmt::list;
use crate::report::comparison::{self, Comparison, MAX_NAMED, differences};
use crate::report::plot::{Colour, Entry, Layer, Panel, Plot, Sheet};
use crate::report::sections::boundaries::plot_axis;
use crate::report::sections::loads::{Sweep, comparison_section, distinguishing_labels, sweeps};
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
    let manifests: Vec<&Manifest> = sources.iter().map(|source| &source.found.manifest).collect();
    let names = distinct_names(&manifests, &sources.iter().map(user_name).collect::<Vec<_>>());
    let named: Vec<(&str, &Source)> = names.iter().map(String::as_str).zip(sources).collect();
    let inputs = named.iter();
    let inputs: Vec<_> = inputs
        .map(|(name, source)| ComparisonInput::from_run(source.found, name))
        .collect();
    let differing = Section::new("together-differences", "Differences");
    let (headline, differing) = match Comparison::new(&inputs) {
        Ok(found) => {
            let findings = comparison::findings(&found, &names, MAX_NAMED).into_iter();
            let findings = findings.map(|finding| finding + ".");
            let differing = differing.with(findings);
            let differing = differing.with(found.advice.clone()).with(differences(&found));
            (comparison::findings(&found, &names, 1).join("; "), differing)
        }
        Err(fault) => {
            let why = format!("The runs cannot be compared: {}", fault.message);
            (format!("{} runs", names.len()), differing.with([why]))
        }
    };
    let mut sections = vec![differing, runs(&named)];
    sections.extend(frontiers(&named));
    sections.extend(load_sections(&named));
    Together {
        headline,
        names,
        sections,
    }
}

/// The list of the runs.
fn runs(named: &[(&str, &Source)]) -> Section {
    let is_simulated = |source: &Source| source.found.manifest.simulated;
    let simulated = named.iter().filter(|(_, source)| is_simulated(source));
    let simulated: Vec<&str> = simulated.map(|one| one.0).collect();
    let mixed = !simulated.is_empty() && simulated.len() < named.len();
    let note = mixed.then(|| format!("SIMULATED, compared with measured runs: {}.", simulated.join("; ")));
    let rows = named.iter().enumerate().map(|(index, (name, source))| {
        let manifest = &source.found.manifest;
        let settings = settings(manifest);
        let setting = |key: &str| settings.get(key).and_then(Value::as_str).into();
        vec![
            format!("[{}] {name}", index + 1).into(),
            is_simulated(source).then_some("SIMULATED").into(),
            manifest.script.path.as_str().into(),
            setting("engine"),
            setting("model"),
            setting("GPU"),
            source.found.state().into(),
            manifest.run.as_str().into(),
        ]
    });
    let columns = ["name", "", "script", "engine", "model", "GPU", "status", "run"];
    let sheet = Sheet::new(columns, rows.collect::<Vec<Vec<Entry>>>());
    Section::new("together-runs", "The runs").with(note).with([sheet])
}

/// Maximum number of parameters in a name.
const MAX_PARAMETERS: usize = 3;

/// Settings that name a run, most important first.
const PRIMARY_KEYS: [&str; 4] = ["engine", "model", "GPU", "script"];

/// The name of the run's folder, or its start time if the folder's name was generated.
fn user_name(source: &Source) -> String {
    let manifest = &source.found.manifest;
    let folder = source.folder.path();
    let folder = folder.file_name().map(|name| name.to_string_lossy().into_owned());
    let folder = folder.filter(|name| *name != manifest.run);
    folder.unwrap_or_else(|| start_time(manifest))
}

fn start_time(manifest: &Manifest) -> String {
    manifest.started.get(..19).unwrap_or(&manifest.run).replace('T', " ")
}

/// A distinct name for each run.
fn distinct_names(manifests: &[&Manifest], user_names: &[String]) -> Vec<String> {
    let settings: Vec<Map<String, Value>> = manifests.iter().map(|manifest| settings(manifest)).collect();
    // Use as few settings as distinguish all runs.
    let mut names = Vec::new();
    for count in 1..=PRIMARY_KEYS.len() {
        names = labels(&settings, &PRIMARY_KEYS[..count]);
        if all_distinct(&names) {
            return names;
        }
    }
    let parameters: Vec<Map<String, Value>> = manifests.iter().map(|manifest| parameters(manifest)).collect();
    let keys: BTreeSet<&str> = parameters.iter().flat_map(Map::keys).map(String::as_str).collect();
    let differs = |key: &&str| parameters.iter().any(|one| one.get(*key) != parameters[0].get(*key));
    let differing: Vec<&str> = keys.into_iter().filter(differs).take(MAX_PARAMETERS).collect();
    extend(&mut names, &labels(&parameters, &differing));
    if !all_distinct(&names) {
        extend(&mut names, user_names);
    }
    let all = names.clone();
    for (index, name) in names.iter_mut().enumerate() {
        if name.is_empty() || all.iter().filter(|other| *other == name).count() > 1 {
            extend(std::slice::from_mut(name), &[format!("run {}", index + 1)]);
        }
    }
    names
}

/// For each run, those of the settings with these keys that differ between runs.
fn labels(settings: &[Map<String, Value>], keys: &[&str]) -> Vec<String> {
    let mut only = settings.to_vec();
    for one in &mut only {
        one.retain(|key, _| keys.contains(&key.as_str()));
    }
    distinguishing_labels(&only)
}

/// Adds to each name another part, if there is one.
fn extend(names: &mut [String], parts: &[String]) {
    for (name, part) in names.iter_mut().zip(parts) {
        let comma = if name.is_empty() || part.is_empty() { "" } else { ", " };
        name.extend([comma, part]);
    }
}

fn all_distinct(names: &[String]) -> bool {
    let all: BTreeSet<&String> = names.iter().filter(|name| !name.is_empty()).collect();
    // A run may lack the settings that name the others; its name is then empty.
    all.len() == names.len()
}

/// The settings of [`PRIMARY_KEYS`] that are known.
fn settings(manifest: &Manifest) -> Map<String, Value> {
    let engine = manifest.engines.first();
    let engine = engine.map(facts::StartedEngine);
    // Of an attached server, nobody said which GPUs it uses.
    let any_gpu = || Some(manifest.gpus.first()?["name"].as_str()?.to_owned());
    let all = [
        engine.as_ref().and_then(|engine| engine.name("")),
        engine.as_ref().and_then(facts::StartedEngine::model),
        facts::cards(manifest).into_iter().next().or_else(any_gpu),
        Some(manifest.script.name.clone()),
    ];
    let known = PRIMARY_KEYS.into_iter().zip(all);
    known
        .filter_map(|(key, value)| Some((key.to_owned(), value?.into())))
        .collect()
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

/// A run, its boundary, and the largest points of it that fit.
type Frontier<'a> = (&'a str, &'a Boundary, Vec<Point>);

/// What fits: of each run the first boundary with the same axes as another run's, in words; over two axes also as a chart.
fn frontiers(named: &[(&str, &Source)]) -> Option<Section> {
    let mut groups: BTreeMap<Vec<&str>, Vec<Frontier>> = BTreeMap::new();
    for (name, source) in named {
        for boundary in source.boundaries.iter().filter_map(|(_, map)| map.as_ref().ok()) {
            let Ok(frontier) = boundary.frontier() else { continue };
            let axes = boundary.lattice().axes().iter().map(boundary::Axis::name);
            let group = groups.entry(axes.filter(|axis| boundary.varies(axis)).collect());
            let group = group.or_default();
            if group.iter().all(|other| other.0 != *name) {
                group.push((name, boundary, frontier));
            }
        }
    }
    groups.retain(|_, runs| runs.len() > 1);
    let mut section = Section::new("together-frontiers", "What fits");
    for (axes, runs) in &groups {
        let words: Vec<String> = runs.iter().map(frontier_text).collect();
        let mut all = runs.iter().flat_map(|(_, boundary, _)| boundary.lattice().axes());
        let plot = match axes[..] {
            [x, y] if all.all(|axis| axis.easier() == Easier::Down) => {
                let name = format!("together-frontier-{}", section.plots().len() + 1);
                let plot = Plot::new(
                    name,
                    format!("The largest {x} and {y} that fit"),
                    [frontier_panel([x, y], runs)],
                );
                let caption =
                    "Each line is how far a run is confirmed to fit: everything below and to the left of it fits.";
                Some(plot.with_words(words.join(" "), caption))
            }
            _ => None,
        };
        section = section.with(words).with(plot);
    }
    (!groups.is_empty()).then_some(section)
}

fn frontier_text((name, _, frontier): &Frontier) -> String {
    let size = |point: &Point| point.0.values().map(|value| value.as_f64()).sum::<f64>();
    let largest = frontier.iter().max_by(|a, b| size(a).total_cmp(&size(b)));
    match (largest, frontier.len()) {
        (Some(largest), 1) => format!("{name}: {largest} fits."),
        (Some(largest), points) => format!("{name}: {largest} fits (the largest of {points} frontier points)."),
        (None, _) => format!("{name}: nothing is confirmed to fit."),
    }
}

fn frontier_panel(names: [&str; 2], runs: &[Frontier]) -> Panel {
    let of_name = |name: &str| {
        let axes = runs.iter().flat_map(|(_, boundary, _)| boundary.lattice().axes());
        axes.filter(|axis| axis.name() == name).collect::<Vec<_>>()
    };
    let corner = names.map(|name| {
        let lows = of_name(name).into_iter().map(|axis| axis.range().0.as_f64());
        lows.fold(f64::INFINITY, f64::min)
    });
    let lines = runs.iter().enumerate().map(|(index, (run, _, frontier))| {
        let points = frontier.iter().filter_map(|point| {
            let at = |name: &str| point.0.get(name).map(|value| value.as_f64());
            Some((at(names[0])?, at(names[1])?))
        });
        let mut points: Vec<(f64, f64)> = points.collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0).then(b.1.total_cmp(&a.1)));
        Layer::line(*run, outline(&points, corner.into()), Colour::Series(index))
    });
    let [x, y] = names.map(|name| of_name(name).into_iter().next().map(plot_axis).unwrap_or_default());
    Panel::new("", x, y, lines)
}

/// The line around what fits, from the upper left to the lower right. `points` are of the frontier, by ascending x and
/// descending y.
fn outline(points: &[(f64, f64)], corner: (f64, f64)) -> Vec<(f64, Option<f64>)> {
    let mut line = Vec::new();
    let mut left = corner.0;
    for (x, y) in points {
        line.extend([(left, Some(*y)), (*x, Some(*y))]);
        left = *x;
    }
    line.extend(points.last().map(|(x, _)| (*x, Some(corner.1))));
    line.dedup();
    line
}

/// One section for each sweep axis.
fn load_sections(named: &[(&str, &Source)]) -> Vec<Section> {
    let all = named.iter().flat_map(|(name, source)| {
        let sweeps = sweeps(source.found).into_iter();
        sweeps.map(move |mut sweep| {
            let own = std::mem::replace(&mut sweep.name, (*name).to_owned());
            extend(std::slice::from_mut(&mut sweep.name), &[own]);
            sweep
        })
    });
    let all: Vec<Sweep> = all.collect();
    let axes: BTreeSet<&str> = all.iter().map(|sweep| sweep.axis.name()).collect();
    let sections = axes.into_iter().filter_map(|axis| {
        let same_axis: Vec<&Sweep> = all.iter().filter(|sweep| sweep.axis.name() == axis).collect();
        let (name, title) = (format!("together-{axis}"), format!("Loads along {axis}"));
        let section = comparison_section(&same_axis, &name, &title)?;
        Some(section.with(workload_differences(&same_axis)))
    });
    sections.collect()
}

/// Workload settings that differ and make the curves incomparable.
fn workload_differences(sweeps: &[&Sweep]) -> Option<String> {
    let differs = |key: &str| {
        let values = sweeps.iter().map(|sweep| sweep.settings.get(key));
        let values = values.map(|value| value.map_or_else(|| "none".to_owned(), ToString::to_string));
        let values: Vec<String> = values.collect::<BTreeSet<_>>().into_iter().collect();
        (values.len() > 1).then(|| format!("{key} ({})", values.join(" against ")))
    };
    let keys = ["input", "output", "shared_prefix", "prompts"];
    let differences = list(&keys.into_iter().filter_map(differs).collect::<Vec<_>>());
    (!differences.is_empty())
        .then(|| format!("Their workloads differ in {differences}, so their throughput is not comparable."))
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
