//! A model of the memory that a point takes, fitted to the peaks of points that fitted: a prediction with an interval, and never a proof.
//!
//! `work` counts what a point asks for, `form` says how that becomes a peak, `nnls` fits it, `fit` chooses among forms and says when nothing can be told.
//! The architecture, where it is known, bounds it from below: weights are there, and tokens in flight are held.

mod fit;
mod form;
mod nnls;
#[cfg(test)]
mod tests;
mod work;

pub use form::Form;

use self::nnls::{COLUMNS, Row, dot, times};
use self::work::Work;
use super::Point;

/// A point that fitted, and the most memory that was in use while it ran.
#[derive(Clone, Debug)]
pub struct Sample {
    /// The point, with any of `input`, `output` and `concurrency`.
    pub point: Point,
    /// Bytes in use at the peak.
    pub peak: f64,
    /// Whether the peak is only known not to be higher, as memory that an earlier point took was still in use.
    pub at_most: bool,
}

/// What is known before anything is measured. All of it may be 0, or 1 token a block.
#[derive(Clone, Copy, Debug)]
pub struct Known {
    /// Bytes of the weights.
    pub weights: f64,
    /// Bytes of KV cache that one token takes.
    pub kv_bytes_per_token: f64,
    /// Tokens of a block, in which the KV cache is handed out; 1 where it is not.
    pub block: f64,
}

impl Default for Known {
    fn default() -> Self {
        Self {
            weights: 0.0,
            kv_bytes_per_token: 0.0,
            block: 1.0,
        }
    }
}

/// Why no model can be had.
#[derive(Clone, Debug, PartialEq)]
pub enum Untold {
    /// There are fewer samples than it takes to fit a model and see how far it is off.
    Few(usize),
    /// Peaks do not grow with the points: the engine takes its memory beforehand.
    Flat,
    /// A sample is off by this many bytes where peaks differ by that many in all: something else takes memory.
    Poor(f64, f64),
    /// A sample has an axis that memory is not known to follow.
    Axis(Point),
}

impl std::fmt::Display for Untold {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Few(samples) => write!(f, "{samples} samples are too few for a memory model"),
            Self::Flat => write!(
                f,
                "peaks do not grow with the points: the engine takes its memory beforehand"
            ),
            Self::Poor(miss, spread) => write!(
                f,
                "no memory model follows the samples: it is off by {:.0} MiB, where they differ by {:.0} MiB",
                miss / 1_048_576.0,
                spread / 1_048_576.0
            ),
            Self::Axis(point) => write!(
                f,
                "memory is not modelled over other axes than `input`, `output` and `concurrency`: {point}"
            ),
        }
    }
}

/// A fitted model.
#[derive(Clone, Debug)]
pub struct MemoryModel {
    form: Form,
    /// Tokens of a block.
    block: f64,
    /// Bytes; per token held; per token of input; per token of input squared.
    coefficients: Row,
    /// (XᵀX)⁻¹ of the samples.
    inverse: [Row; COLUMNS],
    /// Standard deviation of a sample around the model, in bytes.
    deviation: f64,
    /// The quantile that 95 % of deviations stay within.
    quantile: f64,
    samples: usize,
}

/// The peak that is expected at a point, in bytes, and between which bounds one measurement lies in 95 % of cases.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Peak {
    /// What is expected. It never falls as a point grows.
    pub bytes: f64,
    /// The lower end of the interval.
    pub low: f64,
    /// The upper end of the interval.
    pub high: f64,
}

impl MemoryModel {
    /// Fits the model that tells samples best which it did not see.
    ///
    /// # Errors
    ///
    /// Why nothing can be told from these samples.
    pub fn fit(samples: &[Sample], known: &Known) -> Result<Self, Untold> {
        fit::fit(samples, known)
    }

    /// The peak to expect, by the prediction interval of least squares: s·t·√(1 + xᵀ(XᵀX)⁻¹x). None for a point with another axis.
    #[must_use]
    pub fn predict(&self, point: &Point) -> Option<Peak> {
        let work = Work::of(point, self.block)?;
        let (row, bytes) = self.form.peak(&work, &self.coefficients);
        let leverage = dot(&row, &times(&self.inverse, &row)).max(0.0);
        let reach = self.quantile * self.deviation * (1.0 + leverage).sqrt();
        Some(Peak {
            bytes,
            low: bytes - reach,
            high: bytes + reach,
        })
    }

    /// How the peak comes about.
    #[must_use]
    pub fn form(&self) -> Form {
        self.form
    }

    /// Bytes that are always there; for each token held; for each token of input; for each token of input squared.
    #[must_use]
    pub fn coefficients(&self) -> [f64; 4] {
        self.coefficients
    }

    /// The standard deviation of a sample around the model, bytes.
    #[must_use]
    pub fn deviation(&self) -> f64 {
        self.deviation
    }

    /// How many samples it was fitted to.
    #[must_use]
    pub fn samples(&self) -> usize {
        self.samples
    }
}
