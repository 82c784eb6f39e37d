//! The places where a prediction of the boundary is probed: on both sides of it, at its ends and in its middle.

use super::super::axis::Axis;
use super::super::{Boundary, Point, Scalar, Scale};
use super::prediction::{EXPECTED, LimitPrediction};
use crate::error::Error;
use crate::names;

/// Values on each axis of the grid whose hardest points are the targets of the rays that look for what a prediction
/// missed.
const TARGETS: usize = 5;

/// A place is proven from both sides if they are at most this fraction of the range (1/64) apart, or the tolerance of
/// the axis if that is more.
pub(super) const NARROW: f64 = 64.0;

/// Steps of the bisection along a ray, and at most along an axis.
const RAY_STEPS: usize = 24;
const AXIS_STEPS: usize = 64;

/// The part of the boundary at which a place lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlaceKind {
    /// An end: along one axis.
    End,
    /// The middle, between the ends.
    Middle,
    /// The lengths that the user named.
    Workload,
    /// On a ray that looks for what the other places miss.
    Ray,
}

names!(PlaceKind { End "end", Middle "middle", Workload "workload", Ray "ray", });

/// A place where a prediction is probed on both sides.
#[derive(Clone, Debug, PartialEq)]
pub struct Place {
    /// The part of the boundary.
    pub at: PlaceKind,
    /// The axis along which its sides lie; `None` if one point is all there is.
    pub along: Option<usize>,
    /// The hardest point that is expected to fit.
    pub point: Point,
    /// The point that should fit; `None` if the range does not reach that side.
    pub fits: Option<Point>,
    /// The point that should fail; `None` if the range does not reach that side.
    pub fails: Option<Point>,
}

impl Place {
    /// The points on both sides.
    pub(super) fn sides(&self) -> impl Iterator<Item = &Point> {
        self.fits.iter().chain(&self.fails)
    }

    /// The distance between both sides; `None` if one of them does not exist.
    pub(super) fn width(&self, axis: &Axis) -> Option<f64> {
        Some((axis.of(self.fails.as_ref()?)? - axis.of(self.fits.as_ref()?)?).abs())
    }
}

/// The two neighbouring values of an axis between which a prediction changes; `None` for one beyond the range.
struct Edge {
    fits: Option<f64>,
    fails: Option<f64>,
}

impl Boundary {
    /// The point with these lengths, and the easiest value on every other axis; `None` if none of the lengths is
    /// searched, or one lies outside the search range.
    #[must_use]
    pub fn point_at(&self, lengths: &Point) -> Option<Point> {
        let mut point = self.smallest();
        let mut searched = false;
        for axis in self.free_axes() {
            let Some(value) = lengths.0.get(axis.name()) else {
                continue;
            };
            let (low, high) = axis.ends();
            if !(low..=high).contains(&value.as_f64()) {
                return None;
            }
            point.0.insert(axis.name().to_owned(), *value);
            searched = true;
        }
        searched.then_some(point)
    }

    /// The axes that are searched: those with more than one value.
    pub(super) fn free_axes(&self) -> Vec<&Axis> {
        let free = self.lattice.free().into_iter();
        free.map(|axis| &self.lattice.axes()[axis]).collect()
    }
}

impl Axis {
    /// The lowest and the highest value, as numbers.
    pub(super) fn ends(&self) -> (f64, f64) {
        let (low, high) = self.range();
        (low.as_f64(), high.as_f64())
    }

    /// The easiest and the hardest value.
    fn easy_and_hard(&self) -> (f64, f64) {
        let (low, high) = self.ends();
        if self.difficulty(low) <= self.difficulty(high) {
            (low, high)
        } else {
            (high, low)
        }
    }

    /// Whether its values are whole numbers.
    pub(super) fn is_whole(&self) -> bool {
        matches!(self.range().0, Scalar::Int(_))
    }

    /// A value clamped to the range, rounded down if the axis has whole numbers.
    pub(super) fn in_range(&self, value: f64) -> f64 {
        let (low, high) = self.ends();
        let value = if self.is_whole() { (value + 1e-6).floor() } else { value };
        low.max(high.min(value))
    }

