//! The findings about a boundary as a value, which `report(map)` returns to a script.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Value, json};

use super::advice::advise;
use super::context::AnswerContext;
use super::words::SearchAnswer;
use crate::boundary::{Band, Boundary, Point, PredictedCrossing, Scalar};
use crate::fault::Result;

/// The value that `report(map)` returns.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Findings {
    /// The answer in words.
    pub answer: SearchAnswer,
    /// The largest points proven to fit.
    pub frontier: Vec<Point>,
    /// The point of the answer's last workload; `None` if nothing fits.
    pub recommended: Option<Point>,
    /// The engine's flags for the recommended point.
    pub flags: Vec<String>,
    /// Bytes of memory left at the largest confirmed point; `None` if memory was not measured.
    pub headroom: Option<u64>,
    /// All recorded points, in order.
    pub points: Vec<Value>,
    /// The widest unresolved interval of each axis.
    pub gap: BTreeMap<String, Scalar>,
    /// Predicted points of the boundary; they prove nothing.
    pub predicted: Vec<PredictedCrossing>,
    /// The band in which answers contradict each other; no point in or above it counts as fitting.
    pub band: Option<Band>,
    /// Statistics of the search, if the script passed them.
    pub search: Option<Value>,
}

impl Findings {
    /// Summarises a boundary.
    ///
    /// # Errors
    ///
    /// Fails as [`SearchAnswer::new`] does.
    pub fn new(boundary: &Boundary, context: &AnswerContext) -> Result<Self> {
        let answer = SearchAnswer::new(boundary, context)?;
        let advice = advise(boundary)?;
        let run = answer.run.last();
        let rows = boundary.records().map(|(point, record)| {
            json!({
                "point": point,
                "verdict": record.verdict,
                "cause": record.cause,
                "moves": record.moves,
                "evidence": record.evidence(),
            })
        });
        Ok(Self {
            frontier: boundary.frontier()?,
            flags: run.map(|command| command.flags.clone()).unwrap_or_default(),
            headroom: advice.as_ref().and_then(|advice| (context.headroom)(&advice.safe)),
            recommended: run
                .map(|command| command.point.clone())
                .or(advice.map(|advice| advice.recommended)),
            points: rows.collect(),
            gap: boundary.gap()?.into_iter().collect(),
            predicted: boundary.predicted()?,
            band: boundary.band(),
            search: context.search.cloned(),
            answer,
        })
    }
}
