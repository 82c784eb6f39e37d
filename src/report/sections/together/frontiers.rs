//! The frontiers of all runs: outlines of what is proven to fit over the same two axes, and the largest points as a
//! table.

use std::collections::BTreeMap;

use super::super::format::tenths;
use super::super::{Section, Source};
use crate::boundary::{self, Boundary, Easier, Point};
use crate::report::plot::{Axis, Colour, Entry, Layer, Panel, Plot, Scale, Sheet, TooltipPoint, Tooltips};
use crate::unit::Unit;

struct Outline<'a> {
    name: &'a str,
    boundary: &'a Boundary,
    frontier: Vec<Point>,
}

/// The section: of each run the first boundary with the same axes as another run's.
pub(super) fn section<'a>(named: &[(&'a str, &'a Source<'_>)]) -> Option<Section> {
    let mut groups: BTreeMap<Vec<String>, Vec<Outline<'a>>> = BTreeMap::new();
    for (name, source) in named {
        for boundary in source.boundaries().iter().filter_map(|one| one.boundary.as_ref().ok()) {
            let Ok(frontier) = boundary.frontier() else { continue };
            let group = groups.entry(varying_axes(boundary)).or_default();
            if group.iter().all(|outline| outline.name != *name) {
                group.push(Outline {
                    name,
                    boundary,
                    frontier,
                });
            }
        }
    }
    let groups: Vec<(Vec<String>, Vec<Outline>)> =
        groups.into_iter().filter(|(_, outlines)| outlines.len() > 1).collect();
    let plots: Vec<Plot> = groups
        .iter()
        .enumerate()
        .map(|(index, (axes, outlines))| plot(axes, outlines, index + 1))
        .collect();
    (!plots.is_empty()).then(|| Section {
        name: "together-frontiers".to_owned(),
        title: "What fits".to_owned(),
        paragraphs: plots.iter().map(|plot| plot.words.clone()).collect(),
        plots,
        ..Section::default()
    })
}

/// The axes with more than one value.
fn varying_axes(boundary: &Boundary) -> Vec<String> {
    let axes = boundary.lattice().axes().iter();
    axes.filter(|axis| axis.range().0 < axis.range().1)
        .map(|axis| axis.name().to_owned())
        .collect()
}

fn plot(axes: &[String], outlines: &[Outline], number: usize) -> Plot {
    let panels = match axes {
        [x, y] if outlines.iter().all(|one| all_harder_upwards(one.boundary)) => vec![panel(x, y, outlines)],
        _ => Vec::new(),
    };
    let what = axes.join(" and ");
    Plot {
        name: format!("together-frontier-{number}"),
        title: format!("The largest {what} that fit"),
        words: alt_text(outlines),
        caption: if panels.is_empty() {
            String::new()
        } else {
            "Each line is how far a run is proven to fit: everything below and to the left of it fits. Above it, a run failed, was not probed, or the search range ends.".to_owned()
        },
        panels,
        sheet: sheet(axes, outlines),
        ..Plot::default()
    }
}

/// Whether larger is harder on every axis.
fn all_harder_upwards(boundary: &Boundary) -> bool {
    boundary
        .lattice()
        .axes()
        .iter()
        .all(|axis| axis.easier() == Easier::Down)
}

fn panel(x: &str, y: &str, outlines: &[Outline]) -> Panel {
    let at = |point: &Point, axis: &str| point.0.get(axis).map(|value| value.as_f64());
    let low = |axis: &str| {
        let axes = outlines.iter().flat_map(|one| one.boundary.lattice().axes());
        axes.filter(|one| one.name() == axis)
            .map(|one| one.range().0.as_f64())
            .fold(f64::INFINITY, f64::min)
    };
    let corner = (low(x), low(y));
    let mut spots = Vec::new();
    let mut layers = Vec::new();
    for (index, one) in outlines.iter().enumerate() {
        let mut places: Vec<(f64, f64)> = one
            .frontier
            .iter()
            .filter_map(|point| Some((at(point, x)?, at(point, y)?)))
            .collect();
        places.sort_by(|a, b| a.0.total_cmp(&b.0).then(b.1.total_cmp(&a.1)));
        layers.push(Layer::line(one.name, outline(&places, corner), Colour::series(index)));
        let spot = |place: &(f64, f64)| TooltipPoint {
            at: *place,
            entries: vec![one.name.into(), place.0.into(), place.1.into(), "fits".into()],
        };
        spots.extend(places.iter().map(spot));
    }
    let axis = |name: &str| {
        let label = match name {
            "concurrency" => "concurrent requests".to_owned(),
            name => format!("{name} length"),
        };
        let unit = match name {
            "input" | "output" => Unit::Tokens,
            _ => Unit::Count,
        };
        let scale = if log(outlines, name) { Scale::Log } else { Scale::Linear };
        Axis::new(label, unit).with_scale(scale)
    };
    Panel {
        x: axis(x),
        y: axis(y),
        layers,
        spots: Tooltips::new(["run", x, y, "verdict"], spots),
        ..Panel::default()
    }
}

fn log(outlines: &[Outline], axis: &str) -> bool {
    let mut axes = outlines
        .iter()
        .flat_map(|one| one.boundary.lattice().axes())
        .filter(|one| one.name() == axis);
    axes.all(|one| one.scale() == boundary::Scale::Log)
}

/// The line around what fits, from the upper left to the lower right. `places` are frontier points by ascending x and
/// descending y.
fn outline(places: &[(f64, f64)], corner: (f64, f64)) -> Vec<(f64, Option<f64>)> {
    let mut line = Vec::new();
    let mut left = corner.0;
    for (x, y) in places {
        line.push((left, Some(*y)));
        line.push((*x, Some(*y)));
        left = *x;
    }
    if let Some((x, _)) = places.last() {
        line.push((*x, Some(corner.1)));
    }
    line.dedup();
    line
}

fn alt_text(outlines: &[Outline]) -> String {
    let sentences = outlines.iter().map(|one| {
        let points = one.frontier.len();
        match one.frontier.iter().max_by(|a, b| size(a).total_cmp(&size(b))) {
            Some(largest) => {
                let of_several = if points > 1 {
                    format!(" (the largest of {points} frontier points)")
                } else {
                    String::new()
                };
                format!("{}: {largest} fits{of_several}.", one.name)
            }
            None => format!("{}: nothing is proven to fit.", one.name),
        }
    });
    sentences.collect::<Vec<_>>().join(" ")
}

/// The size by which points of one frontier are compared: the sum of all values.
fn size(point: &Point) -> f64 {
    point.0.values().map(|value| value.as_f64()).sum()
}

fn sheet(axes: &[String], outlines: &[Outline]) -> Sheet {
    let columns = std::iter::once("run".to_owned())
        .chain(axes.iter().cloned())
        .chain(["coverage, %".to_owned()]);
    let rows = outlines.iter().flat_map(|one| {
        let coverage = one.boundary.coverage().ok().map(|share| 100.0 * share);
        one.frontier.iter().map(move |point| {
            let places = axes
                .iter()
                .map(|axis| point.0.get(axis).map(|value| value.as_f64()).into());
            std::iter::once(Entry::from(one.name))
                .chain(places)
                .chain([coverage.map(tenths).into()])
                .collect()
        })
    });
    Sheet::new(columns, rows)
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
