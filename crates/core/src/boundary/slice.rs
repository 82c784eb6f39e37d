//! A slice through the search range along one or two axes, as exact outlines for charts: what fits, fails, is
//! contradicted, lies beyond a length limit, is open, or is predicted to fit or to fail.
//!
//! Each lattice value represents the interval up to the midpoints to its neighbours, by the scale of its axis. So the
//! outline of what fits contains as many lattice points as [`super::Volume`] counts, and a point lies inside exactly
//! when [`Boundary::classify`] says so.

use super::lattice::Cell;
use super::predict::{LIKELY, UNLIKELY};
use super::staircase::{Outline, Staircase};
use super::{Axis, Boundary, Point};
use crate::fault::Result;

/// Columns at which the predicted limit is evaluated.
const COLUMNS: usize = 160;

/// Closed lines in the axes' own units, clockwise where both axes rise.
pub type Outlines = Vec<Vec<(f64, f64)>>;

/// The regions of a slice. They cover it without overlap.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Regions {
    /// Proven to fit.
    pub fits: Outlines,
    /// Proven to fail.
    pub fails: Outlines,
    /// Failing, although a probe there or beyond fitted.
    pub band: Outlines,
    /// Beyond a length limit.
    pub clipped: Outlines,
    /// Open, and predicted to fit.
    pub predicted: Outlines,
    /// Open, and predicted to fail.
    pub unlikely: Outlines,
    /// Open, and not predicted.
    pub open: Outlines,
}

/// A slice through the search range.
#[derive(Debug)]
pub struct Slice<'a> {
    boundary: &'a Boundary,
    x: usize,
    y: Option<usize>,
    /// The values of the other axes.
    at: Cell,
    /// The hardest cells that fit in the slice.
    fits: Vec<(i64, i64)>,
    /// The easiest cells that fail in the slice.
    fails: Vec<(i64, i64)>,
    /// The easiest cells that a length limit refuses in the slice.
    clips: Vec<(i64, i64)>,
}

impl Boundary {
    /// The slice along the axis `x`, and `y` if given. The other axes are held at the values of `at_point`, rounded
    /// to the easier side.
    pub fn slice(&self, x: &str, y: Option<&str>, at_point: &Point) -> Result<Slice<'_>> {
        let index = |name: &str| self.lattice.index(name);
        let (x, y) = (index(x)?, y.map(index).transpose()?);
        let (at, _) = self.lattice.cells(at_point)?;
        let mut slice = Slice {
            boundary: self,
            x,
            y,
            at,
            fits: Vec::new(),
            fails: Vec::new(),
            clips: Vec::new(),
        };
        let fits = slice
            .fitting_here(self.fits.cells())
            .map(|cell| slice.place(&cell))
            .collect();
        let fails = slice
            .failing_here(self.fails.cells())
            .map(|cell| slice.place(&cell))
            .collect();
        slice.fits = hardest(fits);
        slice.fails = easiest(fails);
        let clips = slice
            .failing_here(self.clips.cells())
            .map(|cell| slice.place(&cell))
            .collect();
        slice.clips = easiest(clips);
        Ok(slice)
    }
}

