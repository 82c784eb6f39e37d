//! The search range of a boundary: its axes, and the conversion between points and lattice cells.

use rand::RngExt as _;
use rand_chacha::ChaCha8Rng;
use serde_json::Value;

use super::{Axis, Point, Scalar};
use crate::error::{Error, Result};

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
            return Err(Error::usage("the axes of a boundary are a map from name to range").hint(hint));
        };
        if axes.is_empty() || axes.len() > MOST_AXES {
            return Err(Error::usage(format!("a boundary has 1 to {MOST_AXES} axes, not {}", axes.len())).hint(hint));
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
                Error::usage("the range of these axes has too many points to count").hint("narrow the ranges")
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

    /// The index of the axis with this name.
    pub(super) fn index(&self, name: &str) -> Result<usize> {
        let index = self.axes.iter().position(|axis| axis.name() == name);
        index.ok_or_else(|| Error::usage(format!("`{name}` is not an axis of this boundary")))
    }

    /// Whether a point is at most as hard as another on every axis; not if either lacks one.
    #[must_use]
    pub fn is_at_most_as_hard(&self, one: &Point, other: &Point) -> bool {
        self.axes.iter().all(|axis| match (axis.of(one), axis.of(other)) {
            (Some(one), Some(other)) => axis.difficulty(one) <= axis.difficulty(other),
            _ => false,
        })
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
            return Err(Error::usage(format!("`{foreign}` is not an axis of this boundary")).hint(self.names()));
        }
        self.axes
            .iter()
            .map(|axis| {
                point.0.get(axis.name()).copied().ok_or_else(|| {
                    Error::usage(format!("the point `{point}` has no coordinate `{}`", axis.name())).hint(self.names())
                })
            })
            .collect()
    }

    /// Restricts a point, which may have further coordinates, to the axes of this search range; `None` if it lacks one.
    #[must_use]
    pub fn own(&self, point: &Value) -> Option<Point> {
        let own = |axis: &Axis| {
            Some((
                axis.name().to_owned(),
                serde_json::from_value(point[axis.name()].clone()).ok()?,
            ))
        };
        self.axes.iter().map(own).collect::<Option<_>>().map(Point)
    }

    /// Replaces coordinates that the engine counted differently, without moving them out of the range.
    pub(super) fn counted(&self, mut point: Point, counted: &Point) -> Point {
        for axis in &self.axes {
            if let (Some(value), Some(asked)) = (counted.int(axis.name()), point.int(axis.name()))
                && let (Scalar::Int(low), Scalar::Int(high)) = axis.range()
            {
                point = point.with(axis.name(), value.clamp(low.min(asked), high.max(asked)));
            }
        }
        point
    }

    /// The cells around a point: rounded to the easier side, and to the harder side.
    pub(super) fn cells(&self, point: &Point) -> Result<(Cell, Cell)> {
        self.cells_at(&self.coordinates(point)?)
    }

    /// The cell of a point, rounded to the harder side and clamped to the search range.
    pub(super) fn inside(&self, point: &Point) -> Result<Cell> {
        let (_, harder) = self.cells(point)?;
        let sides = harder.into_iter().zip(&self.axes);
        Ok(sides.map(|(at, axis)| at.clamp(0, axis.last())).collect())
    }

    pub(super) fn cells_at(&self, coordinates: &[Scalar]) -> Result<(Cell, Cell)> {
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

    /// The cell halfway between two others by the scale of each axis.
    pub(super) fn middle(&self, from: &Cell, to: &Cell) -> Cell {
        let sides = self.axes.iter().zip(from.iter().zip(to));
        sides.map(|(axis, (from, to))| axis.middle(*from, *to)).collect()
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

/// Whether neither cell lies below the other.
pub(super) fn incomparable(a: &Cell, b: &Cell) -> bool {
    !below(a, b) && !below(b, a)
}

/// All cells, or `most` of them, evenly spaced.
pub(super) fn evenly_spaced(cells: &[Cell], most: usize) -> impl Iterator<Item = &Cell> {
    cells.iter().step_by(cells.len().div_ceil(most).max(1))
}

/// A random cell from `low` to `high`, which differ only on free axes.
pub(super) fn random_cell(low: &Cell, high: &Cell, free: &[usize], random: &mut ChaCha8Rng) -> Cell {
    let mut cell = low.clone();
    for axis in free {
        cell[*axis] = random.random_range(low[*axis]..=high[*axis]);
    }
    cell
}

/// The number of cells from `low` to `high`.
pub(super) fn box_volume(low: &Cell, high: &Cell) -> f64 {
    let sides = low.iter().zip(high).map(|(low, high)| (high - low + 1).max(0) as f64);
    sides.product()
}

/// The last cell within this share of a segment.
pub(super) fn cell_along(from: &Cell, to: &Cell, share: f64) -> Cell {
    from.iter()
        .zip(to)
        .map(|(from, to)| step_along(*from, *to, share))
        .collect()
}

/// The last step within this share of the way between two others.
pub(super) fn step_along(from: i64, to: i64, share: f64) -> i64 {
    let steps = ((to - from) as f64 * share.clamp(0.0, 1.0) + 1e-7).floor() as i64;
    from + steps
}

/// The diagonal of a box and the diagonals of its faces, as segments.
pub(super) fn diagonal_and_faces(low: &Cell, high: &Cell) -> Vec<(Cell, Cell)> {
    let pinned = |axis: usize, at: i64| {
        let (mut from, mut to) = (low.clone(), high.clone());
        (from[axis], to[axis]) = (at, at);
        (from, to)
    };
    let wide = (0..low.len()).filter(|axis| low[*axis] < high[*axis]);
    let diagonal_and_faces = wide.flat_map(|axis| [pinned(axis, low[axis]), pinned(axis, high[axis])]);
    std::iter::once((low.clone(), high.clone()))
        .chain(diagonal_and_faces)
        .collect()
}
