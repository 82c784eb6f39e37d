//! The least number of fitting points that prove a share of a known fitting region, whoever chooses them.
//!
//! Each fitting point proves the box below it, so that the question is how few boxes, which all stand in the easiest corner, cover
//! so much of the region. With one or two axes the answer is exact; with more, covering greedily tells a number that is enough.

use std::collections::BinaryHeap;

use super::lattice::Cell;
use super::volume::left_below;

/// Largest cells that a greedy cover chooses from; of more, evenly spread ones are taken.
const MOST_CANDIDATES: usize = 2048;

/// For each share, rising, the fewest corners whose area under a staircase is at least that share of the whole: exact.
///
/// `corners` are the widths and heights of the full staircase, widths rising and heights falling. The area with the i-th as last
/// of j corners is the largest of `area(i', j - 1) + (width(i) - width(i')) × height(i)`, and as heights fall, the best `i'` is found by
/// walking along the upper hull of lines (Bentley's and Overmars' convex hull trick): O(j·n).
pub(super) fn staircase(corners: &[(i64, i64)], shares: &[f64]) -> Vec<usize> {
    let whole = corners.iter().fold((0, 0), |(area, left), (width, height)| {
        (area + i128::from(width - left) * i128::from(*height), *width)
    });
    let mut best = 0;
    // By corner: the most area with it as the last one, of as many as there were rounds.
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

/// One round: the most area with each corner as the last one, when every other round gave `before`.
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

/// The upper hull of lines that are added with falling slopes and asked at falling places.
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

/// For each share, rising, how many of the largest cells of a region of `volume` cover at least that share of it, when each next
/// one is that which adds most: enough, and at most ln(1/(1 - share)) + 1 times what is needed (Nemhauser, Wolsey and Fisher 1978).
pub(super) fn greedy(largest: &[Cell], volume: u128, shares: &[f64]) -> Vec<usize> {
    let stride = largest.len().div_ceil(MOST_CANDIDATES).max(1);
    let gain = |cell: &Cell, chosen: &[Cell]| left_below(cell, chosen.iter());
    // What a cell adds only shrinks as others are chosen, so that an old figure is a bound, and few need to be taken anew.
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
