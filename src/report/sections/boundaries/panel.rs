//! The panels of a boundary chart: a plane or a strip with its regions, probes, recommended point, and tooltips.
//!
//! One axis is a strip, two are a plane, a third gets a slider. Each further axis is held at its easiest value. The
//! axis of the slider is cut at some values; each probe is drawn on one of the cuts.

use std::collections::{BTreeMap, HashSet};

use super::probes::{Probe, Probes};
use crate::boundary::{self, Boundary, Easier, Outlines, Point, Regions, Scalar};
use crate::fault::Result;
use crate::fmt::Unit;
use crate::report::Advice;
use crate::report::evidence::{NOT_SENT, ProbeClass, nearest_failure};
use crate::report::picture::beyond;
use crate::report::plot::{Axis, Colour, Layer, Panel, Scale, Shape, TooltipPoint, Tooltips};

/// The rows of a strip from bottom to top.
const ROWS: [(ProbeClass, &str); 5] = [
    (ProbeClass::Fits, "fits"),
    (ProbeClass::Fails, "fails"),
    (ProbeClass::NotSent, "not sent"),
    (ProbeClass::Clipped, "length limit"),
    (ProbeClass::Unclear, "inconclusive"),
];

/// What all charts of a boundary need.
pub(super) struct FigureContext<'a> {
    pub(super) boundary: &'a Boundary,
    pub(super) probes: &'a Probes,
    pub(super) advice: Option<&'a Advice>,
    /// Why the probe nearest to the largest confirmed point failed.
    pub(super) nearest_failure: Option<String>,
}

/// The vertical axis: an axis of the boundary, or the rows of a strip.
enum VerticalAxis<'a> {
    Axis(&'a boundary::Axis),
    Rows(Vec<ProbeClass>),
}

impl<'a> FigureContext<'a> {
    pub(super) fn new(boundary: &'a Boundary, probes: &'a Probes, advice: Option<&'a Advice>) -> Self {
        Self {
            boundary,
            probes,
            advice,
            nearest_failure: advice.and_then(|advice| nearest_failure(boundary, &advice.safe)),
        }
    }

    /// One panel, or one for each cut of the slider's axis.
    pub(super) fn panels(&self, projection: &Projection) -> Result<Vec<Panel>> {
        let cuts = projection
            .slider
            .map_or_else(Vec::new, |slider| cut_values(self.boundary, slider, self.advice));
        let mut by_cut: Vec<Vec<&Probe>> = vec![Vec::new(); cuts.len().max(1)];
        for probe in self.probes.list.iter().filter(|probe| constrains(projection, probe)) {
            let cut = match projection.slider {
                Some(slider) => nearest_cut(slider, &cuts, &probe.point, probe.class),
                None => Some(0),
            };
            if let Some(cut) = cut {
                by_cut[cut].push(probe);
            }
        }
        let panels = by_cut.iter().enumerate();
        panels
            .map(|(index, probes)| self.panel(projection, cuts.get(index).copied(), probes))
            .collect()
    }

    fn panel(&self, projection: &Projection, at: Option<Scalar>, probes: &[&Probe]) -> Result<Panel> {
        let slice_point = projection.slice_point(self.boundary, at);
        let cut = self.boundary.slice(
            projection.x.name(),
            projection.y.map(boundary::Axis::name),
            &slice_point,
        )?;
        let (across, up) = (cut.x, cut.y);
        let vertical = match projection.y {
            Some(axis) => VerticalAxis::Axis(axis),
            None => VerticalAxis::Rows(rows(probes)),
        };
        let inside = |(x, y): &(f64, f64)| {
            (across.0..=across.1).contains(x) && (projection.y.is_none() || (up.0..=up.1).contains(y))
        };
        let position = |point: &Point, class: ProbeClass| {
            let x = point.0.get(projection.x.name())?.as_f64();
            Some((x, vertical.height(point, class)?)).filter(inside)
        };
        let spots: Vec<TooltipPoint> = probes
            .iter()
            .filter_map(|probe| {
                Some(TooltipPoint {
                    at: position(&probe.point, probe.class)?,
                    entries: probe.entries.clone(),
                })
            })
            .collect();
        let mut layers = regions(cut, &vertical, beyond(self.boundary));
        layers.extend(marks(probes, position));
        layers.extend(self.recommendation_marks(projection, at, position));
        Ok(Panel {
            title: match (projection.slider, at) {
                (Some(axis), Some(value)) => cut_title(axis, value),
                _ => String::new(),
            },
            x: plot_axis(projection.x).with_range(across),
            y: vertical.axis(up),
            layers,
            spots: Tooltips::new(self.probes.columns.clone(), spots),
            ..Panel::default()
        })
    }

