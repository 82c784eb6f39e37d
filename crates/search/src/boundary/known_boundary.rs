//! A boundary that is known exactly: how far points fit on every line of the search range. Searches are scored against
//! it.
//!
//! Also the least number of fitting points that prove a share of its fitting region. Each fitting point proves the box
//! below it, so the question is how few boxes in the easiest corner cover a share of the region. With one or two axes
//! the answer is exact. With more axes a greedy cover gives an upper bound.

use std::collections::BinaryHeap;

use super::lattice::Cell;
use super::volume::{covered, left_below};
use super::{Boundary, Lattice, Point};
use crate::error::{Error, Result};

const MAX_LINES: u128 = 1_000_000;

/// The maximal fitting cells of the search range.
#[derive(Debug)]
pub struct KnownBoundary {
    lattice: Lattice,
    maximal: Vec<Cell>,
    /// Fitting lattice points.
    volume: u128,
}

impl KnownBoundary {
    /// Traces the boundary of a monotone limit; `holds` says whether a point fits.
    ///
    /// The range is divided into lines along its longest axis. No line fits further than its easier neighbours, so the
    /// search for its end starts there: a few calls per line.
    pub fn trace<E: From<Error>>(
        lattice: Lattice,
        mut holds: impl FnMut(&Point) -> std::result::Result<bool, E>,
    ) -> std::result::Result<Self, E> {
        let last = lattice.last();
        let along = (0..last.len()).max_by_key(|axis| last[*axis]).unwrap_or(0);
        let lines = lattice.total() / (last[along].unsigned_abs() as u128 + 1);
        if lines > MAX_LINES {
            let message = format!("the range has {lines} lines along `{}`", lattice.axes()[along].name());
            return Err(Error::limit(message)
                .hint("narrow the ranges: at most 1,000,000 lines can be traced")
                .into());
        }
        // The axes across the lines, and the index distance of neighbours along each. The last varies fastest.
        let (mut step, mut across) = (1, Vec::new());
        for axis in (0..last.len()).rev().filter(|axis| *axis != along) {
            across.push((axis, step));
            step *= last[axis] as usize + 1;
        }
        let cell = |line: usize| {
            let mut cell = vec![0; last.len()];
            for (axis, step) in &across {
                cell[*axis] = (line / step % (last[*axis] as usize + 1)) as i64;
            }
            cell
        };
        let mut heights: Vec<i64> = Vec::new();
        for line in 0..lines as usize {
            let mut cell = cell(line);
            let easier = across.iter().filter(|(axis, _)| cell[*axis] > 0);
            let most = easier.map(|(_, step)| heights[line - step]).min();
            heights.push(highest_holding(most.unwrap_or(last[along] + 1), |height| {
                cell[along] = height - 1;
                holds(&lattice.point(&cell))
            })?);
        }
        let tops = heights.iter().enumerate().filter(|(_, height)| **height > 0);
        let maximal = tops.filter_map(|(line, height)| {
            let mut cell = cell(line);
            cell[along] = height - 1;
            // No neighbouring line one step harder fits as far.
            let mut harder = across.iter().filter(|(axis, _)| cell[*axis] < last[*axis]);
            harder.all(|(_, step)| heights[line + step] < *height).then_some(cell)
        });
        Ok(Self {
            maximal: maximal.collect(),
            volume: heights.iter().map(|height| u128::from(height.unsigned_abs())).sum(),
            lattice,
        })
    }

    /// The number of lattice points that fit.
    #[must_use]
    pub fn volume(&self) -> u128 {
        self.volume
    }

    /// For each share of the fitting volume, in rising order, the least number of probes that proves it: exact with
    /// up to two axes, the result of a greedy choice (an upper bound) with more.
    #[must_use]
    pub fn least_probes(&self, shares: &[f64]) -> Vec<usize> {
        if self.lattice.axes().len() > 2 {
            return greedy(&self.maximal, self.volume, shares);
        }
        let corner = |cell: &Cell| (cell[0] + 1, cell.get(1).map_or(1, |at| at + 1));
        let mut corners: Vec<(i64, i64)> = self.maximal.iter().map(corner).collect();
        corners.sort_unstable();
        staircase(&corners, shares)
    }

