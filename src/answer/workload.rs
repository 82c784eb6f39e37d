//! What to run: the workload that was requested, or one for each round length in the search range.

use std::collections::BTreeSet;

use serde::Serialize;

use super::limit::{ADMISSION, cause};
use super::{Command, Context, advise, with_margin};
use crate::boundary::{Boundary, Class, Limit, Moves, Point, Quantity, Scalar};
use crate::fault::Result;
use crate::fmt::thousands;

/// Lengths in tokens for which the largest concurrency or output is listed.
const ROUND: [i64; 12] = [
    128, 256, 512, 1024, 2048, 4096, 8192, 16_384, 32_768, 65_536, 131_072, 262_144,
];

/// Rows for round lengths; the longest are kept.
const ROWS: usize = 4;

/// The largest value of one axis that is proven to fit, for a length.
struct Row {
    /// The length and the largest value.
    point: Point,
    /// The axis whose largest value it is.
    axis: &'static str,
}

impl Row {
    fn value(&self) -> i64 {
        self.point.int(self.axis).unwrap_or(0)
    }

    fn count(&self, axis: &str) -> Option<String> {
        Some(thousands(u64::try_from(self.point.int(axis)?).ok()?))
    }

    /// `4,096 + 128 tokens`.
    fn shape(&self) -> String {
        match (self.count("input"), self.count("output")) {
            (Some(input), Some(output)) => format!("{input} + {output} tokens"),
            (Some(input), None) => format!("{input} input tokens"),
            (None, Some(output)) => format!("{output} output tokens"),
            (None, None) => String::new(),
        }
    }

    /// `24 concurrent requests of 4,096 + 128 tokens`.
    fn workload(&self) -> String {
        let shape = self.shape();
        let many = self.count("concurrency");
        let many = many.filter(|many| self.axis == "concurrency" || many != "1");
        let Some(many) = many else {
            return format!("a request of {shape}");
        };
        let noun = if many == "1" { "request" } else { "requests" };
        let of = if shape.is_empty() { "" } else { " of " };
        format!("{many} concurrent {noun}{of}{shape}")
    }

    /// The largest value along the row's axis that is expected to fit: by the limit, or by the candidate limits that agree with
    /// all answers.
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

    /// The largest value that the limits which agree with all answers predict, where they were verified and it is far more
    /// than what fitted.
    fn likely(&self, boundary: &Boundary, context: &Context) -> Result<Option<String>> {
        if context.search.is_none_or(|search| search["verified"]["by"] != "fitted") {
            return Ok(None);
        }
        let expected = self.expected(boundary, None)?;
        let far = expected > self.value() + self.value() / 10;
        Ok(u64::try_from(expected).ok().filter(|_| far).map(thousands))
    }

    /// Whether the point itself was tested, not only one with longer requests.
    fn is_tested(&self, boundary: &Boundary) -> bool {
        let mut records = boundary.records();
        records.any(|(point, record)| record.moves == Moves::Fits && point == self.point)
    }

    /// Whether the point is at the limit along another axis than its own.
    fn is_at_limit(&self, boundary: &Boundary) -> Result<bool> {
        let axes = ["input", "output", "concurrency"].into_iter();
        for axis in axes.filter(|axis| *axis != self.axis && boundary.varies(axis)) {
            let bracket = boundary.bracket(&self.point, axis)?;
            if bracket.fails.is_some() && bracket.fits == self.point.int(axis).map(Scalar::Int) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The point less the margin: of concurrent requests 5 % of their number, else 5 % of each length. All of it taken from
    /// the output would leave nearly none to a long input.
    fn eased(&self, boundary: &Boundary) -> Point {
        if self.axis != "concurrency" {
            return with_margin(boundary.lattice().axes(), &self.point);
        }
        let fitted = self.value();
        let margin = if fitted < 4 { 0 } else { (fitted + 19) / 20 };
        let least = boundary.smallest().int(self.axis).unwrap_or(fitted);
        self.point.clone().with(self.axis, (fitted - margin).max(least))
    }
}

/// Whether a limit allows a point. In the KV cache a request takes whole blocks.
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

/// The length that the rows are listed by, if any, and the axis whose largest value they say.
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

/// A row for each round length in the search range and for the longest request that fitted, or a single one if the length
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

/// The rows to offer: those that were tested themselves, or where none was, or the search was asked for no more, the point at
/// which the limit was confirmed.
fn offered(boundary: &Boundary, context: &Context) -> Result<Vec<Row>> {
    let mut offered = rows(boundary)?;
    offered.retain(|row| row.is_tested(boundary));
    let corner_only = context.search.is_some_and(|search| search["advice_probes"] == 0);
    if (corner_only || offered.is_empty())
        && let (Some((_, axis)), Some(advice)) = (axes_of_rows(boundary), advise(boundary)?)
    {
        let point = advice.safe;
        offered = vec![Row { point, axis }];
    }
    Ok(offered)
}

/// A point to test so that it can be offered.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Candidate {
    /// Just inside the predicted limit.
    pub point: Point,
    /// The axis whose largest value it is.
    pub along: &'static str,
}

/// What to test so that the answer can offer it: for each of its rows the point just inside the predicted limit, the longest
/// requests first. Empty where nothing is known to fail, or where the answer is a single point that the search itself tested.
///
/// # Errors
///
/// As [`Boundary::frontier`].
pub fn candidates(boundary: &Boundary) -> Result<Vec<Candidate>> {
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
        Ok(Candidate {
            point: row.point.with(row.axis, expected),
            along: row.axis,
        })
    });
    found.collect()
}

