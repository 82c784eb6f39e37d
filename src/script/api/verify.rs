//! Script API that verifies a predicted limit: which point to probe next.

use rhai::plugin::*;
use rhai::{Array, FnPtr, Map};
use serde::Deserialize;

use super::boundary::{from_point, from_points, maybe, size, to_point};
use crate::boundary::{Boundary, LimitPrediction, Place, Point, ReportedLimit, VerificationStep};
use crate::fault::{Fault, Result};
use crate::script::boundary::BoundaryHandle;
use crate::script::convert::{Thrown, caught, to_map};
use crate::script::{Caught, options, to_script};

/// Options of `next_to_verify`, without closures and the workload.
#[derive(Deserialize)]
#[serde(default, deny_unknown_fields)]
struct VerifyOptions {
    by: Option<String>,
    report: Option<ReportedLimit>,
    within: f64,
    parallel: i64,
    only_fits: bool,
    coverage: f64,
}

impl Default for VerifyOptions {
    fn default() -> Self {
        Self {
            by: None,
            report: None,
            within: 32.0,
            parallel: 1,
            only_fits: false,
            coverage: 0.95,
        }
    }
}

/// Options of `next_to_narrow`.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct NarrowOptions {
    by: Option<String>,
    report: Option<ReportedLimit>,
}

