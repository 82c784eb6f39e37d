//! The least number of fitting points that prove a share of a known fitting region.
//!
//! Each fitting point proves the box below it. So the question is how few boxes in the easiest corner cover a share
//! of the region. With one or two axes the answer is exact. With more axes a greedy cover gives an upper bound.

use std::collections::BinaryHeap;

use super::lattice::Cell;
use super::volume::left_below;

/// Maximal cells that a greedy cover chooses from. If there are more, an evenly spaced subset is used.
const MOST_CANDIDATES: usize = 2048;

/// For each share, in rising order, the fewest corners whose area under a staircase is at least that share of the
/// whole; exact.
///
/// `corners` are the widths and heights of the full staircase, with rising widths and falling heights. The largest
/// area with the i-th as the last of j corners is the maximum over i' of `area(i', j - 1) + (width(i) - width(i')) ×
/// height(i)`. Because heights fall, the best `i'` is found by walking along the upper hull of lines (convex hull
/// trick): O(j·n).
pub(super) fn staircase(corners: &[(i64, i64)], shares: &[f64]) -> Vec<usize> {
    let whole = corners.iter().fold((0, 0), |(area, left), (width, height)| {
        (area + i128::from(width - left) * i128::from(*height), *width)
    });
    let mut best = 0;
    // By corner: the largest area that ends with it, with as many corners as there were rounds.
    let mut last: Vec<Option<i128>> = vec![None; corners.len()];
    let mut rounds = 0;
    let fewest = |share: &f64| {
        while (best as f64) < share * whole.0 as f64 && rounds < corners.len() {
            last = with_one_more(corners, &last, rounds == 0);
            rounds += 1;
            best = last.iter().flatten().copied().max().unwrap_or(best).max(best);
        }
        rounds
    };
    shares.iter().map(fewest).collect()
}

/// One round: the largest area that ends with each corner, from the areas `before` with one corner less.
fn with_one_more(corners: &[(i64, i64)], before: &[Option<i128>], first: bool) -> Vec<Option<i128>> {
    let mut lines = Hull::default();
    if first {
        lines.add(0, 0);
    }
    let mut after = Vec::with_capacity(corners.len());
    for ((width, height), before) in corners.iter().zip(before) {
        let (width, height) = (i128::from(*width), i128::from(*height));
        after.push(lines.highest(height).map(|most| most + width * height));
        if let Some(area) = before {
            lines.add(-width, *area);
        }
    }
    after
}

/// The upper hull of lines added with falling slopes and queried at falling positions.
#[derive(Default)]
struct Hull {
    lines: Vec<(i128, i128)>,
    front: usize,
}

impl Hull {
    fn add(&mut self, slope: i128, height: i128) {
        while let [.., (m1, b1), (m2, b2)] = self.lines[..]
            && (height - b1) * (m1 - m2) >= (b2 - b1) * (m1 - slope)
        {
            self.lines.pop();
        }
        self.lines.push((slope, height));
        self.front = self.front.min(self.lines.len() - 1);
    }

    fn highest(&mut self, at: i128) -> Option<i128> {
        let value = |(slope, height): &(i128, i128)| slope * at + height;
        while let [first, second, ..] = &self.lines[self.front..]
            && value(first) <= value(second)
        {
            self.front += 1;
        }
        self.lines.get(self.front).map(value)
    }
}

/// For each share, in rising order, how many maximal cells a greedy choice needs to cover that share of a region of
/// `volume`. At most ln(1/(1 - share)) + 1 times the minimum (Nemhauser, Wolsey and Fisher 1978).
pub(super) fn greedy(largest: &[Cell], volume: u128, shares: &[f64]) -> Vec<usize> {
    let stride = largest.len().div_ceil(MOST_CANDIDATES).max(1);
    let gain = |cell: &Cell, chosen: &[Cell]| left_below(cell, chosen.iter());
    // The gain of a cell only shrinks as others are chosen. An old gain is an upper bound, so few are recomputed.
    let mut bounds: BinaryHeap<(u128, usize, &Cell)> = largest
        .iter()
        .step_by(stride)
        .map(|cell| (gain(cell, &[]), 0, cell))
        .collect();
    let (mut chosen, mut covered): (Vec<Cell>, u128) = (Vec::new(), 0);
    let enough = |share: &f64| {
        while (covered as f64) < share * volume as f64 {
            let Some((most, when, cell)) = bounds.pop() else { break };
            if when == chosen.len() {
                covered += most;
                chosen.push(cell.clone());
            } else {
                bounds.push((gain(cell, &chosen), chosen.len(), cell));
            }
        }
        chosen.len()
    };
    shares.iter().map(enough).collect()
}

#[cfg(test)]
mod tests;
