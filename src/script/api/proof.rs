//! What a boundary proves, where its answers contradict each other, and what it only predicts: never mixed.

use rhai::plugin::*;
use rhai::{Array, Map};

use super::boundary::{count, from_point, from_points, from_scalar, maybe, size, to_point};
use crate::boundary::{Answered, Band, Point, Predicted};
use crate::script::boundary::BoundaryHandle;
use crate::script::{Caught, host};

fn from_band(band: &Band) -> Dynamic {
    let answered = |answered: &Answered| -> Dynamic {
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
    /// Pairs `#{ fits, fails }` of points that contradict monotonicity: the first fits though the second, which is nowhere
    /// harder, fails. At most a thousand. The failing point is believed: nothing at or above it is called fitting.
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

    /// The band in which answers contradict each other: `#{ from, to, width, answers }`, `()` where none do.
    ///
    /// `from` are the smallest points that failed though the same or a harder one fitted, `to` the largest that fitted all the same: every point at
    /// or above one of the first and at or below one of the second is in doubt. `width` is by axis how wide that is at its widest, and `answers`
    /// counts how these points were answered: `#{ point, fits, fails, unclear }`. All of the band counts as failing: memory that did not suffice once
    /// may not suffice again, so that one failure outweighs any number of fitting answers, and what is called fitting stays below the band.
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

    /// Where to look whether answers hold: up to `n` points, a step or a few inside of those fitting points that a failing one is nearest to,
    /// less those that were looked at before. They are known to fit, so that no search would ask them; `[]` where nothing fits, or nothing fails.
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
        Ok(from_points(&map.lock().looks(size(n, "looks")?)?))
    }

    /// Says that a recorded point is asked again: after a resume, too, its next probe asks the engine rather than the journal, whose answers the map
    /// holds already. To be called before that probe.
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
        map.again(&host(&context), &to_point(&point)?);
        Ok(())
    }

    /// What to expect of a point: `#{ verdict, proven, chance, low, high }`. Nothing is proven by it: `classify` tells what is.
    ///
    /// `verdict` is what is proven where `proven` is true, and otherwise the likelier one, `"unknown"` while nothing is known. `chance` is how likely
    /// it fits, 0 to 1: the share of those limits of memory (tokens in flight, prefill, concurrency × length, …) that agree with every
    /// answer. `low` and `high` say where the boundary is expected on the ray from the smallest corner through the point: 95 % of the limits admit
    /// `low` and 95 % do not admit `high`, `()` beyond the box. Where no limits agree, they are what is proven on the ray.
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

    /// Where the boundary is predicted to run between what is proven: `#{ expected, low, high }` on each of nine rays from the smallest
    /// corner that is not settled. Half of the limits that agree with every answer reach `expected`, 95 % reach `low`, and 5 % at
    /// most reach `high` (`()`: they reach beyond the box). `[]` where no limits agree. `frontier` is what is proven.
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
        let place = |place: &Predicted| -> Dynamic {
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
