//! The points that an answer offers to run: the hardest point if everything fits, else the largest request that a limit
//! allows, the requested workload, or one point for each round length.

use super::advice::with_margin;
use super::context::{AnswerContext, Search};
use super::limit::FoundLimit;
use super::outcome::Outcome;
use super::rows::{Row, offered};
use crate::boundary::{Boundary, Limit, Point, Quantity, Scalar};
use crate::fault::Result;

/// A point to run, with the engine's flags.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Offer {
    /// A point that fitted, or that is easier than one that did.
    pub(super) point: Point,
    /// The engine's flags; empty without an engine.
    pub(super) flags: Vec<String>,
    pub(super) basis: Basis,
}

/// Why a point can be offered.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Basis {
    /// It is the hardest point of the search range, which fits.
    Whole,
    /// Requests of up to this number of input and output tokens together were tested, for any split between the two.
    Total(u64),
    /// It was tested.
    Tested,
    /// It is a margin easier than this point, which fitted.
    Eased(Point),
    /// A tested row: it has the largest value of the row's axis.
    Row(Row),
    /// A tested row whose largest value is the end of the search range.
    RowAtEnd(Row),
    /// A row that is a margin easier than `fitted`.
    RowEased { row: Row, fitted: Row },
}

/// The points to offer; empty if too little is known.
pub(super) fn offers(
    boundary: &Boundary,
    outcome: &Outcome,
    search: &Search,
    context: &AnswerContext,
) -> Result<Vec<Offer>> {
    let limit = match outcome {
        Outcome::Undecided(_) => return Ok(Vec::new()),
        Outcome::NotReached { largest, .. } => {
            return Ok(vec![Offer::new(boundary, context, largest.clone(), Basis::Whole)?]);
        }
        outcome => outcome.limit(),
    };
    match limit {
        Some(limit) if !boundary.varies("concurrency") => Ok(vec![of_one_request(boundary, context, limit)?]),
        limit => {
            let exact = limit.is_some_and(FoundLimit::is_exact);
            offered(boundary, search)?
                .into_iter()
                .map(|row| of_row(boundary, context, row, exact))
                .collect()
        }
    }
}

impl Offer {
    fn new(boundary: &Boundary, context: &AnswerContext, point: Point, basis: Basis) -> Result<Self> {
        let flags = flags(boundary, context, &point)?;
        Ok(Self { point, flags, basis })
    }
}

/// The engine's flags. They limit concurrency only if concurrency was searched or given.
fn flags(boundary: &Boundary, context: &AnswerContext, point: &Point) -> Result<Vec<String>> {
    let one = (Scalar::Int(1), Scalar::Int(1));
    let concurrency = boundary
        .lattice()
        .axes()
        .iter()
        .any(|axis| axis.name() == "concurrency" && axis.range() != one);
    (context.flags)(point, concurrency)
}

/// The largest single request that a limit allows, less the margin unless the limit is exact.
fn of_one_request(boundary: &Boundary, context: &AnswerContext, limit: &FoundLimit) -> Result<Offer> {
    let (exact, limit) = (limit.is_exact(), &limit.limit);
    // The engine's own figure is exact; memory that is allocated as needed is not.
    let point = if exact {
        limit.at.clone()
    } else {
        with_margin(boundary.lattice().axes(), &limit.at)
    };
    let basis = match Quantity::Total.of(&point) {
        Some(total) if exact && limit.quantity == Quantity::Total => Basis::Total(total),
        _ if point == limit.at => Basis::Tested,
        _ => Basis::Eased(limit.at.clone()),
    };
    let flags = flags(boundary, context, &longest_input(boundary, limit, &point))?;
    Ok(Offer { point, flags, basis })
}

/// The point of a row, less the margin unless the limit is `exact` or lies beyond the search range.
fn of_row(boundary: &Boundary, context: &AnswerContext, fitted: Row, exact: bool) -> Result<Offer> {
    let is_end = boundary.largest().int(fitted.axis) == Some(fitted.value());
    let is_open = is_end && !fitted.is_at_limit(boundary)?;
    let point = if exact || is_open {
        fitted.point.clone()
    } else if is_end {
        with_margin(boundary.lattice().axes(), &fitted.point)
    } else {
        fitted.eased(boundary)
    };
    let row = Row {
        point: point.clone(),
        axis: fitted.axis,
    };
    let basis = if point != fitted.point {
        Basis::RowEased { row, fitted }
    } else if is_open {
        Basis::RowAtEnd(row)
    } else {
        Basis::Row(row)
    };
    Offer::new(boundary, context, point, basis)
}

/// The point that the flags must allow. If only the sum of input and output is limited, it has the longest possible
/// input, not the split that was tested.
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
