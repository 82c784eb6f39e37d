//! The table of the largest values that fitted, with a row for each round length in the search range, and the points to
//! test before a row can be offered.

use std::collections::BTreeSet;

use serde::Serialize;

use super::advice::{advise, with_margin};
use super::context::{Predictor, Search};
use crate::boundary::{Boundary, Class, Limit, Moves, Point, Quantity, Scalar};
use crate::fault::Result;

/// Lengths in tokens for which the largest concurrency or output is listed.
const ROUND: [i64; 12] = [
    128, 256, 512, 1024, 2048, 4096, 8192, 16_384, 32_768, 65_536, 131_072, 262_144,
];

/// Rows for round lengths; the longest are kept.
const ROWS: usize = 4;

/// The largest value of one axis that is proven to fit at a given length.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Row {
    /// The length and the largest value.
    pub(super) point: Point,
    /// The axis on which the value is the largest that fits.
    pub(super) axis: &'static str,
}

impl Row {
    pub(super) fn value(&self) -> i64 {
        self.point.int(self.axis).unwrap_or(0)
    }

    /// The largest value along the row's axis that should fit according to the limit, or without one according to the
    /// candidate limits that agree with all answers.
    fn expected(&self, boundary: &Boundary, limit: Option<&Limit>) -> Result<i64> {
        let mut fits = self.value();
        let mut beyond = match boundary.bracket(&self.point, self.axis)?.fails {
            Some(Scalar::Int(fails)) => fails,
            _ => boundary.largest().int(self.axis).unwrap_or(fits) + 1,
        };
        while beyond - fits > 1 {
            let middle = fits + (beyond - fits) / 2;
            let point = self.point.clone().with(self.axis, middle);
            let is_expected = match limit {
                Some(limit) => is_within(boundary, limit, &point),
                None => boundary.predict(&point)?.chance.is_some_and(|chance| chance >= 0.5),
            };
            if is_expected {
                fits = middle;
            } else {
                beyond = middle;
            }
        }
        Ok(fits)
    }

    /// Whether the point itself was tested, not only one with longer requests.
    fn is_tested(&self, boundary: &Boundary) -> bool {
        let mut records = boundary.records();
        records.any(|(point, record)| record.moves == Moves::Fits && point == self.point)
    }

