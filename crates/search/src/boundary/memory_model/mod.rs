//! A model of the memory that a point takes, fitted to measured peaks: a prediction with an interval, never a proof.
//!
//! A point is counted in tokens ([`Work`]); a [`Form`] turns them into a peak. Columns: 1 (weights and other
//! constants), tokens held (KV cache), input tokens (prefill activations), squared input tokens (attention scores). An
//! engine either keeps the activations of the prefill, or frees them before decoding, so that its peak is the larger
//! of two phases. Every form is fitted with several sets of columns, and the one that predicts left-out samples best
//! is selected. The architecture, if known, gives lower bounds: the weights, and the KV cache of tokens in flight.

#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};

use super::Point;
use crate::experiment::t_quantile;
use crate::names;
use crate::nnls::{COLUMNS, DesignRow, Solution, dot, solve, times};

/// A point that fitted, and its peak memory.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PeakSample {
    /// The point, with any of `input`, `output` and `concurrency`.
    pub point: Point,
    /// Bytes in use at the peak.
    pub peak: f64,
    /// Whether the peak is only an upper bound, because memory of an earlier point was still in use.
    #[serde(default)]
    pub at_most: bool,
}

/// Lower bounds known before any measurement. All may be 0, and `block` 1.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Prior {
    /// Bytes of the weights.
    #[serde(rename = "weight_bytes")]
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
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
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
    /// Fails if no model can be fitted to these samples; the error says why.
    pub fn fit(samples: &[PeakSample], prior: &Prior) -> Result<Self, FitError> {
        fit(samples, prior)
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

/// Tokens of all requests of a point together.
#[derive(Clone, Copy, Debug)]
struct Work {
    /// Held when the last token is generated: input and output, each request rounded up to whole blocks.
    held: f64,
    /// Held after the prefill, rounded up likewise.
    held_at_prefill: f64,
    /// Input tokens, whose activations an unchunked prefill holds together.
    input: f64,
    /// Squared input tokens, summed over requests: attention that stores its scores.
    squared: f64,
}

impl Work {
    /// For a point with `input` (default 0), `output` (0) and `concurrency` (1). `None` if it has another axis, which
    /// the model does not cover.
    fn from_point(point: &Point, block: f64) -> Option<Self> {
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

/// How a peak comes about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Activations are kept while decoding.
    Sum,
    /// Activations are freed before decoding: the larger of prefill and decode.
    Phases,
}

names!(Form { Sum "sum", Phases "phases", });

impl Form {
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
    fn peak(self, work: &Work, coefficients: &DesignRow) -> (DesignRow, f64) {
        let rows = self.rows(work).into_iter();
        let bytes = rows.map(|row| (row, dot(&row, coefficients)));
        bytes
            .reduce(|most, row| if row.1 > most.1 { row } else { most })
            .unwrap_or_default()
    }

    /// Starting coefficients for the alternating fit: all samples peak in decode, all in prefill, or each in the
    /// phase with more tokens.
    fn starts(self) -> &'static [DesignRow] {
        match self {
            Self::Sum => &[[0.0; 4]],
            Self::Phases => &[[0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0], [0.0, 1.0, 1.0, 0.0]],
        }
    }
}

/// Granularity of GPU memory: 2 MiB, CUDA's virtual memory granularity and the smallest segment of PyTorch's
/// allocator. No peak is known more precisely.
const PAGE: f64 = 2_097_152.0;

/// Peaks within this many pages of each other count as constant.
const FLAT_PAGES: f64 = 4.0;

/// Degrees of freedom needed to estimate the error.
const MIN_FREEDOM: usize = 2;

/// The columns of the models that are tried, simplest first.
const COLUMN_SETS: [[f64; COLUMNS]; 3] = [[1.0, 1.0, 0.0, 0.0], [1.0, 1.0, 1.0, 0.0], [1.0, 1.0, 1.0, 1.0]];

/// The error of a model with more columns must be below this share of the simpler one's.
const IMPROVEMENT: f64 = 0.8;

/// A model whose error exceeds this share of the range of peaks is rejected.
const MAX_RELATIVE_ERROR: f64 = 0.1;

/// An upper bound; the alternation converges by itself.
const ROUNDS: usize = 12;

/// Samples with more leverage are left out of the cross-validation: nothing else would predict them.
const MAX_LEVERAGE: f64 = 0.999;

struct Observation {
    work: Work,
    peak: f64,
    at_most: bool,
}

struct Candidate {
    form: Form,
    solved: Solution,
    /// Standard deviation, at least that of rounding to a page.
    deviation: f64,
    freedom: usize,
    used: usize,
}

fn fit(samples: &[PeakSample], prior: &Prior) -> Result<MemoryModel, FitError> {
    let block = prior.block.max(1.0);
    let mut rows = Vec::with_capacity(samples.len());
    for sample in samples {
        rows.push(Observation {
            work: Work::from_point(&sample.point, block).ok_or_else(|| FitError::UnknownAxis(sample.point.clone()))?,
            peak: sample.peak,
            at_most: sample.at_most,
        });
    }
    let peaks = || rows.iter().map(|row| row.peak);
    let spread = peaks().fold(f64::MIN, f64::max) - peaks().fold(f64::MAX, f64::min);
    let measured = rows.iter().filter(|row| !row.at_most).count();
    if samples.len() < 2 + MIN_FREEDOM {
        return Err(FitError::TooFewSamples(samples.len()));
    }
    if spread <= FLAT_PAGES * PAGE {
        return Err(FitError::ConstantPeaks);
    }
    if measured < 2 + MIN_FREEDOM {
        return Err(FitError::TooFewSamples(measured));
    }
    let lower_bounds = [prior.weights, prior.kv_bytes_per_token, 0.0, 0.0];
    let mut best: Option<Candidate> = None;
    for columns in COLUMN_SETS {
        for form in [Form::Sum, Form::Phases] {
            let Some(candidate) = candidate(&rows, form, &columns, &lower_bounds) else {
                continue;
            };
            let bar = best.as_ref().map_or(f64::INFINITY, |best| IMPROVEMENT * best.deviation);
            if candidate.deviation < bar {
                best = Some(candidate);
            }
        }
    }
    let best = best.ok_or(FitError::TooFewSamples(measured))?;
    if best.deviation > MAX_RELATIVE_ERROR * spread {
        return Err(FitError::PoorFit(best.deviation, spread));
    }
    let freedom = best.freedom as f64;
    let mut coefficients = best.solved.coefficients;
    coefficients
        .iter_mut()
        .zip(lower_bounds)
        .for_each(|(one, least)| *one += least);
    if coefficients[1..].iter().all(|slope| *slope <= 0.0) {
        return Err(FitError::ConstantPeaks);
    }
    Ok(MemoryModel {
        form: best.form,
        block,
        coefficients,
        inverse: best.solved.inverse,
        deviation: best.deviation,
        quantile: t_quantile(freedom),
        samples: best.used,
    })
}

/// Fits one form over some columns. Samples that are only upper bounds are used if the model would exceed them.
fn candidate(rows: &[Observation], form: Form, columns: &DesignRow, lower_bounds: &DesignRow) -> Option<Candidate> {
    let mut used: Vec<&Observation> = rows.iter().filter(|row| !row.at_most).collect();
    loop {
        let (solved, design, residuals) = fit_phases(&used, form, columns, lower_bounds)?;
        let whole = add(&solved.coefficients, lower_bounds);
        let too_high = |row: &&Observation| form.peak(&row.work, &whole).1 > row.peak + PAGE;
        let not_used = |row: &&Observation| row.at_most && !used.iter().any(|used| std::ptr::eq(*used, *row));
        if let Some(next) = rows.iter().filter(not_used).find(too_high) {
            used.push(next);
            continue;
        }
        let freedom = used
            .len()
            .checked_sub(solved.active)
            .filter(|free| *free >= MIN_FREEDOM)?;
        return Some(Candidate {
            form,
            deviation: deviation(&solved, &design, &residuals, freedom),
            solved,
            freedom,
            used: used.len(),
        });
    }
}

type PhaseFit = (Solution, Vec<DesignRow>, Vec<f64>);

/// Alternates between assigning each sample the phase that peaks under the model and refitting, until no phase
/// changes. Tries several starts and returns the best fit.
fn fit_phases(used: &[&Observation], form: Form, columns: &DesignRow, lower_bounds: &DesignRow) -> Option<PhaseFit> {
    let mut best: Option<(f64, PhaseFit)> = None;
    for start in form.starts() {
        let mut coefficients = *start;
        let mut last: Vec<DesignRow> = Vec::new();
        for _ in 0..ROUNDS {
            let masked = |row: DesignRow| -> DesignRow { std::array::from_fn(|column| row[column] * columns[column]) };
            let design: Vec<DesignRow> = used
                .iter()
                .map(|row| masked(form.peak(&row.work, &coefficients).0))
                .collect();
            if design == last {
                break;
            }
            let excess: Vec<f64> = used
                .iter()
                .zip(&design)
                .map(|(sample, row)| sample.peak - dot(row, lower_bounds))
                .collect();
            let solved = solve(&design, &excess)?;
            coefficients = add(&solved.coefficients, lower_bounds);
            let residuals: Vec<f64> = design
                .iter()
                .zip(&excess)
                .map(|(row, excess)| excess - dot(row, &solved.coefficients))
                .collect();
            let miss = residuals.iter().map(|miss| miss * miss).sum();
            if best.as_ref().is_none_or(|(least, _)| miss < *least) {
                best = Some((miss, (solved, design.clone(), residuals)));
            }
            last = design;
        }
    }
    best.map(|(_, fitted)| fitted)
}

/// The error: the larger of the residual standard deviation and the root mean square of the leave-one-out residuals e
/// / (1 − h) (PRESS; Allen 1974, "The relationship between variable selection and data augmentation"), and at least
/// that of rounding to a page.
fn deviation(solved: &Solution, design: &[DesignRow], residuals: &[f64], freedom: usize) -> f64 {
    let residual_variance = residuals.iter().map(|miss| miss * miss).sum::<f64>() / freedom as f64;
    let (mut sum, mut count) = (0.0, 0_usize);
    for (row, miss) in design.iter().zip(residuals) {
        let leverage = dot(row, &times(&solved.inverse, row));
        if leverage < MAX_LEVERAGE {
            sum += (miss / (1.0 - leverage)).powi(2);
            count += 1;
        }
    }
    let press_variance = sum / count.max(1) as f64;
    // The variance of rounding to a page.
    residual_variance.max(press_variance).max(PAGE * PAGE / 12.0).sqrt()
}

fn add(a: &DesignRow, b: &DesignRow) -> DesignRow {
    std::array::from_fn(|column| a[column] + b[column])
}
