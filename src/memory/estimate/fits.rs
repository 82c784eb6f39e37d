//! What fits into the memory of a GPU.

use serde::Serialize;

/// What fits into each GPU.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Fits {
    /// Usable bytes of each GPU.
    pub budget: u64,
    /// Bytes left for the KV cache after weights, activations and context; 0 if those alone exceed the budget.
    pub kv_bytes: u64,
    /// Tokens that these bytes hold, of sequences shorter than every window; `None` if tokens take nothing.
    pub tokens: Option<u64>,
    /// Concurrent sequences of the requested length that fit.
    pub sequences: u64,
    /// Tokens of the longest single sequence that fits, at most the model's positions.
    pub longest: u64,
    /// Whether the request fits.
    pub fits: bool,
}

/// The largest number up to `most` for which `holds`, by bisection; 0 if there is none.
pub(super) fn largest(most: u64, holds: impl Fn(u64) -> bool) -> u64 {
    let (mut low, mut high) = (0, most);
    while low < high {
        let middle = low + (high - low).div_ceil(2);
        if holds(middle) {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    low
}

#[cfg(test)]
mod tests {
    use super::largest;

    #[test]
    fn the_largest_is_found_from_either_end() {
        assert_eq!(largest(100, |n| n <= 37), 37);
        assert_eq!(largest(100, |_| true), 100);
        assert_eq!(largest(u64::MAX, |_| false), 0);
    }
}
