//! Sections that compare several runs: the differences, what fits, and loads in one chart. Each run is named by what
//! distinguishes it: engine, model, GPU and script if they differ, else parameters, else start time.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use crate::boundary::{self, Boundary, Easier, Point};
use crate::compare::ComparisonInput;
use crate::fmt::list;
use crate::report::comparison::{self, Comparison, comparison_sections, setup_table};
use crate::report::document::Section;
use crate::report::plot::{Colour, Layer, Panel, Plot, Sheet};
use crate::report::sections::boundaries::plot_axis;
use crate::report::sections::loads::{Sweep, comparison_section, distinguishing_labels, extend, number_alike, sweeps};
use crate::report::sections::serving::serving_section;
use crate::report::sections::source::Source;

/// The comparison at the top of a page with several runs.
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
    let mut inputs: Vec<ComparisonInput> = sources
        .iter()
        .map(|source| ComparisonInput {
            // Each run's own part of the page has its notes.
            notes: Vec::new(),
            ..ComparisonInput::from_run(source.found, &user_name(source))
        })
        .collect();
    let names = distinct_names(&inputs);
    for (input, name) in inputs.iter_mut().zip(&names) {
        input.title.clone_from(name);
    }
    let named: Vec<(&str, &Source)> = names.iter().map(String::as_str).zip(sources).collect();
    let section = Section::new("together-differences", "Differences");
    let (headline, differences) = match Comparison::new(&inputs) {
        Ok(found) => {
            let parts = comparison_sections(&inputs, &found, &found.findings).into_iter();
            let headline = comparison::findings(&found, &names, 1).join("; ");
            (headline, section.with(parts.flat_map(|part| part.blocks)))
        }
        Err(fault) => {
            let why = format!("The runs cannot be compared: {}", fault.message);
            let headline = format!("{} runs", names.len());
            (headline, section.with([why]).with([setup_table(&inputs)]))
        }
    };
    let facts = (1..).zip(&named).map(|(number, (name, source))| {
        let manifest = &source.found.manifest;
        [
            ("name", format!("[{number}] {name}").into()),
            ("", manifest.simulated.then_some("SIMULATED").into()),
            ("status", source.found.state().into()),
            ("run", manifest.run.as_str().into()),
        ]
    });
    let runs = Section::new("together-runs", "The runs").with([Sheet::from_rows(facts)]);
    let mut sections = vec![differences, runs];
    sections.extend(frontiers(&named));
    sections.extend(load_sections(&named));
    let served: Vec<_> = (inputs.iter())
        .map(|input| (input.title.as_str(), input.serving.as_slice()))
        .collect();
    sections.extend(serving_section("together-serving", &served));
    Together {
        headline,
        names,
        sections,
    }
}

/// The name of the run's folder, or its start time if the folder's name was generated.
fn user_name(source: &Source) -> String {
    let manifest = &source.found.manifest;
    let folder = source
        .folder
        .path()
        .file_name()
        .map(|name| name.to_string_lossy().into_owned())
        .filter(|name| *name != manifest.run);
    let started = || manifest.started.get(..19).unwrap_or(&manifest.run).replace('T', " ");
    folder.unwrap_or_else(started)
}

/// Maximum number of parameters in a name.
const MAX_PARAMETERS: usize = 3;

/// Settings that name a run, most important first.
const PRIMARY_KEYS: [&str; 4] = ["engine", "model", "GPU", "script"];

/// A distinct name for each run, made of the fewest settings that distinguish all runs, then parameters, then titles.
fn distinct_names(inputs: &[ComparisonInput]) -> Vec<String> {
    let settings: Vec<Map<String, Value>> = inputs.iter().map(settings).collect();
    let differs = |key: &&str| settings.iter().any(|one| one.get(*key) != settings[0].get(*key));
    let set: BTreeSet<&str> = settings.iter().flat_map(Map::keys).map(String::as_str).collect();
    let parameters = set
        .into_iter()
        .filter(|key| !PRIMARY_KEYS.contains(key) && differs(key))
        .take(MAX_PARAMETERS);
    let keys: Vec<&str> = PRIMARY_KEYS.into_iter().chain(parameters).collect();
    let mut names = Vec::new();
    for count in 1..=keys.len() {
        let mut only = settings.clone();
        for one in &mut only {
            one.retain(|key, _| keys[..count].contains(&key.as_str()));
        }
        names = distinguishing_labels(&only);
        let distinct: BTreeSet<&String> = names.iter().filter(|name| !name.is_empty()).collect();
        // A run may lack the settings that name the others; its name is then empty.
        if distinct.len() == names.len() {
            return names;
        }
    }
    for (name, input) in names.iter_mut().zip(inputs) {
        extend(name, &input.title);
    }
    number_alike(&mut names, "run ");
    names
}

