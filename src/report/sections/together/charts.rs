//! The charts of several runs: how far each is proven to fit, memory by component, and the differences of experiments
//! that several runs made.

use std::collections::BTreeMap;

use crate::boundary::{self, Boundary, Easier, Point};
use crate::experiment::Experiment;
use crate::fmt::metric_label;
use crate::memory::{Breakdown, Component, Footprint};
use crate::report::plot::{Axis, Bar, Colour, Entry, Layer, Panel, Plot, Scale, Sheet, TooltipPoint, Tooltips};
use crate::report::sections::format::{GIB, tenths};
use crate::report::sections::{Section, Source, experiment_findings as findings, experiments};
use crate::unit::Unit;

/// The frontier of a run's boundary.
struct Outline<'a> {
    name: &'a str,
    boundary: &'a Boundary,
    frontier: Vec<Point>,
}

/// The outlines of what is proven to fit, and the largest points as a table: of each run the first boundary with the
/// same axes as another run's.
pub(super) fn frontiers(named: &[(&str, &Source)]) -> Option<Section> {
    let mut groups: BTreeMap<Vec<&str>, Vec<Outline>> = BTreeMap::new();
    for (name, source) in named {
        for boundary in source.boundaries().iter().filter_map(|one| one.boundary.as_ref().ok()) {
            let Ok(frontier) = boundary.frontier() else { continue };
            let axes = boundary.lattice().axes().iter();
            let varying = axes
                .filter(|axis| axis.range().0 < axis.range().1)
                .map(|axis| axis.name());
            let group = groups.entry(varying.collect()).or_default();
            if group.iter().all(|outline| outline.name != *name) {
                group.push(Outline {
                    name,
                    boundary,
                    frontier,
                });
            }
        }
    }
    let groups = groups.into_iter().filter(|(_, outlines)| outlines.len() > 1);
    let plots = groups
        .zip(1..)
        .map(|((axes, outlines), number)| frontier_plot(&axes, &outlines, number));
    let plots: Vec<Plot> = plots.collect();
    let words = plots.iter().map(|plot| plot.words.clone()).collect();
    (!plots.is_empty()).then(|| super::section("frontiers", "What fits", words, plots, Vec::new()))
}

fn frontier_plot(axes: &[&str], outlines: &[Outline], number: usize) -> Plot {
    let mut all = outlines.iter().flat_map(|one| one.boundary.lattice().axes());
    let panel = match axes {
        [x, y] if all.all(|axis| axis.easier() == Easier::Down) => Some(frontier_panel(x, y, outlines)),
        _ => None,
    };
    let caption = match &panel {
        None => "",
        Some(_) => {
            "Each line is how far a run is proven to fit: everything below and to the left of it fits. Above it, a run failed, was not probed, or the search range ends."
        }
    };
    let columns = ["run"].into_iter().chain(axes.iter().copied()).chain(["coverage, %"]);
    let rows = outlines.iter().flat_map(|one| {
        let coverage = one.boundary.coverage().ok().map(|share| tenths(100.0 * share));
        one.frontier.iter().map(move |point| {
            let values = axes.iter().map(|axis| coordinate(point, axis).into());
            let head = std::iter::once(Entry::from(one.name));
            head.chain(values).chain([coverage.clone().into()]).collect()
        })
    });
    let words: Vec<String> = outlines.iter().map(outline_text).collect();
    let title = format!("The largest {} that fit", axes.join(" and "));
    Plot::new(format!("together-frontier-{number}"), title, panel)
        .with_words(words.join(" "), caption)
        .with_sheet(Sheet::new(columns, rows))
}

fn coordinate(point: &Point, axis: &str) -> Option<f64> {
    point.0.get(axis).map(|value| value.as_f64())
}

