//! Fits every form with fewer and with more columns, and takes the one that tells best what it did not see.

use super::form::Form;
use super::nnls::{COLUMNS, Row, Solved, dot, solve, times};
use super::work::Work;
use super::{Known, MemoryModel, Sample, Untold};
use crate::experiment::quantile;

/// The pages in which a GPU's memory is taken: 2 MiB, the granularity of CUDA's virtual memory and the smallest segment of PyTorch's allocator. No
/// peak is known more precisely.
const PAGE: f64 = 2_097_152.0;

/// Peaks within so many pages of each other do not grow.
const FLAT: f64 = 4.0;

/// Samples beyond the columns of a model, by which is seen how far it is off.
const SPARE: usize = 2;

/// The columns of the models that are tried, the simplest first.
const COLUMN_SETS: [[f64; COLUMNS]; 3] = [[1.0, 1.0, 0.0, 0.0], [1.0, 1.0, 1.0, 0.0], [1.0, 1.0, 1.0, 1.0]];

/// By how much a model with more columns has to tell better than a simpler one.
const BETTER: f64 = 0.8;

/// Off by more than this share of what peaks differ by, a model tells nothing.
const POOR: f64 = 0.1;

/// Rounds in which samples find their phase; each comes nearer, so that they end by themselves.
const ROUNDS: usize = 12;

/// Share of a sample's own weight in the model beyond which leaving it out leaves nothing to tell it by.
const OWN: f64 = 0.999;

struct Seen {
    work: Work,
    peak: f64,
    at_most: bool,
}

struct Candidate {
    form: Form,
    solved: Solved,
    /// Standard deviation, no smaller than a page tells.
    deviation: f64,
    freedom: usize,
    used: usize,
}

pub(super) fn fit(samples: &[Sample], known: &Known) -> Result<MemoryModel, Untold> {
    let block = known.block.max(1.0);
    let mut rows = Vec::with_capacity(samples.len());
    for sample in samples {
        rows.push(Seen {
            work: Work::of(&sample.point, block).ok_or_else(|| Untold::Axis(sample.point.clone()))?,
            peak: sample.peak,
            at_most: sample.at_most,
        });
    }
    let peaks = || rows.iter().map(|row| row.peak);
    let spread = peaks().fold(f64::MIN, f64::max) - peaks().fold(f64::MAX, f64::min);
    let measured = rows.iter().filter(|row| !row.at_most).count();
    if samples.len() < 2 + SPARE {
        return Err(Untold::Few(samples.len()));
    }
    if spread <= FLAT * PAGE {
        return Err(Untold::Flat);
    }
    if measured < 2 + SPARE {
        return Err(Untold::Few(measured));
    }
    let prior = [known.weights, known.kv_bytes_per_token, 0.0, 0.0];
    let mut best: Option<Candidate> = None;
    for columns in COLUMN_SETS {
        for form in [Form::Sum, Form::Phases] {
            let Some(candidate) = candidate(&rows, form, &columns, &prior) else {
                continue;
            };
            let bar = best.as_ref().map_or(f64::INFINITY, |best| BETTER * best.deviation);
            if candidate.deviation < bar {
                best = Some(candidate);
            }
        }
    }
    let best = best.ok_or(Untold::Few(measured))?;
    if best.deviation > POOR * spread {
        return Err(Untold::Poor(best.deviation, spread));
    }
    let freedom = best.freedom as f64;
    let mut coefficients = best.solved.coefficients;
    coefficients
        .iter_mut()
        .zip(prior)
        .for_each(|(one, least)| *one += least);
    if coefficients[1..].iter().all(|slope| *slope <= 0.0) {
        return Err(Untold::Flat);
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

/// One form over some columns, fitted. Of samples that were at most so high, those count that the model would have higher.
fn candidate(rows: &[Seen], form: Form, columns: &Row, prior: &Row) -> Option<Candidate> {
    let mut used: Vec<&Seen> = rows.iter().filter(|row| !row.at_most).collect();
    loop {
        let (solved, design, misses) = phases(&used, form, columns, prior)?;
        let whole = add(&solved.coefficients, prior);
        let too_high = |row: &&Seen| form.peak(&row.work, &whole).1 > row.peak + PAGE;
        let not_used = |row: &&Seen| row.at_most && !used.iter().any(|used| std::ptr::eq(*used, *row));
        if let Some(next) = rows.iter().filter(not_used).find(too_high) {
            used.push(next);
            continue;
        }
        let freedom = used.len().checked_sub(solved.active).filter(|free| *free >= SPARE)?;
        return Some(Candidate {
            form,
            deviation: deviation(&solved, &design, &misses, freedom),
            solved,
            freedom,
            used: used.len(),
        });
    }
}

type Fitted = (Solved, Vec<Row>, Vec<f64>);

/// Samples take the phase that peaks under the model, and the model is fitted to these, until none changes: from several starts, the nearest.
fn phases(used: &[&Seen], form: Form, columns: &Row, prior: &Row) -> Option<Fitted> {
    let mut best: Option<(f64, Fitted)> = None;
    for start in form.starts() {
        let mut coefficients = *start;
        let mut last: Vec<Row> = Vec::new();
        for _ in 0..ROUNDS {
            let masked = |row: Row| -> Row { std::array::from_fn(|column| row[column] * columns[column]) };
            let design: Vec<Row> = used
                .iter()
                .map(|row| masked(form.peak(&row.work, &coefficients).0))
                .collect();
            if design == last {
                break;
            }
            let above: Vec<f64> = used
                .iter()
                .zip(&design)
                .map(|(sample, row)| sample.peak - dot(row, prior))
                .collect();
            let solved = solve(&design, &above)?;
            coefficients = add(&solved.coefficients, prior);
            let misses: Vec<f64> = design
                .iter()
                .zip(&above)
                .map(|(row, above)| above - dot(row, &solved.coefficients))
                .collect();
            let miss = misses.iter().map(|miss| miss * miss).sum();
            if best.as_ref().is_none_or(|(least, _)| miss < *least) {
                best = Some((miss, (solved, design.clone(), misses)));
            }
            last = design;
        }
    }
    best.map(|(_, fitted)| fitted)
}

/// How far samples are off: the larger one of what is left over by degrees of freedom, and the root mean square of each by the model without it, e / (1 − h)
/// (the PRESS of Allen 1974, "The relationship between variable selection and data augmentation"); and at least what a page leaves open.
fn deviation(solved: &Solved, design: &[Row], misses: &[f64], freedom: usize) -> f64 {
    let left_over = misses.iter().map(|miss| miss * miss).sum::<f64>() / freedom as f64;
    let (mut sum, mut count) = (0.0, 0_usize);
    for (row, miss) in design.iter().zip(misses) {
        let own = dot(row, &times(&solved.inverse, row));
        if own < OWN {
            sum += (miss / (1.0 - own)).powi(2);
            count += 1;
        }
    }
    let without = sum / count.max(1) as f64;
    // The variance of rounding to a page.
    left_over.max(without).max(PAGE * PAGE / 12.0).sqrt()
}

fn add(a: &Row, b: &Row) -> Row {
    std::array::from_fn(|column| a[column] + b[column])
}
