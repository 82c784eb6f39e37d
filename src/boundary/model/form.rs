//! The forms that a memory model may take, and which rows of a design follow from them.
//!
//! Columns: 1 (weights and all that is always there), tokens held (KV cache), input (activations of the prefill), input squared (attention
//! scores). An engine either adds the prefill's activations to what it holds in the end, or gives them back before it decodes, so that its peak is
//! the larger one of two phases.

use super::nnls::{Row, dot};
use super::work::Work;

/// How a peak comes about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// All at once: activations are kept while tokens are written.
    Sum,
    /// The larger one of prefill and decode: activations are given back.
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

    /// Which rows the peak is the largest of.
    fn rows(self, work: &Work) -> Vec<Row> {
        match self {
            Self::Sum => vec![[1.0, work.held, work.input, work.squared]],
            Self::Phases => vec![
                [1.0, work.held, 0.0, 0.0],
                [1.0, work.held_at_prefill, work.input, work.squared],
            ],
        }
    }

    /// The row that peaks under these coefficients, and its bytes.
    pub(super) fn peak(self, work: &Work, coefficients: &Row) -> (Row, f64) {
        let rows = self.rows(work).into_iter();
        let bytes = rows.map(|row| (row, dot(&row, coefficients)));
        bytes
            .reduce(|most, row| if row.1 > most.1 { row } else { most })
            .unwrap_or_default()
    }

    /// Coefficients to begin with, from which the phases of the samples follow: that all peak in the decode, or all in the prefill, or each where it has more tokens.
    pub(super) fn starts(self) -> &'static [Row] {
        match self {
            Self::Sum => &[[0.0; 4]],
            Self::Phases => &[[0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0], [0.0, 1.0, 1.0, 0.0]],
        }
    }
}
