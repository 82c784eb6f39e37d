//! Evenly spread points, and which of a list to ask first.

use super::lattice::Cell;
use super::{Boundary, Point};
use crate::fault::{Fault, Kind, Result};

/// Points of one grid.
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

    /// `size` values on every axis, spread evenly in its scale from end to end, and all their combinations.
    pub fn grid(&self, size: usize) -> Result<Vec<Point>> {
        let axes = self.lattice.axes();
        let count = u32::try_from(axes.len()).ok().and_then(|axes| size.checked_pow(axes));
        if size == 0 || count.is_none_or(|count| count > MOST_GRID_POINTS) {
            return Err(Fault::new(
                Kind::Limit,
                format!(
                    "a grid of {size} values on each of {} axes is not within 1 to 100,000 points",
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

    /// The one of `points` whose answer settles most, whatever it is: neither recorded nor known. None when all are.
    pub fn best(&self, points: &[Point]) -> Result<Option<Point>> {
        let mut best: Option<(f64, Cell)> = None;
        for point in points {
            let (_, cell) = self.lattice.cells(&self.lattice.coordinates(point)?)?;
            if !self.askable(&cell) {
                continue;
            }
            let worth = self.worth(&cell, &[], None)?;
            if best.as_ref().is_none_or(|(most, _)| worth > *most) {
                best = Some((worth, cell));
            }
        }
        Ok(best.map(|(_, cell)| self.lattice.point(&cell)))
    }
}