/// Points that verify a predicted limit.
#[export_module]
pub mod verify {
    /// The next step of verifying a predicted limit: from both sides, at the ends of the predicted boundary, in its
    /// middle, and at a workload. A prediction proves nothing by itself: probed points are proven, and everything
    /// between them stays predicted. The step depends on the recorded answers and the probes in flight alone.
    ///
    /// The options say what is predicted:
    ///
    /// - `report`: the bounds that an engine reports, `#{ tokens, block, longest, longest_input, max_model_len }`, as
    ///   answers carry them; and `length`, that of the requests in which the tokens were counted. If they do not hold, and
    ///   are no whole number of blocks, each request may take a block for its state, too. Both sides are probed 32 tokens from the bound; a length that the server states is exact
    ///   within the tokens that it reserves. Once every place is proven, one more point is probed where the largest
    ///   undecided region is, to catch what ends and middle miss.
    /// - `expects`: a closure that says whether a point should fit, monotone as the boundary is, and `within` (32), the
    ///   distance of both sides from where that changes, in the unit of the axis. With `sure` and `perhaps`, closures
    ///   that say whether a point surely fits or may fit, both sides lie beyond where those change, too. `by`
    ///   (`"prediction"`) names it in the certificate; `only_fits` (false) leaves out the sides that should fail.
    /// - neither: the limits that agree with all answers. They are probed where they differ most, until two points
    ///   enclose each place and no large region is open. `coverage` (0.95) is the share of the fitting volume that ends
    ///   the search, which `ahead` takes into account.
    ///
    /// And for each: `workload` (`#{}`), lengths to verify as a place of their own, without the concurrency if that is
    /// searched; and `parallel` (1), how many points are probed at the same time. With one, the fitting sides come
    /// first, because an engine that survives answers them with one start, and the first unexpected answer saves the
    /// remaining probes.
    ///
    /// Returns `()` if nothing can be verified: if the report does not bound every axis, or no limit agrees with all
    /// answers (as with one axis, which is bisected instead). Otherwise
    /// `#{ next, certifies, planned, left, ahead, places, proven, held, verified, report }`:
    ///
    /// - `next` is the point to probe, `()` if nothing is left or if answers in flight come first; `certifies` is true if
    ///   it is a side of a place, and false if it tells apart limits that agree with all answers; `planned` are all
    ///   points that a prediction made before needed so far; `left` is roughly how many probes remain, and `ahead`
    ///   says which, for `search.left`: `#{ points, fitting, failing, spread, near, confirms }`. `points` are those that are
    ///   known, each as `[point, "fits"]`, `"fails"` or `"refused"` (longer than the engine allows, which takes no time);
    ///   `fitting` and `failing` are numbers of other probes, and `spread` how far their sum is usually off, as a share of
    ///   it; `near` says where, each as `[point, share]`, in proportion; `confirms` is true if the answers are confirmed afterwards
    /// - `places` are `#{ at, along, point, fits, fails }`: `at` is `"end"`, `"middle"` or `"workload"`; `point` is the
    ///   hardest point that is expected to fit; `fits` and `fails` are the points on its two sides along the axis
    ///   `along`, `()` for a side that the range does not reach
    /// - `proven` is the number of places that are known from both sides
    /// - `held` is true if no answer contradicts the prediction
    /// - `verified` is the certificate of the proven places, `()` if there is none, or if agreeing limits are not verified
    ///   yet: `#{ by, ends, middle, not_sent, within, probes }`, and `workload` if one was named. `by` is `"report"`,
    ///   `"fitted"` or as given; `ends` and `middle` (0 or 1) count the places; `not_sent` counts those whose failing
    ///   side was not sent, because the engine's own report rules it out; `within` is the largest distance between the
    ///   two sides, by axis; `probes` is the number of recorded points; and `formula`, the limit as people write it, if it
    ///   counts blocks
    /// - `report` is what is verified of the engine's report: pass it in the next call. It is a newer one once the server
    ///   states less, and has the tokens that the server was seen to reserve (`reserved`) or to count differently
    ///   (`near`). `()` without `report`
    ///
    /// # Errors
    ///
    /// `usage` for an unknown option, or one of a wrong type; and any error that a closure throws.
    ///
    /// # Example
    ///
    /// ```rhai
    /// let map = boundary(#{ input: [2048, 32768], output: [512, 32768] }, #{});
    /// let claim = #{ expects: |p| p.input + p.output <= 45010, within: 32 };
    /// let step = map.next_to_verify(claim);
    /// assert(step.places[0] == #{
    ///     at: "end", along: "output",
    ///     point: #{ input: 32768, output: 12242 },
    ///     fits: #{ input: 32768, output: 12210 },
    ///     fails: #{ input: 32768, output: 12274 },
    /// });
    /// while step.next != () {
    ///     map.record(step.next, if step.next.input + step.next.output <= 45000 { "ok" } else { "oom" });
    ///     step = map.next_to_verify(claim);
    /// }
    /// assert(step.held && step.proven == 3 && step.verified.by == "prediction" && map.points().len() == 6);
    /// ```
    #[rhai_fn(return_raw, pure)]
    pub fn next_to_verify(context: NativeCallContext, map: &mut BoundaryHandle, mut options: Map) -> Caught<Dynamic> {
        let closures = ["expects", "sure", "perhaps"].map(|name| taken::<FnPtr>(&mut options, name, "a function"));
        let [expects, sure, perhaps] = closures;
        let (expects, graded) = (expects?, sure?.zip(perhaps?));
        let workload = taken::<Map>(&mut options, "workload", "a map of lengths")?;
        let workload = workload.map(|lengths| to_point(&lengths)).transpose()?;
        let options: VerifyOptions = self::options(options)?;
        let parallel = size(options.parallel, "parallel")? > 1;
        if let Some(expects) = expects {
            let call = |closure: &FnPtr, point: &Point| -> Result<bool, Thrown> {
                Ok(closure.call_within_context(&context, (from_point(point),))?)
            };
            // A point that surely fits, that should fit, that may fit, and any other.
            let chance = |point: &Point| -> Result<f64, Thrown> {
                Ok(match &graded {
                    Some((sure, _)) if call(sure, point)? => 1.0,
                    _ if call(&expects, point)? => {
                        if graded.is_some() {
                            0.5
                        } else {
                            1.0
                        }
                    }
                    Some((_, perhaps)) if call(perhaps, point)? => 0.1,
                    _ => 0.0,
                })
            };
            // The boundary is not locked while the script states its expectation.
            let known = map.lock().clone();
            let prediction = LimitPrediction::new(&known, &chance, graded.is_some(), options.within, workload.as_ref());
            let step = known.verify_prediction(&prediction, parallel, options.only_fits)?;
            let by = options.by.as_deref().unwrap_or("prediction");
            return Ok(shown(&known, &step, by, false, None)?);
        }
        let known = map.lock();
        Ok(match options.report {
            Some(report) => caught(known.verify_report(report, workload.as_ref(), parallel))?
                .map(|(step, report)| shown(&known, &step, "report", false, Some(report)))
                .transpose()?
                .unwrap_or(Dynamic::UNIT),
            None => caught(known.verify_fitted(workload.as_ref(), options.coverage))?
                .map(|step| shown(&known, &step, "fitted", true, None))
                .transpose()?
                .unwrap_or(Dynamic::UNIT),
        })
    }

