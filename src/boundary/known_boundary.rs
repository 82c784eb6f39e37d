//! A boundary that is known exactly: how far points fit on every line of the search range. Searches are scored
//! against it.

use super::lattice::Cell;
use super::minimum_probes::{greedy, staircase};
use super::{Boundary, Lattice, Point};
use crate::fault::{Fault, Kind, Result};

const MAX_LINES: u128 = 1_000_000;

/// The number of fitting cells on each line along the longest axis of the search range.
#[derive(Debug)]
pub struct KnownBoundary {
    lattice: Lattice,
    /// The axis of the lines.
    along: usize,
    /// Fitting cells by line. The last of the other axes varies fastest.
    heights: Vec<i64>,
}

impl KnownBoundary {
    /// Traces the boundary of a monotone limit; `holds` says whether a point fits.
    ///
    /// No line fits further than its easier neighbours, so the search for its end starts there: a few calls per line.
    pub fn trace<E: From<Fault>>(
        lattice: Lattice,
        mut holds: impl FnMut(&Point) -> std::result::Result<bool, E>,
    ) -> std::result::Result<Self, E> {
        let last = lattice.last();
        let along = (0..last.len()).max_by_key(|axis| last[*axis]).unwrap_or(0);
        let lines = lattice.total() / (last[along].unsigned_abs() as u128 + 1);
        if lines > MAX_LINES {
            let message = format!("the range has {lines} lines along `{}`", lattice.axes()[along].name());
            return Err(Fault::new(Kind::Limit, message)
                .hint("narrow the ranges: at most 1,000,000 lines can be traced")
                .into());
        }
        let mut known = Self {
            lattice,
            along,
            heights: Vec::new(),
        };
        let mut cell = vec![0; last.len()];
        for line in 0..lines as usize {
            known.place(line, &mut cell);
            let easier = known.easier(line, &cell).map(|line| known.heights[line]);
            let most = easier.min().unwrap_or(last[along] + 1);
            let height = highest_holding(most, |height| {
                cell[along] = height - 1;
                holds(&known.lattice.point(&cell))
            })?;
            known.heights.push(height);
        }
        Ok(known)
    }

    /// The number of lattice points that fit.
    #[must_use]
    pub fn volume(&self) -> u128 {
        self.heights
            .iter()
            .map(|height| u128::from(height.unsigned_abs()))
            .sum()
    }

    /// For each share of the fitting volume, in rising order, the least number of probes that proves it: exact with
    /// up to two axes, the result of a greedy choice (an upper bound) with more.
    #[must_use]
    pub fn least_probes(&self, shares: &[f64]) -> Vec<usize> {
        let largest = self.maximal();
        if self.lattice.axes().len() > 2 {
            return greedy(&largest, self.volume(), shares);
        }
        let corner = |cell: &Cell| {
            let width = cell
                .iter()
                .enumerate()
                .find(|(axis, _)| *axis != self.along)
                .map_or(0, |(_, at)| *at);
            (width + 1, cell[self.along] + 1)
        };
        staircase(&largest.iter().map(corner).collect::<Vec<_>>(), shares)
    }

    /// The number of lattice points that `map` calls fitting although they do not fit.
    pub fn false_safe(&self, map: &Boundary) -> Result<u128> {
        if map.lattice() != &self.lattice {
            return Err(Fault::usage("the boundary and the known boundary have different axes")
                .hint("make both with the same axes"));
        }
        let mut wrong: Vec<Cell> = Vec::new();
        for point in map.frontier()? {
            let (_, cell) = self.lattice.cells(&self.lattice.coordinates(&point)?)?;
            if cell[self.along] >= self.heights[self.line(&cell)] {
                wrong.push(cell);
            }
        }
        if wrong.is_empty() {
            return Ok(0);
        }
        let mut cell = vec![0; self.lattice.axes().len()];
        let beyond = self.heights.iter().enumerate().map(|(line, height)| {
            self.place(line, &mut cell);
            cell[self.along] = 0;
            let called = wrong.iter().filter(|wrong| super::lattice::below(&cell, wrong));
            let called = called.map(|wrong| wrong[self.along] + 1).max().unwrap_or(0);
            u128::from((called - height).max(0).unsigned_abs())
        });
        Ok(beyond.sum())
    }

    /// The maximal fitting cells: no neighbouring line one step harder fits as far.
    fn maximal(&self) -> Vec<Cell> {
        let last = self.lattice.last();
        let mut cell = vec![0; last.len()];
        let mut largest = Vec::new();
        for (line, height) in self.heights.iter().enumerate().filter(|(_, height)| **height > 0) {
            self.place(line, &mut cell);
            cell[self.along] = height - 1;
            let further = self
                .steps()
                .any(|(axis, step)| cell[axis] < last[axis] && self.heights[line + step] == *height);
            if !further {
                largest.push(cell.clone());
            }
        }
        largest
    }

    /// The axes across the lines, and the index distance of neighbours along each.
    fn steps(&self) -> impl Iterator<Item = (usize, usize)> {
        let mut step = 1;
        let across = (0..self.lattice.axes().len()).rev().filter(|axis| *axis != self.along);
        across.map(move |axis| {
            let this = step;
            step *= self.lattice.axes()[axis].last() as usize + 1;
            (axis, this)
        })
    }

    /// The neighbouring lines that are one step easier.
    fn easier(&self, line: usize, cell: &[i64]) -> impl Iterator<Item = usize> {
        self.steps()
            .filter(|(axis, _)| cell[*axis] > 0)
            .map(move |(_, step)| line - step)
    }

    /// Sets the coordinates of a line.
    fn place(&self, line: usize, cell: &mut [i64]) {
        for (axis, step) in self.steps() {
            cell[axis] = (line / step % (self.lattice.axes()[axis].last() as usize + 1)) as i64;
        }
    }

    /// The line through a cell.
    fn line(&self, cell: &[i64]) -> usize {
        self.steps().map(|(axis, step)| cell[axis] as usize * step).sum()
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

#[cfg(test)]
mod tests {
    use super::super::{Answer, Options, Verdict};
    use super::*;
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
                let (_, cell) = lattice.cells(&lattice.coordinates(point).unwrap()).unwrap();
                cell.iter().zip(&weights).map(|(at, weight)| at * weight).sum::<i64>() < limit
            };
            let known = KnownBoundary::trace(lattice.clone(), |point| Ok::<_, Fault>(fits(point))).unwrap();
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
        let known = KnownBoundary::trace(lattice(2), |_| Ok::<_, Fault>(true)).unwrap();
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
        let fault = KnownBoundary::trace(Lattice::parse(&axes).unwrap(), |_| Ok::<_, Fault>(true)).unwrap_err();
        assert_eq!(fault.kind, Kind::Limit);
    }
}
