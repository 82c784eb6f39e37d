//! The panels of a boundary chart: a plane or a strip with its regions, probes, recommended point, and tooltips.
//!
//! One axis is drawn as a strip, two as a plane; a third gets a slider. Each further axis is held at its easiest value.
//! The slider's axis is cut at some values; a probe is drawn on at most one of the cuts.

use std::collections::HashSet;

use super::probes::{Probe, Probes};
use crate::answer::Advice;
use crate::answer::evidence::{NOT_SENT, ProbeClass};
use crate::boundary::{self, Boundary, Outlines, Point, Regions, Scalar};
use crate::fault::Result;
use crate::fmt::Unit;
use crate::report::picture::{Projection, RULED_OUT, beyond};
use crate::report::plot::{Axis, Colour, Layer, MarkerShape, Marks, Panel, TooltipPoint, Tooltips};

/// The class of a probe, its row on a strip, and its name, colour and marker in a plane.
type Row = (ProbeClass, &'static str, &'static str, Colour, MarkerShape);

/// The rows of a strip from bottom to top.
const ROWS: [Row; 5] = {
    use ProbeClass::{Clipped, Fails, Fits, NotSent, Unclear};
    [
        (Fits, "fits", "probe that fits", Colour::Fits, MarkerShape::Circle),
        (Fails, "fails", "probe that fails", Colour::Fails, MarkerShape::Cross),
        (NotSent, "not sent", NOT_SENT, Colour::Quiet, MarkerShape::Square),
        (
            Clipped,
            "length limit",
            "refused for its length",
            Colour::Quiet,
            MarkerShape::Diamond,
        ),
        (
            Unclear,
            "inconclusive",
            "inconclusive probe",
            Colour::Open,
            MarkerShape::Triangle,
        ),
    ]
};

/// The boundary, its probes and its advice, which all panels need.
pub(super) struct FigureContext<'a> {
    pub(super) boundary: &'a Boundary,
    pub(super) probes: &'a Probes,
    pub(super) advice: Option<&'a Advice>,
}

impl FigureContext<'_> {
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
        by_cut
            .iter()
            .enumerate()
            .map(|(index, probes)| self.panel(projection, cuts.get(index).copied(), probes))
            .collect()
    }

    fn panel(&self, projection: &Projection, at: Option<Scalar>, probes: &[&Probe]) -> Result<Panel> {
        let slider = projection.slider.zip(at);
        // The plane goes through the easiest point, or with a slider through the easiest point at the slider's value.
        let mut easiest = self.boundary.smallest();
        if let Some((axis, value)) = slider {
            easiest.0.insert(axis.name().to_owned(), value);
        }
        let y = projection.y.map(boundary::Axis::name);
        let cut = self.boundary.slice(projection.x.name(), y, &easiest)?;
        let (across, up) = (cut.x, cut.y);
        let rows = rows(probes);
        let height = |point: &Point, class: ProbeClass| match projection.y {
            Some(axis) => axis.of(point),
            None => rows.iter().position(|row| row.0 == class).map(|row| row as f64),
        };
        let inside = |(x, y): &(f64, f64)| {
            (across.0..=across.1).contains(x) && (projection.y.is_none() || (up.0..=up.1).contains(y))
        };
        let place =
            |point: &Point, class: ProbeClass| Some((projection.x.of(point)?, height(point, class)?)).filter(inside);
        let spots = probes.iter().filter_map(|probe| {
            let at = place(&probe.point, probe.class)?;
            Some(TooltipPoint::new(at, probe.entries.clone()))
        });
        let tooltips = Tooltips::new(self.probes.columns.clone(), spots);
        // On a strip, a cut from 0 to 1 spans all rows.
        let corner = |(x, y): (f64, f64)| match projection.y {
            Some(_) => (x, y),
            None => (x, y * rows.len() as f64 - 0.5),
        };
        let mut layers = regions(cut, corner, beyond(self.boundary));
        layers.extend(marks(probes, place));
        // The safe and the recommended point, if they lie on this cut.
        let on_this_cut = |point: &Point| slider.is_none_or(|(axis, at)| axis.of(point) == Some(at.as_f64()));
        let mut mark = |name: &str, point: &Point, shape: MarkerShape| {
            let at = place(point, ProbeClass::Fits).filter(|_| on_this_cut(point));
            layers.extend(at.map(|at| Layer::dots(name, [at], Colour::Recommended, shape)));
        };
        if let Some(advice) = self.advice {
            mark("largest confirmed", &advice.safe, MarkerShape::Ring);
            mark("recommended", &advice.recommended, MarkerShape::Star);
        }
        let title = slider.map_or_else(String::new, |(axis, value)| format!("{}={value}", axis.name()));
        let x = plot_axis(projection.x).with_range(across);
        let y = match projection.y {
            Some(axis) => plot_axis(axis).with_range(up),
            None => Axis {
                label: "probes".to_owned(),
                range: Some((-0.5, rows.len() as f64 - 0.5)),
                ..Axis::categories(rows.iter().map(|row| row.1.to_owned()))
            },
        };
        Ok(Panel::new(title, x, y, layers).with_tooltips(tooltips))
    }
}