    /// Marks for the safe and the recommended point, if they lie on this cut.
    fn recommendation_marks(
        &self,
        projection: &Projection,
        at: Option<Scalar>,
        place: impl Fn(&Point, ProbeClass) -> Option<(f64, f64)>,
    ) -> Vec<Layer> {
        let on_this_cut = |point: &Point| match (projection.slider, at) {
            (Some(axis), Some(value)) => point
                .0
                .get(axis.name())
                .is_some_and(|own| own.as_f64() == value.as_f64()),
            _ => true,
        };
        let Some(advice) = self.advice else { return Vec::new() };
        let marks = [
            ("largest confirmed", &advice.safe, Shape::Ring),
            ("recommended", &advice.recommended, Shape::Star),
        ];
        let marks = marks.into_iter().filter(|(_, point, _)| on_this_cut(point));
        let layer = |(name, point, shape): (&str, &Point, Shape)| {
            Some(Layer::dots(
                name,
                vec![place(point, ProbeClass::Fits)?],
                Colour::Recommended,
                shape,
            ))
        };
        marks.filter_map(layer).collect()
    }
}

impl VerticalAxis<'_> {
    fn axis(&self, range: (f64, f64)) -> Axis {
        match self {
            VerticalAxis::Axis(own) => plot_axis(own).with_range(range),
            VerticalAxis::Rows(rows) => Axis {
                label: "probes".to_owned(),
                range: Some((-0.5, rows.len() as f64 - 0.5)),
                names: rows.iter().map(|row| row_name(*row).to_owned()).collect(),
                ..Axis::default()
            },
        }
    }

    fn height(&self, point: &Point, class: ProbeClass) -> Option<f64> {
        match self {
            VerticalAxis::Axis(axis) => Some(point.0.get(axis.name())?.as_f64()),
            VerticalAxis::Rows(rows) => rows.iter().position(|row| *row == class).map(|row| row as f64),
        }
    }

    /// A height of a cut in panel coordinates; on a strip, 0 to 1 spans all rows.
    fn scaled_height(&self, height: f64) -> f64 {
        match self {
            VerticalAxis::Axis(_) => height,
            VerticalAxis::Rows(rows) => height * rows.len() as f64 - 0.5,
        }
    }
}

/// The title of a cut: `concurrency=4`.
pub(super) fn cut_title(axis: &boundary::Axis, value: Scalar) -> String {
    format!("{}={value}", axis.name())
}

/// Whether a probe constrains this slice. Off the slice, only a fitting probe does (it dominates the held, easiest
/// values).
fn constrains(projection: &Projection, probe: &Probe) -> bool {
    let easiest = |axis: &&boundary::Axis| {
        let own = probe.point.0.get(axis.name()).map(|value| value.as_f64());
        own == Some(easiest(axis).as_f64())
    };
    probe.class == ProbeClass::Fits || projection.held.iter().all(easiest)
}

/// The rows of a strip: `fits` and `fails` always, the others if needed.
fn rows(probes: &[&Probe]) -> Vec<ProbeClass> {
    let always = |class: ProbeClass| matches!(class, ProbeClass::Fits | ProbeClass::Fails);
    let needed = |class: ProbeClass| always(class) || probes.iter().any(|probe| probe.class == class);
    ROWS.iter()
        .map(|(class, _)| *class)
        .filter(|class| needed(*class))
        .collect()
}

fn row_name(class: ProbeClass) -> &'static str {
    ROWS.iter().find(|(row, _)| *row == class).map_or("", |(_, name)| name)
}