impl Slice<'_> {
    /// The regions of the slice.
    pub fn regions(&self) -> Result<Regions> {
        let (width, height) = self.size();
        let fits = Staircase::below(&self.fits, width);
        let unfailing = Staircase::not_above(&self.fails, width, height);
        let may_fit = Staircase::not_above(&self.clips, width, height).intersection(&unfailing);
        let fitted: Vec<_> = self
            .fitting_here(self.boundary.contradicted.iter())
            .map(|cell| self.place(&cell))
            .collect();
        let tried = Staircase::below(&fitted, width).union(&unfailing);
        let likely = self.predicted(&fits, &may_fit, false)?.unwrap_or_else(|| fits.clone());
        let conceivable = self
            .predicted(&fits, &may_fit, true)?
            .unwrap_or_else(|| may_fit.clone());
        let outlines = |outer: &Staircase, inner: &Staircase| {
            outer
                .difference(inner)
                .into_iter()
                .map(|line| self.real(line))
                .collect()
        };
        Ok(Regions {
            fits: outlines(&fits, &Staircase::all(width, 0)),
            fails: outlines(&Staircase::all(width, height), &tried),
            band: outlines(&tried, &unfailing),
            clipped: outlines(&unfailing, &may_fit),
            predicted: outlines(&likely, &fits),
            unlikely: outlines(&may_fit, &conceivable),
            open: outlines(&conceivable, &likely),
        })
    }

    /// The extent of the cells along x and along y, in the axes' own units.
    #[must_use]
    pub fn ranges(&self) -> ((f64, f64), (f64, f64)) {
        (ends(self.x_axis()), self.y_axis().map_or((0.0, 1.0), ends))
    }

    /// All cells that fit, and of those that may fit the ones that are predicted to, or with `conceivable` the ones that
    /// are not predicted to fail; none without hypotheses. Between evaluated columns, nothing is predicted that is not
    /// at both.
    fn predicted(&self, fits: &Staircase, may_fit: &Staircase, conceivable: bool) -> Result<Option<Staircase>> {
        let share = if conceivable { UNLIKELY } else { LIKELY };
        let (Some(y), Some(hypotheses)) = (self.y, self.boundary.hypotheses()?) else {
            return Ok(None);
        };
        let mut cell = self.at.clone();
        let mut admits = |column: i64, row: i64| {
            (cell[self.x], cell[y]) = (column, row);
            hypotheses.share(hypotheses.votes(&cell)) >= share
        };
        let (width, height) = self.size();
        let columns = COLUMNS.min(usize::try_from(width).unwrap_or(COLUMNS));
        let mut steps = Vec::new();
        let (mut top, mut end) = (height, 0);
        for column in self.x_axis().spread(columns) {
            // A fit is predicted up to the harder column, a failure from the easier one on.
            if conceivable && column > end {
                steps.push((column, top));
            }
            let (mut low, mut high) = (0, top);
            while low < high {
                let middle = low + (high - low) / 2;
                (low, high) = if admits(column, middle) {
                    (middle + 1, high)
                } else {
                    (low, middle)
                };
            }
            (top, end) = (low, column + 1);
            steps.push((end, top));
        }
        steps.push((width, 0));
        Ok(Some(Staircase::new(steps).union(fits).intersection(may_fit)))
    }

    fn x_axis(&self) -> &Axis {
        &self.boundary.lattice.axes()[self.x]
    }

    fn y_axis(&self) -> Option<&Axis> {
        Some(&self.boundary.lattice.axes()[self.y?])
    }

    /// The number of cells along x and y.
    fn size(&self) -> (i64, i64) {
        (
            self.x_axis().last() + 1,
            self.y_axis().map_or(1, |axis| axis.last() + 1),
        )
    }

    fn place(&self, cell: &Cell) -> (i64, i64) {
        (cell[self.x], self.y.map_or(0, |y| cell[y]))
    }

    /// The fitting cells that prove something in this slice: at least as hard on every other axis.
    fn fitting_here<'a>(&'a self, cells: impl Iterator<Item = &'a Cell>) -> impl Iterator<Item = Cell> {
        let inside = cells.filter_map(|cell| self.boundary.lattice.clamp(cell));
        inside.filter(|cell| self.off_plane_pairs(cell).all(|(cell, here)| cell >= here))
    }

    /// The failing cells, given mirrored, that prove something in this slice: no harder on any other axis.
    fn failing_here<'a>(&'a self, cells: impl Iterator<Item = &'a Cell>) -> impl Iterator<Item = Cell> {
        let lattice = &self.boundary.lattice;
        let inside = cells
            .filter_map(|cell| lattice.clamp(cell))
            .map(|cell| lattice.mirror(&cell));
        inside.filter(|cell| self.off_plane_pairs(cell).all(|(cell, here)| cell <= here))
    }

    fn off_plane_pairs<'a>(&'a self, cell: &'a Cell) -> impl Iterator<Item = (&'a i64, &'a i64)> {
        let pairs = cell.iter().zip(&self.at).enumerate();
        pairs
            .filter(|(axis, _)| *axis != self.x && Some(*axis) != self.y)
            .map(|(_, pair)| pair)
    }

    fn real(&self, line: Outline) -> Vec<(f64, f64)> {
        line.into_iter().map(|corner| self.real_corner(corner)).collect()
    }

    fn real_corner(&self, (column, row): (i64, i64)) -> (f64, f64) {
        let height = self.y_axis().map_or(row as f64, |axis| axis.edge(row));
        (self.x_axis().edge(column), height)
    }
}