fn outline_text(one: &Outline) -> String {
    let name = one.name;
    let size = |point: &Point| point.0.values().map(|value| value.as_f64()).sum::<f64>();
    match (
        one.frontier.iter().max_by(|a, b| size(a).total_cmp(&size(b))),
        one.frontier.len(),
    ) {
        (Some(largest), 1) => format!("{name}: {largest} fits."),
        (Some(largest), points) => format!("{name}: {largest} fits (the largest of {points} frontier points)."),
        (None, _) => format!("{name}: nothing is proven to fit."),
    }
}

fn frontier_panel(x: &str, y: &str, outlines: &[Outline]) -> Panel {
    let of_name = |name: &str| {
        let axes = outlines.iter().flat_map(|one| one.boundary.lattice().axes());
        axes.filter(|axis| axis.name() == name).collect::<Vec<_>>()
    };
    let low = |name: &str| {
        let lows = of_name(name).into_iter().map(|axis| axis.range().0.as_f64());
        lows.fold(f64::INFINITY, f64::min)
    };
    let corner = (low(x), low(y));
    let mut spots = Vec::new();
    let mut layers = Vec::new();
    for (index, one) in outlines.iter().enumerate() {
        let points = one.frontier.iter();
        let points = points.filter_map(|point| Some((coordinate(point, x)?, coordinate(point, y)?)));
        let mut points: Vec<(f64, f64)> = points.collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0).then(b.1.total_cmp(&a.1)));
        layers.push(Layer::line(one.name, outline(&points, corner), Colour::series(index)));
        let spot = |at: (f64, f64)| TooltipPoint::new(at, [one.name.into(), at.0.into(), at.1.into(), "fits".into()]);
        spots.extend(points.into_iter().map(spot));
    }
    let axis = |name: &str| {
        let (label, unit) = match name {
            "concurrency" => ("concurrent requests".to_owned(), Unit::Count),
            "input" | "output" => (format!("{name} length"), Unit::Tokens),
            name => (format!("{name} length"), Unit::Count),
        };
        let log = of_name(name).iter().all(|axis| axis.scale() == boundary::Scale::Log);
        Axis::new(label, unit).with_scale(if log { Scale::Log } else { Scale::Linear })
    };
    Panel::new("", axis(x), axis(y), layers).with_tooltips(Tooltips::new(["run", x, y, "verdict"], spots))
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

/// Memory by component of all runs; none for fewer than two breakdowns.
pub(super) fn memory(named: &[(&str, &Source)]) -> Option<Section> {
    let mut all: Vec<(String, Breakdown)> = Vec::new();
    for (name, source) in named {
        let breakdowns = &source.found.breakdowns;
        for (what, value) in breakdowns {
            let Ok(footprint) = serde_json::from_value::<Footprint>(value.clone()) else {
                continue;
            };
            let what = if breakdowns.len() > 1 {
                format!(", {what}")
            } else {
                String::new()
            };
            all.push((format!("{name}{what}"), footprint.all));
        }
    }
    let bytes = |one: &Breakdown, component: Component| Some(one.part(component)?.bytes as f64);
    let mut components = Component::ALL.to_vec();
    components.retain(|component| {
        all.iter()
            .any(|(_, one)| bytes(one, *component).is_some_and(|bytes| bytes != 0.0))
    });
    let layers = all.iter().enumerate().map(|(index, (name, one))| {
        let bars = components.iter().enumerate();
        let bars = bars.filter_map(|(at, component)| Some(Bar::new(at, bytes(one, *component)?)));
        Layer::bars(name.clone(), bars, Colour::series(index))
    });
    let words = all
        .iter()
        .map(|(name, one)| format!("{name}: {} GiB in all.", tenths(one.total as f64 / GIB)));
    let words = words.collect::<Vec<_>>().join(" ");
    let caption = "KV cache in use lies within the KV cache where that is reserved. All devices of an engine together.";
    let x = Axis::categories(components.iter().map(|component| component.title().to_owned()));
    let panel = Panel::new("", x, Axis::new("memory", Unit::Bytes), layers);
    let plot = Plot::new("together-memory-parts", "Memory by component", [panel]).with_words(words.clone(), caption);
    (all.len() > 1).then(|| super::section("memory", "Where memory goes", vec![words], vec![plot], Vec::new()))
}