/// The axis of a chart for an axis of a boundary.
pub(in crate::report::sections) fn plot_axis(axis: &boundary::Axis) -> Axis {
    let (label, unit) = match axis.name() {
        "input" => ("input length", Unit::Tokens),
        "output" => ("output length", Unit::Tokens),
        name => (name, Unit::Count),
    };
    Axis::new(label, unit).with_scale(match axis.scale() {
        boundary::Scale::Linear => Scale::Linear,
        boundary::Scale::Log => Scale::Log,
    })
}

/// The non-empty regions of a cut; `beyond` names the one that neither fits nor fails nor is open.
fn regions(regions: Regions, vertical: &VerticalAxis, beyond: &'static str) -> Vec<Layer> {
    let drawn = |outlines: Outlines| -> Outlines {
        let corner = |(x, y)| (x, vertical.scaled_height(y));
        outlines
            .into_iter()
            .map(|line| line.into_iter().map(corner).collect())
            .collect()
    };
    let all = [
        ("fits", regions.fits, Colour::Fits, false),
        ("predicted to fit", regions.predicted, Colour::Predicted, true),
        ("predicted to fail", regions.unlikely, Colour::Fails, true),
        ("open", regions.open, Colour::Open, false),
        ("contradictory, not safe", regions.band, Colour::Band, true),
        ("fails", regions.fails, Colour::Fails, false),
        (beyond, regions.clipped, Colour::Quiet, false),
    ];
    let some = all.into_iter().filter(|(_, outlines, ..)| !outlines.is_empty());
    let layer = |(name, outlines, colour, hatched): (&str, Outlines, Colour, bool)| {
        Layer::area(name, drawn(outlines), colour).dashed(hatched)
    };
    some.map(layer).collect()
}

/// The probes by class, without duplicates.
fn marks(probes: &[&Probe], place: impl Fn(&Point, ProbeClass) -> Option<(f64, f64)>) -> Vec<Layer> {
    let all = [
        (ProbeClass::Unclear, "inconclusive probe", Colour::Open, Shape::Triangle),
        (
            ProbeClass::Clipped,
            "refused for its length",
            Colour::Quiet,
            Shape::Diamond,
        ),
        (ProbeClass::Fits, "probe that fits", Colour::Fits, Shape::Circle),
        (ProbeClass::Fails, "probe that fails", Colour::Fails, Shape::Cross),
        (ProbeClass::NotSent, NOT_SENT, Colour::Fails, Shape::Square),
    ];
    let layer = |(class, name, colour, shape): (ProbeClass, &str, Colour, Shape)| {
        let mut seen = HashSet::new();
        let places = probes.iter().filter(|probe| probe.class == class);
        let places = places.filter_map(|probe| place(&probe.point, class));
        let points: Vec<(f64, f64)> = places
            .filter(|(x, y)| seen.insert((x.to_bits(), y.to_bits())))
            .collect();
        (!points.is_empty()).then(|| Layer::dots(name, points, colour, shape))
    };
    all.into_iter().filter_map(layer).collect()
}

/// The axes of one chart.
#[derive(Clone, Debug)]
pub(super) struct Projection<'a> {
    /// Horizontal.
    pub(super) x: &'a boundary::Axis,
    /// Vertical; none for a strip.
    pub(super) y: Option<&'a boundary::Axis>,
    /// The axis by which panels differ.
    pub(super) slider: Option<&'a boundary::Axis>,
    /// Axes with several values, held at the easiest.
    pub(super) held: Vec<&'a boundary::Axis>,
    /// Axes with a single value.
    pub(super) fixed: Vec<&'a boundary::Axis>,
}

/// The axes of a boundary's chart; none for a boundary without axes.
pub(super) fn projection(boundary: &Boundary) -> Option<Projection<'_>> {
    let axes = boundary.lattice().axes();
    let (mut varied, mut fixed): (Vec<&boundary::Axis>, Vec<&boundary::Axis>) =
        axes.iter().partition(|axis| axis.range().0 < axis.range().1);
    if varied.is_empty() {
        varied.extend((!fixed.is_empty()).then(|| fixed.remove(0)));
    }
    let probed_values = probed_values(boundary);
    let weight = |axis: &boundary::Axis| {
        // Lengths come first, then the axes with the most probed values.
        let length = matches!(axis.name(), "input" | "output");
        (length, probed_values.get(axis.name()).copied().unwrap_or(0))
    };
    let mut ranked = varied.clone();
    ranked.sort_by_key(|axis| std::cmp::Reverse(weight(axis)));
    let others = ranked.split_off(ranked.len().min(2));
    // In the order of the boundary.
    let mut plane = varied
        .into_iter()
        .filter(|axis| ranked.iter().any(|chosen| chosen.name() == axis.name()));
    Some(Projection {
        x: plane.next()?,
        y: plane.next(),
        slider: others.first().copied(),
        held: others.into_iter().skip(1).collect(),
        fixed,
    })
}

