//! Confidence intervals for correlated values by the method of batch means.

/// Number of batches. Between 10 and 30 it hardly matters (Schmeiser, "Batch size effects in the analysis of simulation
/// output", 1982).
pub(super) const BATCHES: usize = 20;

/// Two-sided 95 % quantile of Student's t for `BATCHES` − 1 degrees of freedom.
const STUDENT: f64 = 2.093_024;

/// The statistic of a series, and half the width of its 95 % confidence interval.
///
/// Latencies of neighbouring requests are correlated, because they share the engine's state; an interval that treats
/// them as independent is too narrow. The series is split into consecutive batches, whose statistics are nearly
/// independent. The remainder at the end (fewer values than batches) is ignored. `None` with fewer than two values per
/// batch.
pub(super) fn batch_means(values: &[f64], statistic: impl Fn(&[f64]) -> Option<f64>) -> Option<(f64, f64)> {
    let size = values.len() / BATCHES;
    if size < 2 {
        return None;
    }
    let batches: Vec<f64> = values
        .chunks_exact(size)
        .take(BATCHES)
        .map(&statistic)
        .collect::<Option<_>>()?;
    let count = BATCHES as f64;
    let mean = batches.iter().sum::<f64>() / count;
    let variance = batches.iter().map(|batch| (batch - mean).powi(2)).sum::<f64>() / (count - 1.0);
    Some((statistic(values)?, STUDENT * (variance / count).sqrt()))
}

#[cfg(test)]
mod tests {
    use rand::Rng;

    use super::super::rng::{Purpose, rng};
    use super::*;

    fn mean(values: &[f64]) -> Option<f64> {
        Some(values.iter().sum::<f64>() / values.len() as f64)
    }

    #[test]
    fn too_few_values_give_none() {
        assert_eq!(batch_means(&[1.0; 39], mean), None);
        assert_eq!(batch_means(&[1.0; 40], mean), Some((1.0, 0.0)));
    }

    #[test]
    fn interval_coverage_with_correlated_values() {
        let mut rng = rng(5, Purpose::Arrivals);
        let mut uniform = || f64::from(rng.next_u32()) / f64::from(u32::MAX) - 0.5;
        let mut held = 0;
        for _ in 0..400 {
            // An autoregressive series around 0 with coefficient 0.7.
            let mut value = 0.0;
            let series: Vec<f64> = (0..2000)
                .map(|_| {
                    value = 0.7 * value + uniform();
                    value
                })
                .collect();
            let (middle, half) = batch_means(&series, mean).unwrap();
            held += usize::from(middle.abs() <= half);
        }
        assert!((368..=392).contains(&held), "{held} of 400");
    }
}
