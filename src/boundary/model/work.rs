//! What a point asks of memory, as a memory model counts it.

use super::super::Point;

/// The work of one point, in tokens of all its requests together.
#[derive(Clone, Copy, Debug)]
pub(super) struct Work {
    /// Held when the last token is written: input and output, each request rounded up to whole blocks.
    pub(super) held: f64,
    /// Held when the input is computed, rounded up alike.
    pub(super) held_at_prefill: f64,
    /// Input, whose activations a prefill without chunks holds at once.
    pub(super) input: f64,
    /// Input squared, request by request: attention that stores its scores.
    pub(super) squared: f64,
}

impl Work {
    /// Of a point with `input`, `output` and `concurrency`, 0, 0 and 1 where it has none. None for another axis, of which memory is not known to depend on
    /// in any such way.
    pub(super) fn of(point: &Point, block: f64) -> Option<Self> {
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
