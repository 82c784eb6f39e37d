//! Script API of boundaries: a shared handle with methods.

use rhai::plugin::*;
use rhai::{Array, FnPtr, Map};

use crate::boundary::{Axis, PairingOptions, Point, Scalar};
use crate::fault::{Fault, Result};
use crate::script::boundary::BoundaryHandle;
use crate::script::convert::{caught, to_map};
use crate::script::{Caught, begin_call, from_script, options, to_script};

pub(super) fn to_point(map: &Map) -> Result<Point> {
    let coordinate = |(name, value): (&rhai::Identifier, &Dynamic)| {
        let scalar = match (value.as_int(), value.as_float()) {
            (Ok(whole), _) => Scalar::Int(whole),
            (_, Ok(real)) => Scalar::Float(real),
            _ => {
                let message = format!(
                    "the coordinate `{name}` of a point must be a number, not a value of type `{}`",
                    value.type_name()
                );
                return Err(Fault::usage(message).hint("such as `#{ input: 512, output: 128, concurrency: 1 }`"));
            }
        };
        Ok((name.to_string(), scalar))
    };
    map.iter().map(coordinate).collect::<Result<_>>().map(Point)
}

pub(super) fn from_scalar(scalar: Scalar) -> Dynamic {
    match scalar {
        Scalar::Int(value) => value.into(),
        Scalar::Float(value) => value.into(),
    }
}

pub(super) fn from_point(point: &Point) -> Dynamic {
    let coordinates = point.0.iter();
    let coordinates = coordinates.map(|(name, value)| (name.as_str().into(), from_scalar(*value)));
    coordinates.collect::<Map>().into()
}

pub(super) fn from_points(points: &[Point]) -> Array {
    points.iter().map(from_point).collect()
}

/// Clamps a volume to a script's int.
pub(super) fn count(volume: u128) -> i64 {
    i64::try_from(volume).unwrap_or(i64::MAX)
}

pub(super) fn maybe<T>(value: Option<T>, convert: impl Fn(T) -> Dynamic) -> Dynamic {
    value.map_or(Dynamic::UNIT, convert)
}

pub(super) fn points_of(list: Array) -> Result<Vec<Point>> {
    list.into_iter()
        .map(|point| match point.try_cast::<Map>() {
            Some(map) => to_point(&map),
            None => Err(Fault::usage("a list of points contains something that is not a map")),
        })
        .collect()
}

pub(super) fn size(count: i64, what: &str) -> Result<usize> {
    usize::try_from(count).map_err(|_| Fault::usage(format!("`{what}` takes a non-negative number, not {count}")))
}

/// Options of `pairs`, named as in tgi-profiler.
#[derive(Default, serde::Deserialize)]
#[serde(default, deny_unknown_fields)]
struct PairOptions {
    k_neighbors: Option<usize>,
    m_random: Option<usize>,
    distance_scale: Option<f64>,
    consistency_radius: Option<f64>,
    seed: i64,
}

/// Most draws of far neighbours for each point: as many as there are points.
const MOST_FAR: usize = 5_000;

fn nearness(given: Map) -> Result<PairingOptions> {
    let given = options::<PairOptions>(given)?;
    if given.m_random.is_some_and(|draws| draws > MOST_FAR) {
        return Err(Fault::usage(format!("`m_random` is more than {MOST_FAR}")));
    }
    let near = PairingOptions {
        nearest: given.k_neighbors.unwrap_or(5),
        far: given.m_random.unwrap_or(3),
        seed: given.seed.cast_unsigned(),
        scale: given.distance_scale.unwrap_or(1000.0),
        radius: given.consistency_radius.unwrap_or(1000.0),
    };
    if near.scale > 0.0 && near.radius >= 0.0 {
        Ok(near)
    } else {
        Err(Fault::usage(
            "`distance_scale` must be positive, and `consistency_radius` not negative",
        ))
    }
}

/// A number, whole or not; otherwise the name of its type.
pub(super) fn number(value: &Dynamic) -> Result<f64, &'static str> {
    value.as_float().or_else(|_| value.as_int().map(|whole| whole as f64))
}

