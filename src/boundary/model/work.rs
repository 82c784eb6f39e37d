//! What a point asks of memory, as the memory model counts it.

use super::super::Point;

/// Tokens of all requests of a point together.
#[derive(Clone, Copy, Debug)]
pub(super) struct Work {
    /// Held when the last token is generated: input and output, each request rounded up to whole blocks.
    pub(super) held: f64,
    /// Held after the prefill, rounded up likewise.
    pub(super) held_at_prefill: f64,
    /// Input tokens, whose activations an unchunked prefill holds together.
    pub(super) input: f64,
    /// Squared input tokens, summed over requests: attention that stores its scores.
    pub(super) squared: f64,
}

impl Work {
    /// For a point with `input` (default 0), `output` (0) and `concurrency` (1). `None` if it has another axis, which
    /// the model does not cover.
    pub(super) fn from_point(point: &Point, block: f64) -> Option<Self> {
        let mut values = [0.0, 0.0, 1.0];
        for (axis, value) in &point.0 {
            let place = ["input", "output", "concurrency"]
                .iter()
                .position(|name| name == axis)?;
            values[place] = value.as_f64();
        }
        let [input, output, requests] = values;
        let blocks = |tokens: f64| requests * (tokens / block).ceil() * block;
        Some(Self {
            held: blocks(input + output),
            held_at_prefill: blocks(input),
            input: requests * input,
            squared: requests * input * input,
        })
    }
}
