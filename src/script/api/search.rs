//! Script API of searches over a boundary: proofs and predictions, cost and progress, reports, helpers for strategies, and
//! known boundaries.

use std::sync::Arc;

use rhai::plugin::*;
use rhai::{Array, FnPtr, Map};

use super::boundary::{count, from_point, from_points, maybe, number, size, to_point};
use crate::answer;
use crate::boundary::{KnownBoundary, Lattice, Point};
use crate::fault::{Fault, Result};
use crate::script::boundary::BoundaryHandle;
use crate::script::convert::{Thrown, caught, to_map};
use crate::script::host::TruthHandle;
use crate::script::suggest::{quoted, suggest};
use crate::script::{Caught, begin_call, boundary, from_script, to_script, type_of};

/// Proven, contradictory and predicted parts of a boundary; cost, progress and reports of searches; known boundaries.
#[export_module]
pub mod search {
    /// Pairs `#{ fits, fails }` of points that contradict monotonicity: the first point fits although the second fails,
    /// and the second is no harder on any axis. At most a thousand. The failure counts: no point at or above it is
    /// classified as fitting.
    ///
    /// # Example
    ///
    /// ```rhai
    /// let map = boundary(#{ input: [0, 100] }, #{});
    /// map.record(#{ input: 50 }, "ok");
    /// map.record(#{ input: 40 }, "oom");
    /// assert(map.conflicts() == [#{ fits: #{ input: 50 }, fails: #{ input: 40 } }]);
    /// ```
    #[rhai_fn(pure)]
    pub fn conflicts(map: &mut BoundaryHandle) -> Array {
        let pair = |(fits, fails): &(Point, Point)| -> Dynamic {
            Map::from([("fits".into(), from_point(fits)), ("fails".into(), from_point(fails))]).into()
        };
        map.lock().conflicts().iter().map(pair).collect()
    }

    /// The band of contradictory answers: `#{ from, to, width, answers }`, `()` if there is none.
    ///
    /// `from` are the smallest points that failed although the same or a harder point fitted; `to` are the largest
    /// points that fitted: every point between one of the first and one of the second is in doubt. `width` is the
    /// greatest width per axis, and `answers` counts the answers of these points: `#{ point, fits, fails, unclear }`.
    /// The whole band counts as failing: memory that was insufficient once may be so again, so one failure outweighs
    /// any number of fits, and fitting points stay below the band.
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
    #[rhai_fn(return_raw, pure)]
    pub fn band(map: &mut BoundaryHandle) -> Caught<Dynamic> {
        Ok(to_script(&map.lock().band())?)
    }

    /// Points that confirm the boundary: up to `n` points, one step or a few inside the fitting points that prove most that
    /// no other answer proves, without those confirmed before. They are known to fit, so no search would propose them;
    /// `[]` if nothing fits, or nothing fails.
    ///
    /// # Example
    ///
    /// ```rhai
    /// let map = boundary(#{ input: [0, 100] }, #{});
    /// map.record(#{ input: 50 }, "ok");
    /// map.record(#{ input: 60 }, "oom");
    /// assert(map.to_confirm(3) == [#{ input: 49 }]);
    /// ```
    #[rhai_fn(return_raw, pure)]
    pub fn to_confirm(map: &mut BoundaryHandle, n: i64) -> Caught<Array> {
        Ok(from_points(&caught(
            map.lock().verification_points(size(n, "to_confirm")?),
        )?))
    }

    /// A point whose single answer may be wrong: without it some family of limits agrees with all other answers, and that
    /// family does not expect it. `()` if some family agrees with all answers, or if there is no such point. At most
    /// three points of a search are suspects.
    ///
    /// # Example
    ///
    /// ```rhai
    /// let map = boundary(#{ input: [0, 100] }, #{});
    /// map.record(#{ input: 50 }, "ok");
    /// assert(map.suspect() == ());
    /// ```
    #[rhai_fn(return_raw, pure)]
    pub fn suspect(map: &mut BoundaryHandle) -> Caught<Dynamic> {
        let point = caught(map.lock().suspect())?;
        Ok(maybe(point, |point| from_point(&point)))
    }

    /// Marks a recorded point to be probed again: its next probe runs on the engine instead of being replayed from the
    /// journal, also after a resume. Call it before that probe.
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
    #[rhai_fn(return_raw, pure)]
    pub fn again(context: NativeCallContext, map: &mut BoundaryHandle, point: Map) -> Caught<()> {
        map.forget(&begin_call(&context), &to_point(&point)?);
        Ok(())
    }