/// Points that fit and points that fail, and the points to probe next.
#[export_module]
pub mod boundary {
    /// Creates a boundary over the given axes, without any points.
    ///
    /// An axis is `[lowest, highest]` or `#{ range: [lowest, highest], scale: "linear"|"log", easier: "down"|"up",
    /// tolerance }`. A range of two integers has integer values; any other range has steps of `tolerance`, or a
    /// thousand equal steps. `easier` is the direction in which points become easier. The search must meet a
    /// `tolerance`, in the axis' own unit, on nine rays from the smallest corner.
    ///
    /// Options: `coverage` (0.95), the share of the fitting volume to prove; `overload` (`"fails"`), how to count a
    /// point that was served only with preemption or queueing; `question`, the question that the range answers, for
    /// reports (see `std/search/range`).
    ///
    /// The value is a shared handle: copies see the same points. After a resume, the n-th boundary of a script has the
    /// points of the n-th boundary before.
    ///
    /// # Errors
    ///
    /// `usage` if an axis or option has another form.
    ///
    /// # Example
    ///
    /// ```rhai
    /// let map = boundary(#{ input: [128, 8192], fraction: #{ range: [0.5, 0.95], easier: "up", tolerance: 0.05 } }, #{ coverage: 0.9 });
    /// assert(map.refine(1).len() == 1);
    /// ```
    #[rhai_fn(name = "boundary", return_raw)]
    pub fn make(context: NativeCallContext, axes: Map, options: Map) -> Caught<BoundaryHandle> {
        Ok(BoundaryHandle::new(&begin_call(&context), axes, options)?)
    }

    /// Records the answer of a probe of `point`. Returns its meaning for the point: `"fits"`, `"fails"`, `"bounds"`
    /// (the engine's own report rules it out, and nothing was sent) or `"none"`.
    ///
    /// A point may be recorded several times: all answers are kept, and one failure makes the point unsafe, however
    /// often it fits (see `map.band()`).
    ///
    /// `answer` is a verdict of `engine.probe` (`"ok"`, `"oom"`, …), or a map with `verdict` and optionally `cause`,
    /// `output` (tokens produced), `counted` and `evidence`, such as the result of a probe. The coordinates in `counted`
    /// replace those of `point`, within the search range; `point` counts as recorded as well.
    ///
    /// # Errors
    ///
    /// `usage` for an unknown verdict, for `not_sent` without an engine's report, or a point with other axes; `limit`
    /// beyond 1,000,000 points.
    ///
    /// # Example
    ///
    /// ```rhai
    /// let map = boundary(#{ input: [1, 100] }, #{});
    /// assert(map.record(#{ input: 50 }, "ok") == "fits");
    /// assert(map.record(#{ input: 80 }, #{ verdict: "start_failed", cause: "memory" }) == "fails");
    /// ```
    #[rhai_fn(return_raw, pure)]
    pub fn record(context: NativeCallContext, map: &mut BoundaryHandle, point: Map, answer: Dynamic) -> Caught<String> {
        let answer = from_script(&answer)?;
        let moves = map.record(&begin_call(&context), to_point(&point)?, answer)?;
        Ok(moves.name().to_owned())
    }

    /// All recorded points in order: `#{ point, verdict, cause, moves: "fits"|"fails"|"bounds"|"none", evidence }`,
    /// with `()` for a missing cause or evidence.
    ///
    /// # Errors
    ///
    /// `limit` if a list cannot hold all points: about 285,000 over two axes.
    ///
    /// # Example
    ///
    /// ```rhai
    /// let map = boundary(#{ input: [1, 100] }, #{});
    /// map.record(#{ input: 50 }, #{ verdict: "refused", cause: "length_limit", evidence: #{ log: ["too long"] } });
    /// assert(map.points()[0].moves == "none");
    /// ```
    #[rhai_fn(return_raw, pure)]
    pub fn points(map: &mut BoundaryHandle) -> Caught<Array> {
        map.check_listable()?;
        let map = map.lock();
        let row = |(point, record): (Point, &crate::boundary::Record)| -> Caught<Dynamic> {
            let evidence = record.evidence().map(|evidence| to_script(&evidence)).transpose()?;
            let cause = maybe(record.cause.as_ref(), |cause| cause.name().to_owned().into());
            let row = Map::from([
                ("point".into(), from_point(&point)),
                ("verdict".into(), record.verdict.name().into()),
                ("cause".into(), cause),
                ("moves".into(), record.moves.name().into()),
                ("evidence".into(), evidence.unwrap_or_default()),
            ]);
            Ok(row.into())
        };
        map.records().map(row).collect()
    }

    /// The number of points that the boundary had when it was created: those recorded before a resume, otherwise 0.
    ///
    /// # Example
    ///
    /// ```rhai
    /// let map = boundary(#{ input: [1, 100] }, #{});
    /// assert(map.resumed() == map.points().len());
    /// ```
    #[rhai_fn(pure)]
    pub fn resumed(map: &mut BoundaryHandle) -> i64 {
        count(map.0.resumed as u128)
    }

