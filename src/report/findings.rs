//! What a boundary comes to: the value that `report(map)` gives.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

use super::advice::{Advice, advise};
use crate::boundary::{Band, Boundary, Moves, Point, Predicted, Scalar, Verdict};
use crate::fault::Result;

/// What `report(map)` gives.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Findings {
    /// The largest points known to fit.
    pub frontier: Vec<Point>,
    /// What to run: the safe point less the margin; none where nothing fits.
    pub recommended: Option<Point>,
    /// What to paste into the engine's command line to serve the recommended point.
    pub flags: Vec<String>,
    /// Bytes of memory left at the safe point; none where memory was not measured.
    pub headroom: Option<u64>,
    /// Every point, in recording order.
    pub points: Vec<Row>,
    /// By axis, the widest stretch that is still open.
    pub gap: BTreeMap<String, Scalar>,
    /// Where the boundary is predicted to run within it, which proves nothing.
    pub predicted: Vec<Predicted>,
    /// Where answers contradict each other; nothing in it or above it is called fitting.
    pub band: Option<Band>,
    /// What the search told of itself, where the script handed it over.
    pub search: Option<Value>,
}

/// One recorded point.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// The point.
    pub point: Point,
    /// Its verdict.
    pub verdict: Verdict,
    /// Why.
    pub cause: Option<String>,
    /// What it says of the boundary.
    pub moves: Moves,
    /// What shows it.
    pub evidence: Option<Value>,
}

impl Findings {
    /// Sums a boundary up. `search` is what the search told of itself, `flags` gives the flags for a point, `headroom` the bytes left at one.
    pub fn of(
        boundary: &Boundary,
        search: Option<Value>,
        flags: impl FnOnce(&Point) -> Result<Vec<String>>,
        headroom: impl FnOnce(&Point) -> Option<u64>,
    ) -> Result<Self> {
        let advice = advise(boundary)?;
        let rows = boundary.records().map(|(point, record)| Row {
            point,
            verdict: record.verdict,
            cause: record.cause.as_deref().map(str::to_owned),
            moves: record.moves,
            evidence: record.evidence.as_deref().cloned(),
        });
        let (flags, headroom, recommended) = match advice {
            Some(Advice { safe, recommended }) => (flags(&recommended)?, headroom(&safe), Some(recommended)),
            None => (Vec::new(), None, None),
        };
        Ok(Self {
            frontier: boundary.frontier()?,
            recommended,
            flags,
            headroom,
            points: rows.collect(),
            gap: boundary.gap()?.into_iter().collect(),
            predicted: boundary.predicted()?,
            band: boundary.band(),
            search,
        })
    }
}
