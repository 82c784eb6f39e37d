//! A panel of a boundary chart: a plane or a strip with its regions, probes, recommended point, and tooltips.

use std::collections::HashSet;

use super::probes::{Probe, Probes};
use super::projection::{self, Projection, cut_values, nearest_cut};
use crate::boundary::{self, Boundary, Outlines, Point, Scalar, Slice};
use crate::fault::Result;
use crate::report::Advice;
use crate::report::evidence::{NOT_SENT, ProbeClass, nearest_failure};
use crate::report::picture::beyond;
use crate::report::plot::{Axis, Colour, Layer, Panel, Scale, Shape, TooltipPoint, Tooltips};
use crate::unit::Unit;

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
        let Some(slider) = projection.slider else {
            let probes: Vec<&Probe> = self
                .probes
                .list
                .iter()
                .filter(|probe| constrains(projection, probe))
                .collect();
            return Ok(vec![self.panel(projection, None, &probes)?]);
        };
        let values = cut_values(self.boundary, slider, self.advice);
        let mut by_cut: Vec<Vec<&Probe>> = vec![Vec::new(); values.len()];
        for probe in self.probes.list.iter().filter(|probe| constrains(projection, probe)) {
            if let Some(index) = nearest_cut(slider, &values, &probe.point, probe.class) {
                by_cut[index].push(probe);
            }
        }
        let panels = values.iter().zip(by_cut);
        panels
            .map(|(value, probes)| self.panel(projection, Some(*value), &probes))
            .collect()
    }

    fn panel(&self, projection: &Projection, at: Option<Scalar>, probes: &[&Probe]) -> Result<Panel> {
        let slice_point = projection.slice_point(self.boundary, at);
        let cut = self.boundary.slice(
            projection.x.name(),
            projection.y.map(boundary::Axis::name),
            &slice_point,
        )?;
        let (across, up) = cut.ranges();
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
        let mut layers = regions(&cut, &vertical, beyond(self.boundary))?;
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
        own == Some(projection::easiest(axis).as_f64())
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
fn regions(cut: &Slice, vertical: &VerticalAxis, beyond: &'static str) -> Result<Vec<Layer>> {
    let regions = cut.regions()?;
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
    Ok(some.map(layer).collect())
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
