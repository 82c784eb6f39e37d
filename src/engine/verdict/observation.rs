//! The observations of a probe, and the judgement derived from them.

use super::bounds::{Bound, EngineBounds};
use crate::boundary::{Cause, Verdict};
use crate::engine::facts::queue::QueueMetrics;
use crate::engine::wire::refusal::Credentials;
use crate::load::{RequestRecord, Tolerance};
use crate::run::Limits;
use crate::runtime::Exit;

/// Everything that decides a verdict.
pub(crate) struct Observation<'a> {
    pub(crate) requested: Limits,
    /// Output tokens that may be missing.
    pub(crate) tolerance: Tolerance,
    pub(crate) answers: &'a [RequestRecord],
    /// Exit of the engine's process, if it exited.
    pub(crate) exit: Option<&'a Exit>,
    /// Whether the engine still serves after failed requests; `None` if that was not checked.
    pub(crate) survived: Option<bool>,
    /// Log lines since the probe began.
    pub(crate) log: &'a [String],
    pub(crate) queue: &'a QueueMetrics,
    /// The engine's own bounds.
    pub(crate) reported: &'a EngineBounds,
    /// Tokens of prompts that the engine reads in one step, if known.
    pub(crate) prefill_budget: Option<u64>,
    /// The engine's own limit on concurrent sequences, if it reports one.
    pub(crate) max_num_seqs: Option<u64>,
    /// Whether the engine is simulated.
    pub(crate) simulated: bool,
    /// The path and the credentials of the requests.
    pub(crate) path: &'a str,
    pub(crate) credentials: Credentials<'a>,
    /// Whether an input count near the requested one is accepted.
    pub(crate) near: bool,
}

/// A verdict and its reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Judgement {
    pub(crate) verdict: Verdict,
    pub(crate) cause: Option<Cause>,
    /// One sentence for the user.
    pub(crate) message: Option<String>,
    /// The text that decided the verdict.
    pub(crate) line: Option<String>,
    /// The remedy, if the rule has one.
    pub(crate) remedy: Option<String>,
    /// Input tokens as counted in a refusal, if they differ from the requested number.
    pub(crate) counted: Option<u64>,
    /// The highest number of requests that ran together, if not all did.
    pub(crate) running: Option<u64>,
}

impl Judgement {
    pub(crate) fn ok(message: Option<String>) -> Self {
        Self {
            verdict: Verdict::Ok,
            cause: None,
            message,
            line: None,
            remedy: None,
            counted: None,
            running: None,
        }
    }

    pub(crate) fn new(verdict: Verdict, cause: Cause, message: impl Into<String>) -> Self {
        Self {
            verdict,
            cause: Some(cause),
            ..Self::ok(Some(message.into()))
        }
    }

    /// `Refused` instead if a bound explains it.
    pub(crate) fn explained_by(self, bound: Option<Bound>) -> Self {
        let Some(bound) = bound else { return self };
        let message = format!("{}; {}", self.message.unwrap_or_default(), bound.message);
        Self::new(Verdict::Refused, bound.cause, message)
    }

    /// Adds to the message.
    pub(crate) fn add(&mut self, more: &str) {
        let message = self.message.get_or_insert_default();
        message.push_str(if message.is_empty() { "" } else { "; " });
        message.push_str(more);
    }
}

#[cfg(test)]
impl<'a> Observation<'a> {
    pub(crate) fn from_limits(
        requested: Limits,
        answers: &'a [RequestRecord],
        queue: &'a QueueMetrics,
        reported: &'a EngineBounds,
    ) -> Self {
        Self {
            requested,
            tolerance: Tolerance::default(),
            answers,
            exit: None,
            survived: None,
            log: &[],
            queue,
            reported,
            prefill_budget: None,
            max_num_seqs: None,
            simulated: false,
            path: "/v1/completions",
            credentials: Credentials::None,
            near: false,
        }
    }
}
