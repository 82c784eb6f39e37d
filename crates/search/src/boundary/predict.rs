//! Predicts where the boundary is, by the memory limits that agree with every answer.
//!
//! A prediction proves nothing. It is never recorded, and no classification, volume, frontier or recommendation
//! depends on it.

use serde::Serialize;

use super::lattice::Cell;
use super::{Boundary, Class, Point};
use crate::error::Result;

/// The share of hypotheses that admit `low`, and the share that reject `high`.
const SURE: f64 = 0.95;

/// A point is predicted to fit if at least `LIKELY` of the hypotheses admit it, and to fail if fewer than `UNLIKELY`
/// do.
pub(super) const LIKELY: f64 = 0.5;
pub(super) const UNLIKELY: f64 = 0.05;

/// The chance of a point that is not proven: neither nothing nor certainty, whatever speaks for it.
pub(super) fn unproven(chance: f64) -> f64 {
    chance.clamp(0.02, 0.98)
}

/// The prediction for a point, and for the ray from the smallest corner through it.
#[derive(Clone, Debug, PartialEq)]
pub struct Prediction {
    /// The point's class if known, else the likelier one. A point that the engine's report rules out is expected to
    /// fail.
    pub verdict: Class,
    /// Whether the verdict is proven.
    pub proven: bool,
    /// The probability that it fits, 0 to 1: the share of hypotheses that admit it; `None` while nothing is known.
    pub chance: Option<f64>,
    /// The boundary on the ray is not expected before this point: 95 % of the hypotheses admit it, or it is proven to
    /// fit.
    pub low: Option<Point>,
    /// The boundary on the ray is not expected after this point: 95 % of the hypotheses do not admit it, or it is
    /// proven not to fit.
    pub high: Option<Point>,
}

/// Where the boundary is predicted to cross one ray from the smallest corner.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PredictedCrossing {
    /// Half of the hypotheses reach this far.
    pub expected: Point,
    /// 95 % of the hypotheses reach this far.
    pub low: Point,
    /// At most 5 % of the hypotheses reach this far; `None` if they reach beyond the search range.
    pub high: Option<Point>,
}

impl Boundary {
    /// Predicts `point`, clamped to the search range.
    ///
    /// Without hypotheses (with one axis, or while nothing has failed) the boundary is equally likely anywhere in the
    /// open interval of the ray, by the scale of the axis if there is only one, and `low` and `high` are the ends of that
    /// interval.
    pub fn predict(&self, point: &Point) -> Result<Prediction> {
        let at = self.lattice.inside(point)?;
        let (weights, _) = self.weights(&at);
        let (steps, cell) = self.ray(&weights);
        let (fits, fails) = self.line_bounds(steps, &cell, &cell);
        let known = self.classify(point)?;
        let (low, high) = match self.reach(steps, &cell, (fits, fails))? {
            Some([low, _, high]) => (low, high + 1),
            None => (fits, fails),
        };
        let chance = self.chance(point)?;
        Ok(Prediction {
            verdict: match chance {
                None => Class::Unknown,
                Some(chance) if chance >= 0.5 => Class::Fits,
                Some(_) => Class::Fails,
            },
            proven: matches!(known, Class::Fits | Class::Fails),
            chance,
            low: (low >= 0).then(|| self.lattice.point(&cell(low))),
            high: (high <= steps).then(|| self.lattice.point(&cell(high))),
        })
    }

