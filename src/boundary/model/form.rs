//! The forms of the memory model, and their design rows.
//!
//! Columns: 1 (weights and other constants), tokens held (KV cache), input tokens (prefill activations), squared
//! input tokens (attention scores). An engine either keeps the activations of the prefill, or frees them before
//! decoding, so that its peak is the larger of two phases.

use super::nnls::{DesignRow, dot};
use super::work::Work;

/// How a peak comes about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Activations are kept while decoding.
    Sum,
    /// Activations are freed before decoding: the larger of prefill and decode.
    Phases,
}

impl Form {
    /// `"sum"` or `"phases"`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Sum => "sum",
            Self::Phases => "phases",
        }
    }

    /// The peak is the maximum over these rows.
    fn rows(self, work: &Work) -> Vec<DesignRow> {
        match self {
            Self::Sum => vec![[1.0, work.held, work.input, work.squared]],
            Self::Phases => vec![
                [1.0, work.held, 0.0, 0.0],
                [1.0, work.held_at_prefill, work.input, work.squared],
            ],
        }
    }

    /// The row that peaks under these coefficients, and its bytes.
    pub(super) fn peak(self, work: &Work, coefficients: &DesignRow) -> (DesignRow, f64) {
        let rows = self.rows(work).into_iter();
        let bytes = rows.map(|row| (row, dot(&row, coefficients)));
        bytes
            .reduce(|most, row| if row.1 > most.1 { row } else { most })
            .unwrap_or_default()
    }

    /// Starting coefficients for the alternating fit: all samples peak in decode, all in prefill, or each in the
    /// phase with more tokens.
    pub(super) fn starts(self) -> &'static [DesignRow] {
        match self {
            Self::Sum => &[[0.0; 4]],
            Self::Phases => &[[0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0], [0.0, 1.0, 1.0, 0.0]],
        }
    }
}