    /// The largest points that are proven to fit, as bare points, sorted.
    ///
    /// # Example
    ///
    /// ```rhai
    /// let map = boundary(#{ input: [1, 100], output: [1, 100] }, #{});
    /// map.record(#{ input: 50, output: 10 }, "ok");
    /// map.record(#{ input: 40, output: 10 }, "ok");
    /// assert(map.frontier() == [#{ input: 50, output: 10 }]);
    /// ```
    #[rhai_fn(return_raw, pure)]
    pub fn frontier(map: &mut BoundaryHandle) -> Caught<Array> {
        Ok(from_points(&caught(map.lock().frontier())?))
    }

    /// The smallest points that are proven to fail, as bare points, sorted.
    ///
    /// # Example
    ///
    /// ```rhai
    /// let map = boundary(#{ input: [1, 100] }, #{});
    /// map.record(#{ input: 80 }, "oom");
    /// assert(map.failing() == [#{ input: 80 }]);
    /// ```
    #[rhai_fn(return_raw, pure)]
    pub fn failing(map: &mut BoundaryHandle) -> Caught<Array> {
        Ok(from_points(&caught(map.lock().failing())?))
    }

    /// The smallest points that exceed a length limit: they are not proposed again, and do not count as failing.
    ///
    /// # Example
    ///
    /// ```rhai
    /// let map = boundary(#{ input: [1, 100] }, #{});
    /// map.record(#{ input: 60 }, #{ verdict: "refused", cause: "length_limit" });
    /// assert(map.clipped() == [#{ input: 60 }] && map.classify(#{ input: 70 }) == "unknown");
    /// ```
    #[rhai_fn(pure)]
    pub fn clipped(map: &mut BoundaryHandle) -> Array {
        from_points(&map.lock().clipped())
    }

    /// The known class of a point: `"fits"` if it or a harder point fitted; `"fails"` if it or an easier point failed,
    /// even once; `"not_sent"` if only the engine's own report rules it out; `"unknown"` otherwise. For an unknown
    /// point, `predict` returns what to expect.
    ///
    /// # Example
    ///
    /// ```rhai
    /// let map = boundary(#{ input: [1, 100] }, #{});
    /// map.record(#{ input: 50 }, "ok");
    /// assert(map.classify(#{ input: 49 }) == "fits" && map.classify(#{ input: 51 }) == "unknown");
    /// ```
    #[rhai_fn(return_raw, pure)]
    pub fn classify(map: &mut BoundaryHandle, point: Map) -> Caught<String> {
        let class = caught(map.lock().classify(&to_point(&point)?))?;
        Ok(class.name().to_owned())
    }

    /// Whether exactly this point was recorded, with any answer.
    ///
    /// # Example
    ///
    /// ```rhai
    /// let map = boundary(#{ input: [1, 100] }, #{});
    /// map.record(#{ input: 50 }, "timeout");
    /// assert(map.recorded(#{ input: 50 }) && !map.recorded(#{ input: 49 }));
    /// ```
    #[rhai_fn(return_raw, pure)]
    pub fn recorded(map: &mut BoundaryHandle, point: Map) -> Caught<bool> {
        caught(map.lock().recorded(&to_point(&point)?))
    }

    /// Notes that a point is being probed. Until it is recorded, `refine` and `best` return no point that its answer
    /// could decide.
    ///
    /// # Example
    ///
    /// ```rhai
    /// let map = boundary(#{ input: [1, 100], output: [1, 100] }, #{});
    /// let first = map.refine(1)[0];
    /// map.ask(first);
    /// assert(map.asked(first) && !map.refine(1).contains(first));
    /// ```
    #[rhai_fn(return_raw, pure)]
    pub fn ask(map: &mut BoundaryHandle, point: Map) -> Caught<()> {
        caught(map.lock().ask(&to_point(&point)?))
    }

    /// True if a probe in flight could decide this point: a probe of the same point, or of one that is comparable to it
    /// (at least as hard on every axis, or at least as easy).
    ///
    /// # Example
    ///
    /// ```rhai
    /// let map = boundary(#{ input: [1, 100], output: [1, 100] }, #{});
    /// map.ask(#{ input: 50, output: 50 });
    /// assert(map.asked(#{ input: 60, output: 50 }) && !map.asked(#{ input: 60, output: 40 }));
    /// ```
    #[rhai_fn(return_raw, pure)]
    pub fn asked(map: &mut BoundaryHandle, point: Map) -> Caught<bool> {
        caught(map.lock().asked(&to_point(&point)?))
    }

