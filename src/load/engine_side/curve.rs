//! A value over time: its mean, its maximum and the area below it in a window.

/// A value over time in continuous pieces. Between two pieces it is unknown.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Curve(Vec<Vec<(f64, f64)>>);

impl Curve {
    /// From samples in order of time; `None` starts a gap.
    pub(super) fn from_samples(samples: impl Iterator<Item = (f64, Option<f64>)>) -> Self {
        let mut pieces = vec![Vec::new()];
        for (at, value) in samples {
            match (value, pieces.last_mut()) {
                (Some(value), Some(piece)) => piece.push((at, value)),
                _ => pieces.push(Vec::new()),
            }
        }
        pieces.retain(|piece| !piece.is_empty());
        Self(pieces)
    }

    /// The part between two times, interpolated at its ends.
    pub(super) fn within(&self, from: f64, to: f64) -> Self {
        let pieces = self.0.iter().map(|piece| clipped(piece, from, to));
        Self(pieces.filter(|piece| !piece.is_empty()).collect())
    }

    /// The area below the curve, and the total time over which it is known.
    pub(super) fn area(&self) -> (f64, f64) {
        let steps = self.0.iter().flat_map(|piece| piece.windows(2));
        steps.fold((0.0, 0.0), |(area, time), step| {
            let width = step[1].0 - step[0].0;
            (area + width * (step[0].1 + step[1].1) / 2.0, time + width)
        })
    }

    /// Time-weighted mean; of isolated samples, their mean.
    pub(super) fn mean(&self) -> Option<f64> {
        let (area, time) = self.area();
        if time > 0.0 {
            return Some(area / time);
        }
        let count = self.values().count();
        (count > 0).then(|| self.values().sum::<f64>() / count as f64)
    }

    pub(super) fn max(&self) -> Option<f64> {
        self.values().reduce(f64::max)
    }

    fn values(&self) -> impl Iterator<Item = f64> {
        self.0.iter().flatten().map(|(_, value)| *value)
    }
}

fn clipped(piece: &[(f64, f64)], from: f64, to: f64) -> Vec<(f64, f64)> {
    let between = |at: f64| {
        let next = piece.partition_point(|(time, _)| *time < at);
        let (before, after) = (piece.get(next.checked_sub(1)?)?, piece.get(next)?);
        let share = (at - before.0) / (after.0 - before.0);
        Some((at, before.1 + (after.1 - before.1) * share))
    };
    let first = piece.partition_point(|(at, _)| *at < from);
    let last = piece.partition_point(|(at, _)| *at <= to);
    if to < from {
        return Vec::new();
    }
    let inside = piece.get(first..last).unwrap_or_default();
    let begin = between(from).filter(|_| inside.first().is_none_or(|(at, _)| *at > from));
    let end = between(to).filter(|_| inside.last().is_none_or(|(at, _)| *at < to));
    begin.into_iter().chain(inside.iter().copied()).chain(end).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn curve(looks: &[(f64, Option<f64>)]) -> Curve {
        Curve::from_samples(looks.iter().copied())
    }

    #[test]
    fn mean_is_time_weighted_and_gaps_are_not_zero() {
        let curve = curve(&[
            (0.0, Some(2.0)),
            (1.0, Some(2.0)),
            (2.0, None),
            (9.0, Some(8.0)),
            (12.0, Some(8.0)),
        ]);
        assert_eq!(curve.mean(), Some(6.5), "1 s at 2 and 3 s at 8");
        assert_eq!(curve.within(0.5, 1.5).mean(), Some(2.0));
        assert_eq!(curve.within(2.0, 8.0).mean(), None);
        assert_eq!(curve.max(), Some(8.0));
    }

    #[test]
    fn window_ends_are_interpolated() {
        let rising = curve(&[(0.0, Some(0.0)), (10.0, Some(10.0))]);
        let part = rising.within(2.0, 4.0);
        assert_eq!(
            (part.mean(), part.max(), part.area()),
            (Some(3.0), Some(4.0), (6.0, 2.0))
        );
        assert_eq!(rising.within(4.0, 2.0), Curve::default());
        assert_eq!(
            curve(&[(1.0, Some(5.0))]).within(0.0, 2.0).mean(),
            Some(5.0),
            "one sample"
        );
    }

    proptest! {
        /// For any split of a window, the areas and known times of the parts add up to the whole.
        #[test]
        fn areas_of_parts_add_up(
            steps in prop::collection::vec((0.01_f64..2.0, prop::option::weighted(0.8, 0.0_f64..100.0)), 1..40),
            cuts in (0.0_f64..40.0, 0.0_f64..40.0, 0.0_f64..40.0),
        ) {
            let mut at = 0.0;
            let looks = steps.into_iter().map(|(step, value)| { at += step; (at, value) });
            let curve = Curve::from_samples(looks);
            let mut cuts = [cuts.0, cuts.1, cuts.2];
            cuts.sort_by(f64::total_cmp);
            let [from, cut, to] = cuts;
            let (area, time) = curve.within(from, to).area();
            let (first, second) = (curve.within(from, cut).area(), curve.within(cut, to).area());
            prop_assert!((first.0 + second.0 - area).abs() < 1e-6 && (first.1 + second.1 - time).abs() < 1e-9);
            if let (Some(mean), Some(max)) = (curve.within(from, to).mean(), curve.max()) {
                prop_assert!(mean <= max + 1e-9 && mean >= -1e-9);
            }
        }
    }
}
