//! Lines through the search range: the known values along an axis or a ray from the smallest corner, and the width of
//! the open region.
//!
//! Tolerances must hold on nine rays.

use std::f64::consts::FRAC_PI_2;

use serde::Serialize;

use super::lattice::{Cell, below};
use super::{Boundary, Point, Scalar};
use crate::error::{Error, Result};

/// The open interval of a line and the proven values at its ends.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Bracket {
    /// The hardest value proven to fit.
    pub fits: Option<Scalar>,
    /// The easiest value proven to fail, ruled out by the engine's report, or beyond a length limit.
    pub fails: Option<Scalar>,
    /// The unrecorded value nearest to the middle of the open interval; `None` if nothing is left to probe.
    pub middle: Option<Scalar>,
    /// The width of the open interval, in the axis' own unit.
    pub width: Scalar,
}

impl Boundary {
    /// The bracket along the axis `name` through `point`, inside the search range.
    pub fn bracket(&self, point: &Point, name: &str) -> Result<Bracket> {
        let index = self.lattice.index(name)?;
        let axis = &self.lattice.axes()[index];
        // The coordinate along the line does not matter, and may be absent.
        let mut through = point.clone();
        through.0.entry(name.to_owned()).or_insert(axis.value(0));
        let (easier, harder) = self.lattice.cells(&through)?;
        let on_line = |cell: &Cell, hardness: i64| {
            let mut cell = cell.clone();
            cell[index] = hardness;
            cell
        };
        let (fits, fails) = self.line_bounds(
            axis.last(),
            |hardness| on_line(&harder, hardness),
            |hardness| on_line(&easier, hardness),
        );
        let (from, to) = (fits + 1, fails - 1);
        let middle = (from <= to)
            .then(|| axis.middle(from, to))
            .and_then(|middle| self.nearest_unrecorded(from, to, middle, |hardness| on_line(&harder, hardness)));
        Ok(Bracket {
            fits: (fits >= 0).then(|| axis.value(fits)),
            fails: (fails <= axis.last()).then(|| axis.value(fails)),
            middle: middle.map(|hardness| axis.value(hardness)),
            width: axis.scalar(if from > to {
                0.0
            } else {
                axis.distance(fits.max(0), fails.min(axis.last()))
            }),
        })
    }

    /// On a line of `steps` of rising hardness: the last step known to fit (or -1), and the first known not to fit
    /// (or one past the end).
    pub(super) fn line_bounds(
        &self,
        steps: i64,
        harder: impl Fn(i64) -> Cell,
        easier: impl Fn(i64) -> Cell,
    ) -> (i64, i64) {
        let fits = first_holding(steps, |step| !self.fits.covers(&harder(step))) - 1;
        let fails = first_holding(steps, |step| self.is_excluded(&easier(step)));
        (fits, fails)
    }

    /// The step nearest to `middle` whose cell was not recorded.
    pub(super) fn nearest_unrecorded(
        &self,
        from: i64,
        to: i64,
        middle: i64,
        cell: impl Fn(i64) -> Cell,
    ) -> Option<i64> {
        let widest = (middle - from).max(to - middle);
        // Each recorded cell skips at most one step, so the walk is short.
        (0..=widest)
            .flat_map(|away| [middle + away, middle - away])
            .filter(|step| (from..=to).contains(step))
            .find(|step| !self.tested.contains(&cell(*step)))
    }

    /// The ray from the smallest corner with these weights by axis (the largest is 1): the number of its steps, and
    /// the cell of each step.
    pub(super) fn ray(&self, weights: &[f64]) -> (i64, impl Fn(i64) -> Cell + use<>) {
        let ends: Vec<f64> = self
            .lattice
            .last()
            .iter()
            .zip(weights)
            .map(|(last, weight)| *last as f64 * weight)
            .collect();
        let steps = ends.iter().copied().fold(0.0, f64::max).round();
        let cell = move |step: i64| {
            let share = if steps > 0.0 { step as f64 / steps } else { 0.0 };
            ends.iter().map(|end| (end * share + 1e-9).floor() as i64).collect()
        };
        (steps as i64, cell)
    }
}

