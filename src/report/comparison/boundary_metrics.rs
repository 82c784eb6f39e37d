//! Compares boundaries as metrics, on the part of the search space that all of them share, and lists points with
//! opposite verdicts.
//!
//! Each metric has an interval from what is proven to fit to what is proven to fail. Two searches of the same
//! engine overlap there, whatever points they tested.

use std::collections::BTreeSet;

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::{MetricValue, NotJudged, label};
use crate::boundary::{Answer, Axis, Boundary, Class, Easier, Moves, Point, Record, Scalar, Scale};
use crate::compare::{ComparisonInput, Direction, Unit};
use crate::fault::Result;
use crate::report::Extras;
use crate::report::findings::{Advice, advise};
use crate::run::RecordedBoundary;

/// Metrics and differences of the boundaries of several inputs.
#[derive(Default)]
pub(super) struct BoundaryMetrics {
    pub(super) names: Vec<Option<String>>,
    pub(super) figures: Vec<Vec<MetricValue>>,
    pub(super) changed_points: Vec<ChangedPoint>,
    pub(super) advice: Vec<String>,
    pub(super) notes: Vec<String>,
    pub(super) not_judged: Vec<NotJudged>,
}

/// Compares the boundaries of those inputs that have one.
pub(super) fn boundary_metrics(inputs: &[ComparisonInput]) -> Result<BoundaryMetrics> {
    let drawn: Vec<Option<&RecordedBoundary>> = inputs
        .iter()
        .map(|input| input.boundary.as_ref().filter(|found| !found.points.is_empty()))
        .collect();
    let mut boundaries: Vec<Option<Boundary>> = drawn
        .iter()
        .map(|found| found.map(RecordedBoundary::rebuild).transpose())
        .collect::<Result<_>>()?;
    let mut limits = BoundaryMetrics::default();
    let common = common_axes(&boundaries, &drawn, &mut limits)?;
    if let Some(axes) = &common {
        for (boundary, found) in boundaries.iter_mut().zip(&drawn) {
            if let (Some(boundary), Some(found)) = (boundary, found)
                && same_axes(boundary, axes)
            {
                *boundary = on_axes(found, boundary, axes)?;
            }
        }
    }
    for one in &limits.not_judged {
        boundaries[one.subject] = None;
    }
    for boundary in &boundaries {
        limits.names.push(boundary.as_ref().map(|_| "boundary".to_owned()));
        limits
            .figures
            .push(boundary.as_ref().map_or_else(|| Ok(Vec::new()), metrics)?);
    }
    if let (Some(_), Some(Some(first))) = (&common, boundaries.first()) {
        let recommended = advise(first)?.map(|Advice { recommended, .. }| recommended);
        let mut newly = [vec![0_usize; inputs.len()], vec![0; inputs.len()]];
        for (index, other) in boundaries.iter().enumerate().skip(1) {
            let Some(other) = other else { continue };
            if let Some(point) = &recommended {
                limits
                    .advice
                    .push(recommendation_status(point, other.classify(point)?, index));
            }
            let changed = changed_points(first, other, recommended.as_ref(), index)?;
            newly[0][index] = changed.failing;
            newly[1][index] = changed.fitting;
            limits.changed_points.extend(changed.listed);
            if !other.conflicts().is_empty() {
                limits.notes.push(format!(
                    "answers of {} contradict each other: a point that failed once counts as failing",
                    label(index)
                ));
            }
        }
        for (name, counts) in ["newly failing", "newly fitting"].into_iter().zip(newly) {
            for (figures, count) in limits.figures.iter_mut().zip(counts) {
                if !figures.is_empty() {
                    figures.push(MetricValue {
                        proven: true,
                        ..MetricValue::new(name, Unit::Count, count as f64)
                    });
                }
            }
        }
    }
    Ok(limits)
}

fn recommendation_status(point: &Point, class: Class, index: usize) -> String {
    let now = match class {
        Class::Fits => "fits still",
        Class::Fails => "FAILS",
        Class::Unknown => "is not proven to fit",
    };
    format!("the recommended point of [1], {point}, {now} in {}", label(index))
}