    /// The probability that a point fits, 0 to 1, clamped to the search range; `None` while nothing is known on the ray
    /// from the smallest corner through it (see [`Boundary::predict`]). Without hypotheses it is 0 beyond a length limit,
    /// and otherwise never 0 or 1 for a point that is not proven.
    pub fn chance(&self, point: &Point) -> Result<Option<f64>> {
        match self.classify(point)? {
            Class::Fits => return Ok(Some(1.0)),
            Class::Fails | Class::NotSent => return Ok(Some(0.0)),
            Class::Unknown => {}
        }
        let at = self.lattice.inside(point)?;
        let (weights, share) = self.weights(&at);
        let (steps, cell) = self.ray(&weights);
        let is_open = !self.fits.covers(&cell(0)) && !self.is_excluded(&cell(steps));
        let hypotheses = self.hypotheses()?.filter(|_| !is_open);
        if let Some(hypotheses) = hypotheses {
            return Ok(Some(hypotheses.share(hypotheses.votes(&at))));
        }
        if is_open {
            return Ok(None);
        }
        if self.is_excluded(&at) {
            return Ok(Some(0.0));
        }
        let (fits, fails) = self.line_bounds(steps, &cell, &cell);
        let even = match &self.lattice.free()[..] {
            // A ray through several axes has no scale of its own.
            [only] => {
                let axis = &self.lattice.axes()[*only];
                let place = |step: i64| axis.share(axis.value(step.clamp(0, steps)).as_f64());
                (place(fails) - place(at[*only])) / (place(fails) - place(fits))
            }
            _ => (fails as f64 - share * steps as f64) / (fails - fits).max(1) as f64,
        };
        Ok(Some(unproven(even)))
    }

    /// Whether a point is open and predicted to fit; false without hypotheses.
    pub fn is_likely(&self, point: &Point) -> Result<bool> {
        Ok(self.admitting(point)?.is_some_and(|share| share >= LIKELY))
    }

    /// Whether a point is open and predicted to fail; false without hypotheses.
    pub fn is_unlikely(&self, point: &Point) -> Result<bool> {
        Ok(self.admitting(point)?.is_some_and(|share| share < UNLIKELY))
    }

    /// The share of the hypotheses that admit an open point; `None` for other points and without hypotheses.
    fn admitting(&self, point: &Point) -> Result<Option<f64>> {
        if self.classify(point)? != Class::Unknown {
            return Ok(None);
        }
        let (_, harder) = self.lattice.cells(point)?;
        let hypotheses = self.hypotheses()?;
        Ok(hypotheses.map(|hypotheses| hypotheses.share(hypotheses.votes(&harder))))
    }

    /// The predicted boundary on nine rays from the smallest corner, without rays on which it is proven exactly. Empty
    /// without hypotheses.
    pub fn predicted(&self) -> Result<Vec<PredictedCrossing>> {
        let mut places = Vec::new();
        for weights in self.directions() {
            let (steps, cell) = self.ray(&weights);
            let (fits, fails) = self.line_bounds(steps, &cell, &cell);
            if fails - fits <= 1 {
                continue;
            }
            let Some([low, expected, high]) = self.reach(steps, &cell, (fits, fails))? else {
                continue;
            };
            let point = |step: i64| self.lattice.point(&cell(step.max(0)));
            places.push(PredictedCrossing {
                expected: point(expected),
                low: point(low),
                high: (high < steps).then(|| point(high + 1)),
            });
        }
        Ok(places)
    }

    /// The last steps of a ray that 95 %, 50 % and 5 % of the hypotheses admit, within what is proven; `None` without
    /// hypotheses.
    fn reach(&self, steps: i64, cell: &impl Fn(i64) -> Cell, proven: (i64, i64)) -> Result<Option<[i64; 3]>> {
        let Some(hypotheses) = self.hypotheses()? else {
            return Ok(None);
        };
        let (fits, fails) = proven;
        let reaches = hypotheses.reaches(&cell(0), &cell(steps), &[], [SURE, 0.5, 1.0 - SURE]);
        Ok(Some(reaches.map(|share| {
            let step = (share.min(1.0) * steps as f64 + 1e-7).floor() as i64;
            step.clamp(fits, fails - 1)
        })))
    }

