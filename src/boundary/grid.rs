//! Evenly spaced grids, and the best point of a list.

use super::lattice::Cell;
use super::{Boundary, Point};
use crate::fault::{Fault, Kind, Result};

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
            return Err(Fault::new(
                Kind::Limit,
                format!(
                    "a grid of {size} values on each of {} axes must have 1 to 100,000 points",
                    axes.len()
                ),
            ));
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

    /// The point whose answer settles most, whatever it is, among those neither recorded nor known. `None` if there
    /// is no such point.
    pub fn best(&self, points: &[Point]) -> Result<Option<Point>> {
        let mut best: Option<(f64, Cell)> = None;
        for point in points {
            let (_, cell) = self.lattice.cells(&self.lattice.coordinates(point)?)?;
            if !self.is_probeable(&cell) {
                continue;
            }
            let gain = self.gain(&cell, &[], None)?;
            if best.as_ref().is_none_or(|(most, _)| gain > *most) {
                best = Some((gain, cell));
            }
        }
        Ok(best.map(|(_, cell)| self.lattice.point(&cell)))
    }
}
