//! What a boundary proves, where its answers contradict each other, and what it only predicts. The three are kept
//! apart.

use rhai::plugin::*;
use rhai::{Array, Map};

use super::boundary::{count, from_point, from_points, from_scalar, maybe, size, to_point};
use crate::boundary::{AnswerCounts, Band, Point, PredictedCrossing};
use crate::script::boundary::BoundaryHandle;
use crate::script::{Caught, host};

fn from_band(band: &Band) -> Dynamic {
    let answered = |answered: &AnswerCounts| -> Dynamic {
        Map::from([
            ("point".into(), from_point(&answered.point)),
            ("fits".into(), count(answered.fits as u128).into()),
            ("fails".into(), count(answered.fails as u128).into()),
            ("unclear".into(), count(answered.unclear as u128).into()),
        ])
        .into()
    };
    let width = band.width.iter();
    let width: Map = width
        .map(|(axis, width)| (axis.as_str().into(), from_scalar(*width)))
        .collect();
    Map::from([
        ("from".into(), from_points(&band.from).into()),
        ("to".into(), from_points(&band.to).into()),
        ("width".into(), width.into()),
        (
            "answers".into(),
            band.answers.iter().map(answered).collect::<Array>().into(),
        ),
    ])
    .into()
}

/// What is proven, what is contradictory, and what is only predicted.
#[export_module]
pub mod proof {
    /// Pairs `#{ fits, fails }` of points that contradict monotonicity: the first fits although the second, which is
    /// nowhere harder, fails. At most a thousand. The failure counts: no point at or above it is classified as fitting.
    ///
    /// # Example
    ///
    /// ```rhai
    /// let map = boundary(#{ input: [0, 100] }, #{});
    /// map.record(#{ input: 50 }, "ok");
    /// map.record(#{ input: 40 }, "oom");
    /// assert(map.conflicts() == [#{ fits: #{ input: 50 }, fails: #{ input: 40 } }]);
    /// ```
    #[rhai_fn(volatile, pure)]
    pub fn conflicts(map: &mut BoundaryHandle) -> Array {
        let pair = |(fits, fails): &(Point, Point)| -> Dynamic {
            Map::from([("fits".into(), from_point(fits)), ("fails".into(), from_point(fails))]).into()
        };
        map.lock().conflicts().iter().map(pair).collect()
    }

    /// The band in which answers contradict each other: `#{ from, to, width, answers }`, `()` if there is none.
    ///
    /// `from` are the smallest points that failed although the same or a harder point fitted, `to` the largest of those
    /// that fitted: every point between one of the first and one of the second is in doubt. `width` is the greatest
    /// width per axis, and `answers` counts the answers of these points: `#{ point, fits, fails, unclear }`. The whole
    /// band counts as failing: memory that was insufficient once may be so again, so one failure outweighs any number
    /// of fits, and fitting points stay below the band.
    ///
    /// # Example
    ///
    /// ```rhai
    /// let map = boundary(#{ input: [0, 100] }, #{});
    /// map.record(#{ input: 50 }, "ok");
    /// assert(map.band() == ());
    /// map.record(#{ input: 40 }, "oom");
    /// let band = map.band();
    /// assert(band.from == [#{ input: 40 }] && band.to == [#{ input: 50 }] && band.width == #{ input: 10 });
    /// assert(band.answers[1] == #{ point: #{ input: 50 }, fits: 1, fails: 0, unclear: 0 });
    /// assert(map.classify(#{ input: 45 }) == "fails");
    /// ```
    #[rhai_fn(volatile, pure)]
    pub fn band(map: &mut BoundaryHandle) -> Dynamic {
        maybe(map.lock().band(), |band| from_band(&band))
    }

    /// Points for verification: up to `n` points, a step or a few inside those fitting points that are closest to a
    /// failing one, without those verified before. They are known to fit, so no search would propose them; `[]` if
    /// nothing fits, or nothing fails.
    ///
    /// # Example
    ///
    /// ```rhai
    /// let map = boundary(#{ input: [0, 100] }, #{});
    /// map.record(#{ input: 50 }, "ok");
    /// map.record(#{ input: 60 }, "oom");
    /// assert(map.looks(3) == [#{ input: 49 }]);
    /// ```
    #[rhai_fn(return_raw, volatile, pure)]
    pub fn looks(map: &mut BoundaryHandle, n: i64) -> Caught<Array> {
        Ok(from_points(&map.lock().verification_points(size(n, "looks")?)?))
    }

