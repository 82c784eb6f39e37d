//! A value over time, interpolated linearly between samples, with gaps.

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
mod tests;