    /// The expectation for a point: `#{ verdict, proven, chance, low, high }`. It proves nothing: `classify` returns
    /// the proven state.
    ///
    /// `verdict` is the proven one if `proven` is true, and otherwise the more likely one, `"unknown"` while nothing is
    /// known. `chance` is the probability that it fits, 0 to 1: the share of candidate memory limits (tokens in flight,
    /// prefill, concurrency × length, …) that agree with all answers; with one axis, the share of the open interval on the
    /// axis' scale. `low` and `high` bound the expected boundary on
    /// the ray from the smallest corner through the point: 95 % of the candidates admit `low` and 95 % do not admit
    /// `high`, `()` outside the range. If no candidate agrees, they are the proven bounds on the ray.
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
    #[rhai_fn(return_raw, pure)]
    pub fn predict(map: &mut BoundaryHandle, point: Map) -> Caught<Map> {
        let prediction = caught(map.lock().predict(&to_point(&point)?))?;
        let end = |point: Option<Point>| maybe(point, |point| from_point(&point));
        Ok(Map::from([
            ("verdict".into(), prediction.verdict.name().into()),
            ("proven".into(), prediction.proven.into()),
            ("chance".into(), maybe(prediction.chance, Dynamic::from)),
            ("low".into(), end(prediction.low)),
            ("high".into(), end(prediction.high)),
        ]))
    }

    /// The predicted boundary between the proven regions: `#{ expected, low, high }` on each of nine rays from the
    /// smallest corner that is still open. Half of the candidate limits that agree with all answers reach `expected`,
    /// 95 % reach `low`, and at most 5 % reach `high` (`()`: they reach beyond the range). `[]` if no candidate agrees.
    /// `frontier` returns the proven boundary.
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
    #[rhai_fn(return_raw, pure)]
    pub fn predicted(map: &mut BoundaryHandle) -> Caught<Array> {
        let places = caught(map.lock().predicted())?;
        Ok(places.iter().map(to_script).collect::<Result<_>>()?)
    }

    /// The expected value of probing a point, in lattice points: `#{ fits, fails, chance }`. `fits` is the volume
    /// proven to fit if it fits, `fails` the volume proven to fail if it fails, both beyond what the probes in flight are
    /// expected to settle; `chance` is the probability that it fits, 0 to 1. These are estimates for choosing points; they prove nothing.
    ///
    /// # Example
    ///
    /// ```rhai
    /// let map = boundary(#{ input: [1, 100] }, #{});
    /// let gain = map.settles(#{ input: 50 });
    /// assert(gain.fits == 50.0 && gain.fails == 51.0 && gain.chance > 0.5);
    /// ```
    #[rhai_fn(return_raw, pure)]
    pub fn settles(map: &mut BoundaryHandle, point: Map) -> Caught<Map> {
        Ok(to_map(&caught(map.lock().expected_gain(&to_point(&point)?))?)?)
    }

    /// Reports the progress of a search to the user: probes made, estimated total, and how much of the range is resolved.
    ///
    /// # Example
    ///
    /// ```rhai
    /// let map = boundary(#{ input: [0, 100] }, #{});
    /// map.record(#{ input: 50 }, "ok");
    /// map.progress(1, 0.95);
    /// ```
    #[rhai_fn(return_raw, pure)]
    pub fn progress(context: NativeCallContext, map: &mut BoundaryHandle, probes: i64, coverage: f64) -> Caught<()> {
        let probes = size(probes, "progress")? as u64;
        let expected = caught(map.lock().expected(probes, coverage))?;
        Ok(map.note_progress(&begin_call(&context), probes, expected, None)?)
    }

