//! What boundaries come to, in figures that can be held against each other: on the box that all of them have in common.
//!
//! What a search proves is a bound, and where the limit itself lies is known only as far as it was looked: each figure has the interval from what is proven to fit to
//! what is proven to fail. Two searches of the same engine overlap there, whatever points they chose.

use serde_json::{Map, Value, json};

use super::turned::{Turned, turns};
use super::{Named, letter};
use crate::boundary::{Answer, Axis, Boundary, Class, Easier, Point, Scalar, Scale};
use crate::compare::{ComparisonInput, Direction, Unit};
use crate::fault::Result;
use crate::report::advice::{Advice, advise};
use crate::run::FoundBoundary;

/// What the boundaries of several subjects come to.
#[derive(Default)]
pub(super) struct Limits {
    pub(super) names: Vec<Option<String>>,
    pub(super) figures: Vec<Vec<Named>>,
    pub(super) turned: Vec<Turned>,
    pub(super) advice: Vec<String>,
    pub(super) notes: Vec<String>,
}

/// Of each subject that has a boundary.
pub(super) fn limits(subjects: &[ComparisonInput]) -> Result<Limits> {
    let drawn: Vec<Option<&FoundBoundary>> = subjects
        .iter()
        .map(|subject| subject.boundary.as_ref().filter(|found| !found.points.is_empty()))
        .collect();
    let mut boundaries: Vec<Option<Boundary>> = drawn
        .iter()
        .map(|found| found.map(FoundBoundary::rebuild).transpose())
        .collect::<Result<_>>()?;
    let mut limits = Limits::default();
    let common = common(&boundaries, &mut limits.notes);
    if let Some(axes) = &common {
        for (boundary, found) in boundaries.iter_mut().zip(&drawn) {
            if let (Some(boundary), Some(found)) = (boundary, found)
                && alike(boundary, axes)
            {
                *boundary = within(found, boundary, axes)?;
            }
        }
    }
    for boundary in &boundaries {
        limits.names.push(boundary.as_ref().map(|_| "boundary".to_owned()));
        limits
            .figures
            .push(boundary.as_ref().map_or_else(|| Ok(Vec::new()), figures)?);
    }
    if let (Some(axes), Some(Some(first))) = (&common, boundaries.first()) {
        let recommended = advise(first)?.map(|Advice { recommended, .. }| recommended);
        let mut newly = [vec![0_usize; subjects.len()], vec![0; subjects.len()]];
        for (index, other) in boundaries.iter().enumerate().skip(1) {
            let Some(other) = other.as_ref().filter(|other| alike(other, axes)) else {
                continue;
            };
            if let Some(point) = &recommended {
                limits.advice.push(kept(point, other.classify(point)?, index));
            }
            let turns = turns(first, other, recommended.as_ref(), index)?;
            newly[0][index] = turns.failing;
            newly[1][index] = turns.fitting;
            limits.turned.extend(turns.listed);
            if !other.conflicts().is_empty() {
                limits.notes.push(format!(
                    "answers of {} contradict each other: what failed once of several times counts as failing",
                    letter(index)
                ));
            }
        }
        for (name, counts) in ["newly failing", "newly fitting"].into_iter().zip(newly) {
            for (figures, count) in limits.figures.iter_mut().zip(counts) {
                if !figures.is_empty() {
                    figures.push(Named {
                        proven: true,
                        ..Named::new(name, Unit::Count, count as f64)
                    });
                }
            }
        }
    }
    Ok(limits)
}

fn kept(point: &Point, class: Class, index: usize) -> String {
    let now = match class {
        Class::Fits => "fits still",
        Class::Fails => "FAILS",
        Class::Unknown => "is not proven to fit",
    };
    format!("what [1] recommends, {point}, {now} in {}", letter(index))
}