    /// The known bracket on the line through a point along one axis: `#{ fits, fails, middle, width }`. `fits` is the
    /// hardest value proven to fit; `fails` is the easiest value that fails, is ruled out, or exceeds a length limit;
    /// `middle` is the unrecorded value closest to the middle of the open interval. Each is `()` if there is none.
    /// `width` is the width of the open interval. The point's own coordinate on that axis does not matter.
    ///
    /// # Example
    ///
    /// ```rhai
    /// let map = boundary(#{ input: [0, 100], output: [0, 100] }, #{});
    /// map.record(#{ input: 50, output: 40 }, "ok");
    /// map.record(#{ input: 50, output: 80 }, "oom");
    /// assert(map.bracket(#{ input: 50 }, "output") == #{ fits: 40, fails: 80, middle: 60, width: 40 });
    /// ```
    #[rhai_fn(return_raw, pure)]
    pub fn bracket(map: &mut BoundaryHandle, point: Map, axis: &str) -> Caught<Map> {
        Ok(to_map(&caught(map.lock().bracket(&to_point(&point)?, axis))?)?)
    }

    /// The widest open interval along each axis, in the axis' own unit; 0 if nothing is open.
    ///
    /// # Example
    ///
    /// ```rhai
    /// let map = boundary(#{ input: [0, 100] }, #{});
    /// map.record(#{ input: 50 }, "ok");
    /// map.record(#{ input: 70 }, "oom");
    /// assert(map.gap() == #{ input: 20 });
    /// ```
    #[rhai_fn(return_raw, pure)]
    pub fn gap(map: &mut BoundaryHandle) -> Caught<Map> {
        let gap = caught(map.lock().gap())?.into_iter();
        Ok(gap.map(|(axis, width)| (axis.into(), from_scalar(width))).collect())
    }

    /// The numbers of lattice points: `#{ fits, fails, not_sent, clipped, open, total }`. `not_sent` points are ruled
    /// out by the engine's own report, `clipped` points exceed a length limit; `open` points are none of these.
    ///
    /// # Example
    ///
    /// ```rhai
    /// let map = boundary(#{ input: [1, 100] }, #{});
    /// map.record(#{ input: 40 }, "ok");
    /// assert(map.volume() == #{ fits: 40, fails: 0, not_sent: 0, clipped: 0, open: 60, total: 100 });
    /// ```
    #[rhai_fn(return_raw, pure)]
    pub fn volume(map: &mut BoundaryHandle) -> Caught<Map> {
        let volume = caught(map.lock().volume())?;
        Ok(Map::from([
            ("fits".into(), count(volume.fits).into()),
            ("fails".into(), count(volume.fails).into()),
            ("not_sent".into(), count(volume.not_sent).into()),
            ("clipped".into(), count(volume.clipped).into()),
            ("open".into(), count(volume.open).into()),
            ("total".into(), count(volume.total).into()),
        ]))
    }

    /// The share of the fitting volume that is proven to fit, 0 to 1.
    ///
    /// How much of the open volume fits is unknown. It is estimated by the upper end of a 95 % interval, with the
    /// boundary equally likely anywhere in each open region. `volume()` returns certain numbers.
    ///
    /// # Example
    ///
    /// ```rhai
    /// let map = boundary(#{ input: [1, 100] }, #{});
    /// map.record(#{ input: 100 }, "ok");
    /// assert(map.coverage() == 1.0);
    /// ```
    #[rhai_fn(return_raw, pure)]
    pub fn coverage(map: &mut BoundaryHandle) -> Caught<f64> {
        caught(map.lock().coverage())
    }

    /// Up to `n` points to probe next, best first: those whose answers are expected to decide most of the open volume.
    /// None of them is decided or recorded, and no answer to one decides another. `[]` if the boundary's `coverage` and
    /// tolerances are reached, or if probes in every open region were inconclusive.
    ///
    /// # Example
    ///
    /// ```rhai
    /// let map = boundary(#{ input: [0, 100] }, #{});
    /// assert(map.refine(1) == [#{ input: 50 }]);
    /// ```
    #[rhai_fn(return_raw, pure)]
    pub fn refine(map: &mut BoundaryHandle, n: i64) -> Caught<Array> {
        let coverage = map.lock().options().coverage;
        refine_to(map, n, coverage)
    }

