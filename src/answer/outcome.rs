//! The kind of a search's answer: a limit, a table, everything fits, nothing fits, or undecided.

use serde::{Deserialize, Serialize};

use super::context::Search;
use super::limit::FoundLimit;
use super::rows::{TableRow, table_rows};
use crate::boundary::{Boundary, Class, Moves, Point, Quantity, Record, Scalar, Verdict};
use crate::evidence::Evidence;
use crate::fault::Result;

/// The kind of an answer, as written in journals and `--json`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutcomeKind {
    /// One inequality agrees with every answer, or the boundary on the only axis is known to within the tolerance.
    Limit,
    /// No inequality agrees with every answer: a table lists the largest values that fitted.
    Table,
    /// Everything in the search range fits.
    NotReached,
    /// Not even the smallest point of the search range fits.
    NothingFits,
    /// Too little is known.
    #[default]
    Undecided,
}

/// The result of a search.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Outcome {
    /// Everything in the search range fits, up to its hardest point.
    NotReached {
        largest: Point,
        /// The model's maximum of input and output tokens together, if the range ends there.
        positions: Option<u64>,
    },
    /// One inequality agrees with every answer.
    Limit(FoundLimit),
    /// No inequality agrees with every answer, but only one axis varies, and its boundary is known to within the
    /// tolerance.
    Edge { fits: Point, beyond: Point, end: End },
    /// No inequality agrees with every answer, along several axes.
    Table {
        /// The first and the last row of the table; only the last if their values are equal.
        ends: Vec<TableRow>,
        /// The last of the largest points that fit, for a table without rows.
        fits: Point,
        /// The verified limit as people write it, if it counts blocks.
        formula: Option<String>,
    },
    /// Some points both fitted and failed. Only points that fitted every time count.
    Contradictory { ends: Vec<TableRow>, fits: Point },
    /// Not even the smallest point of the search range fits.
    NothingFits { smallest: Point, why: Misfit },
    /// Too little is known.
    Undecided(Gap),
}

/// Why the smallest point does not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Misfit {
    /// It fails.
    Fails,
    /// It fitted and failed.
    Unreliable,
    /// It was not sent: the engine's own report rules it out.
    RuledOut,
    /// It is refused for its length.
    TooLong,
}

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Gap {
    /// Memory could not be tested, and nothing fits.
    Untested(Untested),
    /// The tested points fail, and nothing smaller was tested.
    NothingSmaller { smallest: Point },
    /// The engine's own report rules out the points of the search, and no point that was sent fitted.
    NothingSent { smallest: Point },
    /// No probe gave a clear answer.
    NoAnswer,
    /// This point fits, and nothing harder is known to fail.
    NothingFails { fits: Point },
    /// The easiest value beyond the largest fitting one could not be tested.
    Untestable { fits: Point, beyond: Point },
    /// The interval between these points is unknown.
    Between { fits: Point, beyond: Point, end: End },
}

/// How a point beyond a limit is known not to fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Fails,
    /// The engine's own report rules it out.
    NotSent,
    /// It is refused for its length.
    TooLong,
}

/// A point at which memory could not be tested.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Untested {
    pub(super) point: Point,
    pub(super) verdict: Verdict,
    /// Whether the probe ended an attached server.
    pub(super) ended_server: bool,
    pub(super) message: Option<String>,
}

impl Untested {
    pub(super) fn new((point, record): (Point, &Record)) -> Self {
        Self {
            point,
            verdict: record.verdict,
            ended_server: record.ended_server(),
            message: Evidence::from_record(record).message,
        }
    }
}

impl Outcome {
    /// Classifies a boundary.
    ///
    /// # Errors
    ///
    /// `limit` for a boundary with too many corners.
    pub(super) fn new(boundary: &Boundary, search: &Search) -> Result<Self> {
        let (smallest, largest) = (boundary.smallest(), boundary.largest());
        if boundary.classify(&largest)? == Class::Fits {
            let total = Quantity::Total.of(&largest);
            let positions = search.positions.filter(|positions| Some(*positions) == total);
            return Ok(Self::NotReached { largest, positions });
        }
        if let Some(limit) = boundary.stated_limit() {
            return Ok(Self::Limit(FoundLimit::new(boundary, limit)));
        }
        if let Some(why) = misfit(boundary, &smallest)? {
            return Ok(Self::NothingFits { smallest, why });
        }
        match boundary.frontier()?.pop() {
            None => Ok(Self::Undecided(nothing_fitted(boundary, smallest))),
            Some(fits) => beyond(boundary, search, fits),
        }
    }

