//! Points that were seen to fit and now fail, and the other way round: what two boundaries say of the same question.

use std::collections::BTreeSet;

use serde::Serialize;

use crate::boundary::{Axis, Boundary, Class, Easier, Moves, Point, Record};
use crate::fault::Result;

/// Points of each kind that are listed; more are counted.
const LISTED: usize = 200;

/// A point of which two boundaries say the opposite.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Turned {
    /// The other subject's index; the first is 0.
    pub subject: usize,
    /// The point, as the first has it.
    pub point: Point,
    /// Whether it fits now; else it fails now.
    pub fits: bool,
    /// What the first saw there: `ok`, `oom (cuda)`; `recommended`.
    pub before: String,
    /// What the other saw that says the opposite.
    pub after: String,
    /// Where the other saw it, if not at the point itself: an easier point that fails, a harder one that fits.
    pub at: Option<Point>,
}

/// Points that turned from the first boundary to another, and how many there are.
#[derive(Default)]
pub(super) struct Turns {
    pub(super) listed: Vec<Turned>,
    pub(super) failing: usize,
    pub(super) fitting: usize,
}

/// The points of `first` of which `other` says the opposite. `recommended` is one that nobody need have asked.
pub(super) fn turns(first: &Boundary, other: &Boundary, recommended: Option<&Point>, subject: usize) -> Result<Turns> {
    let axes = first.lattice().axes();
    let seen: Vec<(Point, &Record)> = other.records().collect();
    let mut turns = Turns::default();
    let mut known = BTreeSet::new();
    let asked = first
        .records()
        .map(|(point, record)| (point, record.moves, said(record)));
    let recommended = recommended.map(|point| (point.clone(), Moves::Fits, "recommended".to_owned()));
    for (point, moves, before) in recommended.into_iter().chain(asked) {
        let fits = match (moves, first.classify(&point)?, other.classify(&point)?) {
            (Moves::Fits, Class::Fits, Class::Fails) => false,
            (Moves::Fails, Class::Fails, Class::Fits) => true,
            _ => continue,
        };
        if !inside(axes, &point) || !known.insert(point.to_string()) {
            continue;
        }
        let count = if fits { &mut turns.fitting } else { &mut turns.failing };
        *count += 1;
        if *count > LISTED {
            continue;
        }
        let witness = witness(axes, &point, fits, &seen);
        turns.listed.push(Turned {
            subject,
            fits,
            before,
            after: witness.map_or_else(String::new, |(_, record)| said(record)),
            at: witness.map(|(at, _)| at.clone()).filter(|at| *at != point),
            point,
        });
    }
    // What fails now is what matters.
    turns.listed.sort_by_key(|turned| turned.fits);
    Ok(turns)
}

/// What shows it: the point itself, else the first one that follows from nothing else.
fn witness<'a>(
    axes: &[Axis],
    point: &Point,
    fits: bool,
    seen: &'a [(Point, &'a Record)],
) -> Option<&'a (Point, &'a Record)> {
    let moves = if fits { Moves::Fits } else { Moves::Fails };
    let told = |(at, record): &&(Point, &Record)| {
        let easier = if fits {
            easier(axes, point, at)
        } else {
            easier(axes, at, point)
        };
        record.moves == moves && easier
    };
    let mut telling = seen.iter().filter(told).peekable();
    let first = telling.peek().copied();
    telling.find(|(at, _)| at == point).or(first)
}

/// Whether one point is at most as hard as another on every axis.
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

/// `oom (cuda)`.
fn said(record: &Record) -> String {
    match &record.cause {
        Some(cause) => format!("{} ({cause})", record.verdict.name()),
        None => record.verdict.name().to_owned(),
    }
}
