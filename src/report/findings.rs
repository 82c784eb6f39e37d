//! The summary of a boundary as a value: what the script function `report(map)` returns.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

use super::advice::{Advice, advise};
use crate::boundary::{Band, Boundary, Moves, Point, PredictedCrossing, Scalar, Verdict};
use crate::fault::Result;

/// What `report(map)` returns.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Findings {
    /// The largest points proven to fit.
    pub frontier: Vec<Point>,
    /// The recommended operating point; `None` if nothing fits.
    pub recommended: Option<Point>,
    /// Command line flags with which the engine serves the recommended point.
    pub flags: Vec<String>,
    /// Bytes of memory left at the safe point; `None` if memory was not measured.
    pub headroom: Option<u64>,
    /// All recorded points, in order.
    pub points: Vec<RecordedPoint>,
    /// The widest unresolved interval of each axis.
    pub gap: BTreeMap<String, Scalar>,
    /// Predicted points of the boundary; they prove nothing.
    pub predicted: Vec<PredictedCrossing>,
    /// The band in which answers contradict each other; no point in or above it counts as fitting.
    pub band: Option<Band>,
    /// Statistics of the search, if the script passed them.
    pub search: Option<Value>,
}

/// One recorded point.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RecordedPoint {
    /// The point.
    pub point: Point,
    /// Its verdict.
    pub verdict: Verdict,
    /// The cause of the verdict.
    pub cause: Option<String>,
    /// What it proves about the boundary.
    pub moves: Moves,
    /// The evidence of the verdict.
    pub evidence: Option<Value>,
}

impl Findings {
    /// Summarises a boundary. `search` holds the statistics of the search, `flags` returns the engine flags for
    /// a point, `headroom` the bytes left at one.
    pub fn new(
        boundary: &Boundary,
        search: Option<Value>,
        flags: impl FnOnce(&Point) -> Result<Vec<String>>,
        headroom: impl FnOnce(&Point) -> Option<u64>,
    ) -> Result<Self> {
        let advice = advise(boundary)?;
        let rows = boundary.records().map(|(point, record)| RecordedPoint {
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
