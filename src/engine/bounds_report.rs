//! The engine's own bounds as part of an answer, for the search. They are predictions, not proof.

use serde::{Deserialize, Serialize};

use super::bounds::EngineBounds;

/// Bounds as the engine reports them; `None` if it does not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BoundsReport {
    /// KV cache size in tokens, for all requests together.
    pub tokens: Option<u64>,
    /// Tokens per KV cache block; each request uses whole blocks.
    pub block: Option<u64>,
    /// Longest input and output together: estimated by a failed start, or reduced by the engine itself.
    pub longest: Option<u64>,
    /// Longest input.
    pub longest_input: Option<u64>,
}

impl BoundsReport {
    /// Combines the bounds of the running start with those of failed starts; `None` if there are none.
    ///
    /// A context length that the engine was started with is not its own bound and is left out.
    pub(super) fn new(reported: &EngineBounds, block: Option<u64>, estimate: Option<u64>) -> Option<Self> {
        let report = Self {
            // A KV cache exactly as large as the configured length says nothing about memory.
            tokens: reported
                .kv_tokens
                .filter(|tokens| reported.max_model_len != Some(*tokens)),
            block,
            longest: [reported.fitted, estimate].into_iter().flatten().min(),
            longest_input: reported.max_input,
        };
        let bounds = [report.tokens, report.longest, report.longest_input];
        bounds.iter().any(Option::is_some).then_some(report)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_bounds_of_its_own_are_reported() {
        let bounds = |kv_tokens, fitted| EngineBounds {
            kv_tokens,
            max_model_len: Some(4096),
            fitted,
            max_input: None,
        };
        assert_eq!(BoundsReport::new(&bounds(None, None), Some(16), None), None);
        assert_eq!(BoundsReport::new(&bounds(Some(4096), None), None, None), None);
        let report = BoundsReport::new(&bounds(Some(9000), Some(4096)), Some(16), Some(5000)).unwrap();
        assert_eq!(
            (report.tokens, report.block, report.longest),
            (Some(9000), Some(16), Some(4096))
        );
        assert_eq!(
            BoundsReport::new(&bounds(None, None), None, Some(700)).unwrap().longest,
            Some(700)
        );
    }
}
