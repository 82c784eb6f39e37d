//! The interval of a statistic of values that depend on their neighbours, by the method of batch means.

/// How many batches a series is cut into. Between 10 and 30 hardly matters (Schmeiser, "Batch size effects in the analysis of simulation output", 1982).
pub(super) const BATCHES: usize = 20;

/// The two-sided 95 % quantile of Student's t for one degree of freedom fewer than there are batches.
const STUDENT: f64 = 2.093_024;

/// The statistic of a series, and half the width of its 95 % interval.
///
/// Latencies of neighbouring requests are alike, as they share the engine's state, so that an interval that takes them as independent is too
/// narrow. The series is cut into batches in its order, and the statistics of the batches are nearly independent. What is left over at the end
/// (fewer values than there are batches) is left out. None for fewer values than two a batch.
pub(super) fn estimate(values: &[f64], statistic: impl Fn(&[f64]) -> Option<f64>) -> Option<(f64, f64)> {
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

    use super::super::stream::{Purpose, stream};
    use super::*;

    fn mean(values: &[f64]) -> Option<f64> {
        Some(values.iter().sum::<f64>() / values.len() as f64)
    }

    #[test]
    fn too_few_values_say_nothing() {
        assert_eq!(estimate(&[1.0; 39], mean), None);
        assert_eq!(estimate(&[1.0; 40], mean), Some((1.0, 0.0)));
    }

    #[test]
    fn the_interval_holds_the_truth_as_often_as_it_says_though_neighbours_are_alike() {
        let mut numbers = stream(5, Purpose::Arrivals);
        let mut uniform = || f64::from(numbers.next_u32()) / f64::from(u32::MAX) - 0.5;
        let mut held = 0;
        for _ in 0..400 {
            // An autoregressive series around 0: each value keeps 0.7 of the one before.
            let mut value = 0.0;
            let series: Vec<f64> = (0..2000)
                .map(|_| {
                    value = 0.7 * value + uniform();
                    value
                })
                .collect();
            let (middle, half) = estimate(&series, mean).unwrap();
            held += usize::from(middle.abs() <= half);
        }
        assert!((368..=392).contains(&held), "{held} of 400");
    }
}
