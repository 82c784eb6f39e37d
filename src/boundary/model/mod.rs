//! A model of the memory that a point takes, fitted to measured peaks: a prediction with an interval, never a proof.
//!
//! `work` counts the tokens of a point, `form` turns them into a peak, `nnls` solves the least squares, and `fit`
//! selects the model or says why there is none. The architecture, if known, gives lower bounds: the weights, and the
//! KV cache of tokens in flight.

mod fit;
mod form;
mod nnls;
#[cfg(test)]
mod tests;
mod work;

pub use form::Form;

use self::nnls::{COLUMNS, DesignRow, dot, times};
use self::work::Work;
use super::Point;

/// A point that fitted, and its peak memory.
#[derive(Clone, Debug)]
pub struct Sample {
    /// The point, with any of `input`, `output` and `concurrency`.
    pub point: Point,
    /// Bytes in use at the peak.
    pub peak: f64,
    /// Whether the peak is only an upper bound, because memory of an earlier point was still in use.
    pub at_most: bool,
}

/// Lower bounds known before any measurement. All may be 0, and `block` 1.
#[derive(Clone, Copy, Debug)]
pub struct Prior {
    /// Bytes of the weights.
    pub weights: f64,
    /// Bytes of KV cache per token.
    pub kv_bytes_per_token: f64,
    /// Tokens per block of the KV cache; 1 without blocks.
    pub block: f64,
}

impl Default for Prior {
    fn default() -> Self {
        Self {
            weights: 0.0,
            kv_bytes_per_token: 0.0,
            block: 1.0,
        }
    }
}

/// Why no model can be fitted.
#[derive(Clone, Debug, PartialEq)]
pub enum FitError {
    /// Fewer samples than needed to fit a model and estimate its error.
    TooFewSamples(usize),
    /// Peaks do not grow with the points: the engine preallocates memory.
    ConstantPeaks,
    /// The error in bytes, and the range of the peaks in bytes: something else takes memory.
    PoorFit(f64, f64),
    /// A sample has an axis that the model does not cover.
    UnknownAxis(Point),
}

impl std::fmt::Display for FitError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::TooFewSamples(samples) => write!(f, "{samples} samples are too few for a memory model"),
            Self::ConstantPeaks => write!(
                f,
                "peak memory does not grow with the points: the engine preallocates it"
            ),
            Self::PoorFit(miss, spread) => write!(
                f,
                "no memory model fits the samples: its error is {:.0} MiB, and peaks differ by only {:.0} MiB",
                miss / 1_048_576.0,
                spread / 1_048_576.0
            ),
            Self::UnknownAxis(point) => write!(
                f,
                "memory is modelled over `input`, `output` and `concurrency` only, not: {point}"
            ),
        }
    }
}

/// A fitted model.
#[derive(Clone, Debug)]
pub struct MemoryModel {
    form: Form,
    /// Tokens per block.
    block: f64,
    /// Bytes; per token held; per input token; per squared input token.
    coefficients: DesignRow,
    /// (XᵀX)⁻¹ of the samples.
    inverse: [DesignRow; COLUMNS],
    /// Residual standard deviation, in bytes.
    deviation: f64,
    /// The t quantile of the 95 % interval.
    quantile: f64,
    samples: usize,
}

/// The expected peak at a point in bytes, with a 95 % prediction interval for one measurement.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Peak {
    /// The expectation. It never falls as a point grows.
    pub bytes: f64,
    /// The lower end of the interval.
    pub low: f64,
    /// The upper end of the interval.
    pub high: f64,
}

impl MemoryModel {
    /// Fits the model that predicts left-out samples best.
    ///
    /// # Errors
    ///
    /// Why no model can be fitted to these samples.
    pub fn fit(samples: &[Sample], prior: &Prior) -> Result<Self, FitError> {
        fit::fit(samples, prior)
    }

    /// The expected peak, with the prediction interval of least squares: s·t·√(1 + xᵀ(XᵀX)⁻¹x). `None` for a point
    /// with another axis.
    #[must_use]
    pub fn predict(&self, point: &Point) -> Option<Peak> {
        let work = Work::from_point(point, self.block)?;
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

    /// Constant bytes; bytes per token held; per input token; per squared input token.
    #[must_use]
    pub fn coefficients(&self) -> [f64; 4] {
        self.coefficients
    }

    /// Residual standard deviation, in bytes.
    #[must_use]
    pub fn deviation(&self) -> f64 {
        self.deviation
    }

    /// The number of samples used.
    #[must_use]
    pub fn samples(&self) -> usize {
        self.samples
    }
}
