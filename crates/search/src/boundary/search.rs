//! Proposes the next points to probe: the choice of the hypotheses (`committee`), or without hypotheses the points
//! whose answers settle most of the open volume. Also evenly spaced grids, and the test whether a search is done.

use serde::Serialize;

use super::boundary::check_coverage;
use super::committee::{CHANCES, FINE};
use super::largest_boxes::LargestBoxes;
use super::lattice::{Cell, box_volume, cell_along, diagonal_and_faces, incomparable};
use super::predict::{LIKELY, unproven};
use super::version_space::VersionSpace;
use super::view::View;
use super::{Answer, Boundary, Moves, Point, Verdict};
use crate::error::{Error, Result};

/// Open boxes to examine in detail.
const DETAILED_BOXES: usize = 8;

/// Proven points of each side, per axis, that local hypotheses are fitted to.
const NEAREST_PER_AXIS: usize = 4;

/// After this many failures in a row, every other probe bisects an open box, whatever the hypotheses say.
const FAILURES_BEFORE_BISECTING: usize = 10;
/// After this many probes, one in `BISECT_EVERY` does.
const PROBES_BEFORE_BISECTING: usize = 96;
const BISECT_EVERY: usize = 16;

/// After this many answers without a fit the smallest point is probed, because maybe nothing fits. The first number is for
/// one axis while every answer is a failure: there, the smallest point tells less than the middle of what is open. An
/// unclear answer settles nothing, and a few of them in a row end a search, so the smallest point must not wait for more.
const ANSWERS_WITHOUT_FIT: [usize; 2] = [4, 2];

/// Positions in a box as fractions from its lowest to its highest cell. They are tried if the middle was probed without
/// a clear answer.
const FALLBACK_POSITIONS: [(i64, i64); 8] = [(1, 4), (3, 4), (1, 8), (7, 8), (3, 8), (5, 8), (0, 1), (1, 1)];

/// Too few probes to estimate the total from: the two corners.
const MIN_PROBES: u64 = 2;

/// Halvings of a single axis that are expected before anything is known to fit.
const HALVINGS: f64 = 7.0;

/// More halvings than of even halves: a point in the middle of a scale leaves more than half of the larger values.
const UNEVEN: f64 = 1.15;

/// An open box with at least this many times the volume that may stay unproven is probed before the search ends.
const DOUBTFUL: f64 = 2.0;

impl Boundary {
    /// Whether enough is known: `coverage` of the fitting volume is proven, the tolerances hold on their rays, and no
    /// open box could hold much more volume than may stay unproven.
    pub fn done(&self, coverage: f64) -> Result<bool> {
        Ok(self.has_coverage(coverage)? && self.doubtful(coverage)?.is_none() && self.wide_rays().is_empty())
    }

    /// A cell of the largest open box, if that box alone could hold much more volume than may stay unproven. All
    /// hypotheses may be wrong there, for example at a jump of the limit.
    fn doubtful(&self, coverage: f64) -> Result<Option<Cell>> {
        let view = self.view()?;
        let Some((low, high)) = LargestBoxes::new(&view.lowest, &view.highest).next() else {
            return Ok(None);
        };
        if coverage >= FINE || box_volume(low, high) < DOUBTFUL * (1.0 - coverage) * view.volume.fits as f64 {
            return Ok(None);
        }
        let cells = self.cells_in(view, low, high, false).into_iter().map(|(cell, _)| cell);
        Ok(cells.into_iter().find(|cell| self.is_probeable(cell)))
    }

    /// Up to `count` points to probe, best first, none of them settled or recorded. Empty when [`Boundary::done`], or
    /// when every open box was probed without a clear answer.
    ///
    /// No returned point is comparable to another one or to a point being probed, so no answer makes another returned
    /// point useless.
    pub fn refine(&self, count: usize, coverage: f64) -> Result<Vec<Point>> {
        let candidates = self.candidates(coverage)?.into_iter();
        let rated = candidates.map(|candidate| (candidate.chance * candidate.fits + candidate.settles, candidate));
        Ok(self.pick(rated.collect(), count))
    }

    /// The candidates of [`Boundary::refine`], best first.
    ///
    /// Without hypotheses, a point is worth the volume below it that a fit would settle and the volume above it that
    /// a failure would settle. The expected settled volume is their harmonic mean if the boundary is equally likely
    /// anywhere between.
    pub fn candidates(&self, coverage: f64) -> Result<Vec<Candidate>> {
        check_coverage(coverage)?;
        match self.imagined()? {
            Some(imagined) => imagined.own_candidates(coverage),
            None => self.own_candidates(coverage),
        }
    }

