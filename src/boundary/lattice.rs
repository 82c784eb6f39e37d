//! The search range of a boundary: its axes, and the conversion between points and lattice cells.

use serde_json::Value;

use super::{Axis, Point, Scalar};
use crate::fault::{Fault, Result};

/// The hardness on every axis, in the order of the axes. If a cell fails, every larger one fails.
pub(super) type Cell = Vec<i64>;

const MOST_AXES: usize = 8;

/// The axes of a boundary, by name.
#[derive(Clone, Debug, PartialEq)]
pub struct Lattice {
    axes: Vec<Axis>,
    total: u128,
}

impl Lattice {
    /// Reads an object of axes by name.
    pub fn parse(axes: &Value) -> Result<Self> {
        let hint = "write `boundary(#{ input: [128, 8192], output: [128, 4096] }, #{})`";
        let Value::Object(axes) = axes else {
            return Err(Fault::usage("the axes of a boundary are a map from name to range").hint(hint));
        };
        if axes.is_empty() || axes.len() > MOST_AXES {
            return Err(Fault::usage(format!("a boundary has 1 to {MOST_AXES} axes, not {}", axes.len())).hint(hint));
        }
        let axes: Vec<Axis> = axes
            .iter()
            .map(|(name, axis)| Axis::parse(name, axis))
            .collect::<Result<_>>()?;
        let total = axes
            .iter()
            .try_fold(1u128, |total, axis| {
                total.checked_mul(axis.last().unsigned_abs() as u128 + 1)
            })
            .ok_or_else(|| {
                Fault::usage("the range of these axes has too many points to count").hint("narrow the ranges")
            })?;
        Ok(Self { axes, total })
    }

    /// The axes, by name.
    #[must_use]
    pub fn axes(&self) -> &[Axis] {
        &self.axes
    }

    /// The indices of axes with more than one value. Only these are searched.
    pub(super) fn free(&self) -> Vec<usize> {
        let free = self.axes.iter().enumerate().filter(|(_, axis)| axis.last() > 0);
        free.map(|(index, _)| index).collect()
    }

    /// The names of the axes, in the same order.
    #[must_use]
    pub fn axis_names(&self) -> Vec<&str> {
        self.axes.iter().map(Axis::name).collect()
    }

    /// The number of lattice points.
    #[must_use]
    pub fn total(&self) -> u128 {
        self.total
    }

    /// The point's coordinates in the order of the axes. Every axis must be present, and nothing else.
    pub(super) fn coordinates(&self, point: &Point) -> Result<Box<[Scalar]>> {
        if let Some(foreign) = point
            .0
            .keys()
            .find(|name| self.axes.iter().all(|axis| axis.name() != *name))
        {
            return Err(Fault::usage(format!("`{foreign}` is not an axis of this boundary")).hint(self.names()));
        }
        self.axes
            .iter()
            .map(|axis| {
                point.0.get(axis.name()).copied().ok_or_else(|| {
                    Fault::usage(format!("the point `{point}` has no coordinate `{}`", axis.name())).hint(self.names())
                })
            })
            .collect()
    }

    /// The cells around the coordinates: rounded to the easier side, and to the harder side.
    pub(super) fn cells(&self, coordinates: &[Scalar]) -> Result<(Cell, Cell)> {
        let pairs: Vec<(i64, i64)> = self
            .axes
            .iter()
            .zip(coordinates)
            .map(|(axis, value)| axis.hardness(*value))
            .collect::<Result<_>>()?;
        Ok(pairs.into_iter().unzip())
    }

    pub(super) fn point(&self, cell: &[i64]) -> Point {
        self.named(self.axes.iter().zip(cell).map(|(axis, hardness)| axis.value(*hardness)))
    }

    /// The point with these coordinates, in the order of the axes.
    pub(super) fn named(&self, coordinates: impl IntoIterator<Item = Scalar>) -> Point {
        let names = self.axes.iter().map(|axis| axis.name().to_owned());
        Point(names.zip(coordinates).collect())
    }

    /// The cell counted from the hardest end. Failing cells are stored mirrored, so that "at or below" works for both
    /// sides.
    pub(super) fn mirror(&self, cell: &[i64]) -> Cell {
        self.axes
            .iter()
            .zip(cell)
            .map(|(axis, hardness)| axis.last() - hardness)
            .collect()
    }

    /// The hardest cell.
    pub(super) fn last(&self) -> Cell {
        self.axes.iter().map(Axis::last).collect()
    }

    /// The last cell of the search range at or below `cell`; `None` if there is none.
    pub(super) fn clamp(&self, cell: &[i64]) -> Option<Cell> {
        self.axes
            .iter()
            .zip(cell)
            .map(|(axis, hardness)| (*hardness >= 0).then(|| (*hardness).min(axis.last())))
            .collect()
    }

    fn names(&self) -> String {
        let names: Vec<_> = self.axes.iter().map(|axis| format!("`{}`", axis.name())).collect();
        format!("its axes are {}", names.join(", "))
    }
}

/// Whether `a` is at most `b` on every axis.
pub(super) fn below(a: &[i64], b: &[i64]) -> bool {
    a.iter().zip(b).all(|(a, b)| a <= b)
}