/// Returns true if a probe constrains this slice: it lies on the slice, or it fits, because then it also fits at the
/// easiest values of the held axes.
fn constrains(projection: &Projection, probe: &Probe) -> bool {
    let easiest = |axis: &&boundary::Axis| axis.of(&probe.point) == Some(axis.easiest().as_f64());
    probe.class == ProbeClass::Fits || projection.held.iter().all(easiest)
}

/// The rows of a strip: `fits` and `fails` always, the others if needed.
fn rows(probes: &[&Probe]) -> Vec<Row> {
    let always = |class: ProbeClass| matches!(class, ProbeClass::Fits | ProbeClass::Fails);
    let needed = |row: &Row| always(row.0) || probes.iter().any(|probe| probe.class == row.0);
    ROWS.into_iter().filter(needed).collect()
}

/// The axis of a chart for an axis of a boundary.
pub(in crate::report::sections) fn plot_axis(axis: &boundary::Axis) -> Axis {
    let (label, unit) = match axis.name() {
        "input" => ("input length", Unit::Tokens),
        "output" => ("output length", Unit::Tokens),
        name => (name, Unit::Count),
    };
    Axis::new(label, unit).with_scale(axis.scale())
}

/// The non-empty regions of a cut; `beyond` is the name of the clipped region.
fn regions(regions: Regions, corner: impl Fn((f64, f64)) -> (f64, f64), beyond: &'static str) -> Vec<Layer> {
    let all = [
        ("fits", regions.fits, Colour::Fits, false),
        ("predicted to fit", regions.predicted, Colour::Predicted, true),
        ("predicted to fail", regions.unlikely, Colour::Fails, true),
        ("open", regions.open, Colour::Open, false),
        ("contradictory, not safe", regions.band, Colour::Band, true),
        ("fails", regions.fails, Colour::Fails, false),
        (RULED_OUT, regions.not_sent, Colour::Quiet, true),
        (beyond, regions.clipped, Colour::Quiet, false),
    ];
    let some = all.into_iter().filter(|(_, outlines, ..)| !outlines.is_empty());
    let layer = |(name, outlines, colour, hatched): (&str, Outlines, Colour, bool)| {
        let outlines = outlines
            .into_iter()
            .map(|line| line.into_iter().map(&corner).collect())
            .collect();
        Layer::new(name, colour, Marks::Area { outlines }).dashed(hatched)
    };
    some.map(layer).collect()
}

