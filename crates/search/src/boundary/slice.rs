//! A slice through the search range along one or two axes, as exact outlines for charts: the regions that fit, fail,
//! are contradicted, are ruled out by the engine's report, lie beyond a length limit, are open, or are predicted to fit
//! or to fail.
//!
//! Each lattice value represents the interval up to the midpoints to its neighbours, by the scale of its axis. The
//! outline of the fitting region therefore contains as many lattice points as [`super::Volume`] counts, and a point
//! lies inside exactly if [`Boundary::classify`] returns that class.

use super::dominance::DominatedSet;
use super::lattice::Cell;
use super::predict::{LIKELY, UNLIKELY};
use super::rays::first_holding;
use super::staircase::Staircase;
use super::{Axis, Boundary, Point};
use crate::error::Result;

/// Columns at which the predicted limit is evaluated.
const COLUMNS: usize = 160;

/// Closed lines in the axes' own units, clockwise where both axes rise.
pub type Outlines = Vec<Vec<(f64, f64)>>;

/// The regions of a slice. They cover it without overlap.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Regions {
    /// The extent of the cells along x, in the axis' own unit.
    pub x: (f64, f64),
    /// The extent along y, likewise; 0 to 1 without that axis.
    pub y: (f64, f64),
    /// Proven to fit.
    pub fits: Outlines,
    /// Proven to fail.
    pub fails: Outlines,
    /// Failing, although a probe there or beyond fitted.
    pub band: Outlines,
    /// Ruled out by the engine's own report, and not sent.
    pub not_sent: Outlines,
    /// Beyond a length limit.
    pub clipped: Outlines,
    /// Open, and predicted to fit.
    pub predicted: Outlines,
    /// Open, and predicted to fail.
    pub unlikely: Outlines,
    /// Open, and not predicted.
    pub open: Outlines,
}

impl Boundary {
    /// The slice along the axis `x`, and `y` if given. The other axes are held at the values of `at_point`, rounded
    /// to the easier side.
    pub fn slice(&self, x: &str, y: Option<&str>, at_point: &Point) -> Result<Regions> {
        let index = |name: &str| self.lattice.index(name);
        let (x, y) = (index(x)?, y.map(index).transpose()?);
        let (at, _) = self.lattice.cells(at_point)?;
        let axes = self.lattice.axes();
        let slice = Slice {
            boundary: self,
            x: (x, &axes[x]),
            y: y.map(|y| (y, &axes[y])),
            at,
        };
        slice.regions()
    }
}

