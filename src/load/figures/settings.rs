//! What the figures of a load need to know beside its records. Pure.

use std::collections::HashMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::load::Watch;

/// What the figures of a load need to know beside its records.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// How many requests were to be under way at once.
    pub held: Held,
    /// What a request must meet to be a good one; `None`: there is no goodput.
    pub slo: Option<Slo>,
    /// When the load was over, by its clock, where that was later than the last end; `None`: at the last end.
    pub over: Option<Duration>,
    /// The prompts have exactly the tokens asked for: another count of the engine is a failure. False for prompts of users that nobody
    /// counted.
    pub exact_input: bool,
    /// Answers were asked to be of full length: fewer tokens are a failure. False where an answer may end when it is complete.
    pub full_output: bool,
    /// Tokens of the whole text of an answer by the tokenizer, by the index of its request, where somebody counted them.
    pub tokenized: HashMap<u64, u64>,
    /// How the client fared, where somebody watched.
    pub watch: Option<Watch>,
}

/// How many requests were to be under way at once: which part of the load is steady.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Held {
    /// Always so many: steady is the longest span in which at least 95 % of them were.
    Closed {
        /// So many.
        concurrency: u64,
    },
    /// As the arrivals come: steady is from the end of the ramp to the last arrival.
    Open {
        /// The end of the ramp, by the load's clock.
        ramped: Duration,
    },
    /// Now so many, now others: no part is steady.
    #[default]
    Varying,
}

/// Service level objectives: upper bounds in milliseconds, each on its own optional.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Slo {
    /// Of the time to first token.
    pub ttft_ms: Option<f64>,
    /// Of the time per output token after the first. An answer of one token has none and meets it, as in vLLM's bench.
    pub tpot_ms: Option<f64>,
    /// Of the time to the last token.
    pub e2el_ms: Option<f64>,
    /// Of every gap between events: the largest gap of a request must meet it. vLLM's bench has no such objective.
    pub itl_ms: Option<f64>,
}

impl Held {
    /// Requests at once, where that was asked for: what a wave is.
    pub(super) fn wave(self) -> usize {
        match self {
            Held::Closed { concurrency } => usize::try_from(concurrency).unwrap_or(usize::MAX),
            Held::Open { .. } | Held::Varying => 1,
        }
    }
}