/// The number of distinct probed values by axis.
fn probed_values(boundary: &Boundary) -> BTreeMap<String, usize> {
    let mut values: BTreeMap<String, HashSet<u64>> = BTreeMap::new();
    for (point, _) in boundary.records() {
        for (name, value) in point.0 {
            values.entry(name).or_default().insert(value.as_f64().to_bits());
        }
    }
    values.into_iter().map(|(name, values)| (name, values.len())).collect()
}

impl Projection<'_> {
    /// The axes shown: `input and output, by concurrency`.
    pub(super) fn axes_text(&self) -> String {
        let y = self.y.map_or_else(String::new, |axis| format!(" and {}", axis.name()));
        let by = self
            .slider
            .map_or_else(String::new, |axis| format!(", by {}", axis.name()));
        format!("{}{y}{by}", self.x.name())
    }

    pub(super) fn title(&self) -> String {
        let is_length = |axis: &boundary::Axis| matches!(axis.name(), "input" | "output");
        match (self.y, self.slider) {
            (None, _) => format!("Largest {} that fits", self.x.name()),
            (Some(y), by) if is_length(self.x) && is_length(y) => {
                let by = by.map_or_else(String::new, |axis| format!(", by {}", axis.name()));
                format!("Largest input and output that fit{by}")
            }
            _ => format!("What fits: {}", self.axes_text()),
        }
    }

    /// The values of the axes not shown: `batch=1, gpus=2`.
    pub(super) fn held_values(&self) -> Vec<String> {
        let held = self.held.iter().chain(&self.fixed);
        held.map(|axis| format!("{}={}", axis.name(), easiest(axis))).collect()
    }

    /// The easiest point of the plane; with a slider, at its value `at`.
    pub(super) fn slice_point(&self, boundary: &Boundary, at: Option<Scalar>) -> Point {
        let mut point = boundary.smallest();
        if let (Some(axis), Some(value)) = (self.slider, at) {
            point.0.insert(axis.name().to_owned(), value);
        }
        point
    }
}

fn easiest(axis: &boundary::Axis) -> Scalar {
    let (low, high) = axis.range();
    match axis.easier() {
        Easier::Down => low,
        Easier::Up => high,
    }
}

/// A value on a scale where larger is harder.
fn difficulty(axis: &boundary::Axis, value: Scalar) -> f64 {
    match axis.easier() {
        Easier::Down => value.as_f64(),
        Easier::Up => -value.as_f64(),
    }
}

/// Maximum number of cuts.
const MAX_CUTS: usize = 12;

/// The values at which an axis is cut, ascending. Up to twelve: all probed values and both ends. Beyond that: quantiles
/// of the probed values. The safe and the recommended point always get a cut.
fn cut_values(boundary: &Boundary, axis: &boundary::Axis, advice: Option<&Advice>) -> Vec<Scalar> {
    let (low, high) = axis.range();
    let at = |point: &Point| point.0.get(axis.name()).copied();
    let inside = |value: &Scalar| (low.as_f64()..=high.as_f64()).contains(&value.as_f64());
    let mut probed: Vec<Scalar> = boundary
        .records()
        .filter_map(|(point, _)| at(&point))
        .filter(inside)
        .collect();
    let advised: Vec<Scalar> = advice.map_or_else(Vec::new, |advice| {
        [&advice.safe, &advice.recommended].into_iter().filter_map(at).collect()
    });
    let required = sorted_unique([&[low, high], &advised[..]].concat());
    probed.sort_by(|a, b| a.as_f64().total_cmp(&b.as_f64()));
    let distinct = sorted_unique([&probed[..], &required[..]].concat());
    if distinct.len() <= MAX_CUTS {
        return distinct;
    }
    // More cuts where more probes are.
    let mut best = required.clone();
    for parts in MAX_CUTS - required.len()..=probed.len() {
        let more = (1..=parts).filter_map(|part| probed.get(part * probed.len() / (parts + 1)));
        let more = sorted_unique(required.iter().chain(more).copied().collect());
        match more.len() {
            MAX_CUTS => return more,
            // Quantiles may coincide.
            ..MAX_CUTS => best = more,
            _ => break,
        }
    }
    best
}