    /// The number of lattice points that `map` calls fitting although they do not fit.
    pub fn false_safe(&self, map: &Boundary) -> Result<u128> {
        if map.lattice() != &self.lattice {
            return Err(Error::usage("the boundary and the known boundary have different axes")
                .hint("make both with the same axes"));
        }
        let view = map.view()?;
        let fits = |cell: &Cell| {
            self.maximal
                .iter()
                .any(|most| cell.iter().zip(most).all(|(at, most)| at <= most))
        };
        if view.fits.iter().all(fits) {
            return Ok(0);
        }
        let either = [self.maximal.clone(), view.fits.clone()].concat();
        Ok(covered(&either) - self.volume)
    }
}

/// The largest height up to `most` that holds, or 0: galloping down from the top, then bisection.
fn highest_holding<E>(
    most: i64,
    mut holds: impl FnMut(i64) -> std::result::Result<bool, E>,
) -> std::result::Result<i64, E> {
    let (mut low, mut high, mut step) = (0, most, 0);
    while low < high {
        // Every height above `high` fails; `low` holds once it is not 0.
        let height = if low > 0 || step > high {
            low + (high - low + 1) / 2
        } else {
            (high - step).max(1)
        };
        if holds(height)? {
            low = height;
        } else {
            high = height - 1;
        }
        step = step * 2 + 1;
    }
    Ok(low)
}

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
    // By corner: the largest area of a staircase that ends with it and has one corner per round.
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
mod tests {
    use super::super::dominance::maximal;
    use super::super::{Answer, Options, Verdict};
    use super::*;
    use crate::error::Kind;
    use proptest::prelude::*;
    use serde_json::json;

    const SIDE: i64 = 7;

    fn axes(count: usize) -> serde_json::Value {
        let axes = [
            ("a", json!([1, SIDE])),
            ("b", json!({ "range": [1, SIDE], "easier": "up" })),
            ("c", json!([1, SIDE + 2])),
        ];
        axes.into_iter()
            .take(count)
            .map(|(name, axis)| (name.to_owned(), axis))
            .collect()
    }

    fn lattice(count: usize) -> Lattice {
        Lattice::parse(&axes(count)).unwrap()
    }

    /// Every point of the search range.
    fn points(lattice: &Lattice) -> Vec<Point> {
        lattice
            .last()
            .iter()
            .fold(vec![Vec::new()], |cells: Vec<Cell>, last| {
                cells
                    .iter()
                    .flat_map(|cell| (0..=*last).map(|at| [cell.as_slice(), &[at]].concat()))
                    .collect()
            })
            .iter()
            .map(|cell| lattice.point(cell))
            .collect()
    }

    proptest! {
        #[test]
        fn the_traced_boundary_is_the_real_one(count in 1usize..=3, weights in prop::collection::vec(0i64..4, 3), limit in 0i64..30, wrong in 0usize..400) {
            let lattice = lattice(count);
            let fits = |point: &Point| {
                let (_, cell) = lattice.cells(point).unwrap();
                cell.iter().zip(&weights).map(|(at, weight)| at * weight).sum::<i64>() < limit
            };
            let known = KnownBoundary::trace(lattice.clone(), |point| Ok::<_, Error>(fits(point))).unwrap();
            let all = points(&lattice);
            prop_assert_eq!(known.volume(), all.iter().filter(|point| fits(point)).count() as u128);

            let mut map = Boundary::new(&axes(count), Options::default()).unwrap();
            map.record(&all[wrong % all.len()], &Answer::from(Verdict::Ok)).unwrap();
            let called = all.iter().filter(|point| map.classify(point).unwrap().name() == "fits" && !fits(point));
            prop_assert_eq!(known.false_safe(&map).unwrap(), called.count() as u128);
            let least = known.least_probes(&[0.5, 1.0]);
            prop_assert!(least[0] <= least[1] && (least[1] == 0) == (known.volume() == 0));
        }
    }