/// Names of settings, and the runs with an experiment of these settings.
type Group<'a> = (Vec<String>, Vec<(&'a str, Experiment)>);

/// One section for each experiment that several runs made with the same settings.
pub(super) fn experiments(named: &[(&str, &Source)]) -> Vec<Section> {
    let mut groups: Vec<Group> = Vec::new();
    for (run, source) in named {
        // The run's own section reports unreadable experiments.
        for (_, found) in experiments::experiments(source, &mut Vec::new()) {
            let settings = found.measured.settings.iter();
            let settings: Vec<String> = settings.map(|setting| setting.name.clone()).collect();
            match groups.iter_mut().find(|group| group.0 == settings) {
                Some(group) => group.1.push((run, found)),
                None => groups.push((settings, vec![(run, found)])),
            }
        }
    }
    groups.retain(|group| group.1.len() > 1);
    let sections = groups.into_iter().zip(1..).map(|((settings, runs), number)| {
        let plots = (1..settings.len()).map(|setting| experiment_plot(&settings, setting, &runs, number));
        let title = format!("Experiment: {}", settings.join(" against "));
        super::section(
            &format!("experiment-{number}"),
            &title,
            Vec::new(),
            plots.collect(),
            Vec::new(),
        )
    });
    sections.collect()
}

/// One setting against the baseline setting, by metric and run.
fn experiment_plot(settings: &[String], setting: usize, runs: &[(&str, Experiment)], number: usize) -> Plot {
    let mut metrics: Vec<&str> = Vec::new();
    for one in runs.iter().flat_map(|(_, found)| &found.comparisons) {
        let mut own = one.contrasts.iter().filter(|contrast| contrast.setting == setting);
        if own.any(|contrast| contrast.percent.is_some()) && !metrics.contains(&one.name.as_str()) {
            metrics.push(&one.name);
        }
    }
    let bar = |found: &Experiment, at: usize| {
        let comparison = found.comparisons.iter().find(|one| one.name == metrics[at])?;
        let contrast = comparison
            .contrasts
            .iter()
            .find(|contrast| contrast.setting == setting)?;
        let baseline = comparison.means.first().copied().flatten().map(f64::abs);
        let baseline = baseline.filter(|mean| *mean > 0.0)?;
        let percent = |value: f64| 100.0 * value / baseline;
        Some(Bar {
            interval: contrast.interval.map(|[low, high]| (percent(low), percent(high))),
            ..Bar::new(at, contrast.percent?)
        })
    };
    let layers = runs.iter().enumerate().map(|(index, (run, found))| {
        let bars = (0..metrics.len()).filter_map(|at| bar(found, at));
        Layer::bars(*run, bars, Colour::series(index))
    });
    let words = runs.iter().flat_map(|(run, found)| {
        let findings = findings(found).into_iter();
        findings.map(move |text| format!("{run}: {text}."))
    });
    let caption = "Bars are differences of means, whiskers their 95 % intervals. The tables of each run are below.";
    let x = Axis::categories(metrics.iter().map(|metric| metric_label(metric)));
    let y = Axis::new(format!("difference from {}", settings[0]), Unit::Percent);
    let title = format!("{} against {}", settings[setting], settings[0]);
    Plot::new(
        format!("together-experiment-{number}-{setting}"),
        title,
        [Panel::new("", x, y, layers)],
    )
    .with_words(words.collect::<Vec<_>>().join(" "), caption)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outline_descends_in_steps() {
        let line = outline(&[(10.0, 50.0), (20.0, 30.0)], (1.0, 1.0));
        let points: Vec<(f64, f64)> = line.into_iter().filter_map(|(x, y)| Some((x, y?))).collect();
        assert_eq!(
            points,
            [(1.0, 50.0), (10.0, 50.0), (10.0, 30.0), (20.0, 30.0), (20.0, 1.0)]
        );
        assert!(outline(&[], (1.0, 1.0)).is_empty());
    }
}