    /// The weights by axis of the ray through a cell (the largest is 1), and the position of the cell along it, 0 to
    /// 1.
    fn weights(&self, at: &Cell) -> (Vec<f64>, f64) {
        let sides = || at.iter().zip(self.lattice.last());
        let shares = sides().filter(|(_, last)| *last > 0);
        let share = shares.map(|(at, last)| *at as f64 / last as f64).fold(0.0, f64::max);
        let weight = |(at, last): (&i64, i64)| match (last, share > 0.0) {
            (0, _) => 0.0,
            // The smallest corner lies on every ray: take the diagonal.
            (_, false) => 1.0,
            (last, true) => *at as f64 / last as f64 / share,
        };
        (sides().map(weight).collect(), share)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::{Answer, Cause, Options, Verdict};
    use super::*;

    fn point(input: i64, output: i64) -> Point {
        Point::default().with("input", input).with("output", output)
    }

    /// A search for `input + output <= 900` after some probes.
    fn searched(probes: usize) -> Boundary {
        let mut map = Boundary::new(&json!({ "input": [1, 1000], "output": [1, 1000] }), Options::default()).unwrap();
        for _ in 0..probes {
            let next = map.refine(1, 0.99).unwrap().remove(0);
            let tokens = next.int("input").unwrap() + next.int("output").unwrap();
            let verdict = if tokens <= 900 { Verdict::Ok } else { Verdict::Oom };
            map.record(&next, &Answer::from(verdict)).unwrap();
        }
        map
    }

    #[test]
    fn nothing_is_predicted_before_anything_is_known() {
        let prediction = searched(0).predict(&point(500, 500)).unwrap();
        assert_eq!(
            (prediction.verdict, prediction.chance, prediction.low, prediction.high),
            (Class::Unknown, None, None, None)
        );
        assert!(searched(0).predicted().unwrap().is_empty());
    }

    #[test]
    fn the_chance_on_one_axis_follows_its_scale() {
        let chances = |from: i64, answers: &[(i64, Answer)], at: &[i64]| -> Vec<f64> {
            let axes = json!({ "input": { "range": [from, 131_072], "scale": "log" } });
            let mut map = Boundary::new(&axes, Options::default()).unwrap();
            let input = |input: i64| Point::default().with("input", input);
            for (at, answer) in answers {
                map.record(&input(*at), answer).unwrap();
            }
            let chances = at.iter().map(|at| map.predict(&input(*at)).unwrap().chance.unwrap());
            chances.collect()
        };
        let (fits, fails) = (Answer::from(Verdict::Ok), Answer::from(Verdict::Oom));
        // Powers of two between 4,096 and 131,072: five equal steps.
        let between = chances(
            1,
            &[(4096, fits.clone()), (131_072, fails.clone())],
            &[8192, 16_384, 65_536],
        );
        for (found, expected) in between.iter().zip([0.8, 0.6, 0.2]) {
            assert!((found - expected).abs() < 1e-3, "{between:?}");
        }
        // Neither end was probed, so that neither is certain.
        let largest = chances(4096, &[(4096, fits)], &[4096, 131_072]);
        let smallest = chances(4096, &[(131_072, fails)], &[4096, 131_072]);
        assert!(largest[0] == 1.0 && 0.0 < largest[1] && largest[1] < 0.1, "{largest:?}");
        assert!(
            smallest[1] == 0.0 && 0.9 < smallest[0] && smallest[0] < 1.0,
            "{smallest:?}"
        );
        // A length limit at the smallest point excludes all of them.
        let refused = Answer {
            cause: Some(Cause::LengthLimit),
            ..Answer::from(Verdict::Refused)
        };
        assert_eq!(chances(4096, &[(4096, refused)], &[4096, 8192, 131_072]), [0.0; 3]);
    }

    #[test]
    fn the_boundary_is_predicted_within_what_is_proven() {
        let map = searched(12);
        let tokens = |point: &Point| point.int("input").unwrap() + point.int("output").unwrap();
        let places = map.predicted().unwrap();
        assert!(!places.is_empty());
        for place in places {
            assert!((tokens(&place.expected) - 900).abs() < 60, "{place:?}");
            assert_ne!(map.classify(&place.low).unwrap(), Class::Fails);
            assert!(
                place
                    .high
                    .is_none_or(|high| map.classify(&high).unwrap() != Class::Fits)
            );
        }
        for (at, verdict) in [(point(100, 100), Class::Fits), (point(900, 900), Class::Fails)] {
            let prediction = map.predict(&at).unwrap();
            assert!(
                prediction.proven && prediction.verdict == verdict,
                "{at}: {prediction:?}"
            );
            let (low, high) = (tokens(&prediction.low.unwrap()), tokens(&prediction.high.unwrap()));
            assert!(low < high && low <= 905 && high >= 895, "{at}: {low} {high}");
        }
        assert_eq!(map.records().len(), 12, "a prediction records nothing");
    }
}
