//! How sure an answer is: what was confirmed, at what cost, and why the search ended.

use super::context::{AnswerContext, Predictor, Search, SearchEnd};
use super::outcome::{Outcome, OutcomeKind};
use crate::boundary::{Boundary, Moves};
use crate::fault::Result;

/// How sure an answer is, and what it cost.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Confidence {
    pub(super) certainty: Certainty,
    /// Number of probes.
    pub(super) probes: usize,
    /// About how many probes the whole search takes, if that is more.
    pub(super) expected: Option<u64>,
    /// Number of points that were not sent, because the engine's own report rules them out.
    pub(super) not_sent: usize,
    pub(super) cut_short: Option<CutShort>,
    /// Whether answers contradict what the engine reports of itself.
    pub(super) report_failed: bool,
    /// Number of engine starts; `None` for an attached server.
    pub(super) starts: Option<usize>,
    /// Whether each point got a fresh engine.
    pub(super) isolated: bool,
    /// Duration, if it is long enough to mention.
    pub(super) seconds: Option<f64>,
}

/// How much of an answer is known. Shares are of the search range, 0 to 1.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Certainty {
    /// Too little is known, or the search was cut short and its table is incomplete.
    Undecided,
    /// Most of the search range is unknown.
    MostlyUnknown { open: f64 },
    /// The limit was checked at its ends, and perhaps in its middle.
    Checked {
        ends: usize,
        middle: bool,
        /// Number of these places where a point beyond the limit was sent too.
        both_sides: usize,
        /// The source of the predicted limit between these places.
        predicted: Option<Predictor>,
    },
    /// The shares that are proven, and that only the engine's own report rules out.
    Proven { proven: f64, ruled_out: f64 },
    /// The share that is resolved.
    Resolved { share: f64 },
    /// The whole search range is known: all of it fits, or none of it.
    Whole,
}

/// The reason why a search ended before it was complete.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum CutShort {
    /// Something from outside: `stopped by Ctrl-C`.
    Run(String),
    /// An option that limits the cost of the search, such as `max_probes`, ended it; the name of the option.
    Budget(String),
    /// The server died or did not answer.
    ServerLost,
    /// Several probes in a row gave no clear answer.
    Unanswered,
}

impl Confidence {
    pub(super) fn new(
        boundary: &Boundary,
        outcome: &Outcome,
        search: &Search,
        context: &AnswerContext,
    ) -> Result<Self> {
        let recorded = boundary.records().len();
        let probes = search.probes.map_or(recorded, |probes| probes.max(recorded));
        let expected = boundary.expected(probes as u64, boundary.options().coverage)?;
        let unsent = boundary.records().filter(|(_, record)| record.moves == Moves::Bounds);
        let not_sent = unsent.count();
        let cut_short = CutShort::new(search, context);
        Ok(Self {
            certainty: Certainty::new(boundary, outcome, search, not_sent, cut_short.is_some())?,
            probes,
            expected: expected.filter(|expected| *expected > probes as u64),
            not_sent,
            cut_short,
            report_failed: search.report_failed,
            starts: search.starts.filter(|starts| *starts > 0),
            isolated: search.isolated,
            seconds: search.seconds.filter(|seconds| *seconds >= 1.0),
        })
    }
}

impl CutShort {
    fn new(search: &Search, context: &AnswerContext) -> Option<Self> {
        if let Some(stopped) = &context.run.stopped {
            return Some(Self::Run(stopped.clone()));
        }
        match search.ended.as_ref()? {
            SearchEnd::Budget(name) => Some(Self::Budget(name.clone())),
            SearchEnd::ServerLost => Some(Self::ServerLost),
            SearchEnd::Unanswered => Some(Self::Unanswered),
            SearchEnd::Verified | SearchEnd::Complete => None,
        }
    }
}

impl Certainty {
    fn new(
        boundary: &Boundary,
        outcome: &Outcome,
        search: &Search,
        not_sent: usize,
        is_cut_short: bool,
    ) -> Result<Self> {
        let volume = boundary.volume()?;
        let share = |part: u128| part as f64 / volume.total.max(1) as f64;
        // Points beyond a length limit are known not to fit; points that could not be tested are unknown.
        let untested = boundary.untested().map_or(0, |_| volume.clipped);
        let open = share(volume.open + untested);
        match outcome.state() {
            OutcomeKind::Undecided => return Ok(Self::Undecided),
            OutcomeKind::Table if is_cut_short => return Ok(Self::Undecided),
            OutcomeKind::NotReached | OutcomeKind::NothingFits => return Ok(Self::Whole),
            OutcomeKind::Limit | OutcomeKind::Table => {}
        }
        Ok(match &search.verified {
            None if open > 0.5 => Self::MostlyUnknown { open },
            Some(found) if found.ends > 0 => {
                // A strategy that does not report `not_sent` has sent points beyond the limit at every place or at
                // none.
                let unsent = found.not_sent.unwrap_or(if not_sent > 0 { found.places() } else { 0 });
                let is_verified = found.middle && search.ended == Some(SearchEnd::Verified);
                Self::Checked {
                    ends: found.ends,
                    middle: found.middle,
                    both_sides: found.places().saturating_sub(unsent),
                    predicted: is_verified.then_some(found.by),
                }
            }
            _ if volume.not_sent > 0 => {
                let ruled_out = share(volume.not_sent);
                let proven = 1.0 - open - ruled_out;
                Self::Proven { proven, ruled_out }
            }
            _ => Self::Resolved { share: 1.0 - open },
        })
    }
}