    fn own_candidates(&self, coverage: f64) -> Result<Vec<Candidate>> {
        let smallest = vec![0; self.lattice.axes().len()];
        if self.view()?.fits.is_empty()
            && self.records().len() >= self.answers_without_fit()
            && self.is_probeable(&smallest)
        {
            return Ok(vec![self.candidate(smallest, [0.0; 3])]);
        }
        if self.has_coverage(coverage)? {
            if let Some(cell) = self.doubtful(coverage)? {
                return Ok(vec![self.candidate(cell, [0.0; 3])]);
            }
            let open = self.wide_rays().into_iter().filter(|cell| self.is_independent(cell));
            return Ok(open.map(|cell| self.candidate(cell, [0.0; 3])).collect());
        }
        let bisects = self.bisects_next();
        if !bisects {
            let expected = self.committee_candidates(coverage)?;
            if !expected.is_empty() {
                return Ok(expected);
            }
        }
        let open = self.box_cells(!bisects)?.into_iter();
        let rate = |(cell, chance): (Cell, Option<f64>)| {
            let gain = self.even_gain(&cell)?;
            let chance = chance.unwrap_or(gain.chance);
            Ok(self.candidate(cell, [chance, gain.fits, (1.0 - chance) * gain.fails]))
        };
        open.filter(|(cell, _)| self.is_independent(cell)).map(rate).collect()
    }

    fn answers_without_fit(&self) -> usize {
        let halves = self.lattice.free().len() < 2 && self.recorded_moves().all(|(_, moves)| moves == Moves::Fails);
        ANSWERS_WITHOUT_FIT[usize::from(!halves)]
    }

    pub(super) fn candidate(&self, cell: Cell, [chance, fits, settles]: [f64; 3]) -> Candidate {
        Candidate {
            point: self.lattice.point(&cell),
            chance,
            fits,
            settles,
            cell,
        }
    }

    /// The best `count` candidates by rating (stable order), none of which can decide another.
    #[must_use]
    pub fn pick(&self, mut rated: Vec<(f64, Candidate)>, count: usize) -> Vec<Point> {
        rated.sort_by(|a, b| b.0.total_cmp(&a.0));
        let mut chosen: Vec<Candidate> = Vec::new();
        for (_, candidate) in rated {
            if chosen.len() < count && chosen.iter().all(|other| incomparable(&other.cell, &candidate.cell)) {
                chosen.push(candidate);
            }
        }
        chosen.into_iter().map(|candidate| candidate.point).collect()
    }

    /// A copy of the boundary in which each point being probed has its likelier answer, so that the next choice adds to
    /// those answers. Until the smallest point is probed, the copy assumes that it fits. `None` if nothing is assumed
    /// or no hypotheses exist.
    fn imagined(&self) -> Result<Option<Self>> {
        let assumes_fit =
            self.view()?.fits.is_empty() && (1..self.answers_without_fit()).contains(&self.records().len());
        if !assumes_fit && self.asked.is_empty() {
            return Ok(None);
        }
        let mut imagined = self.clone();
        if assumes_fit {
            imagined.record(&self.smallest(), &Answer::from(Verdict::Ok))?;
        }
        let known = if assumes_fit { &imagined } else { self };
        let Some(hypotheses) = known.hypotheses()? else {
            return Ok(None);
        };
        let expected = self.asked.iter().map(|cell| {
            (
                cell,
                if is_expected_to_fit(hypotheses, cell) {
                    Verdict::Ok
                } else {
                    Verdict::Oom
                },
            )
        });
        for (cell, verdict) in expected.collect::<Vec<_>>() {
            imagined.record(&self.lattice.point(cell), &Answer::from(verdict))?;
        }
        // The copied points are still being probed.
        imagined.asked.clone_from(&self.asked);
        Ok(Some(imagined))
    }