fn sorted_unique(mut values: Vec<Scalar>) -> Vec<Scalar> {
    values.sort_by(|a, b| a.as_f64().total_cmp(&b.as_f64()));
    values.dedup_by(|a, b| a.as_f64() == b.as_f64());
    values
}

/// The cut on which a probe is drawn: its own, or the nearest one that it constrains. A point that fits also fits at
/// easier values; one that fails also fails at harder ones.
fn nearest_cut(axis: &boundary::Axis, cuts: &[Scalar], point: &Point, class: ProbeClass) -> Option<usize> {
    let own = difficulty(axis, *point.0.get(axis.name())?);
    let distance = |(_, cut): &(usize, &Scalar)| {
        let away = own - difficulty(axis, **cut);
        match class {
            ProbeClass::Fits if away < 0.0 => None,
            ProbeClass::Fails | ProbeClass::NotSent | ProbeClass::Clipped if away > 0.0 => None,
            _ => Some(away.abs()),
        }
    };
    let near = cuts.iter().enumerate().filter_map(|cut| Some((distance(&cut)?, cut.0)));
    near.min_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, index)| index)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::boundary::{Answer, Options, Verdict};

    fn probed(values: impl Iterator<Item = i64>) -> Boundary {
        let axes = json!({ "concurrency": [1, 64], "input": [1, 100], "output": [1, 100] });
        let mut map = Boundary::new(&axes, Options::default()).unwrap();
        for value in values {
            let point = Point::default()
                .with("input", 5)
                .with("output", 5)
                .with("concurrency", value);
            map.record(&point, &Answer::from(Verdict::Ok)).unwrap();
        }
        map
    }

    fn ints(values: &[Scalar]) -> Vec<f64> {
        values.iter().map(|value| value.as_f64()).collect()
    }

    #[test]
    fn few_values_are_all_cut_and_many_where_most_probes_are() {
        let map = probed([4, 8, 4, 8, 16].into_iter());
        let axis = &map.lattice().axes()[0];
        assert_eq!(ints(&cut_values(&map, axis, None)), [1.0, 4.0, 8.0, 16.0, 64.0]);
        let map = probed((1..=30).chain((1..=30).map(|_| 3)));
        let axis = &map.lattice().axes()[0];
        let many = ints(&cut_values(&map, axis, None));
        assert!(
            many.len() <= MAX_CUTS && many.first() == Some(&1.0) && many.last() == Some(&64.0),
            "{many:?}"
        );
        assert!(many.contains(&3.0), "{many:?}");
        let advice = Advice {
            safe: Point::default().with("concurrency", 29),
            recommended: Point::default().with("concurrency", 27),
        };
        let many = ints(&cut_values(&map, axis, Some(&advice)));
        assert!(
            many.len() == MAX_CUTS && many.contains(&29.0) && many.contains(&27.0),
            "{many:?}"
        );
    }

    #[test]
    fn probe_between_two_cuts_is_drawn_where_it_constrains() {
        let map = probed(std::iter::empty());
        let axis = &map.lattice().axes()[0];
        let cuts = [1, 4, 16].map(Scalar::Int);
        let point = |value| Point::default().with("concurrency", value);
        for (value, class, cut) in [
            (4, ProbeClass::Fits, Some(1)),
            (4, ProbeClass::Fails, Some(1)),
            (6, ProbeClass::Fits, Some(1)),
            (6, ProbeClass::Fails, Some(2)),
            (6, ProbeClass::Unclear, Some(1)),
            (64, ProbeClass::Fails, None),
            (64, ProbeClass::Fits, Some(2)),
        ] {
            assert_eq!(nearest_cut(axis, &cuts, &point(value), class), cut, "{value} {class:?}");
        }
        assert_eq!(nearest_cut(axis, &cuts, &Point::default(), ProbeClass::Fits), None);
    }
}