    /// The kind of this outcome.
    pub(super) fn state(&self) -> OutcomeKind {
        match self {
            Self::NotReached { .. } => OutcomeKind::NotReached,
            Self::Limit(_) | Self::Edge { .. } => OutcomeKind::Limit,
            Self::Table { .. } | Self::Contradictory { .. } => OutcomeKind::Table,
            Self::NothingFits { .. } => OutcomeKind::NothingFits,
            Self::Undecided(_) => OutcomeKind::Undecided,
        }
    }

    /// The limit, if it is an inequality.
    pub(super) fn limit(&self) -> Option<&FoundLimit> {
        match self {
            Self::Limit(limit) => Some(limit),
            _ => None,
        }
    }
}

/// Whether a record has this effect on the boundary.
fn moved(boundary: &Boundary, moves: Moves) -> bool {
    boundary.records().any(|(_, record)| record.moves == moves)
}

/// Why the smallest point does not fit; `None` if it does, or if that is not known.
fn misfit(boundary: &Boundary, smallest: &Point) -> Result<Option<Misfit>> {
    Ok(match boundary.classify(smallest)? {
        Class::NotSent => Some(Misfit::RuledOut),
        Class::Fails if boundary.band().is_some() => Some(Misfit::Unreliable),
        Class::Fails => Some(Misfit::Fails),
        Class::Fits => None,
        // A point that could not be tested takes precedence: its message tells the user what to do.
        Class::Unknown if boundary.untested().is_some() => None,
        Class::Unknown => boundary.clipped().contains(smallest).then_some(Misfit::TooLong),
    })
}

/// Why it is not known whether anything fits.
fn nothing_fitted(boundary: &Boundary, smallest: Point) -> Gap {
    match boundary.untested() {
        Some(untested) => Gap::Untested(Untested::new(untested)),
        None if moved(boundary, Moves::Fails) => Gap::NothingSmaller { smallest },
        None if moved(boundary, Moves::Bounds) => Gap::NothingSent { smallest },
        None => Gap::NoAnswer,
    }
}

/// The outcome if `fits` is the last frontier point and no inequality agrees with every answer.
fn beyond(boundary: &Boundary, search: &Search, fits: Point) -> Result<Outcome> {
    let is_ended = moved(boundary, Moves::Fails) || moved(boundary, Moves::Bounds);
    let is_clipped = !boundary.clipped().is_empty() && boundary.untested().is_none();
    if !is_ended && !is_clipped {
        return Ok(Outcome::Undecided(Gap::NothingFails { fits }));
    }
    if boundary.band().is_some() {
        let ends = table_rows(boundary, search)?;
        return Ok(Outcome::Contradictory { ends, fits });
    }
    if let Some(outcome) = along_one_axis(boundary)? {
        return Ok(outcome);
    }
    let ends = table_rows(boundary, search)?;
    let formula = search.verified.as_ref().and_then(|verified| verified.formula.clone());
    Ok(Outcome::Table { ends, fits, formula })
}

/// The outcome along the only axis that varies; `None` if several vary.
fn along_one_axis(boundary: &Boundary) -> Result<Option<Outcome>> {
    let mut axes = boundary
        .lattice()
        .axes()
        .iter()
        .filter(|axis| boundary.varies(axis.name()));
    let (Some(axis), None) = (axes.next(), axes.next()) else {
        return Ok(None);
    };
    let bracket = boundary.bracket(&boundary.smallest(), axis.name())?;
    let Some(fits) = bracket.fits else {
        return Ok(None);
    };
    let coordinate = |value: Scalar| Point([(axis.name().to_owned(), value)].into());
    let fits = coordinate(fits);
    let Some(beyond) = bracket.fails else {
        return Ok(Some(Outcome::Undecided(Gap::NothingFails { fits })));
    };
    let mut at = boundary.smallest();
    at.0.insert(axis.name().to_owned(), beyond);
    let (class, beyond) = (boundary.classify(&at)?, coordinate(beyond));
    if class == Class::Unknown && boundary.untested().is_some() {
        return Ok(Some(Outcome::Undecided(Gap::Untestable { fits, beyond })));
    }
    let end = match class {
        Class::NotSent => End::NotSent,
        _ if moved(boundary, Moves::Fails) => End::Fails,
        _ => End::TooLong,
    };
    let (low, high) = axis.range();
    // The default tolerance of a search.
    let narrow = axis.tolerance().unwrap_or((high.as_f64() - low.as_f64()) / 64.0);
    let is_narrow = bracket.width.as_f64() <= narrow.max(f64::EPSILON);
    Ok(Some(if is_narrow {
        Outcome::Edge { fits, beyond, end }
    } else {
        Outcome::Undecided(Gap::Between { fits, beyond, end })
    }))
}