/// What to run. Flags limit concurrency only if concurrency was searched or given.
pub(super) fn commands(boundary: &Boundary, limit: Option<&Limit>, context: &Context) -> Result<Vec<Command>> {
    let one = (Scalar::Int(1), Scalar::Int(1));
    let mut axes = boundary.lattice().axes().iter();
    let asked = axes.any(|axis| axis.name() == "concurrency" && axis.range() != one);
    let command = |workload: String, point: Point, flags: &Point| -> Result<Command> {
        let flags = (context.flags)(flags, asked)?;
        Ok(Command { workload, point, flags })
    };
    let largest = boundary.largest();
    if boundary.classify(&largest)? == Class::Fits {
        let workload = format!("{largest}, the end of the search range");
        return Ok(vec![command(workload, largest.clone(), &largest)?]);
    }
    // The engine's own figure is exact; memory that is allocated as needed is not.
    let exact = limit.is_some_and(|limit| limit.is_exact() || cause(boundary, limit) == ADMISSION);
    if let (Some(limit), false) = (limit, boundary.varies("concurrency")) {
        let point = match exact {
            true => limit.at.clone(),
            false => with_margin(boundary.lattice().axes(), &limit.at),
        };
        let total = Quantity::Total.of(&point);
        let total = total.filter(|_| exact && limit.quantity == Quantity::Total);
        let workload = match total {
            Some(total) => format!("requests of up to {} tokens (tested)", thousands(total)),
            None if point == limit.at => format!("{point} (tested)"),
            None => format!("{point} ({} fitted, less 5 %)", limit.at),
        };
        let longest = longest_input(boundary, limit, &point);
        return Ok(vec![command(workload, point, &longest)?]);
    }
    let mut commands = Vec::new();
    for row in offered(boundary, context)? {
        let axis = row.axis;
        let end = boundary.largest().int(axis) == Some(row.value());
        let at_end = end && !row.is_at_limit(boundary)?;
        let point = match exact || at_end {
            true => row.point.clone(),
            false if end => with_margin(boundary.lattice().axes(), &row.point),
            false => row.eased(boundary),
        };
        let fitted = row.count("concurrency").filter(|_| axis == "concurrency");
        let fitted = fitted.unwrap_or_else(|| row.shape());
        let note = if point != row.point {
            format!(" ({fitted} fitted, less 5 %)")
        } else if at_end {
            " (the end of the search range)".to_owned()
        } else {
            String::new()
        };
        let eased = Row { point, axis };
        let workload = format!("{}{note}", eased.workload());
        commands.push(command(workload, eased.point.clone(), &eased.point)?);
    }
    Ok(commands)
}

/// Where only the sum of input and output is limited, flags must allow the longest input, whatever the split of the point that was tested.
fn longest_input(boundary: &Boundary, limit: &Limit, point: &Point) -> Point {
    let (smallest, largest) = (boundary.smallest(), boundary.largest());
    let lengths = || {
        let total = point.int("input")? + point.int("output")?;
        let input = (total - smallest.int("output")?).min(largest.int("input")?);
        Some((input, total - input))
    };
    match lengths().filter(|_| limit.quantity == Quantity::Total) {
        Some((input, output)) => point.clone().with("input", input).with("output", output),
        None => point.clone(),
    }
}

/// Describes limits that are no single inequality.
pub(super) fn table_text(boundary: &Boundary, context: &Context) -> Result<String> {
    let rows = rows(boundary)?;
    let shown = |row: &Row| -> Result<String> {
        Ok(match row.likely(boundary, context)? {
            Some(most) => format!("at least {} ({most} predicted)", row.workload()),
            None => row.workload(),
        })
    };
    let ends = match &rows[..] {
        [first, .., last] if first.value() != last.value() => format!("{}, {}", shown(first)?, shown(last)?),
        [.., last] => shown(last)?,
        [] => boundary.frontier()?.last().map(ToString::to_string).unwrap_or_default(),
    };
    let why = match boundary.band() {
        Some(_) => "answers contradict each other: only what fitted every time counts",
        None => "no single formula agrees with every answer",
    };
    Ok(format!("{ends}; {why}"))
}
