//! What to run: the workload that was requested, or one for each round length in the search range.

use std::collections::BTreeSet;

use super::limit::{ADMISSION, cause};
use super::{Command, Context, with_margin};
use crate::boundary::{Boundary, Class, Limit, Point, Quantity, Scalar};
use crate::fault::Result;
use crate::fmt::thousands;

/// Lengths in tokens for which the largest concurrency or output is listed.
const ROUND: [i64; 12] = [
    128, 256, 512, 1024, 2048, 4096, 8192, 16_384, 32_768, 65_536, 131_072, 262_144,
];

/// Rows for round lengths; the longest are kept.
const ROWS: usize = 5;

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

    /// How many concurrent requests the limit predicts, where that is far more than what fitted: nearer to the limit no
    /// request of this length was tested.
    fn predicted(&self, limit: &Limit, boundary: &Boundary) -> Option<u64> {
        let fitted = u64::try_from(self.point.int("concurrency")?).ok()?;
        let most = u64::try_from(boundary.largest().int("concurrency")?).ok()?;
        let total = Quantity::Total.of(&self.point)?;
        let is_shared = limit.quantity == Quantity::AllTokens && self.axis == "concurrency";
        let predicted = limit.value().checked_div(total)?.min(most);
        (is_shared && predicted > fitted + fitted / 10).then_some(predicted)
    }

    /// The largest value that the limits which agree with all answers predict, where they were verified and it is far more
    /// than what fitted.
    fn likely(&self, boundary: &Boundary, context: &Context) -> Result<Option<String>> {
        if context.search.is_none_or(|search| search["verified"]["by"] != "fitted") {
            return Ok(None);
        }
        let most = boundary.largest().int(self.axis).unwrap_or(0);
        let (mut fits, mut beyond) = (self.value(), most + 1);
        while beyond - fits > 1 {
            let middle = fits + (beyond - fits) / 2;
            let predicted = boundary.predict(&self.point.clone().with(self.axis, middle))?;
            match predicted.chance.is_some_and(|chance| chance >= 0.5) {
                true => fits = middle,
                false => beyond = middle,
            }
        }
        let far = fits > self.value() + self.value() / 10;
        Ok(u64::try_from(fits).ok().filter(|_| far).map(thousands))
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

/// A row for each round length in the search range and for the longest request that fitted, or a single one if the length
/// does not vary.
fn rows(boundary: &Boundary) -> Result<Vec<Row>> {
    let smallest = boundary.smallest();
    let mut lengths = vec!["input", "output"];
    lengths.retain(|name| boundary.varies(name));
    let (by, axis) = match (lengths.as_slice(), boundary.varies("concurrency")) {
        ([by, ..], true) => (Some(*by), "concurrency"),
        ([], true) => (None, "concurrency"),
        (["input", "output"], false) => (Some("input"), "output"),
        (["input"], false) => (None, "input"),
        (["output"], false) => (None, "output"),
        _ => return Ok(Vec::new()),
    };
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
    for row in rows(boundary)? {
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
        let predicted = match limit {
            Some(limit) => row
                .predicted(limit, boundary)
                .map(|most| format!("the formula predicts {}", thousands(most))),
            None => row.likely(boundary, context)?.map(|most| format!("{most} predicted")),
        };
        let mut notes = Vec::new();
        notes.extend((point != row.point).then(|| format!("{fitted} fitted, less 5 %")));
        notes.extend(predicted.map(|predicted| format!("{predicted}, not tested")));
        if notes.is_empty() && at_end {
            notes.push("the end of the search range".to_owned());
        }
        let note = if notes.is_empty() {
            String::new()
        } else {
            format!(" ({})", notes.join("; "))
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
