//! Compares boundaries as metrics, on the part of the search space that all of them share, and lists points with
//! opposite verdicts.
//!
//! Each metric has an interval between the values that are proven to fit and to fail. The intervals of two searches of
//! the same engine overlap, whichever points they tested.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::finding::{ChangedPoint, Comparison, MetricValue, NotJudged, label};
use crate::answer::advise;
use crate::answer::evidence::with_cause;
use crate::boundary::{Answer, Axis, Boundary, Class, Easier, Lattice, Moves, Point, Record, Scalar, Scale};
use crate::compare::{ComparisonInput, Direction, Unit};
use crate::fault::Result;
use crate::report::recorded_answer::Extras;
use crate::run::RecordedBoundary;

/// Larger than any metric, but small enough that percentages of it stay finite.
const UNBOUNDED: f64 = 1e300;

/// The metrics of each input that has a boundary. Adds points with opposite verdicts and other findings to the
/// comparison.
pub(super) fn compare(comparison: &mut Comparison, inputs: &[ComparisonInput]) -> Result<Vec<Vec<MetricValue>>> {
    let mut boundaries = Vec::new();
    for input in inputs {
        let recorded = input.boundary.as_ref().filter(|found| !found.points.is_empty());
        let rebuilt = recorded.map(RecordedBoundary::rebuild).transpose()?;
        boundaries.push(recorded.zip(rebuilt));
    }
    let common = common_axes(&boundaries, comparison)?;
    let mut on_common = Vec::new();
    for (index, boundary) in boundaries.into_iter().enumerate() {
        let judged = comparison.not_judged.iter().all(|one| one.subject != index);
        on_common.push(match (boundary.filter(|_| judged), &common) {
            (Some((recorded, own)), Some(axes)) => Some(on_axes(recorded, &own, axes)?),
            (boundary, _) => boundary.map(|(_, own)| own),
        });
    }
    let mut metrics: Vec<Vec<MetricValue>> = on_common
        .iter()
        .map(|boundary| boundary.as_ref().map_or_else(|| Ok(Vec::new()), metrics_of))
        .collect::<Result<_>>()?;
    let (Some(_), Some(Some(first))) = (common, on_common.first()) else {
        return Ok(metrics);
    };
    let recommended = advise(first)?.map(|advice| advice.recommended);
    let mut add_counts = |index: usize, counts: [usize; 2]| {
        for (name, count) in ["newly failing", "newly fitting"].into_iter().zip(counts) {
            metrics[index].push(MetricValue::new(name, Unit::Count, count as f64));
        }
    };
    add_counts(0, [0, 0]);
    for (index, other) in on_common.iter().enumerate().skip(1) {
        let Some(other) = other else { continue };
        if let Some(point) = &recommended {
            let now = match other.classify(point)? {
                Class::Fits => "fits still",
                Class::Fails => "FAILS",
                Class::NotSent => "IS RULED OUT by the engine's own report",
                Class::Unknown => "is not proven to fit",
            };
            let status = format!("the recommended point of [1], {point}, {now} in {}", label(index));
            comparison.advice.push(status);
        }
        let (listed, counts) = changed_points(first, other, recommended.as_ref(), index)?;
        comparison.changed_points.extend(listed);
        add_counts(index, counts);
        if !other.conflicts().is_empty() {
            comparison.notes.push(format!(
                "answers of {} contradict each other: a point that failed once counts as failing",
                label(index)
            ));
        }
    }
    Ok(metrics)
}

/// The values that a metric of an unfinished search can still reach. Counts and fitting values grow during a search; on
/// an axis where large values are easier, fitting values shrink.
pub(super) fn possible_values(metric: &MetricValue) -> [f64; 2] {
    let interval = metric.interval.unwrap_or([-UNBOUNDED, UNBOUNDED]);
    if metric.better == Some(Direction::Less) && !metric.name.starts_with("newly ") {
        [interval[0], metric.value]
    } else {
        [metric.value, interval[1]]
    }
}