    /// The points to probe so that the tolerances of the axes are met on nine rays from the smallest point and at the
    /// places of the limit that was verified: `#{ points, held, verified }`. `points` has one for each line that is too
    /// wide, the widest line first; `[]` if all tolerances are met. Each line is probed where the limit is expected, and
    /// then away from there in growing steps if it is not there.
    ///
    /// The options are `by`, the source of the verified limit: `"report"`, with the verified `report`, `"fitted"`, or
    /// `()` for none, which narrows only the rays. `held` is false if answers contradict the report, other than close to
    /// its bounds. `verified` is the certificate of the places as narrow as they are now, `()` for none.
    ///
    /// # Errors
    ///
    /// `usage` for an unknown option, or one of a wrong type.
    ///
    /// # Example
    ///
    /// ```rhai
    /// let map = boundary(#{ input: #{ range: [1, 8000], tolerance: 1 } }, #{});
    /// let by_report = #{ by: "report", report: #{ tokens: 6000 } };
    /// let narrow = map.next_to_narrow(by_report);
    /// while !narrow.points.is_empty() {
    ///     map.record(narrow.points[0], if narrow.points[0].input <= 6000 { "ok" } else { "oom" });
    ///     narrow = map.next_to_narrow(by_report);
    /// }
    /// assert(map.frontier() == [#{ input: 6000 }] && map.failing() == [#{ input: 6001 }] && map.points().len() == 2);
    /// assert(narrow.held && narrow.verified.within == #{ input: 1 });
    /// ```
    #[rhai_fn(return_raw, pure)]
    pub fn next_to_narrow(map: &mut BoundaryHandle, options: Map) -> Caught<Map> {
        let NarrowOptions { by, report } = self::options(options)?;
        let known = map.lock();
        let narrowing = match (by.as_deref(), report) {
            (Some("report"), Some(report)) => caught(known.narrow_report(report))?,
            (by, _) => caught(known.narrow_fitted(by == Some("fitted")))?,
        };
        let verified = match &*narrowing.places {
            [] => Dynamic::UNIT,
            places => {
                let by = by.as_deref().unwrap_or("fitted");
                to_script(&caught(known.certificate(places, by, report.as_ref()))?)?
            }
        };
        Ok(Map::from([
            ("points".into(), from_points(&narrowing.points).into()),
            ("held".into(), narrowing.held.into()),
            ("verified".into(), verified),
        ]))
    }

    /// The point with these lengths, and the easiest value on every other axis; `()` if none of the lengths is searched,
    /// or one lies outside the search range.
    ///
    /// # Errors
    ///
    /// `usage` if a length is no number.
    ///
    /// # Example
    ///
    /// ```rhai
    /// let map = boundary(#{ input: [1, 1000], output: [1, 1000], concurrency: [1, 8] }, #{});
    /// assert(map.point_at(#{ input: 300, output: 200 }) == #{ input: 300, output: 200, concurrency: 1 });
    /// assert(map.point_at(#{ input: 3000, output: 200 }) == ());
    /// ```
    #[rhai_fn(return_raw, pure)]
    pub fn point_at(map: &mut BoundaryHandle, lengths: Map) -> Caught<Dynamic> {
        let point = map.lock().point_at(&to_point(&lengths)?);
        Ok(maybe(point, |point| from_point(&point)))
    }
}

/// Takes an option out of a map; `None` if it is missing or `()`.
fn taken<T: Clone + 'static>(options: &mut Map, name: &str, what: &str) -> Result<Option<T>> {
    let given = options
        .remove(name)
        .map(Dynamic::flatten)
        .filter(|given| !given.is_unit());
    let wrong = |given: Dynamic| Fault::usage(format!("option `{name}` is {what}, not `{given}`"));
    given
        .map(|given| given.clone().try_cast::<T>().ok_or_else(|| wrong(given)))
        .transpose()
}

/// A step, as scripts see it. With `whole` there is a certificate only once all places are proven.
fn shown(
    map: &Boundary,
    step: &VerificationStep,
    by: &str,
    whole: bool,
    report: Option<ReportedLimit>,
) -> Result<Dynamic> {
    let is_complete = step.next.is_none() && step.proven.len() == step.places.len();
    let verified = match &*step.proven {
        [] => Dynamic::UNIT,
        _ if whole && !is_complete => Dynamic::UNIT,
        proven => to_script(&map.certificate(proven, by, report.as_ref())?)?,
    };
    let number = |count: usize| Dynamic::from_int(i64::try_from(count).unwrap_or(i64::MAX));
    let places: Array = step.places.iter().map(|place| from_place(map, place)).collect();
    Ok(Map::from([
        ("next".into(), maybe(step.next.as_ref(), from_point)),
        ("certifies".into(), step.certifies.into()),
        ("planned".into(), from_points(&step.planned).into()),
        ("left".into(), Dynamic::from_int(step.ahead.probes())),
        ("ahead".into(), to_script(&step.ahead)?),
        ("places".into(), places.into()),
        ("proven".into(), number(step.proven.len())),
        ("held".into(), step.held.into()),
        ("verified".into(), verified),
        (
            "report".into(),
            report
                .map(|report| to_map(&report))
                .transpose()?
                .map_or(Dynamic::UNIT, Dynamic::from),
        ),
    ])
    .into())
}

fn from_place(map: &Boundary, place: &Place) -> Dynamic {
    let axes = map.lattice().axes();
    Map::from([
        ("at".into(), place.at.name().into()),
        (
            "along".into(),
            maybe(place.along, |along| axes[along].name().to_owned().into()),
        ),
        ("point".into(), from_point(&place.point)),
        ("fits".into(), maybe(place.fits.as_ref(), from_point)),
        ("fails".into(), maybe(place.fails.as_ref(), from_point)),
    ])
    .into()
}