/// The first of `0..=last` for which `holds`, by bisection; `last + 1` if there is none.
pub(super) fn first_holding(last: i64, mut holds: impl FnMut(i64) -> bool) -> i64 {
    let (mut low, mut high) = (0, last + 1);
    while low < high {
        let middle = low + (high - low) / 2;
        if holds(middle) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    low
}

const RAYS: usize = 9;

/// After this many probes between the ends of a line, each further probe doubles its minimum distance from the ends of
/// the open interval. Otherwise, expectations that follow the answers would lead the search step by step.
const STEADY: usize = 3;

/// The cell at each step of a line.
type CellAt = Box<dyn Fn(i64) -> Cell>;

/// A line on which the interval between fitting and failing is wider than the tolerance of some axis.
struct WideLine {
    /// The width as a multiple of the tolerance.
    excess: f64,
    /// The last step known to fit, or -1.
    fits: i64,
    /// The first step known to fail, or one past the end.
    fails: i64,
    /// The axis along which each step of the line is one lattice step. `steps` is the last step.
    axis: usize,
    steps: i64,
    cell: CellAt,
}

impl Boundary {
    /// For each ray whose open interval is wider than the tolerance of some axis: the unrecorded cell nearest to the
    /// middle of the interval. The widest comes first. Omits rays on which nothing is left to probe because every
    /// answer was inconclusive.
    pub(super) fn wide_rays(&self) -> Vec<Cell> {
        let middle = |line: &WideLine| {
            let (from, to) = (line.fits + 1, line.fails - 1);
            let step = self.nearest_unrecorded(from, to, from + (to - from) / 2, &line.cell)?;
            Some((line.cell)(step))
        };
        self.wide_lines(&[]).iter().filter_map(middle).collect()
    }

    /// The next points to probe so that the tolerances hold on the rays from the smallest corner, and on the given
    /// lines along an axis through a point. One point per line that is too wide, the widest line first. `expects` says
    /// whether a point should fit: both sides of the expected limit are probed, so a right expectation costs two probes
    /// per line.
    ///
    /// # Errors
    ///
    /// Errors of `expects`, and `usage` for points and axes that the boundary does not have.
    pub fn beyond_tolerance<E: From<Error>>(
        &self,
        through: &[(Point, String)],
        mut expects: impl FnMut(&Point) -> std::result::Result<bool, E>,
    ) -> std::result::Result<Vec<Point>, E> {
        let mut lines = Vec::new();
        for (point, name) in through {
            let axis = self.lattice.index(name)?;
            lines.push((self.lattice.inside(point)?, axis));
        }
        let mut next: Vec<Point> = Vec::new();
        for line in self.wide_lines(&lines) {
            let (mut expected, mut beyond) = (line.fits, line.fails);
            while beyond - expected > 1 {
                let middle = expected + (beyond - expected) / 2;
                if expects(&self.lattice.point(&(line.cell)(middle)))? {
                    expected = middle;
                } else {
                    beyond = middle;
                }
            }
            let step =
                self.nearest_unrecorded(line.fits + 1, line.fails - 1, self.step_at(&line, expected), &line.cell);
            let point = step.map(|step| self.lattice.point(&(line.cell)(step)));
            next.extend(point.filter(|point| !next.contains(point)));
        }
        Ok(next)
    }

    /// The step to probe on a line whose limit is expected after the step `expected`.
    fn step_at(&self, line: &WideLine, expected: i64) -> i64 {
        let (fits, fails) = (line.fits, line.fails);
        // The tolerance in steps, starting at the expected limit.
        let within = |step: i64| self.excess(&(line.cell)(expected.max(0)), &(line.cell)(step)) <= 1.0;
        let tolerance = first_holding(fails - expected.max(0), |more| !within(expected.max(0) + more)) - 1;
        let on_line =
            |cell: &&Cell| (1..line.steps).contains(&cell[line.axis]) && **cell == (line.cell)(cell[line.axis]);
        let probed = self.tested.iter().filter(on_line).count();
        let doublings = u32::try_from(probed.saturating_sub(STEADY)).unwrap_or(u32::MAX);
        let away = tolerance.max(1).saturating_mul(2_i64.saturating_pow(doublings));
        let (lowest, highest) = (fits.saturating_add(away), fails.saturating_sub(away));
        if lowest > highest {
            return fits + (fails - fits) / 2;
        }
        (expected - (tolerance - 1) / 2).clamp(lowest, highest)
    }

    /// The distance between two cells in tolerances, on the axis where that is largest; 0 if no axis has a tolerance.
    fn excess(&self, low: &Cell, high: &Cell) -> f64 {
        let axes = self.lattice.axes().iter().enumerate();
        axes.filter_map(|(index, axis)| Some(axis.distance(low[index], high[index]) / axis.tolerance()?))
            .fold(0.0, f64::max)
    }

    /// The rays, and the lines along an axis through a cell, that are wider than a tolerance, the widest first.
    fn wide_lines(&self, through: &[(Cell, usize)]) -> Vec<WideLine> {
        let axes = self.lattice.axes();
        if axes.iter().all(|axis| axis.tolerance().is_none()) {
            return Vec::new();
        }
        let mut lines: Vec<(i64, usize, CellAt)> = Vec::new();
        for weights in self.directions() {
            let (steps, cell) = self.ray(&weights);
            let axis = axes
                .iter()
                .zip(&weights)
                .position(|(axis, weight)| (axis.last() as f64 * weight).round() as i64 == steps);
            lines.push((steps, axis.unwrap_or(0), Box::new(cell)));
        }
        for (cell, axis) in through {
            let (through, along) = (cell.clone(), *axis);
            let cell = move |step: i64| {
                let mut cell = through.clone();
                cell[along] = step;
                cell
            };
            lines.push((axes[along].last(), along, Box::new(cell)));
        }
        let mut wide: Vec<WideLine> = Vec::new();
        for (steps, axis, cell) in lines {
            let (fits, fails) = self.line_bounds(steps, &cell, &cell);
            let excess = self.excess(&cell(fits.max(0)), &cell(fails.min(steps)));
            if fails - fits > 1 && excess > 1.0 {
                wide.push(WideLine {
                    excess,
                    fits,
                    fails,
                    axis,
                    steps,
                    cell,
                });
            }
        }
        wide.sort_by(|a, b| {
            b.excess
                .total_cmp(&a.excess)
                .then_with(|| (a.cell)(a.fits).cmp(&(b.cell)(b.fits)))
        });
        wide
    }

    /// The weights of the rays by axis; 0 on axes with a single value.
    pub(super) fn directions(&self) -> Vec<Vec<f64>> {
        let (free, axes) = (self.lattice.free(), self.lattice.axes().len());
        let whole = |weights: Vec<f64>| {
            let mut whole = vec![0.0; axes];
            for (axis, weight) in free.iter().zip(weights) {
                whole[*axis] = weight;
            }
            whole
        };
        directions(free.len()).into_iter().map(whole).collect()
    }
}

/// Weights by axis, the largest being 1. With two axes: nine equally spaced angles. With more: each axis, the
/// diagonal, then mixtures that omit or favour one axis.
fn directions(axes: usize) -> Vec<Vec<f64>> {
    if axes <= 1 {
        return vec![vec![1.0; axes]];
    }
    if axes == 2 {
        let angle = |ray: usize| FRAC_PI_2 * ray as f64 / (RAYS - 1) as f64;
        return (0..RAYS)
            .map(|ray| {
                let (across, along) = angle(ray).sin_cos();
                let most = along.max(across);
                vec![along / most, across / most]
            })
            .collect();
    }
    let one = |axis: usize, its: f64, others: f64| {
        (0..axes)
            .map(|other| if other == axis { its } else { others })
            .collect()
    };
    let alone = (0..axes).map(|axis| one(axis, 1.0, 0.0));
    let diagonal = std::iter::once(vec![1.0; axes]);
    let without = (0..axes).map(|axis| one(axis, 0.0, 1.0));
    let favoured = (0..axes).map(|axis| one(axis, 1.0, 0.5));
    alone
        .chain(diagonal)
        .chain(without)
        .chain(favoured)
        .take(RAYS)
        .collect()
}

impl Boundary {
    /// The widest run of open values along each axis, in the axis' own unit; 0 if nothing is open.
    ///
    /// Every open run lies in a box between a lowest and a highest open cell, and every such box is open throughout.
    pub fn gap(&self) -> Result<Vec<(String, Scalar)>> {
        let view = self.view()?;
        let mut widest: Vec<Option<f64>> = vec![None; self.lattice.axes().len()];
        for low in &view.lowest {
            for high in view.highest.iter().filter(|high| below(low, high)) {
                for (index, axis) in self.lattice.axes().iter().enumerate() {
                    // From the last settled value below to the first one above, within the range.
                    let from = (low[index] - 1).max(0);
                    let to = (high[index] + 1).min(axis.last());
                    let width = axis.distance(from, to);
                    widest[index] = Some(widest[index].map_or(width, |most| most.max(width)));
                }
            }
        }
        let axes = self.lattice.axes().iter().zip(widest);
        Ok(axes
            .map(|(axis, width)| (axis.name().to_owned(), axis.scalar(width.unwrap_or(0.0))))
            .collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_nine_that_differ() {
        for axes in 2..=8 {
            let mut rays = directions(axes);
            assert_eq!(rays.len(), RAYS);
            rays.sort_by(|a, b| a.partial_cmp(b).expect("no NaN"));
            rays.dedup();
            assert_eq!(rays.len(), RAYS);
        }
    }
}