    /// Whether the point is at the limit along an axis other than the row's own.
    pub(super) fn is_at_limit(&self, boundary: &Boundary) -> Result<bool> {
        let axes = ["input", "output", "concurrency"].into_iter();
        for axis in axes.filter(|axis| *axis != self.axis && boundary.varies(axis)) {
            let bracket = boundary.bracket(&self.point, axis)?;
            if bracket.fails.is_some() && bracket.fits == self.point.int(axis).map(Scalar::Int) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The point less the margin: 5 % of the concurrency, else 5 % of each length. A margin taken from the output alone
    /// would leave a long input with almost no output.
    pub(super) fn eased(&self, boundary: &Boundary) -> Point {
        if self.axis != "concurrency" {
            return with_margin(boundary.lattice().axes(), &self.point);
        }
        let fitted = self.value();
        let margin = if fitted < 4 { 0 } else { (fitted + 19) / 20 };
        let least = boundary.smallest().int(self.axis).unwrap_or(fitted);
        self.point.clone().with(self.axis, (fitted - margin).max(least))
    }
}

/// Whether a limit allows a point. A request takes whole blocks of the KV cache.
fn is_within(boundary: &Boundary, limit: &Limit, point: &Point) -> bool {
    let block = boundary.report().and_then(|report| report.block).unwrap_or(1).max(1);
    let tokens = || {
        let total = Quantity::Total.of(point)?.div_ceil(block) * block;
        total.checked_mul(u64::try_from(point.int("concurrency").unwrap_or(1)).ok()?)
    };
    let used = match limit.quantity {
        Quantity::AllTokens => tokens(),
        quantity => quantity.of(point),
    };
    used.is_some_and(|used| used <= limit.value())
}

/// The length that the rows are listed by, if any, and the axis whose largest value they give.
fn axes_of_rows(boundary: &Boundary) -> Option<(Option<&'static str>, &'static str)> {
    let mut lengths = vec!["input", "output"];
    lengths.retain(|name| boundary.varies(name));
    match (lengths.as_slice(), boundary.varies("concurrency")) {
        ([by, ..], true) => Some((Some(*by), "concurrency")),
        ([], true) => Some((None, "concurrency")),
        (["input", "output"], false) => Some((Some("input"), "output")),
        (["input"], false) => Some((None, "input")),
        (["output"], false) => Some((None, "output")),
        _ => None,
    }
}

/// A row for each round length in the search range and for the longest request that fitted; a single row if the length
/// does not vary.
fn rows(boundary: &Boundary) -> Result<Vec<Row>> {
    let Some((by, axis)) = axes_of_rows(boundary) else {
        return Ok(Vec::new());
    };
    let smallest = boundary.smallest();
    let mut points = vec![smallest.clone()];
    if let Some(by) = by {
        let total = |point: &Point| Some((Quantity::Total.of(point), point.int(by)?));
        let longest = boundary.frontier()?.iter().filter_map(total).max();
        let mut lengths: BTreeSet<i64> = ROUND.into_iter().chain(longest.map(|(_, length)| length)).collect();
        let range = smallest.int(by)..=boundary.largest().int(by);
        lengths.retain(|length| range.contains(&Some(*length)));
        if !lengths.is_empty() {
            points = lengths
                .iter()
                .map(|length| smallest.clone().with(by, *length))
                .collect();
        }
    }
    let mut rows = Vec::new();
    for point in points {
        if let Some(Scalar::Int(value)) = boundary.bracket(&point, axis)?.fits {
            let point = point.with(axis, value);
            rows.push(Row { point, axis });
        }
    }
    Ok(rows.split_off(rows.len().saturating_sub(ROWS)))
}

/// The rows to offer: the tested rows. If no row was tested, or the search ran without advice, the point at which the
/// limit was confirmed.
pub(super) fn offered(boundary: &Boundary, search: &Search) -> Result<Vec<Row>> {
    let mut offered = rows(boundary)?;
    offered.retain(|row| row.is_tested(boundary));
    if (search.without_advice || offered.is_empty())
        && let (Some((_, axis)), Some(advice)) = (axes_of_rows(boundary), advise(boundary)?)
    {
        let point = advice.safe;
        offered = vec![Row { point, axis }];
    }
    Ok(offered)
}

/// A row, and its predicted value.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct TableRow {
    pub(super) row: Row,
    /// The largest value predicted by the limits that agree with all answers. `None` unless they were verified and
    /// predict over 10 % more than fitted.
    pub(super) predicted: Option<u64>,
}

impl TableRow {
    fn new(boundary: &Boundary, search: &Search, row: Row) -> Result<Self> {
        let is_fitted = search
            .verified
            .as_ref()
            .is_some_and(|found| found.by == Predictor::Fitted);
        if !is_fitted {
            return Ok(Self { row, predicted: None });
        }
        let expected = row.expected(boundary, None)?;
        let is_far = expected > row.value() + row.value() / 10;
        let predicted = u64::try_from(expected).ok().filter(|_| is_far);
        Ok(Self { row, predicted })
    }
}

/// The rows at both ends of the table: one if their values are the same, none if no row is known to fit.
pub(super) fn table_rows(boundary: &Boundary, search: &Search) -> Result<Vec<TableRow>> {
    let mut rows = rows(boundary)?;
    let last = rows.pop();
    let first = rows
        .into_iter()
        .next()
        .filter(|first| last.as_ref().is_some_and(|last| first.value() != last.value()));
    let ends = first.into_iter().chain(last);
    ends.map(|row| TableRow::new(boundary, search, row)).collect()
}

/// A point to test so that it can be offered.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AdviceCandidate {
    /// Just inside the predicted limit.
    pub point: Point,
    /// The axis on which the point is at the predicted limit.
    pub along: &'static str,
}

/// The points to test before the answer can offer them: for each of its rows the point just inside the predicted limit,
/// the longest requests first. Empty if nothing is known to fail, or if the answer is a single point that the search
/// itself tested.
///
/// # Errors
///
/// As [`Boundary::frontier`].
pub fn candidates(boundary: &Boundary) -> Result<Vec<AdviceCandidate>> {
    let limit = boundary.stated_limit();
    let is_listed = axes_of_rows(boundary).is_some_and(|(by, _)| by.is_some());
    let is_single = limit.is_some() && !boundary.varies("concurrency");
    let is_bounded = boundary
        .records()
        .any(|(_, record)| matches!(record.moves, Moves::Fails | Moves::Bounds));
    if !is_listed || is_single || !is_bounded || boundary.classify(&boundary.largest())? == Class::Fits {
        return Ok(Vec::new());
    }
    let found = rows(boundary)?.into_iter().rev().map(|row| {
        let expected = row.expected(boundary, limit.as_ref())?;
        Ok(AdviceCandidate {
            point: row.point.with(row.axis, expected),
            along: row.axis,
        })
    });
    found.collect()
}