    /// The expected total number of probes to reach `coverage`, after `probes` of them. `None` while too little is
    /// known.
    ///
    /// One axis is halved with each probe. With more, a staircase of n corners under a smooth boundary leaves an open volume
    /// that shrinks with the (axes - 1)-th root of n. Half of the probes so far located the boundary. That is not repeated,
    /// so only the other half grows.
    pub fn expected(&self, probes: u64, coverage: f64) -> Result<Option<u64>> {
        let open = 1.0 - self.coverage()?;
        let wanted = 1.0 - coverage;
        if open <= wanted {
            return Ok(Some(probes));
        }
        let axes = i32::try_from(self.lattice.free().len()).unwrap_or(i32::MAX);
        if axes < 2 && wanted > 0.0 {
            let halvings = if open < 1.0 {
                UNEVEN * (open / wanted).log2()
            } else {
                HALVINGS
            };
            // When every value is known, nothing is left to halve.
            let values = (self.volume()?.open as f64 + 1.0).log2();
            return Ok(Some(probes + halvings.min(values).ceil() as u64));
        }
        if probes < MIN_PROBES || wanted <= 0.0 {
            return Ok(None);
        }
        let all = probes as f64 * (1.0 + (open / wanted).powi(axes - 1)) / 2.0;
        Ok((all < 1e6).then(|| all.ceil() as u64))
    }

    /// The volume that probing a cell would settle, assuming that the boundary is equally likely anywhere between.
    fn even_gain(&self, cell: &Cell) -> Result<ExpectedGain> {
        let view = self.view()?;
        let (fits, fails) = (view.open_below(cell) as f64, view.open_above(cell) as f64);
        let chance = fails / (fits + fails).max(1.0);
        Ok(ExpectedGain { fits, fails, chance })
    }

    /// Whether a cell is open and was not recorded.
    pub(super) fn is_probeable(&self, cell: &Cell) -> bool {
        !self.tested.contains(cell) && !self.fits.covers(cell) && !self.is_excluded(cell) && self.is_independent(cell)
    }

    /// Whether the next probe bisects one of the largest open boxes, whatever the hypotheses say.
    ///
    /// Wrong hypotheses may keep proposing points that settle almost nothing. The middle of a box settles a share of
    /// it with any answer, so every limit is found in a bounded number of probes. Depends only on the recorded
    /// answers, so a resumed search continues in the same way.
    fn bisects_next(&self) -> bool {
        let records = self.records();
        let (probes, last) = (records.len(), self.last_failures());
        last >= FAILURES_BEFORE_BISECTING && last.is_multiple_of(2)
            || probes >= PROBES_BEFORE_BISECTING && probes.is_multiple_of(BISECT_EVERY)
    }

    /// Cells to probe in the largest open boxes: by local hypotheses if `use_hypotheses` and there are any, otherwise
    /// the middles.
    fn box_cells(&self, use_hypotheses: bool) -> Result<Vec<(Cell, Option<f64>)>> {
        let view = self.view()?;
        let boxes = LargestBoxes::new(&view.lowest, &view.highest);
        let found = boxes.map(|(low, high)| self.cells_in(view, low, high, use_hypotheses));
        let found = found.filter(|cells| !cells.is_empty()).take(DETAILED_BOXES);
        Ok(found.flatten().collect())
    }

    /// Cells to probe in an open box: where local hypotheses expect the boundary, else the middle, else a fallback
    /// position if the middle was probed without a clear answer.
    fn cells_in(&self, view: &View, low: &Cell, high: &Cell, use_hypotheses: bool) -> Vec<(Cell, Option<f64>)> {
        let middle = self.lattice.middle(low, high);
        let mut found = Vec::new();
        let near = |cells: &[Cell]| self.nearest(cells, &middle);
        if use_hypotheses
            && let Some(hypotheses) =
                VersionSpace::new(&self.lattice, &near(&view.fits), &near(&view.excluded), false, None)
        {
            for (from, to) in diagonal_and_faces(low, high) {
                for reach in hypotheses.reaches(&from, &to, &[], CHANCES) {
                    let cell = cell_along(&from, &to, reach);
                    if !self.tested.contains(&cell) {
                        let chance = unproven(hypotheses.share(hypotheses.votes(&cell)));
                        found.push((cell, Some(chance)));
                    }
                }
            }
        }
        if found.is_empty() {
            let others = FALLBACK_POSITIONS.iter().map(|(part, of)| {
                let sides = low.iter().zip(high);
                sides.map(|(low, high)| low + (high - low) * part / of).collect()
            });
            let free = std::iter::once(middle)
                .chain(others)
                .find(|cell| !self.tested.contains(cell));
            found.extend(free.map(|cell| (cell, None)));
        }
        found
    }

