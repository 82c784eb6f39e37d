//! Fits every form with several sets of columns, and selects the one that predicts left-out samples best.

use super::form::Form;
use super::nnls::{COLUMNS, DesignRow, Solution, dot, solve, times};
use super::work::Work;
use super::{FitError, MemoryModel, Prior, Sample};
use crate::experiment::quantile;

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

pub(super) fn fit(samples: &[Sample], prior: &Prior) -> Result<MemoryModel, FitError> {
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
        quantile: quantile(freedom),
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