    /// The value of a point that has all axes.
    pub(in crate::boundary) fn at(&self, point: &Point) -> f64 {
        self.of(point).unwrap_or_default()
    }

    /// Sets the value of a point that has all axes.
    pub(super) fn set(&self, point: &mut Point, value: f64) {
        if let Some(coordinate) = point.0.get_mut(self.name()) {
            *coordinate = self.exact(value);
        }
    }

    /// Rounds the value of a point down to a coarse grid, so that a place stays where it is while a fitted limit moves a
    /// little.
    fn round_down(&self, point: &mut Point) {
        let (low, high) = self.ends();
        let step = (high - low) / NARROW;
        let steps = ((self.at(point) - low) / step + 1e-9).floor();
        self.set(point, self.in_range(low + steps * step));
    }

    /// A value of this axis as a coordinate, not rounded.
    pub(super) fn exact(&self, value: f64) -> Scalar {
        if self.is_whole() {
            Scalar::Int(value as i64)
        } else {
            Scalar::Float(value)
        }
    }

    /// A point moved along this axis.
    pub(in crate::boundary) fn moved(&self, point: &Point, value: f64) -> Point {
        let mut moved = point.clone();
        self.set(&mut moved, value);
        moved
    }
}

impl<E: From<Error>> LimitPrediction<'_, E> {
    /// The places where the prediction is probed: each end of the predicted boundary, its middle, and the workload. A
    /// single place without an axis if everything should fit, or nothing.
    pub(super) fn places(&self) -> Result<Vec<Place>, E> {
        let (smallest, largest) = (self.map.smallest(), self.map.largest());
        let single = |point: Point, fits: bool| Place {
            at: PlaceKind::End,
            along: None,
            fits: fits.then(|| point.clone()),
            fails: (!fits).then(|| point.clone()),
            point,
        };
        if !self.expects(&smallest)? {
            return Ok(vec![single(smallest, false)]);
        }
        if self.expects(&largest)? {
            return Ok(vec![single(largest, true)]);
        }
        let axes = self.in_order(&["input", "output", "concurrency"]);
        let mut found = self.end_places(&axes, &smallest)?;
        // A stated limit is exact and needs no middle.
        if axes.len() > 1 && !found.iter().all(|end| self.is_stated(&end.point)) {
            found.extend(self.middle_place(&axes, &smallest, &found)?);
        }
        found.extend(self.workload_place()?);
        Ok(found)
    }

    /// For each end, walks along the axes, starting with a different one each time, up to the first axis that the
    /// prediction bounds.
    fn end_places(&self, axes: &[&Axis], smallest: &Point) -> Result<Vec<Place>, E> {
        let mut found = Vec::new();
        for first in 0..axes.len() {
            let mut point = smallest.clone();
            for axis in axes[first..].iter().chain(&axes[..first]) {
                let edge = self.edge(&point, axis, EXPECTED)?;
                let Some(fits) = edge.fits else { break };
                axis.set(&mut point, fits);
                if edge.fails.is_some() {
                    found.push(self.place(PlaceKind::End, &point, axis)?);
                    break;
                }
            }
        }
        Ok(found)
    }

    /// The place between the ends: on the boundary above, or on the ray through, the mean of the ends.
    fn middle_place(&self, axes: &[&Axis], smallest: &Point, ends: &[Place]) -> Result<Option<Place>, E> {
        let mut centre = smallest.clone();
        for axis in axes {
            let values = ends.iter().map(|end| axis.at(&end.point));
            let count = ends.len() as f64;
            let mean = match axis.scale() {
                Scale::Log => (values.map(f64::ln).fold(0.0, |sum, value| sum + value) / count).exp(),
                Scale::Linear => values.fold(0.0, |sum, value| sum + value) / count,
            };
            axis.set(&mut centre, mean);
            axis.round_down(&mut centre);
        }
        match self.place_through(PlaceKind::Middle, &centre, &["output", "input"])? {
            Some(middle) => Ok(Some(middle)),
            None => self.crossing(PlaceKind::Middle, smallest, &centre),
        }
    }

    /// The place of the workload that the user named: the number of such requests that fit if the concurrency is
    /// searched, and otherwise whether one fits.
    fn workload_place(&self) -> Result<Option<Place>, E> {
        let Some(workload) = self.workload else { return Ok(None) };
        let Some(mut point) = self.map.point_at(workload) else {
            return Ok(None);
        };
        let axes = self.map.free_axes();
        let concurrency = axes.iter().find(|axis| axis.name() == "concurrency");
        if let Some(axis) = concurrency.filter(|axis| !workload.0.contains_key(axis.name())) {
            let edge = self.edge(&point, axis, EXPECTED)?;
            if let Edge {
                fits: Some(fits),
                fails: Some(_),
            } = edge
            {
                axis.set(&mut point, fits);
                return Ok(Some(self.place(PlaceKind::Workload, &point, axis)?));
            }
        }
        let fits = self.expects(&point)?;
        Ok(Some(Place {
            at: PlaceKind::Workload,
            along: None,
            fits: fits.then(|| point.clone()),
            fails: (!fits).then(|| point.clone()),
            point,
        }))
    }

    /// The places where the predicted boundary crosses rays from the smallest point to the hardest sides of the search
    /// range.
    pub(super) fn crossings(&self) -> Result<Vec<Place>, E> {
        let axes = self.map.free_axes();
        if axes.len() < 2 {
            return Ok(Vec::new());
        }
        let (smallest, largest) = (self.map.smallest(), self.map.largest());
        let mut found = Vec::new();
        for target in self.map.grid(TARGETS)? {
            if axes.iter().any(|axis| axis.at(&target) == axis.at(&largest)) {
                found.extend(self.crossing(PlaceKind::Ray, &smallest, &target)?);
            }
        }
        Ok(found)
    }

    /// The place where the ray from the smallest point through another one crosses the predicted boundary; `None` if it
    /// does not cross it.
    fn crossing(&self, at: PlaceKind, smallest: &Point, through: &Point) -> Result<Option<Place>, E> {
        let axes = self.map.free_axes();
        let way = |axis: &Axis| axis.at(through) - axis.at(smallest);
        let shares = axes.iter().filter(|axis| way(axis) != 0.0).map(|axis| {
            let (_, hard) = axis.easy_and_hard();
            (hard - axis.at(smallest)) / way(axis)
        });
        let Some(longest) = shares.reduce(f64::min) else {
            return Ok(None);
        };
        let mut point = smallest.clone();
        let (mut low, mut high) = (0.0, longest);
        for step in 0..RAY_STEPS {
            let share = if step == 0 { high } else { f64::midpoint(low, high) };
            let mut there = smallest.clone();
            for axis in &axes {
                axis.set(&mut there, axis.in_range(axis.at(smallest) + share * way(axis)));
            }
            if self.expects(&there)? {
                if step == 0 {
                    return Ok(None);
                }
                point = there;
                low = share;
            } else {
                high = share;
            }
        }
        self.place_through(at, &point, &["output", "input"])
    }

    /// The place near where the ray from the smallest point through another one crosses the predicted boundary, along
    /// the length that is longest there.
    pub(super) fn crossing_along_longest(&self, smallest: &Point, through: &Point) -> Result<Option<Place>, E> {
        let Some(place) = self.crossing(PlaceKind::Ray, smallest, through)? else {
            return Ok(None);
        };
        let mut centre = place.point;
        let length = |name| centre.int(name).unwrap_or(0);
        let first: &[&str] = if length("input") > length("output") {
            &["input", "output"]
        } else {
            &["output", "input"]
        };
        for axis in self.map.free_axes() {
            axis.round_down(&mut centre);
        }
        self.place_through(PlaceKind::Ray, &centre, first)
    }

    /// The place on the line through a point, along the first axis that the prediction bounds, in this order.
    fn place_through(&self, at: PlaceKind, through: &Point, first: &[&str]) -> Result<Option<Place>, E> {
        for axis in self.in_order(first) {
            if let Edge {
                fits: Some(fits),
                fails: Some(_),
            } = self.edge(through, axis, EXPECTED)?
            {
                return Ok(Some(self.place(at, &axis.moved(through, fits), axis)?));
            }
        }
        Ok(None)
    }

    /// The axes that are searched: those with these names first.
    fn in_order(&self, first: &[&str]) -> Vec<&Axis> {
        let mut axes = self.map.free_axes();
        axes.sort_by_key(|axis| {
            first
                .iter()
                .position(|name| *name == axis.name())
                .unwrap_or(first.len())
        });
        axes
    }

    /// A place: the hardest point that is expected to fit, with the points on both sides of it along an axis.
    pub(super) fn place(&self, at: PlaceKind, point: &Point, axis: &Axis) -> Result<Place, E> {
        let (low, high) = axis.ends();
        // Engines reserve a token or two of a bound, but never a whole request. The tokens that a server reserves of a
        // stated limit are found by probing.
        let [easier, harder] = if axis.name() == "concurrency" {
            [0.0, 1.0]
        } else if self.is_stated(point) {
            [self.near as f64, self.near.max(1) as f64]
        } else {
            [self.within; 2]
        };
        let expected = axis.difficulty(axis.at(point));
        let (mut inside, mut outside) = (expected - easier, expected + harder);
        if let Some([sure, perhaps]) = self.levels {
            if let Some(sure) = self.edge(point, axis, sure)?.fits {
                inside = inside.min(axis.difficulty(sure));
            }
            if let Some(perhaps) = self.edge(point, axis, perhaps)?.fails {
                outside = outside.max(axis.difficulty(perhaps));
            }
        }
        let outside = axis.difficulty(outside);
        let fails = (low..=high).contains(&outside).then(|| axis.moved(point, outside));
        Ok(Place {
            at,
            along: Some(self.map.lattice.index(axis.name())?),
            point: point.clone(),
            fits: Some(axis.moved(point, low.max(high.min(axis.difficulty(inside))))),
            fails,
        })
    }

    /// Where the chance falls below `least` along an axis.
    fn edge(&self, point: &Point, axis: &Axis, least: f64) -> Result<Edge, E> {
        let (mut easy, mut hard) = axis.easy_and_hard();
        let mut point = axis.moved(point, hard);
        if self.reaches(&point, least)? {
            return Ok(Edge {
                fits: Some(hard),
                fails: None,
            });
        }
        axis.set(&mut point, easy);
        if !self.reaches(&point, least)? {
            return Ok(Edge {
                fits: None,
                fails: Some(easy),
            });
        }
        for _ in 0..AXIS_STEPS {
            let half = (hard - easy) / 2.0;
            let middle = easy + if axis.is_whole() { half.trunc() } else { half };
            if middle == easy || middle == hard {
                break;
            }
            axis.set(&mut point, middle);
            if self.reaches(&point, least)? {
                easy = middle;
            } else {
                hard = middle;
            }
        }
        Ok(Edge {
            fits: Some(easy),
            fails: Some(hard),
        })
    }
}