/// The intersection of the search spaces of all boundaries that answer the baseline's question; `None` if there is none.
/// The others are listed as not judged.
fn common_axes(
    boundaries: &[Option<Boundary>],
    drawn: &[Option<&RecordedBoundary>],
    limits: &mut BoundaryMetrics,
) -> Result<Option<Vec<Axis>>> {
    let (Some(Some(first)), Some(Some(asked))) = (boundaries.first(), drawn.first()) else {
        return Ok(None);
    };
    let mut axes = first.lattice().axes().to_vec();
    let mut others = 0;
    let mut narrowed = false;
    for (index, other) in boundaries.iter().enumerate().skip(1) {
        let (Some(other), Some(found)) = (other, drawn[index]) else {
            continue;
        };
        let same = same_axes(other, first.lattice().axes())
            && first
                .lattice()
                .axes()
                .iter()
                .all(|axis| other.varies(axis.name()) == first.varies(axis.name()))
            && asked.described["question"]["workload"]["name"] == found.described["question"]["workload"]["name"];
        let pairs = axes.iter().zip(other.lattice().axes());
        let cut: Option<Vec<Axis>> = pairs.map(|(a, b)| intersection(a, b)).collect();
        let Some(cut) = cut.filter(|_| same) else {
            limits.not_judged.push(NotJudged {
                subject: index,
                before: stated_limit(asked, first)?,
                after: stated_limit(found, other)?,
            });
            continue;
        };
        narrowed |= cut != axes || cut != other.lattice().axes();
        axes = cut;
        others += 1;
    }
    if narrowed {
        let ranges = axes.iter().map(|axis| {
            let (low, high) = axis.range();
            format!("{} {low} to {high}", axis.name())
        });
        let ranges: Vec<String> = ranges.collect();
        limits.notes.push(format!(
            "boundaries are compared on their common search space: {}",
            ranges.join(", ")
        ));
    }
    Ok((others > 0).then_some(axes))
}

/// The limit that a search found, as its report or its points say it.
fn stated_limit(found: &RecordedBoundary, boundary: &Boundary) -> Result<String> {
    let extras = Extras {
        report: found.report.clone(),
        ..Extras::default()
    };
    Ok(extras.answer(boundary)?.limit)
}

/// Whether a boundary has these axes, in the same direction.
fn same_axes(boundary: &Boundary, axes: &[Axis]) -> bool {
    let own = boundary.lattice().axes();
    own.len() == axes.len()
        && own
            .iter()
            .zip(axes)
            .all(|(a, b)| a.name() == b.name() && a.easier() == b.easier())
}

/// The intersection of two axes, on the lattice of the first.
fn intersection(one: &Axis, other: &Axis) -> Option<Axis> {
    let ((low, high), (other_low, other_high)) = (one.range(), other.range());
    let low = if other_low.as_f64() > low.as_f64() {
        other_low
    } else {
        low
    };
    let high = if other_high.as_f64() < high.as_f64() {
        other_high
    } else {
        high
    };
    if low.as_f64() > high.as_f64() {
        return None;
    }
    Axis::parse(one.name(), &spec(one, low, high)).ok()
}

fn spec(axis: &Axis, low: Scalar, high: Scalar) -> Value {
    let mut spec = json!({ "range": [low, high], "scale": axis.scale().name(), "easier": axis.easier().name() });
    if let Some(tolerance) = axis.tolerance() {
        spec["tolerance"] = json!(tolerance);
    }
    spec
}

/// Rebuilds the boundary on these axes.
fn on_axes(found: &RecordedBoundary, own: &Boundary, axes: &[Axis]) -> Result<Boundary> {
    let specs = axes.iter().map(|axis| {
        let (low, high) = axis.range();
        (axis.name().to_owned(), spec(axis, low, high))
    });
    let specs: Map<String, Value> = specs.collect();
    let mut boundary = Boundary::new(&Value::Object(specs), own.options())?;
    for (point, answer) in &found.points {
        boundary.record(point, &Answer::parse(answer)?)?;
    }
    Ok(boundary)
}