    /// The cells nearest to another, with distances relative to the search range.
    fn nearest(&self, cells: &[Cell], to: &Cell) -> Vec<Cell> {
        let last = self.lattice.last();
        let mut near: Vec<(f64, &Cell)> = cells
            .iter()
            .map(|cell| {
                let sides = cell.iter().zip(to).zip(&last);
                let shares = sides.map(|((at, to), last)| (at - to) as f64 / (*last).max(1) as f64);
                (shares.map(|share| share * share).sum(), cell)
            })
            .collect();
        near.sort_by(|a, b| a.0.total_cmp(&b.0));
        near.truncate(NEAREST_PER_AXIS * self.lattice.free().len());
        near.into_iter().map(|(_, cell)| cell.clone()).collect()
    }
}

/// A point to probe and the value of probing it.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    /// The point.
    pub point: Point,
    /// The probability that it fits, 0 to 1: by the hypotheses, less where they were wrong nearby.
    pub chance: f64,
    /// Volume proven to fit if it fits.
    pub fits: f64,
    /// Further volume that its answer is expected to settle: the volume that the hypotheses disagree about, or the
    /// volume that a failure would exclude.
    pub settles: f64,
    pub(super) cell: Cell,
}

const MOST_GRID_POINTS: usize = 100_000;

impl Boundary {
    /// The point that is easiest on every axis.
    #[must_use]
    pub fn smallest(&self) -> Point {
        self.lattice.point(&vec![0; self.lattice.axes().len()])
    }

    /// The point that is hardest on every axis.
    #[must_use]
    pub fn largest(&self) -> Point {
        self.lattice.point(&self.lattice.last())
    }

    /// All combinations of `size` values on every axis, evenly spaced by its scale from end to end.
    pub fn grid(&self, size: usize) -> Result<Vec<Point>> {
        let axes = self.lattice.axes();
        let count = u32::try_from(axes.len()).ok().and_then(|axes| size.checked_pow(axes));
        if size == 0 || count.is_none_or(|count| count > MOST_GRID_POINTS) {
            return Err(Error::limit(format!(
                "a grid of {size} values on each of {} axes must have 1 to 100,000 points",
                axes.len()
            )));
        }
        let mut cells: Vec<Cell> = vec![Vec::new()];
        for axis in axes {
            let values = axis.spread(size);
            cells = cells
                .iter()
                .flat_map(|cell| values.iter().map(|value| [cell.as_slice(), &[*value]].concat()))
                .collect();
        }
        Ok(cells.iter().map(|cell| self.lattice.point(cell)).collect())
    }

    /// The point whose answer settles most, whether it fits or fails, among points neither recorded nor known. `None`
    /// if there is no such point.
    pub fn best(&self, points: &[Point]) -> Result<Option<Point>> {
        let mut best: Option<(f64, Cell)> = None;
        for point in points {
            let (_, cell) = self.lattice.cells(point)?;
            if self.is_probeable(&cell) {
                // The harmonic mean of what a fit and what a failure would settle.
                let ExpectedGain { fits, fails, chance } = self.even_gain(&cell)?;
                let gain = chance * fits + (1.0 - chance) * fails;
                if best.as_ref().is_none_or(|(most, _)| gain > *most) {
                    best = Some((gain, cell));
                }
            }
        }
        Ok(best.map(|(_, cell)| self.lattice.point(&cell)))
    }
}

/// Whether a cell that is being probed is expected to fit.
fn is_expected_to_fit(hypotheses: &VersionSpace, cell: &Cell) -> bool {
    hypotheses.share(hypotheses.votes(cell)) >= LIKELY
}

/// The volume that probing a point would settle, in lattice points of the search range.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ExpectedGain {
    /// Volume proven to fit if it fits.
    pub fits: f64,
    /// Volume proven to fail if it fails.
    pub fails: f64,
    /// The probability that it fits, 0 to 1: by the hypotheses, or without any, assuming that the boundary is equally
    /// likely anywhere between.
    pub chance: f64,
}