    /// Up to `n` points to probe next, for a `coverage` other than the boundary's.
    ///
    /// # Example
    ///
    /// ```rhai
    /// let map = boundary(#{ input: [0, 100] }, #{});
    /// map.record(#{ input: 90 }, "ok");
    /// assert(map.refine(1, 0.9).is_empty() && !map.refine(1, 0.99).is_empty());
    /// ```
    #[rhai_fn(name = "refine", return_raw, pure)]
    pub fn refine_to(map: &mut BoundaryHandle, n: i64, coverage: f64) -> Caught<Array> {
        Ok(from_points(&caught(map.lock().refine(size(n, "refine")?, coverage))?))
    }

    /// Up to `n` points to probe next, ranked by the number that `worth` returns for each candidate
    /// `#{ point, chance, fits, settles }`. `chance` is the probability that it fits, 0 to 1. `fits` is the volume that
    /// is proven if it does, in lattice points, and `settles` the volume that its answer is expected to settle beyond
    /// that, with a bonus for an answer that halves the hypotheses. Without `worth` the rank is
    /// `chance * fits + settles`. If only tolerances, or one large open box, are left, all three are 0.
    ///
    /// # Errors
    ///
    /// `usage` if `worth` returns no number.
    ///
    /// # Example
    ///
    /// ```rhai
    /// let map = boundary(#{ input: [1, 1000], output: [1, 1000] }, #{});
    /// map.record(#{ input: 300, output: 200 }, "ok");
    /// map.record(#{ input: 600, output: 600 }, "oom");
    /// assert(map.refine(1, 0.9, |at| at.chance * at.fits + at.settles) == map.refine(1, 0.9));
    /// let careful = map.refine(1, 0.9, |at| at.chance)[0];
    /// assert(map.predict(careful).chance >= map.predict(map.refine(1, 0.9)[0]).chance);
    /// ```
    #[rhai_fn(name = "refine", return_raw, pure)]
    pub fn refine_by(
        context: NativeCallContext,
        map: &mut BoundaryHandle,
        n: i64,
        coverage: f64,
        worth: FnPtr,
    ) -> Caught<Array> {
        let count = size(n, "refine")?;
        // The boundary is not locked while the script rates the candidates.
        let candidates = caught(map.lock().candidates(coverage))?;
        let mut rated = Vec::with_capacity(candidates.len());
        for candidate in candidates {
            let shown = Map::from([
                ("point".into(), from_point(&candidate.point)),
                ("chance".into(), candidate.chance.into()),
                ("fits".into(), candidate.fits.into()),
                ("settles".into(), candidate.settles.into()),
            ]);
            let given: Dynamic = worth.call_within_context(&context, (shown,))?;
            let worth = number(&given)
                .map_err(|kind| Fault::usage(format!("what a candidate is worth is a number, not a {kind}")))?;
            rated.push((worth, candidate));
        }
        Ok(from_points(&map.lock().pick(rated, count)))
    }

    /// True if `coverage` of the fitting volume is proven, the tolerances are met, and no single open box could hold
    /// much more than may be missing.
    ///
    /// # Example
    ///
    /// ```rhai
    /// let map = boundary(#{ input: [0, 100] }, #{});
    /// map.record(#{ input: 0 }, "oom");
    /// assert(map.done(1.0));
    /// ```
    #[rhai_fn(return_raw, pure)]
    pub fn done(map: &mut BoundaryHandle, coverage: f64) -> Caught<bool> {
        caught(map.lock().done(coverage))
    }

    /// The point of a list whose answer is expected to decide most; `()` if all are decided or recorded.
    ///
    /// # Example
    ///
    /// ```rhai
    /// let map = boundary(#{ input: [0, 100] }, #{});
    /// assert(map.best([#{ input: 10 }, #{ input: 45 }]) == #{ input: 45 });
    /// ```
    #[rhai_fn(return_raw, pure)]
    pub fn best(map: &mut BoundaryHandle, points: Array) -> Caught<Dynamic> {
        let best = caught(map.lock().best(&points_of(points)?))?;
        Ok(maybe(best, |point| from_point(&point)))
    }