/// The metrics of one boundary.
fn metrics(boundary: &Boundary) -> Result<Vec<MetricValue>> {
    let mut metrics = vec![MetricValue::new("points", Unit::Count, boundary.records().len() as f64)];
    if let Ok(volume) = boundary.volume() {
        let share = |points: u128| 100.0 * points as f64 / volume.total as f64;
        metrics.push(MetricValue {
            interval: Some([share(volume.fits), share(volume.fits + volume.open)]),
            ..MetricValue::new("volume", Unit::Percent, share(volume.fits))
        });
    }
    let axes = boundary.lattice().axes();
    let easiest = axes.iter().map(|axis| (axis.name().to_owned(), ends(axis).0));
    let easiest = Point(easiest.collect());
    for axis in axes {
        metrics.extend(axis_limit(boundary, axis, &easiest)?);
    }
    let total = |point: &Point| Some(point.int("input")?.saturating_add(point.int("output")?));
    if let Some(largest) = boundary.frontier()?.iter().filter_map(total).max() {
        let (largest, most) = (largest as f64, max_total(boundary, axes)?.map(|most| most as f64));
        metrics.push(MetricValue {
            interval: most.map(|most| [largest, most.max(largest)]),
            ..MetricValue::new("largest input + output that fits", Unit::Tokens, largest)
        });
    }
    if let Some(advice) = advise(boundary)? {
        for (what, point) in [("safe", advice.safe), ("recommended", advice.recommended)] {
            for (axis, value) in &point.0 {
                let mut one = MetricValue::new(format!("{what} {axis}"), unit(axis), value.as_f64());
                let above = |own: &&Axis| own.name() == axis && own.easier() == Easier::Up;
                if one.better == Some(Direction::More) && axes.iter().any(|own| above(&own)) {
                    one.better = Some(Direction::Less);
                }
                metrics.push(one);
            }
        }
    }
    // The first one, the number of points, is a count and proves nothing.
    for one in metrics.iter_mut().skip(1) {
        one.proven = true;
    }
    Ok(metrics)
}

/// The largest value of an axis proven to fit, with all other axes at their easiest. If nothing fits: 0 where
/// small values are easier, else `None`.
fn axis_limit(boundary: &Boundary, axis: &Axis, easiest: &Point) -> Result<Option<MetricValue>> {
    let (_, hardest) = ends(axis);
    let bracket = boundary.bracket(easiest, axis.name())?;
    let fits = match (bracket.fits, axis.easier()) {
        (Some(fits), _) => fits.as_f64(),
        (None, Easier::Down) => 0.0,
        (None, Easier::Up) => return Ok(None),
    };
    let fails = bracket.fails.map_or(hardest.as_f64(), Scalar::as_f64);
    let direction = match axis.easier() {
        Easier::Down => Direction::More,
        Easier::Up => Direction::Less,
    };
    let mut interval = [fits.min(fails), fits.max(fails)];
    // A value proven to fail lies outside of the interval.
    if bracket.fails.is_some() && axis.scale() == Scale::Linear && matches!(hardest, Scalar::Int(_)) {
        match axis.easier() {
            Easier::Down => interval[1] = (interval[1] - 1.0).max(fits),
            Easier::Up => interval[0] = (interval[0] + 1.0).min(fits),
        }
    }
    Ok(Some(MetricValue {
        interval: Some(interval),
        better: Some(direction),
        ..MetricValue::new(format!("frontier {}", axis.name()), unit(axis.name()), fits)
    }))
}

fn ends(axis: &Axis) -> (Scalar, Scalar) {
    let (low, high) = axis.range();
    match axis.easier() {
        Easier::Down => (low, high),
        Easier::Up => (high, low),
    }
}

/// Upper bound of input + output of any fitting point. Known only if these two are the axes.
fn max_total(boundary: &Boundary, axes: &[Axis]) -> Result<Option<i64>> {
    let [input, output] = axes else { return Ok(None) };
    if input.name() != "input" || output.name() != "output" {
        return Ok(None);
    }
    let highest = |axis: &Axis| match axis.range().1 {
        Scalar::Int(value) => Some(value),
        Scalar::Float(_) => None,
    };
    let (Some(mut corner), Some(widest)) = (highest(output), highest(input)) else {
        return Ok(None);
    };
    let mut most: Option<i64> = None;
    let mut walls: Vec<(i64, i64)> = boundary
        .failing()?
        .iter()
        .chain(&boundary.clipped())
        .filter_map(|point| Some((point.int("input")?, point.int("output")?)))
        .collect();
    walls.sort_unstable();
    for (wide, high) in walls {
        if high <= corner {
            most = most.max(Some(wide - 1 + corner));
            corner = high - 1;
        }
    }
    Ok(most.max(Some(widest + corner)))
}

fn unit(axis: &str) -> Unit {
    match axis {
        "input" | "output" => Unit::Tokens,
        _ => Unit::Count,
    }
}

