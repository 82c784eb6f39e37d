//! Throughput: what was completed over the time that it took, by the formulas of vLLM's bench. Pure.

use serde::{Deserialize, Serialize};

use super::judged::Judged;

/// What completed in a second, over the whole load. `None` of no time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Rates {
    /// Completed requests a second.
    pub request_throughput: Option<f64>,
    /// Tokens read a second, of completed requests.
    pub input_throughput: Option<f64>,
    /// Tokens generated a second, of completed requests.
    pub output_throughput: Option<f64>,
    /// Tokens read and generated a second, of completed requests.
    pub total_token_throughput: Option<f64>,
}

impl Rates {
    /// Of so many requests and tokens in so many seconds.
    pub(super) fn new(requests: f64, input: f64, output: f64, seconds: f64) -> Self {
        let rate = |count: f64| per_second(count, seconds);
        Self {
            request_throughput: rate(requests),
            input_throughput: rate(input),
            output_throughput: rate(output),
            total_token_throughput: rate(input + output),
        }
    }

    /// Of all that completed.
    pub(super) fn of(completed: &[&Judged<'_>], seconds: f64) -> Self {
        let input: u64 = completed.iter().map(|judged| judged.input).sum();
        let output: u64 = completed.iter().filter_map(|judged| judged.output).sum();
        Self::new(completed.len() as f64, input as f64, output as f64, seconds)
    }
}

/// So many in so many seconds.
pub(super) fn per_second(count: f64, seconds: f64) -> Option<f64> {
    (seconds > 0.0).then(|| count / seconds)
}