    #[test]
    fn a_known_boundary_over_other_axes_is_not_compared() {
        let known = KnownBoundary::trace(lattice(2), |_| Ok::<_, Error>(true)).unwrap();
        let map = Boundary::new(&json!({ "a": [1, 2] }), Options::default()).unwrap();
        assert!(
            known
                .false_safe(&map)
                .unwrap_err()
                .to_string()
                .contains("different axes")
        );
    }

    #[test]
    fn a_range_of_too_many_lines_is_refused_before_it_is_traced() {
        let axes = json!({ "a": [1, 2000], "b": [1, 2000], "c": [1, 2000] });
        let fault = KnownBoundary::trace(Lattice::parse(&axes).unwrap(), |_| Ok::<_, Error>(true)).unwrap_err();
        assert_eq!(fault.kind, Kind::Limit);
    }

    /// The fewest of `cells` that cover `share` of what all of them cover.
    fn by_hand(cells: &[Cell], share: f64) -> usize {
        let whole = covered(cells) as f64;
        let sets = (0u32..1 << cells.len()).filter(|set| {
            let chosen: Vec<Cell> = cells
                .iter()
                .enumerate()
                .filter(|(i, _)| set >> i & 1 == 1)
                .map(|(_, cell)| cell.clone())
                .collect();
            covered(&chosen) as f64 >= share * whole
        });
        sets.map(u32::count_ones).min().unwrap_or(0) as usize
    }

    proptest! {
        #[test]
        fn no_choice_of_corners_needs_fewer(seeds in prop::collection::vec((0i64..20, 0i64..20), 0..9)) {
            let cells = maximal(seeds.iter().map(|(x, y)| vec![*x, *y]).collect());
            let corners: Vec<(i64, i64)> = cells.iter().map(|cell| (cell[0] + 1, cell[1] + 1)).collect();
            let shares = [0.5, 0.9, 0.95, 1.0];
            let wanted: Vec<usize> = shares.iter().map(|share| by_hand(&cells, *share)).collect();
            prop_assert_eq!(staircase(&corners, &shares), wanted);
        }

        #[test]
        fn a_greedy_cover_is_enough_and_no_better_than_the_best(seeds in prop::collection::vec((0i64..9, 0i64..9, 0i64..9), 1..9)) {
            let cells = maximal(seeds.iter().map(|(x, y, z)| vec![*x, *y, *z]).collect());
            let shares = [0.5, 0.9, 1.0];
            for (share, probes) in shares.iter().zip(greedy(&cells, covered(&cells), &shares)) {
                let least = by_hand(&cells, *share);
                prop_assert!(least <= probes && probes <= cells.len(), "{} of {}", probes, least);
            }
        }
    }

    #[test]
    fn a_budget_of_tokens_takes_as_many_corners_as_the_issue_counts() {
        let corners = |budget: i64| -> Vec<(i64, i64)> {
            let heights = (2048..=32768).map(|input| (budget - input).min(32768) - 511);
            let all: Vec<_> = heights
                .enumerate()
                .map(|(index, height)| (index as i64 + 1, height))
                .collect();
            let ends = |(index, _): &(usize, &(i64, i64))| all.get(index + 1).is_none_or(|next| next.1 < all[*index].1);
            all.iter()
                .enumerate()
                .filter(ends)
                .map(|(_, corner)| *corner)
                .filter(|(_, height)| *height > 0)
                .collect()
        };
        assert_eq!(staircase(&corners(45_000), &[0.95]), [7]);
        assert_eq!(staircase(&corners(20_000), &[0.95]), [19]);
        assert_eq!(
            (staircase(&[], &[0.95]), staircase(&[(3, 4)], &[0.95, 1.0])),
            (vec![0], vec![1, 1])
        );
    }
}