/// The probes by class, without duplicates.
fn marks(probes: &[&Probe], place: impl Fn(&Point, ProbeClass) -> Option<(f64, f64)>) -> Vec<Layer> {
    let layer = |(class, _, name, colour, shape): Row| {
        let mut seen = HashSet::new();
        let places = probes
            .iter()
            .filter(|probe| probe.class == class)
            .filter_map(|probe| place(&probe.point, class));
        let points: Vec<(f64, f64)> = places
            .filter(|(x, y)| seen.insert((x.to_bits(), y.to_bits())))
            .collect();
        (!points.is_empty()).then(|| Layer::dots(name, points, colour, shape))
    };
    // Probes that fit, fail or were not sent are drawn last, on top of the others.
    let mut rows = ROWS;
    rows.rotate_right(2);
    rows.into_iter().filter_map(layer).collect()
}

impl Projection<'_> {
    pub(super) fn title(&self) -> String {
        let by_slider = self
            .slider
            .map_or_else(String::new, |axis| format!(", by {}", axis.name()));
        let names = [Some(self.x), self.y].map(|axis| axis.map(boundary::Axis::name));
        match names {
            [Some("input" | "output"), Some("input" | "output")] => {
                format!("Largest input and output that fit{by_slider}")
            }
            [x, Some(y)] => format!("What fits: {} and {y}{by_slider}", x.unwrap_or_default()),
            [x, None] => format!("Largest {} that fits", x.unwrap_or_default()),
        }
    }

    /// The values of the axes not shown: `batch=1, gpus=2`.
    pub(super) fn held_values(&self) -> Vec<String> {
        let held = self.held.iter().chain(&self.fixed);
        held.map(|axis| format!("{}={}", axis.name(), axis.easiest())).collect()
    }
}

/// Maximum number of cuts.
pub(super) const MAX_CUTS: usize = 12;

/// The values at which an axis is cut, ascending: both ends and all probed values, or an even selection if these are
/// more than [`MAX_CUTS`]. The safe and the recommended point always get a cut.
fn cut_values(boundary: &Boundary, axis: &boundary::Axis, advice: Option<&Advice>) -> Vec<Scalar> {
    let (low, high) = axis.range();
    let at = |point: &Point| point.0.get(axis.name()).copied();
    let inside = |value: &Scalar| (low.as_f64()..=high.as_f64()).contains(&value.as_f64());
    let advised = advice.iter().flat_map(|advice| [&advice.safe, &advice.recommended]);
    let required = sorted_unique([low, high].into_iter().chain(advised.filter_map(at)).collect());
    let probed = boundary.records().filter_map(|(point, _)| at(&point)).filter(inside);
    let mut others = sorted_unique(probed.collect());
    others.retain(|value| required.iter().all(|own| own.as_f64() != value.as_f64()));
    let most = others.len().min(MAX_CUTS - required.len());
    let chosen = (0..most).map(|part| others[part * others.len() / most]);
    sorted_unique(required.iter().copied().chain(chosen).collect())
}

fn sorted_unique(mut values: Vec<Scalar>) -> Vec<Scalar> {
    values.sort_by(|a, b| a.as_f64().total_cmp(&b.as_f64()));
    values.dedup_by(|a, b| a.as_f64() == b.as_f64());
    values
}

/// The cut on which a probe is drawn: its own, or the nearest one that it constrains. A point that fits also fits at
/// easier values; one that fails also fails at harder ones.
fn nearest_cut(axis: &boundary::Axis, cuts: &[Scalar], point: &Point, class: ProbeClass) -> Option<usize> {
    let own = axis.difficulty(axis.of(point)?);
    let distance = |(_, cut): &(usize, &Scalar)| {
        let away = own - axis.difficulty(cut.as_f64());
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
    fn few_values_are_all_cut_and_some_of_many() {
        let map = probed([4, 8, 4, 8, 16].into_iter());
        let axis = &map.lattice().axes()[0];
        assert_eq!(ints(&cut_values(&map, axis, None)), [1.0, 4.0, 8.0, 16.0, 64.0]);
        let map = probed(1..=30);
        let axis = &map.lattice().axes()[0];
        let many = ints(&cut_values(&map, axis, None));
        assert!(
            many.len() == MAX_CUTS && many.first() == Some(&1.0) && many.last() == Some(&64.0),
            "{many:?}"
        );
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
