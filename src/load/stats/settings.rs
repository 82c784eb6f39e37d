//! Inputs of the statistics besides the records. Pure.

use std::collections::HashMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::load::ClientHealth;

/// Inputs of the statistics besides the records.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// The intended concurrency.
    pub target: TargetConcurrency,
    /// Objectives of a good request; `None`: no goodput.
    pub slo: Option<Slo>,
    /// When the load ended, if later than the last request's end; `None`: at the last end.
    pub over: Option<Duration>,
    /// Whether prompts have exactly the requested token count, so that a different engine count is a failure. False for
    /// user prompts with unknown counts.
    pub exact_input: bool,
    /// Whether answers must have the requested length, so that fewer tokens are a failure. False if an answer may stop
    /// by itself.
    pub full_output: bool,
    /// Output tokens of whole texts by the tokenizer, by request index, where counted.
    pub tokenized: HashMap<u64, u64>,
    /// The client's own performance, if measured.
    pub client_health: Option<ClientHealth>,
}

/// The intended concurrency; determines which part of the load is steady.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum TargetConcurrency {
    /// Constant. Steady is the longest span with at least 95 % of it in flight.
    Closed {
        /// Concurrent requests.
        concurrency: u64,
    },
    /// Determined by arrivals. Steady is from the end of the ramp to the last arrival.
    Open {
        /// The end of the ramp, since the start of the load.
        ramped: Duration,
    },
    /// Changing; no part is steady.
    #[default]
    Varying,
}

/// Service level objectives: optional upper limits in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Slo {
    /// Time to first token.
    pub ttft_ms: Option<f64>,
    /// Time per output token after the first. An answer of one token meets it, as in vLLM's bench.
    pub tpot_ms: Option<f64>,
    /// E2E latency.
    pub e2el_ms: Option<f64>,
    /// Inter-token latency: the largest gap of a request must meet it. vLLM's bench has no such objective.
    pub itl_ms: Option<f64>,
}

impl TargetConcurrency {
    /// The number of requests that run together, if known.
    pub(super) fn wave(self) -> usize {
        match self {
            TargetConcurrency::Closed { concurrency } => usize::try_from(concurrency).unwrap_or(usize::MAX),
            TargetConcurrency::Open { .. } | TargetConcurrency::Varying => 1,
        }
    }
}