/// Whether a boundary has a place's axis, and the axis itself.
pub(super) fn axis_of<'a>(map: &'a Boundary, place: &Place) -> Option<&'a Axis> {
    place.along.map(|along| &map.lattice.axes()[along])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::super::super::Options;
    use super::*;

    /// The places of a closure's prediction over some axes.
    fn places(axes: &Value, within: f64, workload: Option<&Point>, expects: impl Fn(&Point) -> bool) -> Vec<Place> {
        let map = Boundary::new(axes, Options::default()).unwrap();
        let chance = |point: &Point| Ok::<_, Error>(f64::from(u8::from(expects(point))));
        LimitPrediction::new(&map, &chance, false, within, workload)
            .places()
            .unwrap()
    }

    fn value(point: Option<&Point>, axis: &str) -> f64 {
        point.unwrap().0[axis].as_f64()
    }

    #[test]
    fn sides_lie_around_the_ends_and_the_middle() {
        let axes = json!({ "input": [2048, 32768], "output": [512, 32768] });
        let found = places(&axes, 32.0, None, |p| {
            p.int("input").unwrap() + p.int("output").unwrap() <= 45000
        });
        let sides: Vec<_> = found
            .iter()
            .map(|place| {
                (
                    place.at,
                    value(place.fits.as_ref(), "output"),
                    value(place.fails.as_ref(), "output"),
                )
            })
            .collect();
        assert_eq!(
            sides[..2],
            [(PlaceKind::End, 12200.0, 12264.0), (PlaceKind::End, 32768.0, 32768.0)]
        );
        assert_eq!(sides[2].0, PlaceKind::Middle);
        assert_eq!(found.len(), 3);
        assert_eq!(
            value(found[1].fails.as_ref(), "input") - value(found[1].fits.as_ref(), "input"),
            64.0
        );
    }

    #[test]
    fn one_place_is_enough_if_everything_is_expected_to_fit_or_nothing() {
        let axes = json!({ "input": [1, 100], "output": [1, 100] });
        let everything = places(&axes, 1.0, None, |_| true);
        assert!(everything.len() == 1 && everything[0].fits.is_some() && everything[0].fails.is_none());
        let nothing = places(&axes, 1.0, None, |_| false);
        assert!(nothing.len() == 1 && nothing[0].fits.is_none() && nothing[0].fails.is_some());
    }

    #[test]
    fn larger_fractions_are_easier() {
        let axes = json!({ "fraction": { "range": [0.5, 0.9], "easier": "up", "tolerance": 0.01 } });
        let found = places(&axes, 0.02, None, |p| p.0["fraction"].as_f64() >= 0.7);
        assert!(
            (value(found[0].fits.as_ref(), "fraction") - 0.72).abs() < 1e-9,
            "{found:?}"
        );
        assert!(
            (value(found[0].fails.as_ref(), "fraction") - 0.68).abs() < 1e-9,
            "{found:?}"
        );
    }

    #[test]
    fn a_workload_asks_how_many_of_its_requests_fit() {
        let axes = json!({ "input": [1, 1000], "output": [1, 1000], "concurrency": [1, 64] });
        let workload = Point::default().with("input", 300).with("output", 200);
        let fits = |p: &Point| {
            let value = |axis| p.int(axis).unwrap();
            value("concurrency") * (value("input") + value("output")) <= 4000
        };
        let found = places(&axes, 32.0, Some(&workload), fits);
        let place = found.iter().find(|place| place.at == PlaceKind::Workload).unwrap();
        assert_eq!(place.fits, Some(workload.clone().with("concurrency", 8)));
        assert_eq!(place.fails, Some(workload.with("concurrency", 9)));
    }

    proptest! {
        #[test]
        fn the_point_of_a_place_is_the_last_that_is_expected_to_fit(
            a in 0.0..5.0f64, b in 0.0..5.0f64, c in 0.0..5.0f64, most in 0.0..4000.0f64, log in any::<bool>(),
        ) {
            let scale = if log { "log" } else { "linear" };
            let axes = json!({
                "batch": [1, 16],
                "input": { "range": [1, 1000], "scale": scale },
                "output": [1, 500],
            });
            let fits = |p: &Point| {
                let value = |axis| p.0[axis].as_f64();
                a * value("input") + b * value("output") + 50.0 * c * value("batch") <= most
            };
            let map = Boundary::new(&axes, Options::default()).unwrap();
            for place in places(&axes, 3.0, None, fits) {
                let Some(axis) = axis_of(&map, &place) else { continue };
                prop_assert!(fits(&place.point) && fits(place.fits.as_ref().unwrap()), "{:?}", place);
                prop_assert!(!fits(&axis.moved(&place.point, axis.at(&place.point) + 1.0)), "{:?}", place);
                if let Some(fails) = &place.fails {
                    prop_assert!(!fits(fails), "{:?}", place);
                }
                for (axis, value) in &place.point.0 {
                    prop_assert!(matches!(value, Scalar::Int(_)), "{axis}: {place:?}");
                }
            }
        }
    }
}
