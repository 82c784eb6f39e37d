//! What fits into the memory of a GPU.

use serde::Serialize;

/// What fits into each GPU, with what is asked for otherwise.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Fits {
    /// Bytes of each GPU that may be used.
    pub budget: u64,
    /// Bytes left for the KV cache beside weights, activations and context; 0 where these alone are too much.
    pub kv_bytes: u64,
    /// Tokens that so many bytes hold, of sequences shorter than every window; none where a token takes nothing.
    pub tokens: Option<u64>,
    /// Sequences of the length asked for that fit at once.
    pub sequences: u64,
    /// Tokens of the longest single sequence that fits, at most the positions that the model was made for.
    pub longest: u64,
    /// Whether what is asked for fits.
    pub fits: bool,
}

/// The largest number up to `most` for which `holds`, which holds for every smaller one too; 0 where it holds for none.
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