/// The settings that may name a run: the known ones of [`PRIMARY_KEYS`], and parameters that do not repeat them.
fn settings(input: &ComparisonInput) -> Map<String, Value> {
    let unnamed = ["engine", "model", "seed", "port", "url", "container"];
    let own = [("engine", &input.engine), ("model", &input.model)]
        .into_iter()
        .filter_map(|(key, value)| Some((key, value.as_ref()?)));
    let setup = input
        .setup
        .iter()
        .filter_map(|(key, value)| match key.strip_prefix("parameter ") {
            Some(parameter) => (!unnamed.contains(&parameter) && value != "null").then_some((parameter, value)),
            None => matches!(key.as_str(), "GPU" | "script" | "simulated profile").then_some((key.as_str(), value)),
        });
    let all = own.chain(setup);
    all.map(|(key, value)| (key.to_owned(), value.as_str().into()))
        .collect()
}

/// The name of a run, its boundary, and the largest points that fit.
type Frontier<'a> = (&'a str, &'a Boundary, Vec<Point>);

/// Compares what fits: for each run, the first boundary with the same axes as a boundary of another run. In words, and
/// for two axes also as a chart.
fn frontiers(named: &[(&str, &Source)]) -> Option<Section> {
    let mut groups: BTreeMap<Vec<&str>, Vec<Frontier>> = BTreeMap::new();
    for (name, source) in named {
        for boundary in source.boundaries.iter().filter_map(|(_, map)| map.as_ref().ok()) {
            let Ok(frontier) = boundary.frontier() else { continue };
            let axes = boundary.lattice().axes().iter().map(boundary::Axis::name);
            let group = groups
                .entry(axes.filter(|axis| boundary.varies(axis)).collect())
                .or_default();
            if group.iter().all(|other| other.0 != *name) {
                group.push((name, boundary, frontier));
            }
        }
    }
    groups.retain(|_, runs| runs.len() > 1);
    let mut section = Section::new("together-frontiers", "What fits");
    for (axes, runs) in &groups {
        let texts: Vec<String> = runs.iter().map(frontier_text).collect();
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
                Some(plot.with_alt(texts.join(" "), caption))
            }
            _ => None,
        };
        section = section.with(texts).with(plot);
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
        let mut points: Vec<(f64, f64)> = frontier
            .iter()
            .filter_map(|point| {
                let at = |name: &str| point.0.get(name).map(|value| value.as_f64());
                Some((at(names[0])?, at(names[1])?))
            })
            .collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0).then(b.1.total_cmp(&a.1)));
        Layer::line(*run, outline(&points, corner.into()), Colour::Series(index))
    });
    let [x, y] = names.map(|name| of_name(name).into_iter().next().map(plot_axis).unwrap_or_default());
    Panel::new("", x, y, lines)
}

/// The outline of the region that fits, from the upper left to the lower right. `points` are the frontier, by ascending
/// x and descending y.
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
    let all: Vec<Sweep> = named
        .iter()
        .flat_map(|(name, source)| {
            sweeps(source.found).into_iter().map(move |mut sweep| {
                let own = std::mem::replace(&mut sweep.name, (*name).to_owned());
                extend(&mut sweep.name, &own);
                sweep
            })
        })
        .collect();
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
        let values: Vec<String> = sweeps
            .iter()
            .map(|sweep| sweep.settings.get(key))
            .map(|value| value.map_or_else(|| "none".to_owned(), ToString::to_string))
            .collect::<BTreeSet<_>>()
            .into_iter()
            .collect();
        (values.len() > 1).then(|| format!("{key} ({})", values.join(" against ")))
    };
    let keys = ["input", "output", "shared_prefix", "prompts"];
    let differences = list(&keys.into_iter().filter_map(differs).collect::<Vec<_>>());
    (!differences.is_empty())
        .then(|| format!("Their workloads differ in {differences}, so their throughput is not comparable."))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(inputs: [(&str, &str, &str); 2]) -> Vec<String> {
        let inputs = inputs.map(|(engine, dtype, title)| ComparisonInput {
            title: title.to_owned(),
            engine: Some(engine.to_owned()),
            model: Some("m".to_owned()),
            setup: [("parameter dtype".to_owned(), dtype.to_owned())].into(),
            ..ComparisonInput::default()
        });
        distinct_names(&inputs)
    }

    #[test]
    fn runs_are_named_by_what_differs() {
        let (one, other) = ("2026-11-21 10:59:56", "2026-11-22 10:59:56");
        assert_eq!(
            named([("vllm 1.0", "a", one), ("tgi 1.0", "b", one)]),
            ["vllm 1.0", "tgi 1.0"]
        );
        assert_eq!(
            named([("vllm 1.0", "a", one), ("vllm 1.0", "b", one)]),
            ["dtype=a", "dtype=b"]
        );
        assert_eq!(named([("vllm 1.0", "a", one), ("vllm 1.0", "a", other)]), [one, other]);
        assert_eq!(
            named([("vllm 1.0", "a", one), ("vllm 1.0", "a", one)]),
            ["2026-11-21 10:59:56, run 1", "2026-11-21 10:59:56, run 2"]
        );
    }
}
