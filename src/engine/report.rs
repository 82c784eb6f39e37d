//! What an engine itself reports of its bounds, as answers carry it to a search: a prediction, which proves nothing. Pure.

use serde::{Deserialize, Serialize};

use super::reported::Reported;

/// Bounds in the engine's own words; `None` where it said nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// Tokens that its KV cache holds, of all requests together.
    pub tokens: Option<u64>,
    /// Tokens of a block of that cache: each request takes whole ones.
    pub block: Option<u64>,
    /// Longest input and output together: its estimate in a start that failed, or the length to which it shrank itself.
    pub longest: Option<u64>,
    /// Longest input.
    pub longest_input: Option<u64>,
}

impl Report {
    /// What a start that serves told, and starts that failed; `None` where that is nothing.
    ///
    /// The length that an engine was started with is no bound of its own, and is left out.
    pub(super) fn new(reported: &Reported, block: Option<u64>, estimate: Option<u64>) -> Option<Self> {
        let report = Self {
            // A pool made just as large as the length that was set says nothing of memory.
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
        let told = |kv_tokens, fitted| Reported {
            kv_tokens,
            max_model_len: Some(4096),
            fitted,
            max_input: None,
        };
        assert_eq!(Report::new(&told(None, None), Some(16), None), None);
        assert_eq!(Report::new(&told(Some(4096), None), None, None), None);
        let report = Report::new(&told(Some(9000), Some(4096)), Some(16), Some(5000)).unwrap();
        assert_eq!(
            (report.tokens, report.block, report.longest),
            (Some(9000), Some(16), Some(4096))
        );
        assert_eq!(
            Report::new(&told(None, None), None, Some(700)).unwrap().longest,
            Some(700)
        );
    }
}