    /// Marks a recorded point to be probed again: after a resume, too, its next probe runs on the engine instead of
    /// being replayed from the journal. Call it before that probe.
    ///
    /// # Example
    ///
    /// ```rhai
    /// let map = boundary(#{ input: [0, 100] }, #{});
    /// map.record(#{ input: 50 }, "ok");
    /// map.again(#{ input: 50 });
    /// map.record(#{ input: 50 }, "oom");
    /// assert(map.points().len() == 2 && map.classify(#{ input: 50 }) == "fails");
    /// ```
    #[rhai_fn(return_raw, volatile, pure)]
    pub fn again(context: NativeCallContext, map: &mut BoundaryHandle, point: Map) -> Caught<()> {
        map.forget(&host(&context), &to_point(&point)?);
        Ok(())
    }

    /// What to expect of a point: `#{ verdict, proven, chance, low, high }`. It proves nothing: `classify` returns what
    /// is proven.
    ///
    /// `verdict` is what is proven if `proven` is true, and otherwise the more likely one, `"unknown"` while nothing is
    /// known. `chance` is the probability that it fits, 0 to 1: the share of candidate memory limits (tokens in flight,
    /// prefill, concurrency × length, …) that agree with all answers. `low` and `high` are where the boundary is
    /// expected on the ray from the smallest corner through the point: 95 % of the candidates admit `low` and 95 % do
    /// not admit `high`, `()` outside the range. If no candidate agrees, they are what is proven on the ray.
    ///
    /// # Example
    ///
    /// ```rhai
    /// let map = boundary(#{ input: [0, 100] }, #{});
    /// map.record(#{ input: 50 }, "ok");
    /// map.record(#{ input: 70 }, "oom");
    /// let guess = map.predict(#{ input: 55 });
    /// assert(guess.verdict == "fits" && !guess.proven && guess.chance > 0.7);
    /// assert(guess.low.input == 50 && guess.high.input == 70 && map.classify(#{ input: 55 }) == "unknown");
    /// ```
    #[rhai_fn(return_raw, volatile, pure)]
    pub fn predict(map: &mut BoundaryHandle, point: Map) -> Caught<Map> {
        let prediction = map.lock().predict(&to_point(&point)?)?;
        let end = |point: Option<Point>| maybe(point, |point| from_point(&point));
        Ok(Map::from([
            ("verdict".into(), prediction.verdict.name().into()),
            ("proven".into(), prediction.proven.into()),
            ("chance".into(), maybe(prediction.chance, Dynamic::from)),
            ("low".into(), end(prediction.low)),
            ("high".into(), end(prediction.high)),
        ]))
    }

    /// The predicted boundary between what is proven: `#{ expected, low, high }` on each of nine rays from the smallest
    /// corner that is still open. Half of the candidate limits that agree with all answers reach `expected`, 95 % reach
    /// `low`, and at most 5 % reach `high` (`()`: they reach beyond the range). `[]` if no candidate agrees. `frontier`
    /// is what is proven.
    ///
    /// # Example
    ///
    /// ```rhai
    /// let map = boundary(#{ input: [1, 1000], output: [1, 1000] }, #{});
    /// assert(map.predicted().is_empty());
    /// for p in [#{ input: 500, output: 300 }, #{ input: 600, output: 600 }] {
    ///     map.record(p, if p.input + p.output <= 900 { "ok" } else { "oom" });
    /// }
    /// let places = map.predicted();
    /// for place in places { assert(map.classify(place.low) != "fails"); }
    /// ```
    #[rhai_fn(return_raw, volatile, pure)]
    pub fn predicted(map: &mut BoundaryHandle) -> Caught<Array> {
        let place = |place: &PredictedCrossing| -> Dynamic {
            Map::from([
                ("expected".into(), from_point(&place.expected)),
                ("low".into(), from_point(&place.low)),
                ("high".into(), maybe(place.high.as_ref(), from_point)),
            ])
            .into()
        };
        Ok(map.lock().predicted()?.iter().map(place).collect())
    }
}