/// The extent of an axis' cells, lower end first.
fn ends(axis: &Axis) -> (f64, f64) {
    let (first, last) = (axis.edge(0), axis.edge(axis.last() + 1));
    (first.min(last), first.max(last))
}

/// The cells that lie below no other, in rising order of x.
fn hardest(mut cells: Vec<(i64, i64)>) -> Vec<(i64, i64)> {
    cells.sort_unstable_by(|a, b| b.cmp(a));
    let mut top = -1;
    cells.retain(|(_, row)| {
        let higher = *row > top;
        top = top.max(*row);
        higher
    });
    cells.reverse();
    cells
}

/// The cells that lie above no other, in rising order of x.
fn easiest(mut cells: Vec<(i64, i64)>) -> Vec<(i64, i64)> {
    cells.sort_unstable();
    let mut floor = i64::MAX;
    cells.retain(|(_, row)| {
        let lower = *row < floor;
        floor = floor.min(*row);
        lower
    });
    cells
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::super::{Answer, Class, Options, Scalar, Verdict};
    use super::*;

    /// Whether a place lies within any of the lines: an upright ray from it crosses one an odd number of times.
    fn within(lines: &Outlines, (x, y): (f64, f64)) -> bool {
        let sides = lines
            .iter()
            .flat_map(|line| line.iter().zip(line.iter().cycle().skip(1)));
        let crossed = sides.filter(|(a, b)| a.1 == b.1 && a.1 > y && a.0.min(b.0) <= x && x < a.0.max(b.0));
        crossed.count() % 2 == 1
    }

    fn area(lines: &Outlines) -> f64 {
        let side = |(a, b): (&(f64, f64), &(f64, f64))| (a.0 * b.1 - b.0 * a.1) / 2.0;
        let line = |line: &Vec<(f64, f64)>| {
            line.iter()
                .zip(line.iter().cycle().skip(1))
                .map(side)
                .sum::<f64>()
                .abs()
        };
        lines.iter().map(line).sum()
    }

    /// A boundary with these answers: some are wrong, some hit a length limit, some are inconclusive.
    fn with_answers(axes: &Value, names: &[&str], answers: &[(Vec<i64>, usize)], most: i64) -> Boundary {
        let mut map = Boundary::new(axes, Options::default()).unwrap();
        for (at, kind) in answers {
            let point = names
                .iter()
                .zip(at)
                .fold(Point::default(), |point, (name, at)| point.with(name, *at));
            let answer = match (kind, at[..names.len()].iter().sum::<i64>() <= most) {
                (0, _) => json!({ "verdict": "refused", "cause": "length_limit" }),
                (1, true) | (3.., false) => json!("oom"),
                (2, _) => json!("timeout"),
                _ => json!("ok"),
            };
            map.record(&point, &Answer::parse(&answer).unwrap()).unwrap();
        }
        map
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn regions_divide_a_cut_as_the_boundary_classifies_its_points(
            answers in prop::collection::vec((prop::collection::vec(0i64..9, 3), 0usize..14), 0..40),
            most in 2i64..20,
            third in 1i64..=7,
            up in any::<bool>(),
        ) {
            let easier = if up { "up" } else { "down" };
            let axes = json!({ "a": [1, 7], "b": { "range": [1, 7], "easier": easier }, "c": [1, 7] });
            let map = with_answers(&axes, &["a", "b", "c"], &answers, most);
            let at_point = Point::default().with("a", 1).with("b", 1).with("c", third);
            let regions = map.slice("a", Some("b"), &at_point).unwrap().regions().unwrap();
            for (a, b) in (1..=7).flat_map(|a| (1..=7).map(move |b| (a, b))) {
                let point = at_point.clone().with("a", a).with("b", b);
                let at = (a as f64, b as f64);
                let class = map.classify(&point).unwrap();
                prop_assert_eq!(within(&regions.fits, at), class == Class::Fits, "{}", &point);
                let band = map.is_in_band(&point).unwrap();
                prop_assert_eq!(within(&regions.band, at), band, "{}", &point);
                prop_assert_eq!(within(&regions.fails, at), class == Class::Fails && !band, "{}", &point);
                let unlikely = within(&regions.unlikely, at);
                let open = within(&regions.open, at) || within(&regions.predicted, at) || unlikely;
                prop_assert_eq!(open || within(&regions.clipped, at), class == Class::Unknown, "{}", &point);
                // The range is small enough that every column is evaluated.
                prop_assert_eq!(within(&regions.predicted, at), !within(&regions.clipped, at) && map.is_likely(&point).unwrap(), "{}", &point);
                prop_assert_eq!(unlikely, !within(&regions.clipped, at) && map.is_unlikely(&point).unwrap(), "{}", &point);
            }
            let all = [&regions.fits, &regions.fails, &regions.band, &regions.clipped, &regions.predicted, &regions.unlikely, &regions.open];
            let whole: f64 = all.iter().map(|lines| area(lines)).sum();
            prop_assert!((whole - 49.0).abs() < 1e-9, "{}", whole);
        }

        #[test]
        fn areas_are_the_lattice_points_that_volume_counts(
            answers in prop::collection::vec((prop::collection::vec(1i64..=400, 2), 3usize..14), 0..60),
            most in 50i64..800,
            axes in 1usize..=2,
        ) {
            let names = &["a", "b"][..axes];
            let ranges = names.iter().map(|name| ((*name).to_owned(), json!([1, 400])));
            let map = with_answers(&ranges.collect(), names, &answers, most);
            let slice = map.slice("a", names.get(1).copied(), &map.smallest()).unwrap();
            let (regions, volume) = (slice.regions().unwrap(), map.volume().unwrap());
            for (lines, count) in [(&regions.fits, volume.fits), (&regions.fails, volume.fails), (&regions.clipped, volume.clipped)] {
                prop_assert!((area(lines) - count as f64).abs() < 1e-6, "{} {}", area(lines), count);
            }
            let open = area(&regions.open) + area(&regions.predicted) + area(&regions.unlikely);
            prop_assert!((open - volume.open as f64).abs() < 1e-6);
        }
    }

    #[test]
    fn a_log_axis_is_divided_in_the_middle_of_its_scale() {
        let axes = json!({ "a": { "range": [1, 4096], "scale": "log" }, "b": { "range": [0.5, 0.9], "easier": "up" } });
        let mut map = Boundary::new(&axes, Options::default()).unwrap();
        let point = Point(
            [("a".to_owned(), Scalar::Int(64)), ("b".to_owned(), Scalar::Float(0.7))]
                .into_iter()
                .collect(),
        );
        map.record(&point, &Answer::from(Verdict::Ok)).unwrap();
        let slice = map.slice("a", Some("b"), &map.smallest()).unwrap();
        let [line] = &slice.regions().unwrap().fits[..] else {
            panic!()
        };
        let (left, right) = (
            line.iter().map(|at| at.0).fold(9e9, f64::min),
            line.iter().map(|at| at.0).fold(0.0, f64::max),
        );
        assert!(
            (left - 0.5f64.sqrt()).abs() < 1e-9 && (right - (64.0 * 65.0f64).sqrt()).abs() < 1e-9,
            "{line:?}"
        );
        // More memory is easier: what fits lies above.
        assert!(line.iter().all(|at| at.1 > 0.699 && at.1 < 0.901), "{line:?}");
        assert!(map.slice("depth", None, &point).is_err());
    }
}