impl Boundary {
    /// The volume that probing `point` would settle beyond what the probes in flight are expected to; without hypotheses
    /// nothing is expected of them. The point is clamped to the search range.
    pub fn expected_gain(&self, point: &Point) -> Result<ExpectedGain> {
        let cell = self.lattice.inside(point)?;
        let even = self.even_gain(&cell)?;
        let Some(hypotheses) = self.hypotheses()? else {
            return Ok(even);
        };
        let (mut fits, mut fails) = (0, 0);
        let view = self.view()?;
        for asked in &self.asked {
            let both = cell.iter().zip(asked);
            if is_expected_to_fit(hypotheses, asked) {
                fits = view
                    .open_below(&both.map(|(at, asked)| *at.min(asked)).collect())
                    .max(fits);
            } else {
                fails = view
                    .open_above(&both.map(|(at, asked)| *at.max(asked)).collect())
                    .max(fails);
            }
        }
        Ok(ExpectedGain {
            fits: (even.fits - fits as f64).max(0.0),
            fails: (even.fails - fails as f64).max(0.0),
            chance: hypotheses.share(hypotheses.votes(&cell)),
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::Options;
    use super::*;

    #[test]
    fn no_point_is_given_that_an_answer_under_way_may_settle() {
        let axes = json!({ "input": [1, 1000], "output": [1, 500] });
        let mut map = Boundary::new(&axes, Options::default()).unwrap();
        let point = |input: i64, output: i64| Point::default().with("input", input).with("output", output);
        map.record(&point(400, 200), &Answer::from(Verdict::Ok)).unwrap();
        map.record(&point(600, 300), &Answer::from(Verdict::Oom)).unwrap();
        let mut asked: Vec<Point> = Vec::new();
        while let Some(next) = map.refine(1, 0.95).unwrap().pop().filter(|_| asked.len() < 4) {
            let beyond = |a: &Point, b: &Point| a.int("input") <= b.int("input") && a.int("output") <= b.int("output");
            assert!(
                asked.iter().all(|other| !beyond(other, &next) && !beyond(&next, other)),
                "{next} of {asked:?}"
            );
            assert!(!map.asked(&next).unwrap());
            map.ask(&next).unwrap();
            assert!(map.asked(&next).unwrap() && map.asked(&point(1, 1)).unwrap());
            assert_eq!(map.best(std::slice::from_ref(&next)).unwrap(), None);
            asked.push(next);
        }
        assert!(asked.len() >= 2, "{asked:?}");
        for point in &asked {
            map.record(point, &Answer::from(Verdict::Timeout)).unwrap();
        }
        assert!(!map.asked(&point(1, 1)).unwrap());
    }

    #[test]
    fn the_smallest_point_waits_for_failures_only() {
        let asked = |verdict: Verdict| {
            let mut map = Boundary::new(&json!({ "input": [1, 8000] }), Options::default()).unwrap();
            map.record(&map.largest(), &Answer::from(verdict)).unwrap();
            for count in 1.. {
                let next = map.refine(1, 0.95).unwrap().remove(0);
                if next == map.smallest() {
                    return count;
                }
                map.record(&next, &Answer::from(verdict)).unwrap();
            }
            unreachable!()
        };
        assert_eq!((asked(Verdict::Timeout), asked(Verdict::Oom)), (2, 4));
    }

    #[test]
    fn both_sides_and_the_chance() {
        let mut map = Boundary::new(&json!({ "input": [1, 100] }), Options::default()).unwrap();
        let point = |input: i64| Point::default().with("input", input);
        map.record(&point(20), &Answer::from(Verdict::Ok)).unwrap();
        let gain = map.expected_gain(&point(41)).unwrap();
        assert_eq!((gain.fits, gain.fails), (21.0, 60.0));
        assert!((gain.chance - 60.0 / 81.0).abs() < 1e-9);
        assert_eq!(map.expected_gain(&point(10)).unwrap().fits, 0.0);
    }

    #[test]
    fn volume_that_a_probe_in_flight_should_settle_is_no_gain() {
        let mut map = Boundary::new(&json!({ "input": [1, 1000], "output": [1, 1000] }), Options::default()).unwrap();
        let point = |input: i64, output: i64| Point::default().with("input", input).with("output", output);
        for (input, output) in [(100, 800), (450, 450), (800, 100)] {
            map.record(&point(input, output), &Answer::from(Verdict::Ok)).unwrap();
        }
        for (input, output) in [(120, 900), (600, 480), (900, 130)] {
            map.record(&point(input, output), &Answer::from(Verdict::Oom)).unwrap();
        }
        let at = point(300, 750);
        let alone = map.expected_gain(&at).unwrap();
        assert!(alone.fails > 0.0 && alone.chance < 0.5, "{alone:?}");
        map.ask(&point(280, 760)).unwrap();
        let beside = map.expected_gain(&at).unwrap();
        assert!(beside.fails < 0.2 * alone.fails, "{beside:?} of {alone:?}");
        assert!((beside.fits - alone.fits).abs() < 1e-9);
    }
}