struct Slice<'a> {
    boundary: &'a Boundary,
    x: (usize, &'a Axis),
    y: Option<(usize, &'a Axis)>,
    /// The values of the other axes.
    at: Cell,
}

impl Slice<'_> {
    fn regions(&self) -> Result<Regions> {
        let map = self.boundary;
        let (width, height) = (self.x.1.last() + 1, self.y.map_or(1, |(_, axis)| axis.last() + 1));
        let fits = Staircase::below(&self.fitting(map.fits.cells()), width);
        let not_above = |cells: &DominatedSet| Staircase::not_above(&self.failing(cells.cells()), width, height);
        let unfailing = not_above(&map.fails);
        let unbounded = not_above(&map.ruled_out.standing).merge(&unfailing, i64::min);
        let may_fit = not_above(&map.clips.standing).merge(&unbounded, i64::min);
        let fitted = Staircase::below(&self.fitting(map.contradicted.iter()), width);
        let tried = fitted.merge(&unfailing, i64::max);
        let predicted = |conceivable| {
            let cells = self.predicted((width, height), conceivable)?;
            Ok(cells.map(|cells| cells.merge(&fits, i64::max).merge(&may_fit, i64::min)))
        };
        let likely = predicted(false)?.unwrap_or_else(|| fits.clone());
        let conceivable = predicted(true)?.unwrap_or_else(|| may_fit.clone());
        let outlines = |outer: &Staircase, inner: &Staircase| {
            let corner = |(column, row)| {
                let y = self.y.map_or(row as f64, |(_, axis)| axis.edge(row));
                (self.x.1.edge(column), y)
            };
            let lines = outer.difference(inner).into_iter();
            lines.map(|line| line.into_iter().map(corner).collect()).collect()
        };
        Ok(Regions {
            x: ends(self.x.1),
            y: self.y.map_or((0.0, 1.0), |(_, axis)| ends(axis)),
            fits: outlines(&fits, &Staircase::all(width, 0)),
            fails: outlines(&Staircase::all(width, height), &tried),
            band: outlines(&tried, &unfailing),
            not_sent: outlines(&unfailing, &unbounded),
            clipped: outlines(&unbounded, &may_fit),
            predicted: outlines(&likely, &fits),
            unlikely: outlines(&may_fit, &conceivable),
            open: outlines(&conceivable, &likely),
        })
    }

    /// The cells predicted to fit, or with `conceivable` the cells not predicted to fail; `None` without hypotheses.
    /// Between two evaluated columns, a prediction must hold at both.
    fn predicted(&self, (width, height): (i64, i64), conceivable: bool) -> Result<Option<Staircase>> {
        let share = if conceivable { UNLIKELY } else { LIKELY };
        let (Some((y, _)), Some(hypotheses)) = (self.y, self.boundary.hypotheses()?) else {
            return Ok(None);
        };
        let mut cell = self.at.clone();
        let mut admits = |column: i64, row: i64| {
            (cell[self.x.0], cell[y]) = (column, row);
            hypotheses.share(hypotheses.votes(&cell)) >= share
        };
        let columns = COLUMNS.min(usize::try_from(width).unwrap_or(COLUMNS));
        let mut steps = Vec::new();
        let (mut top, mut end) = (height, 0);
        for column in self.x.1.spread(columns) {
            // A predicted fit extends up to the harder column, a predicted failure begins at the easier one.
            if conceivable && column > end {
                steps.push((column, top));
            }
            (top, end) = (first_holding(top - 1, |row| !admits(column, row)), column + 1);
            steps.push((end, top));
        }
        steps.push((width, 0));
        Ok(Some(Staircase::new(steps)))
    }

    /// The places of the fitting cells that prove something in this slice: cells at least as hard on every other axis.
    fn fitting<'c>(&self, cells: impl Iterator<Item = &'c Cell>) -> Vec<(i64, i64)> {
        let inside = cells.filter_map(|cell| self.boundary.lattice.clamp(cell));
        self.places(inside, i64::ge)
    }

    /// The places of the failing cells that prove something in this slice: cells no harder on any other axis. `cells`
    /// are mirrored.
    fn failing<'c>(&self, cells: impl Iterator<Item = &'c Cell>) -> Vec<(i64, i64)> {
        let lattice = &self.boundary.lattice;
        let inside = cells.filter_map(|cell| lattice.clamp(cell));
        self.places(inside.map(|cell| lattice.mirror(&cell)), i64::le)
    }

    fn places(&self, cells: impl Iterator<Item = Cell>, proves: fn(&i64, &i64) -> bool) -> Vec<(i64, i64)> {
        let (x, y) = (self.x.0, self.y.map(|(y, _)| y));
        let others = |axis: &usize| *axis != x && Some(*axis) != y;
        let here = |cell: &Cell| {
            (0..cell.len())
                .filter(others)
                .all(|axis| proves(&cell[axis], &self.at[axis]))
        };
        cells
            .filter(here)
            .map(|cell| (cell[x], y.map_or(0, |y| cell[y])))
            .collect()
    }
}

/// The extent of an axis' cells, lower end first.
fn ends(axis: &Axis) -> (f64, f64) {
    let (first, last) = (axis.edge(0), axis.edge(axis.last() + 1));
    (first.min(last), first.max(last))
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
                (3..5, false) => json!({ "verdict": "not_sent", "cause": "memory", "evidence": { "reported": most } }),
                (1, true) | (5.., false) => json!("oom"),
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
            let regions = map.slice("a", Some("b"), &at_point).unwrap();
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
                prop_assert_eq!(within(&regions.not_sent, at), class == Class::NotSent, "{}", &point);
                prop_assert_eq!(open || within(&regions.clipped, at), class == Class::Unknown, "{}", &point);
                // The range is small enough that every column is evaluated.
                prop_assert_eq!(within(&regions.predicted, at), !within(&regions.clipped, at) && map.is_likely(&point).unwrap(), "{}", &point);
                prop_assert_eq!(unlikely, !within(&regions.clipped, at) && map.is_unlikely(&point).unwrap(), "{}", &point);
            }
            let all = [&regions.fits, &regions.fails, &regions.band, &regions.not_sent, &regions.clipped, &regions.predicted, &regions.unlikely, &regions.open];
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
            let regions = map.slice("a", names.get(1).copied(), &map.smallest()).unwrap();
            let volume = map.volume().unwrap();
            let counted = [
                (&regions.fits, volume.fits),
                (&regions.fails, volume.fails),
                (&regions.not_sent, volume.not_sent),
                (&regions.clipped, volume.clipped),
            ];
            for (lines, count) in counted {
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
        let regions = map.slice("a", Some("b"), &map.smallest()).unwrap();
        let [line] = &regions.fits[..] else { panic!() };
        let (left, right) = (
            line.iter().map(|at| at.0).fold(9e9, f64::min),
            line.iter().map(|at| at.0).fold(0.0, f64::max),
        );
        assert!(
            (left - 0.5f64.sqrt()).abs() < 1e-9 && (right - (64.0 * 65.0f64).sqrt()).abs() < 1e-9,
            "{line:?}"
        );
        // More memory is easier, so the fitting region lies above.
        assert!(line.iter().all(|at| at.1 > 0.699 && at.1 < 0.901), "{line:?}");
        assert!(map.slice("depth", None, &point).is_err());
    }
}