    /// All combinations of `size` values per axis, evenly spaced on its scale, including both ends.
    ///
    /// # Errors
    ///
    /// `limit` for more than 100,000 points.
    ///
    /// # Example
    ///
    /// ```rhai
    /// let map = boundary(#{ input: [0, 100], output: [0, 100] }, #{});
    /// assert(map.grid(3).len() == 9);
    /// ```
    #[rhai_fn(return_raw, pure)]
    pub fn grid(map: &mut BoundaryHandle, size: i64) -> Caught<Array> {
        Ok(from_points(&caught(map.lock().grid(super::size(size, "grid")?))?))
    }

    /// Pairs of neighbours among `points`, one proven to fit and one proven to fail:
    /// `#{ fits, fails, distance, middle, consistency, crowding }`. Distances are Euclidean, in the axes' own units.
    ///
    /// Neighbours of a point are its `k_neighbors` (5) nearest points and `m_random` (3) distant ones, drawn with
    /// `seed` (0) in proportion to their distance. `middle` is the point between the two and not one of `points`.
    /// `consistency` is the share of the other points within `consistency_radius` (1000) of the fitting one that agree
    /// with the pair (are closer to the one of their own class), or 0.5 without such points. `crowding` is the sum of
    /// exp(-distance / `distance_scale` (1000)) from the middle to every point.
    ///
    /// # Errors
    ///
    /// `limit` for more than 5,000 points; `usage` for a negative number, or a scale of 0.
    ///
    /// # Example
    ///
    /// ```rhai
    /// let map = boundary(#{ input: [0, 100] }, #{});
    /// map.record(#{ input: 40 }, "ok");
    /// map.record(#{ input: 80 }, "oom");
    /// let pair = map.pairs([#{ input: 40 }, #{ input: 80 }], #{ k_neighbors: 1 })[0];
    /// assert(pair.fits.input == 40 && pair.fails.input == 80 && pair.middle.input == 60 && pair.distance == 40.0);
    /// ```
    #[rhai_fn(return_raw, pure)]
    pub fn pairs(map: &mut BoundaryHandle, points: Array, options: Map) -> Caught<Array> {
        let pairs = caught(map.lock().pairs(&points_of(points)?, nearness(options)?))?;
        Ok(pairs.iter().map(to_script).collect::<Result<_>>()?)
    }

    /// The easiest point: easiest on every axis.
    ///
    /// # Example
    ///
    /// ```rhai
    /// let map = boundary(#{ fraction: #{ range: [0.5, 0.9], easier: "up" } }, #{});
    /// assert(map.smallest() == #{ fraction: 0.9 });
    /// ```
    #[rhai_fn(pure)]
    pub fn smallest(map: &mut BoundaryHandle) -> Dynamic {
        from_point(&map.lock().smallest())
    }

    /// The hardest point: hardest on every axis.
    ///
    /// # Example
    ///
    /// ```rhai
    /// let map = boundary(#{ input: [128, 8192] }, #{});
    /// assert(map.largest() == #{ input: 8192 });
    /// ```
    #[rhai_fn(pure)]
    pub fn largest(map: &mut BoundaryHandle) -> Dynamic {
        from_point(&map.lock().largest())
    }

    /// The axes by name: `#{ range: [lowest, highest], scale, easier, tolerance }`, with `()` for a missing tolerance.
    ///
    /// # Example
    ///
    /// ```rhai
    /// let map = boundary(#{ output: [1, 9], input: [1, 9] }, #{});
    /// assert(map.axes().keys() == ["input", "output"] && map.axes().input.range == [1, 9]);
    /// ```
    #[rhai_fn(pure)]
    pub fn axes(map: &mut BoundaryHandle) -> Map {
        let map = map.lock();
        let shown = |axis: &Axis| {
            let (low, high) = axis.range();
            Map::from([
                ("range".into(), vec![from_scalar(low), from_scalar(high)].into()),
                ("scale".into(), axis.scale().name().into()),
                ("easier".into(), axis.easier().name().into()),
                ("tolerance".into(), maybe(axis.tolerance(), Dynamic::from)),
            ])
        };
        let axes = map.lattice().axes().iter();
        axes.map(|axis| (axis.name().into(), shown(axis).into())).collect()
    }

    /// A one-line description.
    ///
    /// # Example
    ///
    /// ```rhai
    /// let map = boundary(#{ input: [1, 9] }, #{});
    /// assert(map.to_string() == "boundary over input, 0 points");
    /// ```
    #[rhai_fn(name = "to_string", name = "to_debug", pure)]
    pub fn shown(map: &mut BoundaryHandle) -> String {
        let map = map.lock();
        let names = map.lattice().axis_names();
        format!("boundary over {}, {} points", names.join(", "), map.records().len())
    }
}