    /// The points to probe so that the report can recommend them: `#{ point, along }` for each of at most four round
    /// lengths, the longest first. `point` is just inside the predicted limit, and has the largest possible value on
    /// the axis `along`. `[]` if nothing is known to fail, or if the report recommends a single point. Used by
    /// `std/search/advice`.
    ///
    /// # Example
    ///
    /// ```rhai
    /// let map = boundary(#{ input: [512, 2048], output: [64, 64], concurrency: [1, 16] }, #{});
    /// assert(map.advice() == []);
    /// for p in [#{ input: 1984, concurrency: 4 }, #{ input: 2048, concurrency: 4 }, #{ input: 1000, concurrency: 8 }] {
    ///     map.record(p + #{ output: 64 }, if p.concurrency * (p.input + 64) <= 8200 { "ok" } else { "oom" });
    /// }
    /// assert(map.advice()[0].along == "concurrency");
    /// ```
    #[rhai_fn(return_raw, pure)]
    pub fn advice(map: &mut BoundaryHandle) -> Caught<Array> {
        let candidates = answer::candidates(&map.lock())?;
        Ok(candidates.iter().map(to_script).collect::<Result<_>>()?)
    }

    /// Shows a boundary: a chart, the largest points that fit, and the recommended command line. Returns it as a map:
    /// `#{ frontier, recommended, flags, headroom, points, gap, predicted, band, search }`.
    ///
    /// `recommended` is the best point of the frontier (by the product of its shares of the axes) minus a margin of 5 %
    /// on every axis where that is a whole step, `()` if nothing fits; `flags` are the command line flags of the engine
    /// for it, `[]` without an engine; `headroom` is the free memory in bytes while the safe point was probed, `()` if
    /// it was not measured; `points` is the result of `map.points()`. All of these are proven. The following are not:
    /// `predicted` is the result of `map.predicted()`, the expected boundary between the proven regions, and `band` is
    /// the result of `map.band()`, where answers contradict each other. `search` is `()`.
    ///
    /// # Example
    ///
    /// ```rhai
    /// let map = boundary(#{ input: [1, 1000] }, #{});
    /// map.record(#{ input: 500 }, "ok");
    /// map.record(#{ input: 600 }, "oom");
    /// let found = report(map);
    /// assert(found.recommended == #{ input: 475 } && found.gap == #{ input: 100 });
    /// ```
    #[rhai_fn(return_raw)]
    pub fn report(context: NativeCallContext, map: BoundaryHandle) -> Caught<Dynamic> {
        Ok(to_script(&boundary::report(&begin_call(&context), &map, None)?)?)
    }

    /// Shows a boundary with the result of a search strategy: how many probes and starts it took, why it ended, and
    /// whether the limit that the engine reports was verified from both sides. That result is returned as `search`.
    ///
    /// # Example
    ///
    /// ```rhai
    /// import "std/search" as search;
    /// let map = boundary(#{ input: [1, 1000] }, #{});
    /// let done = search::adaptive(map, |p| if p.input <= 500 { "ok" } else { "oom" }, #{});
    /// assert(report(map, done).search.probes == done.probes);
    /// ```
    #[rhai_fn(name = "report", return_raw)]
    pub fn report_search(context: NativeCallContext, map: BoundaryHandle, done: Map) -> Caught<Dynamic> {
        let done = from_script(&Dynamic::from(done))?;
        Ok(to_script(&boundary::report(&begin_call(&context), &map, Some(done))?)?)
    }

    /// Fills in defaults for missing options. A default of `()` stands for an unset limit and accepts a number; any
    /// other default accepts its own type, and a float also an integer.
    ///
    /// # Errors
    ///
    /// `usage` for an option that is not among the defaults, with the closest name, and for one of a wrong type.
    ///
    /// # Example
    ///
    /// ```rhai
    /// let options = with_defaults(#{ coverage: 1 }, #{ coverage: 0.95, max_probes: () });
    /// assert(options == #{ coverage: 1.0, max_probes: () });
    /// ```
    #[rhai_fn(return_raw)]
    pub fn with_defaults(options: Map, defaults: Map) -> Caught<Map> {
        Ok(fill_defaults(&options, defaults)?)
    }

    /// Seconds since the run started. A resumed run starts at 0 again.
    ///
    /// # Example
    ///
    /// ```rhai
    /// let before = elapsed();
    /// sleep(0.01);
    /// assert(elapsed() - before >= 0.01);
    /// ```
    pub fn elapsed(context: NativeCallContext) -> f64 {
        begin_call(&context).started.elapsed().as_secs_f64()
    }