/// The box that all boundaries of the first one's axes have in common; none where there is nothing to compare.
fn common(boundaries: &[Option<Boundary>], notes: &mut Vec<String>) -> Option<Vec<Axis>> {
    let first = boundaries.first()?.as_ref()?;
    let mut axes = first.lattice().axes().to_vec();
    let mut others = 0;
    let mut narrowed = false;
    for (index, other) in boundaries.iter().enumerate().skip(1) {
        let Some(other) = other else { continue };
        if !alike(other, &axes) {
            notes.push(format!(
                "the boundary of {} has other axes than that of [1]: they are not compared point by point",
                letter(index)
            ));
            continue;
        }
        let cut: Option<Vec<Axis>> = axes
            .iter()
            .zip(other.lattice().axes())
            .map(|(a, b)| cut(a, b))
            .collect();
        let Some(cut) = cut else {
            notes.push(format!(
                "the boxes of [1] and {} have nothing in common: their boundaries are not compared point by point",
                letter(index)
            ));
            return None;
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
        notes.push(format!(
            "boundaries are compared on the box that they have in common: {}",
            ranges.join(", ")
        ));
    }
    (others > 0).then_some(axes)
}

/// Whether a boundary has these axes, the same way round.
fn alike(boundary: &Boundary, axes: &[Axis]) -> bool {
    let own = boundary.lattice().axes();
    own.len() == axes.len()
        && own
            .iter()
            .zip(axes)
            .all(|(a, b)| a.name() == b.name() && a.easier() == b.easier())
}

/// What two axes have in common, on the lattice of the first.
fn cut(one: &Axis, other: &Axis) -> Option<Axis> {
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

/// The boundary on that box; itself where that is its own.
fn within(found: &FoundBoundary, own: &Boundary, axes: &[Axis]) -> Result<Boundary> {
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

/// One boundary in figures.
fn figures(boundary: &Boundary) -> Result<Vec<Named>> {
    let mut named = vec![Named::new("points", Unit::Count, boundary.records().len() as f64)];
    if let Ok(volume) = boundary.volume() {
        let share = |points: u128| 100.0 * points as f64 / volume.total as f64;
        named.push(Named {
            interval: Some([share(volume.fits), share(volume.fits + volume.open)]),
            ..Named::new("volume", Unit::Percent, share(volume.fits))
        });
    }
    let axes = boundary.lattice().axes();
    let easiest = axes.iter().map(|axis| (axis.name().to_owned(), ends(axis).0));
    let easiest = Point(easiest.collect());
    for axis in axes {
        named.extend(along(boundary, axis, &easiest)?);
    }
    let total = |point: &Point| Some(point.int("input")?.saturating_add(point.int("output")?));
    if let Some(largest) = boundary.frontier()?.iter().filter_map(total).max() {
        let (largest, most) = (largest as f64, most(boundary, axes)?.map(|most| most as f64));
        named.push(Named {
            interval: most.map(|most| [largest, most.max(largest)]),
            ..Named::new("largest input + output that fits", Unit::Tokens, largest)
        });
    }
    if let Some(advice) = advise(boundary)? {
        for (what, point) in [("safe", advice.safe), ("recommended", advice.recommended)] {
            for (axis, value) in &point.0 {
                let mut one = Named::new(format!("{what} {axis}"), unit(axis), value.as_f64());
                let above = |own: &&Axis| own.name() == axis && own.easier() == Easier::Up;
                if one.better == Some(Direction::More) && axes.iter().any(|own| above(&own)) {
                    one.better = Some(Direction::Less);
                }
                named.push(one);
            }
        }
    }
    // How often it was asked is proven of nothing.
    for one in named.iter_mut().skip(1) {
        one.proven = true;
    }
    Ok(named)
}

/// How far it is proven to fit along an axis, all others at their easiest; 0 where nothing does and small is easy.
fn along(boundary: &Boundary, axis: &Axis, easiest: &Point) -> Result<Option<Named>> {
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
    // What is proven to fail is out of reach.
    if bracket.fails.is_some() && axis.scale() == Scale::Linear && matches!(hardest, Scalar::Int(_)) {
        match axis.easier() {
            Easier::Down => interval[1] = (interval[1] - 1.0).max(fits),
            Easier::Up => interval[0] = (interval[0] + 1.0).min(fits),
        }
    }
    Ok(Some(Named {
        interval: Some(interval),
        better: Some(direction),
        ..Named::new(format!("frontier {}", axis.name()), unit(axis.name()), fits)
    }))
}

/// The easiest and the hardest value of an axis.
fn ends(axis: &Axis) -> (Scalar, Scalar) {
    let (low, high) = axis.range();
    match axis.easier() {
        Easier::Down => (low, high),
        Easier::Up => (high, low),
    }
}

/// The most that input and output together can be before a point fails; known where these two are the axes.
fn most(boundary: &Boundary, axes: &[Axis]) -> Result<Option<i64>> {
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