/// The intersection of the search spaces of all boundaries that answer the baseline's question; `None` if there is
/// none. Other boundaries are listed as not judged.
fn common_axes(
    boundaries: &[Option<(&RecordedBoundary, Boundary)>],
    comparison: &mut Comparison,
) -> Result<Option<Vec<Axis>>> {
    let Some(Some((asked, first))) = boundaries.first() else {
        return Ok(None);
    };
    let mut axes = first.lattice().axes().to_vec();
    let mut others = 0;
    let mut narrowed = false;
    let workload = |recorded: &RecordedBoundary| recorded.described["question"]["workload"]["name"].clone();
    for (index, boundary) in boundaries.iter().enumerate().skip(1) {
        let Some((found, other)) = boundary else { continue };
        let own = other.lattice().axes();
        let same_question = own.len() == axes.len() && workload(asked) == workload(found);
        let cut: Option<Vec<Axis>> = axes
            .iter()
            .zip(own)
            .map(|(one, other_axis)| {
                let (name, same) = (one.name(), one.easier() == other_axis.easier());
                let same = same && name == other_axis.name() && first.varies(name) == other.varies(name);
                intersection(one, other_axis).filter(|_| same)
            })
            .collect();
        let Some(cut) = cut.filter(|_| same_question) else {
            comparison.not_judged.push(NotJudged {
                subject: index,
                before: stated_limit(asked, first)?,
                after: stated_limit(found, other)?,
            });
            continue;
        };
        narrowed |= cut != axes || cut != own;
        axes = cut;
        others += 1;
    }
    if narrowed {
        let ranges = axes
            .iter()
            .map(|axis| {
                let (low, high) = axis.range();
                format!("{} {low} to {high}", axis.name())
            })
            .collect::<Vec<_>>()
            .join(", ");
        comparison.notes.push(format!(
            "boundaries are compared on their common search space: {ranges}"
        ));
    }
    Ok((others > 0).then_some(axes))
}

/// The limit that a search found, as stated in its report or derived from its points.
fn stated_limit(found: &RecordedBoundary, boundary: &Boundary) -> Result<String> {
    let extras = Extras {
        report: found.report.clone(),
        ..Extras::default()
    };
    Ok(extras.answer(boundary)?.limit)
}

/// The intersection of two axes, on the lattice of the first.
fn intersection(one: &Axis, other: &Axis) -> Option<Axis> {
    let ((mut low, mut high), (other_low, other_high)) = (one.range(), other.range());
    if other_low.as_f64() > low.as_f64() {
        low = other_low;
    }
    if other_high.as_f64() < high.as_f64() {
        high = other_high;
    }
    let overlap = low.as_f64() <= high.as_f64();
    Axis::parse(one.name(), &spec(one, low, high)).ok().filter(|_| overlap)
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
    let specs: Map<String, Value> = axes
        .iter()
        .map(|axis| {
            let (low, high) = axis.range();
            (axis.name().to_owned(), spec(axis, low, high))
        })
        .collect();
    let mut boundary = Boundary::new(&Value::Object(specs), own.options())?;
    for (point, answer) in &found.points {
        boundary.record(point, &Answer::parse(&answer.value())?)?;
    }
    Ok(boundary)
}

/// The metrics of one boundary.
fn metrics_of(boundary: &Boundary) -> Result<Vec<MetricValue>> {
    let mut metrics = vec![MetricValue::new("points", Unit::Count, boundary.records().len() as f64)];
    if let Ok(volume) = boundary.volume() {
        let share = |points: u128| 100.0 * points as f64 / volume.total as f64;
        metrics.push(MetricValue {
            interval: Some([share(volume.fits), share(volume.fits + volume.open)]),
            ..MetricValue::new("volume", Unit::Percent, share(volume.fits))
        });
    }
    let axes = boundary.lattice().axes();
    let easiest = boundary.smallest();
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
        for (axis, value) in &advice.recommended.0 {
            let mut one = MetricValue::new(format!("recommended {axis}"), unit(axis), value.as_f64());
            if axes.iter().any(|own| own.name() == axis && own.easier() == Easier::Up) {
                one.better = Some(Direction::Less);
            }
            metrics.push(one);
        }
    }
    Ok(metrics)
}

