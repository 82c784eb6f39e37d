//! Points with opposite verdicts in two boundaries: they fitted and now fail, or the reverse.

use std::collections::BTreeSet;

use serde::Serialize;

use crate::boundary::{Axis, Boundary, Class, Easier, Moves, Point, Record};
use crate::fault::Result;

/// Points of each kind that are listed; the rest is only counted.
const LISTED: usize = 200;

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
pub(super) struct ChangedPoints {
    pub(super) listed: Vec<ChangedPoint>,
    pub(super) failing: usize,
    pub(super) fitting: usize,
}

/// The points of `first` for which `other` proves the opposite. `recommended` need not have been tested.
pub(super) fn changed_points(
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
        if *count > LISTED {
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
            easier(axes, point, at)
        } else {
            easier(axes, at, point)
        };
        record.moves == moves && easier
    };
    let mut proving = records.iter().filter(proves).peekable();
    let first = proving.peek().copied();
    proving.find(|(at, _)| at == point).or(first)
}

/// Whether a point is at most as hard as another on every axis.
fn easier(axes: &[Axis], one: &Point, other: &Point) -> bool {
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