/// Points of each kind that are listed; the rest is only counted.
const MAX_LISTED: usize = 200;

/// A point with opposite verdicts in the baseline and another input.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ChangedPoint {
    /// Index of the other input; the baseline is 0.
    pub subject: usize,
    /// The point, as the baseline has it.
    pub point: Point,
    /// Whether it fits now; otherwise it fails now.
    pub fits: bool,
    /// The verdict in the baseline: `ok`, `oom (cuda)`; or `recommended`.
    pub before: String,
    /// The contradicting verdict in the other input.
    pub after: String,
    /// Where the other input has it, if not at the point itself: an easier point that fails, or a harder one
    /// that fits.
    pub at: Option<Point>,
}

/// The changed points between two boundaries, with counts.
#[derive(Default)]
struct ChangedPoints {
    listed: Vec<ChangedPoint>,
    failing: usize,
    fitting: usize,
}

/// The points of `first` for which `other` proves the opposite. `recommended` need not have been tested.
fn changed_points(
    first: &Boundary,
    other: &Boundary,
    recommended: Option<&Point>,
    subject: usize,
) -> Result<ChangedPoints> {
    let axes = first.lattice().axes();
    let records: Vec<(Point, &Record)> = other.records().collect();
    let mut changed = ChangedPoints::default();
    let mut reported = BTreeSet::new();
    let tested = first
        .records()
        .map(|(point, record)| (point, record.moves, verdict_text(record)));
    let recommended = recommended.map(|point| (point.clone(), Moves::Fits, "recommended".to_owned()));
    for (point, moves, before) in recommended.into_iter().chain(tested) {
        let fits = match (moves, first.classify(&point)?, other.classify(&point)?) {
            (Moves::Fits, Class::Fits, Class::Fails) => false,
            (Moves::Fails, Class::Fails, Class::Fits) => true,
            _ => continue,
        };
        if !inside(axes, &point) || !reported.insert(point.to_string()) {
            continue;
        }
        let count = if fits {
            &mut changed.fitting
        } else {
            &mut changed.failing
        };
        *count += 1;
        if *count > MAX_LISTED {
            continue;
        }
        let witness = witness(axes, &point, fits, &records);
        changed.listed.push(ChangedPoint {
            subject,
            fits,
            before,
            after: witness.map_or_else(String::new, |(_, record)| verdict_text(record)),
            at: witness.map(|(at, _)| at.clone()).filter(|at| *at != point),
            point,
        });
    }
    // Points that fail now come first.
    changed.listed.sort_by_key(|turned| turned.fits);
    Ok(changed)
}

/// The record that proves it: of the point itself, else the first one that implies it.
fn witness<'a>(
    axes: &[Axis],
    point: &Point,
    fits: bool,
    records: &'a [(Point, &'a Record)],
) -> Option<&'a (Point, &'a Record)> {
    let moves = if fits { Moves::Fits } else { Moves::Fails };
    let proves = |(at, record): &&(Point, &Record)| {
        let easier = if fits {
            at_most_as_hard(axes, point, at)
        } else {
            at_most_as_hard(axes, at, point)
        };
        record.moves == moves && easier
    };
    let mut proving = records.iter().filter(proves).peekable();
    let first = proving.peek().copied();
    proving.find(|(at, _)| at == point).or(first)
}

/// Whether a point is at most as hard as another on every axis.
fn at_most_as_hard(axes: &[Axis], one: &Point, other: &Point) -> bool {
    axes.iter().all(|axis| {
        let value = |point: &Point| point.0.get(axis.name()).map(|value| value.as_f64());
        match (value(one), value(other), axis.easier()) {
            (Some(one), Some(other), Easier::Down) => one <= other,
            (Some(one), Some(other), Easier::Up) => one >= other,
            _ => false,
        }
    })
}

fn inside(axes: &[Axis], point: &Point) -> bool {
    axes.iter().all(|axis| {
        let (low, high) = axis.range();
        let value = point.0.get(axis.name()).map(|value| value.as_f64());
        value.is_some_and(|value| (low.as_f64()..=high.as_f64()).contains(&value))
    })
}

fn verdict_text(record: &Record) -> String {
    match &record.cause {
        Some(cause) => format!("{} ({cause})", record.verdict.name()),
        None => record.verdict.name().to_owned(),
    }
}