/// The largest value of an axis proven to fit, with all other axes at their easiest. If nothing fits: 0 if small values
/// are easier, else `None`.
fn axis_limit(boundary: &Boundary, axis: &Axis, easiest: &Point) -> Result<Option<MetricValue>> {
    let bracket = boundary.bracket(easiest, axis.name())?;
    let fits = match (bracket.fits, axis.easier()) {
        (Some(fits), _) => fits.as_f64(),
        (None, Easier::Down) => 0.0,
        (None, Easier::Up) => return Ok(None),
    };
    let (low, high) = axis.range();
    let fails = bracket.fails.map(Scalar::as_f64);
    // A value proven to fail lies outside of the interval.
    let step = match (axis.scale(), high) {
        (Scale::Linear, Scalar::Int(_)) => 1.0,
        _ => 0.0,
    };
    let (direction, interval) = match axis.easier() {
        Easier::Down => {
            let most = fails.map_or(high.as_f64(), |fails| (fails - step).max(fits));
            (Direction::More, [fits, most])
        }
        Easier::Up => {
            let least = fails.map_or(low.as_f64(), |fails| (fails + step).min(fits));
            (Direction::Less, [least, fits])
        }
    };
    Ok(Some(MetricValue {
        interval: Some(interval),
        better: Some(direction),
        ..MetricValue::new(format!("frontier {}", axis.name()), unit(axis.name()), fits)
    }))
}

/// Upper bound of input + output of any fitting point. Known only if these two are the axes.
fn max_total(boundary: &Boundary, axes: &[Axis]) -> Result<Option<i64>> {
    let largest = boundary.largest();
    let (2, Some(widest), Some(mut corner)) = (axes.len(), largest.int("input"), largest.int("output")) else {
        return Ok(None);
    };
    let mut most: Option<i64> = None;
    let mut walls: Vec<(i64, i64)> = boundary
        .bounding()?
        .into_iter()
        .chain(boundary.clipped())
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

/// The points of `first` with the opposite verdict in `other`, at most [`MAX_LISTED`] of each kind; and two counts:
/// points that now fail or are ruled out, and points that now fit. `recommended` need not have been tested.
fn changed_points(
    first: &Boundary,
    other: &Boundary,
    recommended: Option<&Point>,
    subject: usize,
) -> Result<(Vec<ChangedPoint>, [usize; 2])> {
    let axes = first.lattice().axes();
    let records: Vec<(Point, &Record)> = other.records().collect();
    let (mut listed, mut counts) = (Vec::new(), [0, 0]);
    let mut reported = BTreeSet::new();
    let tested = first
        .records()
        .map(|(point, record)| (point, record.moves, verdict_text(record)));
    let recommended = recommended.map(|point| (point.clone(), Moves::Fits, "recommended".to_owned()));
    for (point, moves, before) in recommended.into_iter().chain(tested) {
        let fits = match (moves, first.classify(&point)?, other.classify(&point)?) {
            (Moves::Fits, Class::Fits, Class::Fails | Class::NotSent) => false,
            (Moves::Fails, Class::Fails, Class::Fits) | (Moves::Bounds, Class::NotSent, Class::Fits) => true,
            _ => continue,
        };
        if !inside(axes, &point) || !reported.insert(point.to_string()) {
            continue;
        }
        counts[usize::from(fits)] += 1;
        if counts[usize::from(fits)] > MAX_LISTED {
            continue;
        }
        let witness = witness(first.lattice(), &point, fits, &records);
        listed.push(ChangedPoint {
            subject,
            fits,
            before,
            after: witness.map_or_else(String::new, |(_, record)| verdict_text(record)),
            at: witness.map(|(at, _)| at.clone()).filter(|at| *at != point),
            point,
        });
    }
    // Points that now fail come first.
    listed.sort_by_key(|changed: &ChangedPoint| changed.fits);
    Ok((listed, counts))
}

/// The record that proves the verdict: the point's own, else the first one that implies it.
fn witness<'a>(
    lattice: &Lattice,
    point: &Point,
    fits: bool,
    records: &'a [(Point, &'a Record)],
) -> Option<&'a (Point, &'a Record)> {
    let proves = |(at, record): &&(Point, &Record)| {
        let (easier, harder) = if fits { (point, at) } else { (at, point) };
        let moved = match record.moves {
            Moves::Fits => fits,
            Moves::Fails | Moves::Bounds => !fits,
            Moves::None => false,
        };
        moved && lattice.is_at_most_as_hard(easier, harder)
    };
    let mut proving = records.iter().filter(proves).peekable();
    let first = proving.peek().copied();
    proving.find(|(at, _)| at == point).or(first)
}

fn inside(axes: &[Axis], point: &Point) -> bool {
    axes.iter().all(|axis| {
        let (low, high) = axis.range();
        let value = axis.of(point);
        value.is_some_and(|value| (low.as_f64()..=high.as_f64()).contains(&value))
    })
}

fn verdict_text(record: &Record) -> String {
    with_cause(record.verdict, record.cause.as_ref())
}