    /// Traces a known monotone boundary over axes as in `boundary`; `holds` returns whether a point fits.
    ///
    /// # Errors
    ///
    /// `usage` if an axis has another form than in `boundary`; `limit` if the range has more than 1,000,000 lines along
    /// its longest axis; and any error that `holds` throws.
    ///
    /// # Example
    ///
    /// ```rhai
    /// let truth = known_truth(#{ input: [1, 100], output: [1, 100] }, |p| p.input <= 40);
    /// assert(truth.volume() == 4000);
    /// ```
    #[rhai_fn(return_raw)]
    pub fn known_truth(context: NativeCallContext, axes: Map, holds: FnPtr) -> Caught<TruthHandle> {
        let lattice = caught(Lattice::parse(&from_script(&Dynamic::from(axes))?))?;
        let truth = KnownBoundary::trace(lattice, |point| -> Result<bool, Thrown> {
            Ok(holds.call_within_context(&context, (from_point(point),))?)
        })?;
        Ok(TruthHandle(Arc::new(truth)))
    }

    /// Number of lattice points that fit.
    ///
    /// # Example
    ///
    /// ```rhai
    /// assert(known_truth(#{ input: [1, 100] }, |p| p.input <= 40).volume() == 40);
    /// ```
    #[rhai_fn(pure)]
    pub fn volume(truth: &mut TruthHandle) -> i64 {
        count(truth.0.volume())
    }

    /// The minimum number of probes that proves each of the given ascending shares of the fitting volume, 0 to 1: exact
    /// with one or two axes; with more, an upper bound by greedy selection.
    ///
    /// # Errors
    ///
    /// `usage` for an invalid share, or shares that are not ascending.
    ///
    /// # Example
    ///
    /// ```rhai
    /// let truth = known_truth(#{ input: [2048, 32768], output: [512, 32768] }, |p| p.input + p.output <= 45000);
    /// assert(truth.least_probes([0.95]) == [7]);
    /// ```
    #[rhai_fn(return_raw, pure)]
    pub fn least_probes(truth: &mut TruthHandle, shares: Array) -> Caught<Array> {
        let shares = shares.iter().map(share).collect::<Result<Vec<_>>>()?;
        if !shares.is_sorted() {
            return Err(Fault::usage("shares must be in ascending order").into());
        }
        let least = truth.0.least_probes(&shares).into_iter();
        Ok(least.map(|probes| count(probes as u128).into()).collect())
    }

    /// Number of lattice points that a boundary over the same axes classifies as fitting although they do not fit.
    ///
    /// # Errors
    ///
    /// `usage` if the axes differ.
    ///
    /// # Example
    ///
    /// ```rhai
    /// let truth = known_truth(#{ input: [1, 100] }, |p| p.input <= 40);
    /// let map = boundary(#{ input: [1, 100] }, #{});
    /// map.record(#{ input: 42 }, "ok");
    /// assert(truth.false_safe(map) == 2);
    /// ```
    #[rhai_fn(return_raw, pure)]
    pub fn false_safe(truth: &mut TruthHandle, map: BoundaryHandle) -> Caught<i64> {
        Ok(count(caught(truth.0.false_safe(&map.lock()))?))
    }
}

/// Overrides `defaults` with `given`, checking names and types.
fn fill_defaults(given: &Map, defaults: Map) -> Result<Map> {
    let mut all = defaults;
    for (name, value) in given {
        let Some(place) = all.get_mut(name) else {
            return Err(unknown(name, &all));
        };
        let number = value.is_int() || value.is_float();
        *place = match (place.type_name(), value.as_int()) {
            ("f64", Ok(whole)) => (whole as f64).into(),
            // An option without a default is a limit: a number, or none.
            ("()", _) if number || value.is_unit() => value.clone(),
            (wanted, _) if wanted == value.type_name() => value.clone(),
            (wanted, _) => {
                let wanted = match wanted {
                    "()" => "number".to_owned(),
                    _ => type_of(place),
                };
                let message = format!("option `{name}` takes a {wanted}, not `{value}`, a {}", type_of(value));
                return Err(Fault::usage(message));
            }
        };
    }
    Ok(all)
}

fn unknown(name: &str, known: &Map) -> Fault {
    let fault = Fault::usage(format!("there is no option `{name}`"));
    let otherwise = format!("the options are {}", quoted(known.keys()));
    suggest(fault, name, known.keys().map(rhai::Identifier::as_str), otherwise)
}

fn share(value: &Dynamic) -> Result<f64> {
    number(value)
        .ok()
        .filter(|share| (0.0..=1.0).contains(share))
        .ok_or_else(|| Fault::usage(format!("a share must be between 0 and 1, not `{value}`")))
}
