//! Throughput, by the formulas of vLLM's bench. Pure.

use serde::{Deserialize, Serialize};

use super::request::EvaluatedRequest;

/// Throughput over the whole load. `None` for a duration of zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Rates {
    /// Completed requests per second.
    pub request_throughput: Option<f64>,
    /// Prompt tokens of completed requests per second.
    pub input_throughput: Option<f64>,
    /// Generated tokens of completed requests per second.
    pub output_throughput: Option<f64>,
    /// Prompt and generated tokens of completed requests per second.
    pub total_token_throughput: Option<f64>,
}

impl Rates {
    pub(super) fn new(requests: f64, input: f64, output: f64, seconds: f64) -> Self {
        let rate = |count: f64| per_second(count, seconds);
        Self {
            request_throughput: rate(requests),
            input_throughput: rate(input),
            output_throughput: rate(output),
            total_token_throughput: rate(input + output),
        }
    }

    pub(super) fn from_completed(completed: &[&EvaluatedRequest<'_>], seconds: f64) -> Self {
        let input: u64 = completed.iter().map(|request| request.input).sum();
        let output: u64 = completed.iter().filter_map(|request| request.output).sum();
        Self::new(completed.len() as f64, input as f64, output as f64, seconds)
    }
}

pub(super) fn per_second(count: f64, seconds: f64) -> Option<f64> {
    (seconds > 0.0).then(|| count / seconds)
}
